//! The records of a large batch, looked at while they are unpacked, through one small buffer: memory that is written
//! for the first time costs more than most codecs do, and nobody else is served meanwhile.

use std::io::{ErrorKind, Read};

use super::{
    codec::CannotUnpack,
    records::{Malformed, Records, Seen, varlong},
};

/// Bytes that are there at a time. A record that has more is walked through.
const WINDOW: usize = 64 << 10;
/// Bytes that a number has at most.
const LONGEST_NUMBER: usize = 10;
/// Bytes that a record may say to have.
const MOST: usize = i32::MAX as usize;

/// Records as they come out of a codec.
pub(super) struct Stream<R> {
    unpacking: R,
    window: Box<[u8]>,
    /// What of the window is there and not looked at yet.
    from: usize,
    to: usize,
    /// Bytes that may still come.
    bound: usize,
    /// Nothing comes any more: all was unpacked, or could not be.
    ended: Option<Result<(), CannotUnpack>>,
    malformed: bool,
}

impl<R: Read> Stream<R> {
    pub(super) fn new(unpacking: R, bound: usize) -> Self {
        let window = vec![0; WINDOW].into_boxed_slice();
        Self { unpacking, window, from: 0, to: 0, bound, ended: None, malformed: false }
    }

    /// Unpacks what is left, whatever it is.
    pub(super) fn finish(mut self) -> Result<(), CannotUnpack> {
        loop {
            self.from = self.to;
            if let Some(end) = self.ended {
                return end;
            }
            self.fill();
        }
    }

    fn there(&self) -> &[u8] {
        &self.window[self.from..self.to]
    }

    /// Fills the window behind what is still in it.
    fn fill(&mut self) {
        self.window.copy_within(self.from..self.to, 0);
        (self.from, self.to) = (0, self.to - self.from);
        while self.ended.is_none() && self.to < WINDOW {
            match self.unpacking.read(&mut self.window[self.to..]) {
                Ok(0) => self.ended = Some(Ok(())),
                Ok(more) if more > self.bound => self.ended = Some(Err(CannotUnpack::TooLarge)),
                Ok(more) => (self.to, self.bound) = (self.to + more, self.bound - more),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => self.ended = Some(Err(CannotUnpack::Malformed)),
            }
        }
    }

    /// The next record, from the window if all of it is there.
    fn record(&mut self) -> Result<Seen, Malformed> {
        let mut records = Records::new(self.there());
        if let Some(Ok(record)) = records.next() {
            let (seen, size) = (record.seen(), record.bytes.len());
            self.from += size;
            return Ok(seen);
        }
        self.walk_through()
    }

    /// A record of which only a part is in the window, or which is malformed.
    fn walk_through(&mut self) -> Result<Seen, Malformed> {
        let mut whole = LONGEST_NUMBER;
        let length = self.number(&mut whole)?;
        let left = &mut usize::try_from(length).ok().filter(|length| *length <= MOST).ok_or(Malformed)?;
        // Attributes: none are in use.
        self.skip(1, left)?;
        let timestamp_delta = self.number(left)?;
        let offset_delta = i32::try_from(self.number(left)?).map_err(|_| Malformed)?;
        let has_key = self.field(left)?;
        self.field(left)?;
        let headers = u32::try_from(self.length(left)?).map_err(|_| Malformed)?;
        for _ in 0..headers {
            if !self.field(left)? {
                return Err(Malformed);
            }
            self.field(left)?;
        }
        if *left == 0 { Ok(Seen { timestamp_delta, offset_delta, has_key }) } else { Err(Malformed) }
    }

    /// Skips bytes behind their length; `false`: there are none.
    fn field(&mut self, left: &mut usize) -> Result<bool, Malformed> {
        match usize::try_from(self.length(left)?) {
            Ok(length) => self.skip(length, left).map(|()| true),
            Err(_) => Ok(false),
        }
    }

    fn length(&mut self, left: &mut usize) -> Result<i32, Malformed> {
        i32::try_from(self.number(left)?).map_err(|_| Malformed)
    }

