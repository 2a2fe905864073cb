//! Record batches as a client writes and reads them: format 2, not compressed (KIP-98).

use bytes::{BufMut, Bytes};

use crate::kafka::client::record::{Headers, push_header};

/// Who writes a batch, and which numbers its records have.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(in crate::chaos) struct Author {
    pub(in crate::chaos) producer_id: i64,
    pub(in crate::chaos) epoch: i16,
    /// The sequence number of the first record.
    pub(in crate::chaos) sequence: i32,
    pub(in crate::chaos) transactional: bool,
}

/// A record to be written.
#[derive(Copy, Clone, Default, Debug)]
pub(in crate::chaos) struct Row<'a> {
    pub(in crate::chaos) key: Option<&'a [u8]>,
    pub(in crate::chaos) value: Option<&'a [u8]>,
    /// Encoded as [`push_header`] does.
    pub(in crate::chaos) headers: &'a [u8],
}

/// Where the parts of a batch stand.
const HEADER: usize = 61;
const LENGTH_AT: usize = 8;
const CRC_AT: usize = 17;
const ATTRIBUTES_AT: usize = 21;
const TRANSACTIONAL: i16 = 1 << 4;
const CONTROL: i16 = 1 << 5;

/// One batch of records, all written at `timestamp`.
pub(in crate::chaos) fn encode<'a>(
    author: Author,
    timestamp: i64,
    rows: impl ExactSizeIterator<Item = Row<'a>>,
) -> Bytes {
    let count = i32::try_from(rows.len()).unwrap_or(i32::MAX);
    let mut out = Vec::with_capacity(HEADER + rows.len() * 64);
    // Base offset, length and leader epoch, magic, checksum: some are known later.
    out.put_i64(0);
    out.put_i32(0);
    out.put_i32(-1);
    out.put_i8(2);
    out.put_u32(0);
    out.put_i16(if author.transactional { TRANSACTIONAL } else { 0 });
    out.put_i32(count - 1);
    out.put_i64(timestamp);
    out.put_i64(timestamp);
    out.put_i64(author.producer_id);
    out.put_i16(author.epoch);
    out.put_i32(author.sequence);
    out.put_i32(count);
    let mut body = Vec::with_capacity(128);
    for (delta, row) in rows.enumerate() {
        body.clear();
        put_record(row, delta, &mut body);
        put_varint(len(&body), &mut out);
        out.extend_from_slice(&body);
    }
    let length = i32::try_from(out.len() - LENGTH_AT - 4).unwrap_or(i32::MAX);
    put_at(&mut out, LENGTH_AT, &length.to_be_bytes());
    let crc = crc32c::crc32c(out.get(ATTRIBUTES_AT..).unwrap_or_default());
    put_at(&mut out, CRC_AT, &crc.to_be_bytes());
    out.into()
}

fn put_at(out: &mut [u8], at: usize, bytes: &[u8]) {
    if let Some(place) = out.get_mut(at..at + bytes.len()) {
        place.copy_from_slice(bytes);
    }
}

fn len(bytes: &[u8]) -> i64 {
    i64::try_from(bytes.len()).unwrap_or(i64::MAX)
}

fn put_record(row: Row<'_>, delta: usize, body: &mut Vec<u8>) {
    body.push(0);
    put_varint(0, body);
    put_varint(i64::try_from(delta).unwrap_or(i64::MAX), body);
    put_nullable(row.key, body);
    put_nullable(row.value, body);
    let headers = Headers::decode(row.headers);
    put_varint(i64::try_from(headers.count()).unwrap_or(i64::MAX), body);
    for (name, value) in headers {
        put_nullable(Some(name), body);
        put_nullable(value, body);
    }
}

fn put_nullable(part: Option<&[u8]>, body: &mut Vec<u8>) {
    put_varint(part.map_or(-1, len), body);
    body.extend_from_slice(part.unwrap_or_default());
}

