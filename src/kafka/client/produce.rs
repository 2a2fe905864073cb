//! Records to send, as rows over one arena.

use std::sync::Arc;

use super::record::NULL;

/// Which records a report counts together: the sink's flush number, modulo 2^32.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct FlushId(pub u32);

/// The partition of a record: chosen by the client, see [`ProduceRow::partition`].
pub const BY_KEY: i32 = -1;

/// One record to send. Its bytes stand together in the arena: key, value, headers.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct ProduceRow {
    /// Where the record's bytes begin in the arena.
    pub start: u32,
    /// Bytes of the key, [`NULL`] if it is null.
    pub key_len: i32,
    /// Bytes of the value, [`NULL`] if it is null (a tombstone).
    pub value_len: i32,
    /// Bytes of the headers, encoded by [`super::record::push_header`]; 0 if there are none.
    pub headers_len: u32,
    /// The partition, or [`BY_KEY`]: murmur2 of the key, as Java's clients have it; null keys are spread.
    pub partition: i32,
    /// Counted together when acknowledged.
    pub flush: FlushId,
    /// Comes back with a failure, so that the sink knows which record it was.
    pub tag: u32,
    /// Milliseconds since 1970; [`super::record::NO_TIMESTAMP`] for the time of sending.
    pub timestamp: i64,
}

/// Records to send to one topic, in order, over one arena of bytes. A sink fills it, offers it, and clears it when all
/// of it was taken.
#[derive(Clone, Debug)]
pub struct ProduceBatch {
    topic: Arc<str>,
    rows: Vec<ProduceRow>,
    bytes: Vec<u8>,
}

/// A record as the sink hands it over.
#[derive(Copy, Clone, Debug, Default)]
pub struct ProduceRecord<'a> {
    /// The key; `None` is null.
    pub key: Option<&'a [u8]>,
    /// The value; `None` is null.
    pub value: Option<&'a [u8]>,
    /// Headers, encoded by [`super::record::push_header`].
    pub headers: &'a [u8],
    /// See [`ProduceRow::flush`].
    pub flush: FlushId,
    /// See [`ProduceRow::tag`].
    pub tag: u32,
}

impl ProduceBatch {
    /// The most bytes of an arena, so that `start` fits into 32 bits.
    pub const MAX_BYTES: usize = 1 << 30;

    /// An empty batch for `topic`.
    #[must_use]
    pub const fn new(topic: Arc<str>) -> Self {
        Self { topic, rows: Vec::new(), bytes: Vec::new() }
    }

    /// The topic that the records go to.
    #[must_use]
    pub const fn topic(&self) -> &Arc<str> {
        &self.topic
    }

    /// The rows, in order.
    #[must_use]
    pub fn rows(&self) -> &[ProduceRow] {
        &self.rows
    }

    /// The arena.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Number of records.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether there is no record.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Forgets the records and keeps the memory.
    pub fn clear(&mut self) {
        self.rows.clear();
        self.bytes.clear();
    }

    /// Appends a record that goes where its key says, with the time of sending.
    #[inline]
    pub fn push(&mut self, record: &ProduceRecord<'_>) {
        self.push_to(BY_KEY, super::record::NO_TIMESTAMP, record);
    }

    /// Appends a record for a given partition with a given timestamp.
    #[inline]
    pub fn push_to(&mut self, partition: i32, timestamp: i64, record: &ProduceRecord<'_>) {
        let start = u32::try_from(self.bytes.len()).unwrap_or(u32::MAX);
        self.bytes.extend_from_slice(record.key.unwrap_or_default());
        self.bytes.extend_from_slice(record.value.unwrap_or_default());
        self.bytes.extend_from_slice(record.headers);
        let len = |b: Option<&[u8]>| b.map_or(NULL, |b| i32::try_from(b.len()).unwrap_or(i32::MAX));
        self.rows.push(ProduceRow {
            start,
            key_len: len(record.key),
            value_len: len(record.value),
            headers_len: u32::try_from(record.headers.len()).unwrap_or(u32::MAX),
            partition,
            flush: record.flush,
            tag: record.tag,
            timestamp,
        });
    }

    /// Key, value and encoded headers of a row of this batch.
    #[must_use]
    #[inline]
    pub fn parts(&self, row: &ProduceRow) -> (Option<&[u8]>, Option<&[u8]>, &[u8]) {
        let rest = self.bytes.get(row.start as usize..).unwrap_or_default();
        let (key, rest) = split_nullable(rest, row.key_len);
        let (value, rest) = split_nullable(rest, row.value_len);
        (key, value, rest.get(..row.headers_len as usize).unwrap_or_default())
    }
}

fn split_nullable(bytes: &[u8], len: i32) -> (Option<&[u8]>, &[u8]) {
    match usize::try_from(len).ok().and_then(|len| bytes.split_at_checked(len)) {
        Some((taken, rest)) => (Some(taken), rest),
        None => (None, bytes),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_gives_back_what_was_pushed() {
        let mut batch = ProduceBatch::new("counts".into());
        let record = ProduceRecord { key: Some(b"k"), value: None, headers: b"hh", ..Default::default() };
        batch.push(&record);
        batch.push_to(4, 99, &ProduceRecord { key: None, value: Some(b""), ..record });
        let rows = batch.rows().to_vec();
        assert_eq!(batch.parts(&rows[0]), (Some(&b"k"[..]), None, &b"hh"[..]));
        assert_eq!(batch.parts(&rows[1]), (None, Some(&b""[..]), &b"hh"[..]));
        assert_eq!((rows[0].partition, rows[1].partition, rows[1].timestamp), (BY_KEY, 4, 99));
        batch.clear();
        assert!(batch.is_empty() && batch.bytes().is_empty());
    }
}