    fn number(&mut self, left: &mut usize) -> Result<i64, Malformed> {
        if self.there().len() < LONGEST_NUMBER {
            self.fill();
        }
        let there = self.there();
        let most = there.len().min(*left);
        let mut rest = &there[..most];
        let number = varlong(&mut rest)?;
        let used = most - rest.len();
        self.from += used;
        *left -= used;
        Ok(number)
    }

    fn skip(&mut self, mut count: usize, left: &mut usize) -> Result<(), Malformed> {
        *left = left.checked_sub(count).ok_or(Malformed)?;
        while count > 0 {
            if self.there().is_empty() {
                self.fill();
            }
            let step = self.there().len().min(count);
            if step == 0 {
                return Err(Malformed);
            }
            self.from += step;
            count -= step;
        }
        Ok(())
    }
}

impl<R: Read> Iterator for Stream<R> {
    type Item = Result<Seen, Malformed>;

    /// After a malformed record there is none.
    fn next(&mut self) -> Option<Self::Item> {
        if self.there().is_empty() {
            self.fill();
        }
        if self.malformed || self.there().is_empty() {
            return None;
        }
        let record = self.record();
        self.malformed = record.is_err();
        Some(record)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn number(number: i64, into: &mut Vec<u8>) {
        let mut raw = ((number << 1) ^ (number >> 63)).cast_unsigned();
        while raw >= 0x80 {
            into.push(u8::try_from(raw & 0x7f).unwrap() | 0x80);
            raw >>= 7;
        }
        into.push(u8::try_from(raw).unwrap());
    }

    fn field(length: Option<usize>, into: &mut Vec<u8>) {
        number(length.map_or(-1, |length| i64::try_from(length).unwrap()), into);
        into.resize(into.len() + length.unwrap_or(0), b'x');
    }

    /// A record with so many bytes of key, value and header.
    fn record(timestamp: i64, key: Option<usize>, value: Option<usize>, header: Option<usize>) -> Vec<u8> {
        let mut body = vec![0];
        number(timestamp, &mut body);
        number(7, &mut body);
        field(key, &mut body);
        field(value, &mut body);
        number(i64::from(header.is_some()), &mut body);
        if header.is_some() {
            field(Some(1), &mut body);
            field(header, &mut body);
        }
        let mut record = Vec::new();
        number(i64::try_from(body.len()).unwrap(), &mut record);
        record.extend(body);
        record
    }

    fn length() -> impl Strategy<Value = Option<usize>> {
        prop_oneof![
            2 => Just(None),
            12 => (0..200_usize).prop_map(Some),
            1 => (WINDOW - 30..WINDOW + 30).prop_map(Some),
            1 => (0..3 * WINDOW).prop_map(Some),
        ]
    }

    /// Gives a few bytes at a time, as codecs may.
    struct Pieces<'a>(&'a [u8], usize);

    impl Read for Pieces<'_> {
        fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
            let most = into.len().min(self.1);
            self.0.read(&mut into[..most])
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn what_is_seen_in_a_stream_is_what_is_read_from_the_whole(
            records in prop::collection::vec((any::<i64>(), length(), length(), length()), 0..40),
            piece in prop_oneof![1..50_usize, Just(WINDOW), Just(usize::MAX)],
            cut in prop::option::of(0..2_000_usize),
            changed in prop::option::of((any::<prop::sample::Index>(), any::<u8>())),
        ) {
            let mut whole: Vec<u8> = records.into_iter().flat_map(|(t, k, v, h)| record(t >> 1, k, v, h)).collect();
            whole.truncate(whole.len() - cut.unwrap_or(0).min(whole.len()));
            if let Some((at, byte)) = changed.filter(|_| !whole.is_empty()) {
                let at = at.index(whole.len());
                whole[at] = byte;
            }
            let read: Vec<_> = Records::new(&whole).map(|record| record.map(|record| record.seen())).collect();
            let mut stream = Stream::new(Pieces(&whole, piece), whole.len());
            prop_assert_eq!(stream.by_ref().collect::<Vec<_>>(), read);
            prop_assert_eq!(stream.finish(), Ok(()));
            if !whole.is_empty() {
                let stream = Stream::new(Pieces(&whole, piece), whole.len() - 1);
                prop_assert_eq!(stream.finish(), Err(CannotUnpack::TooLarge));
            }
        }
    }
}