#[inline]
fn put_varint(value: i64, out: &mut Vec<u8>) {
    let mut rest = ((value << 1) ^ (value >> 63)).cast_unsigned();
    while rest >= 0x80 {
        out.push(u8::try_from(rest & 0x7f).unwrap_or(0) | 0x80);
        rest >>= 7;
    }
    out.push(u8::try_from(rest).unwrap_or(0));
}

/// A batch that was read.
#[derive(Copy, Clone, Debug)]
pub(super) struct Batch<'a> {
    pub(super) base: i64,
    /// The offset of the last record that it had when it was written.
    pub(super) last: i64,
    pub(super) producer_id: i64,
    pub(super) transactional: bool,
    pub(super) control: bool,
    timestamp: i64,
    records: usize,
    bytes: &'a [u8],
}

/// A record that was read.
#[derive(Copy, Clone, Debug)]
pub(in crate::chaos) struct Record<'a> {
    pub(in crate::chaos) offset: i64,
    pub(in crate::chaos) timestamp: i64,
    pub(in crate::chaos) key: Option<&'a [u8]>,
    pub(in crate::chaos) value: Option<&'a [u8]>,
    /// As they stand in the batch: their number, then names and values.
    headers: &'a [u8],
}

/// The whole batches in what a fetch gave; a last one that was cut off is left out.
pub(super) fn batches(mut bytes: &[u8]) -> impl Iterator<Item = Batch<'_>> {
    std::iter::from_fn(move || {
        let length = usize::try_from(i32::from_be_bytes(at(bytes, LENGTH_AT)?)).ok()?;
        let (batch, rest) = bytes.split_at_checked(LENGTH_AT + 4 + length)?;
        bytes = rest;
        let base = i64::from_be_bytes(at(batch, 0)?);
        let attributes = i16::from_be_bytes(at(batch, ATTRIBUTES_AT)?);
        Some(Batch {
            base,
            last: base + i64::from(i32::from_be_bytes(at(batch, 23)?)),
            producer_id: i64::from_be_bytes(at(batch, 43)?),
            transactional: attributes & TRANSACTIONAL != 0,
            control: attributes & CONTROL != 0,
            timestamp: i64::from_be_bytes(at(batch, 27)?),
            records: usize::try_from(i32::from_be_bytes(at(batch, 57)?)).ok()?,
            bytes: batch.get(HEADER..)?,
        })
    })
}

fn at<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..)?.first_chunk().copied()
}

impl<'a> Batch<'a> {
    /// Its records.
    pub(super) fn records(&self) -> impl Iterator<Item = Record<'a>> + use<'a> {
        let Batch { base, timestamp, mut bytes, records, .. } = *self;
        (0..records).map_while(move |_| {
            let mut body = take_nullable(&mut bytes)??.get(1..)?;
            let time = take_varint(&mut body)?;
            let delta = take_varint(&mut body)?;
            let key = take_nullable(&mut body)?;
            let value = take_nullable(&mut body)?;
            Some(Record { offset: base + delta, timestamp: timestamp + time, key, value, headers: body })
        })
    }

    /// Of a control batch: whether it is the end of a transaction that was aborted.
    pub(super) fn is_abort(&self) -> bool {
        let kind = |key: &[u8]| at(key, 2).map(i16::from_be_bytes);
        self.control && self.records().next().and_then(|record| record.key.and_then(kind)) == Some(0)
    }
}

impl<'a> Record<'a> {
    /// Its headers, in order.
    fn each_header(&self) -> impl Iterator<Item = (&'a [u8], Option<&'a [u8]>)> {
        let mut rest = self.headers;
        let count = take_varint(&mut rest).unwrap_or(0);
        (0..count).map_while(move |_| Some((take_nullable(&mut rest)?.unwrap_or_default(), take_nullable(&mut rest)?)))
    }

    /// The value of the first header of this name.
    pub(in crate::chaos) fn header(&self, name: &[u8]) -> Option<&'a [u8]> {
        self.each_header().find(|(other, _)| *other == name)?.1
    }

    /// Its headers, encoded as [`push_header`] does.
    pub(super) fn headers(&self, out: &mut Vec<u8>) {
        out.clear();
        self.each_header().for_each(|(name, value)| push_header(name, value, out));
    }
}

