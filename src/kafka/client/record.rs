//! Records of one partition, copied out of the client into one arena.

use super::{AssignmentEpoch, Offset, TopicPartition};

/// A length that says "there is none": a null key or value.
pub const NULL: i32 = -1;

/// A timestamp that says "the record has none".
pub const NO_TIMESTAMP: i64 = -1;

/// Where a record is in its block. Its bytes stand together in the arena: key, value, headers.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct RecordHead {
    /// The record's offset in its partition.
    pub offset: Offset,
    /// Milliseconds since 1970, [`NO_TIMESTAMP`] if the record has none.
    pub timestamp: i64,
    /// Where the record's bytes begin in the arena.
    pub start: u32,
    /// Bytes of the key, [`NULL`] if it is null.
    pub key_len: i32,
    /// Bytes of the value, [`NULL`] if it is null (a tombstone).
    pub value_len: i32,
    /// Bytes of the encoded headers, 0 if there are none.
    pub headers_len: u32,
}

/// Records of one topic and partition, in the order of their offsets, over one arena of bytes.
#[derive(Clone, Debug)]
pub struct RecordBlock {
    /// Where the records come from.
    pub partition: TopicPartition,
    /// The assignment under which they were fetched.
    pub epoch: AssignmentEpoch,
    records: Vec<RecordHead>,
    bytes: Vec<u8>,
}

impl RecordBlock {
    /// The most bytes of an arena; a block closes before it is full, so that `start` fits into 32 bits.
    pub const MAX_BYTES: usize = 1 << 30;

    /// An empty block.
    #[must_use]
    pub const fn new(partition: TopicPartition, epoch: AssignmentEpoch) -> Self {
        Self { partition, epoch, records: Vec::new(), bytes: Vec::new() }
    }

    /// The block's memory, emptied, for records of another partition.
    #[must_use]
    pub fn reuse(mut self, partition: TopicPartition, epoch: AssignmentEpoch) -> Self {
        self.records.clear();
        self.bytes.clear();
        Self { partition, epoch, ..self }
    }

    /// The records, in the order of their offsets.
    #[must_use]
    pub fn records(&self) -> &[RecordHead] {
        &self.records
    }

    /// Number of records.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.records.len()
    }

    /// Whether there is no record.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// The arena: all keys, values and headers. A record's value is `bytes()[head.start + key..][..value_len]`, so text
    /// can go on as a slice of it.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The arena, for whoever keeps the bytes longer than the block.
    #[must_use]
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    /// Bytes that the block holds on to.
    #[must_use]
    pub const fn memory(&self) -> usize {
        self.bytes.capacity() + self.records.capacity() * size_of::<RecordHead>()
    }

    /// The key of record `i`; `None` if it is null or there is no such record.
    #[must_use]
    pub fn key(&self, i: usize) -> Option<&[u8]> {
        let head = self.records.get(i)?;
        let len = usize::try_from(head.key_len).ok()?;
        self.bytes.get(head.start as usize..)?.get(..len)
    }

    /// The value of record `i`; `None` if it is null or there is no such record.
    #[must_use]
    pub fn value(&self, i: usize) -> Option<&[u8]> {
        let head = self.records.get(i)?;
        let len = usize::try_from(head.value_len).ok()?;
        self.bytes.get(head.value_start()..)?.get(..len)
    }

    /// The headers of record `i`, in order.
    #[must_use]
    pub fn headers(&self, i: usize) -> Headers<'_> {
        Headers(self.headers_encoded(i))
    }

    /// The headers of record `i` as [`push_header`] encodes them: what [`super::produce::ProduceBatch`] takes.
    #[must_use]
    pub fn headers_encoded(&self, i: usize) -> &[u8] {
        self.records
            .get(i)
            .and_then(|head| self.bytes.get(head.headers_start()..)?.get(..head.headers_len as usize))
            .unwrap_or_default()
    }

    /// Appends a record. `headers` are encoded as by [`push_header`].
    ///
    /// Whoever fills a block starts a new one before [`RecordBlock::MAX_BYTES`] and keeps the offsets rising.
    #[inline]
    #[expect(clippy::too_many_arguments, reason = "the five parts of a record")]
    pub fn push(&mut self, offset: Offset, timestamp: i64, key: Option<&[u8]>, value: Option<&[u8]>, headers: &[u8]) {
        let start = u32::try_from(self.bytes.len()).unwrap_or(u32::MAX);
        self.bytes.extend_from_slice(key.unwrap_or_default());
        self.bytes.extend_from_slice(value.unwrap_or_default());
        self.bytes.extend_from_slice(headers);
        self.records.push(RecordHead {
            offset,
            timestamp,
            start,
            key_len: nullable_len(key),
            value_len: nullable_len(value),
            headers_len: u32::try_from(headers.len()).unwrap_or(u32::MAX),
        });
    }
}

