//! The records inside a batch, one after the other, without copies. A record that is kept is kept as its bytes: a decoder
//! that makes maps of headers would lose those that have the same name.

/// A record that is none: lengths that do not fit.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(super) struct Malformed;

/// A record, as far as a broker reads it.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(super) struct Record<'a> {
    /// All of it, with its length in front.
    pub(super) bytes: &'a [u8],
    pub(super) timestamp_delta: i64,
    pub(super) offset_delta: i32,
    pub(super) key: Option<&'a [u8]>,
    /// A record without a value deletes its key.
    pub(super) value: Option<&'a [u8]>,
}

/// What a batch is checked by of each of its records.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(super) struct Seen {
    pub(super) timestamp_delta: i64,
    pub(super) offset_delta: i32,
    pub(super) has_key: bool,
}

impl Record<'_> {
    pub(super) const fn seen(&self) -> Seen {
        Seen { timestamp_delta: self.timestamp_delta, offset_delta: self.offset_delta, has_key: self.key.is_some() }
    }
}

/// Reads records that are not packed.
#[derive(Clone, Debug)]
pub(super) struct Records<'a> {
    rest: &'a [u8],
}

impl<'a> Records<'a> {
    pub(super) const fn new(unpacked: &'a [u8]) -> Self {
        Self { rest: unpacked }
    }

    fn record(&mut self) -> Result<Record<'a>, Malformed> {
        let mut rest = self.rest;
        let length = usize::try_from(varint(&mut rest)?).map_err(|_| Malformed)?;
        let mut body = take(&mut rest, length)?;
        let bytes = &self.rest[..self.rest.len() - rest.len()];
        self.rest = rest;
        // Attributes: none are in use.
        take(&mut body, 1)?;
        let timestamp_delta = varlong(&mut body)?;
        let offset_delta = varint(&mut body)?;
        let (key, value) = (field(&mut body)?, field(&mut body)?);
        let headers = u32::try_from(varint(&mut body)?).map_err(|_| Malformed)?;
        for _ in 0..headers {
            field(&mut body)?.ok_or(Malformed)?;
            field(&mut body)?;
        }
        if body.is_empty() { Ok(Record { bytes, timestamp_delta, offset_delta, key, value }) } else { Err(Malformed) }
    }
}

impl<'a> Iterator for Records<'a> {
    type Item = Result<Record<'a>, Malformed>;

    /// After a malformed record there is none.
    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let record = self.record();
        if record.is_err() {
            self.rest = &[];
        }
        Some(record)
    }
}

fn take<'a>(rest: &mut &'a [u8], length: usize) -> Result<&'a [u8], Malformed> {
    rest.split_off(..length).ok_or(Malformed)
}

/// Bytes behind their length; a negative one for none.
#[inline]
fn field<'a>(rest: &mut &'a [u8]) -> Result<Option<&'a [u8]>, Malformed> {
    usize::try_from(varint(rest)?).map_or(Ok(None), |length| take(rest, length).map(Some))
}

#[inline]
fn varint(rest: &mut &[u8]) -> Result<i32, Malformed> {
    i32::try_from(varlong(rest)?).map_err(|_| Malformed)
}

/// A zigzag number, seven bits a byte, the lowest first.
#[inline]
pub(super) fn varlong(rest: &mut &[u8]) -> Result<i64, Malformed> {
    // Most numbers of a record are small.
    match **rest {
        [first, ref after @ ..] if first < 0x80 => {
            *rest = after;
            Ok(i64::from(first >> 1) ^ -i64::from(first & 1))
        }
        _ => long_varlong(rest),
    }
}

#[cold]
fn long_varlong(rest: &mut &[u8]) -> Result<i64, Malformed> {
    let mut raw = 0_u64;
    for shift in (0..70).step_by(7) {
        let (&byte, after) = rest.split_first().ok_or(Malformed)?;
        *rest = after;
        raw |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Ok((raw >> 1).cast_signed() ^ -((raw & 1).cast_signed()));
        }
    }
    Err(Malformed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_zigzag_with_seven_bits_a_byte() {
        let read = |mut bytes: &[u8]| varlong(&mut bytes);
        assert_eq!(read(&[0]), Ok(0));
        assert_eq!(read(&[1]), Ok(-1));
        assert_eq!(read(&[0x80, 1]), Ok(64));
        assert_eq!(read(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1]), Ok(i64::MIN));
        assert_eq!(read(&[0xff; 11]), Err(Malformed));
        assert_eq!(read(&[0x80]), Err(Malformed));
    }

    #[test]
    fn lengths_that_do_not_fit_are_malformed_and_end_the_batch() {
        // Length 5: attributes, time, offset, key "" ... and then nothing.
        for bytes in [&[20, 0, 0, 0][..], &[8, 0, 0, 0, 9], &[1], &[12, 0, 0, 0, 1, 1, 2]] {
            let mut records = Records::new(bytes);
            assert_eq!(records.next(), Some(Err(Malformed)), "{bytes:?}");
            assert_eq!(records.next(), None);
        }
    }

    #[test]
    fn records_are_read_with_key_value_and_headers() {
        let first = [20, 0, 6, 0, 2, b'k', 1, 2, 2, b'h', 1];
        let second = [12, 0, 1, 2, 1, 1, 0];
        let bytes = [&first[..], &second].concat();
        let read: Vec<_> = Records::new(&bytes).collect::<Result<_, _>>().unwrap();
        let (key, value) = (Some(&b"k"[..]), None);
        assert_eq!(read[0], Record { bytes: &first, timestamp_delta: 3, offset_delta: 0, key, value });
        assert_eq!(read[1], Record { bytes: &second, timestamp_delta: -1, offset_delta: 1, key: None, value: None });
    }
}