#[inline]
fn take_varint(bytes: &mut &[u8]) -> Option<i64> {
    // Most numbers of a record are small.
    let (&first, rest) = bytes.split_first()?;
    if first < 0x80 {
        *bytes = rest;
        return Some(i64::from(first >> 1) ^ -i64::from(first & 1));
    }
    take_long_varint(bytes)
}

#[cold]
fn take_long_varint(bytes: &mut &[u8]) -> Option<i64> {
    let (mut value, mut shift) = (0_u64, 0);
    loop {
        let (&byte, rest) = bytes.split_first()?;
        *bytes = rest;
        value |= u64::from(byte & 0x7f).checked_shl(shift)?;
        shift += 7;
        if byte < 0x80 {
            return Some((value >> 1).cast_signed() ^ -(value & 1).cast_signed());
        }
    }
}

/// `None`: there is not so much; `Some(None)`: null.
#[inline]
fn take_nullable<'a>(bytes: &mut &'a [u8]) -> Option<Option<&'a [u8]>> {
    let Ok(len) = usize::try_from(take_varint(bytes)?) else { return Some(None) };
    let (part, rest) = bytes.split_at_checked(len)?;
    *bytes = rest;
    Some(Some(part))
}

#[cfg(test)]
mod tests {
    use kafka_protocol::records::RecordBatchDecoder;

    use super::*;

    /// One with two headers, and one in which all is null.
    fn rows(headers: &mut Vec<u8>) -> [Row<'_>; 2] {
        push_header(b"name", Some(b"value"), headers);
        push_header(b"none", None, headers);
        [Row { key: Some(b"key"), value: Some(&[b'x'; 300]), headers }, Row::default()]
    }

    const AUTHOR: Author = Author { producer_id: 7, epoch: 3, sequence: 40, transactional: true };

    #[test]
    fn a_batch_is_read_as_it_was_written() {
        let mut encoded_headers = Vec::new();
        let rows = rows(&mut encoded_headers);
        let encoded = encode(AUTHOR, 1_000, rows.into_iter());
        let batch = batches(&encoded).next().unwrap();
        assert_eq!((batch.base, batch.last, batch.producer_id), (0, 1, 7));
        assert!(batch.transactional && !batch.control);
        let read: Vec<_> = batch.records().collect();
        assert_eq!(read.len(), 2);
        for (row, record) in rows.iter().zip(&read) {
            assert_eq!((record.key, record.value), (row.key, row.value));
            let mut headers = Vec::new();
            record.headers(&mut headers);
            assert_eq!(headers, row.headers);
            assert_eq!(record.timestamp, 1_000);
        }
        assert_eq!(read[1].offset, 1);
        let header = |name: &[u8]| read[0].header(name);
        assert_eq!((header(b"name"), header(b"none"), header(b"other")), (Some(&b"value"[..]), None, None));
    }

    #[test]
    fn the_crate_that_speaks_the_protocol_reads_it_too() {
        let mut headers = Vec::new();
        let rows = rows(&mut headers);
        let mut encoded = encode(AUTHOR, 1_000, rows.into_iter());
        let read = RecordBatchDecoder::decode(&mut encoded).unwrap().records;
        assert_eq!(read.len(), 2);
        assert_eq!((read[0].producer_id, read[0].producer_epoch, read[1].sequence), (7, 3, 41));
        let parts = |at: usize| (read[at].key.as_deref(), read[at].value.as_deref());
        assert_eq!((parts(0), parts(1)), ((rows[0].key, rows[0].value), (None, None)));
    }

    #[test]
    fn what_was_cut_off_is_left_out() {
        let encoded = encode(AUTHOR, 0, rows(&mut Vec::new()).into_iter());
        let two = [&encoded[..], &encoded[..encoded.len() - 1]].concat();
        assert_eq!(batches(&two).count(), 1);
    }
}