impl RecordHead {
    /// Where the value begins in the arena.
    #[must_use]
    #[inline]
    pub fn value_start(&self) -> usize {
        self.start as usize + usize::try_from(self.key_len).unwrap_or(0)
    }

    /// Where the encoded headers begin in the arena.
    #[must_use]
    pub fn headers_start(&self) -> usize {
        self.value_start() + usize::try_from(self.value_len).unwrap_or(0)
    }
}

fn nullable_len(bytes: Option<&[u8]>) -> i32 {
    bytes.map_or(NULL, |b| i32::try_from(b.len()).unwrap_or(i32::MAX))
}

/// Appends one header to its encoding: length of the name, name, length of the value (-1: null), value; lengths are 4
/// bytes, little-endian.
pub fn push_header(name: &[u8], value: Option<&[u8]>, out: &mut Vec<u8>) {
    out.extend_from_slice(&nullable_len(Some(name)).to_le_bytes());
    out.extend_from_slice(name);
    out.extend_from_slice(&nullable_len(value).to_le_bytes());
    out.extend_from_slice(value.unwrap_or_default());
}

/// The headers of a record, in order: name and value, which may be null.
#[derive(Copy, Clone, Debug)]
pub struct Headers<'a>(&'a [u8]);

impl<'a> Headers<'a> {
    /// The headers that [`push_header`] encoded.
    #[must_use]
    pub const fn decode(encoded: &'a [u8]) -> Self {
        Self(encoded)
    }

    fn take(&mut self) -> Option<Option<&'a [u8]>> {
        let (len, rest) = self.0.split_first_chunk::<4>()?;
        let Ok(len) = usize::try_from(i32::from_le_bytes(*len)) else {
            self.0 = rest;
            return Some(None);
        };
        let (bytes, rest) = rest.split_at_checked(len)?;
        self.0 = rest;
        Some(Some(bytes))
    }
}

impl<'a> Iterator for Headers<'a> {
    type Item = (&'a [u8], Option<&'a [u8]>);

    fn next(&mut self) -> Option<Self::Item> {
        let name = self.take()??;
        Some((name, self.take()?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block() -> RecordBlock {
        RecordBlock::new(TopicPartition::new("lines", 3), AssignmentEpoch(1))
    }

    #[test]
    fn null_and_empty_stay_apart() {
        let mut block = block();
        block.push(Offset(5), NO_TIMESTAMP, None, Some(b""), b"");
        block.push(Offset(9), 17, Some(b""), None, b"");
        block.push(Offset(10), 18, Some(b"k"), Some(b"value"), b"");
        assert_eq!((block.key(0), block.value(0)), (None, Some(&b""[..])));
        assert_eq!((block.key(1), block.value(1)), (Some(&b""[..]), None));
        assert_eq!((block.key(2), block.value(2)), (Some(&b"k"[..]), Some(&b"value"[..])));
        assert_eq!(block.value(3), None);
        assert_eq!(block.records()[1].offset, Offset(9));
    }

    #[test]
    fn headers_come_back_in_order_with_their_nulls() {
        let mut encoded = Vec::new();
        push_header(b"a", Some(b"1"), &mut encoded);
        push_header(b"", None, &mut encoded);
        push_header(b"a", Some(b""), &mut encoded);
        let mut block = block();
        block.push(Offset(0), 0, Some(b"key"), Some(b"value"), &encoded);
        block.push(Offset(1), 0, None, None, b"");
        let seen: Vec<_> = block.headers(0).collect();
        assert_eq!(seen, [(&b"a"[..], Some(&b"1"[..])), (b"", None), (b"a", Some(b""))]);
        assert_eq!(block.headers(1).count(), 0);
        assert_eq!(block.headers_encoded(0), encoded);
    }

    #[test]
    fn a_reused_block_is_empty_and_keeps_its_memory() {
        let mut block = block();
        block.push(Offset(0), 0, None, Some(&[7; 1000]), b"");
        let memory = block.memory();
        let again = block.reuse(TopicPartition::new("other", 0), AssignmentEpoch(2));
        assert!(again.is_empty() && again.bytes().is_empty());
        assert_eq!(again.memory(), memory);
    }

    #[test]
    fn a_head_is_small() {
        assert_eq!(size_of::<RecordHead>(), 32);
    }
}
