//! The records for one partition of a producer: those that wait, and those that were sent and have no answer yet.

use std::{mem, sync::Arc};

use bytes::Bytes;

use super::records::{Author, Row, encode};
use crate::{
    clock::Instant,
    kafka::client::{
        FlushId, ProduceBatch,
        produce::{ProduceRecord, ProduceRow},
    },
};

/// Records in order, and until when each is worth sending: what was taken later is given up later.
#[derive(Debug)]
pub(super) struct Queue {
    batch: ProduceBatch,
    until: Vec<Instant>,
    /// How many rows at the front are gone.
    gone: usize,
}

impl Queue {
    pub(super) const fn new(topic: Arc<str>) -> Self {
        Self { batch: ProduceBatch::new(topic), until: Vec::new(), gone: 0 }
    }

    pub(super) fn push(&mut self, batch: &ProduceBatch, row: &ProduceRow, until: Instant) {
        let (key, value, headers) = batch.parts(row);
        let record = ProduceRecord { key, value, headers, flush: row.flush, tag: row.tag };
        self.batch.push_to(row.partition, row.timestamp, &record);
        self.until.push(until);
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.gone == self.batch.len()
    }

    /// Whether there is one that is to be given up by now.
    pub(super) fn is_late(&self, now: Instant) -> bool {
        self.until.get(self.gone).is_some_and(|until| now >= *until)
    }

    /// All of it, and nothing is left.
    pub(super) fn take(&mut self) -> Self {
        let (rest, all) = (self.batch.len() - self.gone, Self::new(Arc::clone(self.batch.topic())));
        self.take_first(rest, all)
    }

    /// The first `count` at most, in the place of an empty queue for the same topic.
    fn take_first(&mut self, count: usize, empty: Self) -> Self {
        let mut first = empty;
        if self.gone == 0 && count >= self.batch.len() {
            mem::swap(&mut first, self);
            return first;
        }
        let rows = self.batch.rows().iter().zip(&self.until).skip(self.gone);
        rows.take(count).for_each(|(row, until)| first.push(&self.batch, row, *until));
        self.gone += first.batch.len();
        if self.is_empty() {
            self.clear();
        }
        first
    }

    /// Forgets the records and keeps the memory.
    fn clear(&mut self) {
        self.batch.clear();
        self.until.clear();
        self.gone = 0;
    }

    /// Moves everything to the list, if there is anything.
    pub(super) fn drop_all(&mut self, out: &mut Vec<ProduceBatch>) {
        if !self.is_empty() {
            out.push(self.take().batch);
        }
    }

    /// The records with until when each is worth sending.
    pub(super) fn each(&self, mut each: impl FnMut(&ProduceBatch, &ProduceRow, Instant)) {
        let rows = self.batch.rows().iter().zip(&self.until).skip(self.gone);
        rows.for_each(|(row, until)| each(&self.batch, row, *until));
    }
}

/// The records for one partition.
#[derive(Debug)]
pub(super) struct Lane {
    pub(super) waiting: Queue,
    /// Without answer: as it was encoded, and what it holds.
    sent: Option<(Bytes, Queue)>,
    /// What was sent before, for its memory.
    empty: Option<Queue>,
    /// The next number.
    sequence: i32,
    pub(super) not_before: Instant,
    /// Of a transactional producer: the open transaction knows of the partition.
    pub(super) added: bool,
}

impl Lane {
    pub(super) const fn new(topic: Arc<str>) -> Self {
        Self {
            waiting: Queue::new(topic),
            sent: None,
            empty: None,
            sequence: 0,
            not_before: Instant::ZERO,
            added: false,
        }
    }

    /// Whether there is a record that is to be given up by now.
    pub(super) fn is_late(&self, now: Instant) -> bool {
        self.waiting.is_late(now) || self.sent.iter().any(|(_, sent)| sent.is_late(now))
    }

    /// What is to be sent now: once more what has no answer, or else the next `most` records.
    pub(super) fn request(
        &mut self,
        (producer_id, epoch): (i64, i16),
        transactional: bool,
        timestamp: i64,
        most: usize,
    ) -> Option<Bytes> {
        if self.sent.is_none() && !self.waiting.is_empty() {
            let author = Author { producer_id, epoch, sequence: self.sequence, transactional };
            let empty = self.empty.take().unwrap_or_else(|| Queue::new(Arc::clone(self.waiting.batch.topic())));
            let next = self.waiting.take_first(most, empty);
            let rows = next.batch.rows().iter().map(|row| {
                let (key, value, headers) = next.batch.parts(row);
                Row { key, value, headers }
            });
            self.sent = Some((encode(author, timestamp, rows), next));
        }
        self.sent.as_ref().map(|(bytes, _)| bytes.clone())
    }

    /// What was sent is in the log: how many records of which flushes.
    pub(super) fn acked(&mut self) -> Option<Vec<(FlushId, usize)>> {
        let (_, mut sent) = self.sent.take()?;
        let rows = sent.batch.rows();
        self.sequence = next_sequence(self.sequence, rows.len());
        let flushes = rows.chunk_by(|a, b| a.flush == b.flush);
        let counts = flushes.filter_map(|of| Some((of.first()?.flush, of.len()))).collect();
        sent.clear();
        self.empty = Some(sent);
        Some(counts)
    }

    /// What was sent is refused: that, and no number of it is used up.
    pub(super) fn refused(&mut self) -> Option<ProduceBatch> {
        self.sent.take().map(|(_, sent)| sent.batch)
    }

    /// Everything that is here, in order; the lane begins anew.
    pub(super) fn drop_all(&mut self, out: &mut Vec<ProduceBatch>) {
        let Self { mut waiting, sent, .. } = mem::replace(self, Self::new(Arc::clone(self.waiting.batch.topic())));
        out.extend(sent.map(|(_, sent)| sent.batch));
        waiting.drop_all(out);
    }
}

/// Sequences wrap at 2^31.
fn next_sequence(sequence: i32, records: usize) -> i32 {
    let next = (i64::from(sequence) + i64::try_from(records).unwrap_or(0)) & i64::from(i32::MAX);
    i32::try_from(next).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Instant;

    #[test]
    fn sequences_begin_again_after_the_largest() {
        assert_eq!(next_sequence(i32::MAX, 1), 0);
        assert_eq!(next_sequence(i32::MAX - 1, 3), 1);
        assert_eq!(next_sequence(5, 3), 8);
    }

    #[test]
    fn what_is_taken_a_few_at_a_time_keeps_its_order() {
        let mut batch = ProduceBatch::new("words".into());
        for n in 0..5_u8 {
            batch.push(&ProduceRecord { value: Some(&[n]), ..ProduceRecord::default() });
        }
        let mut queue = Queue::new("words".into());
        for (row, n) in batch.rows().iter().zip(1..) {
            queue.push(&batch, row, Instant::from_nanos(n));
        }
        let (mut seen, mut sizes) = (Vec::new(), Vec::new());
        while !queue.is_empty() {
            assert_eq!(queue.is_late(Instant::from_nanos(2)), seen.len() < 2);
            let first = queue.take_first(2, Queue::new("words".into()));
            sizes.push(first.batch.len());
            first.each(|batch, row, _| seen.push(batch.parts(row).1.unwrap()[0]));
        }
        assert_eq!((seen, sizes), (vec![0, 1, 2, 3, 4], vec![2, 2, 1]));
        assert!(!queue.is_late(Instant::FAR_FUTURE));
    }
}
