//! One partition: batches in the order of their offsets, cut into segments.

use std::{collections::VecDeque, mem};

use bytes::{Bytes, BytesMut};
use kafka_protocol::error::ResponseError;

use super::{
    batch::{Batch, Marker, Place},
    config::Settings,
    producers::{Aborted, Producers},
};

/// A stretch of a log that retention deletes as a whole, and that compaction leaves alone while it is the last.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Segment {
    pub(super) base_offset: i64,
    pub(super) bytes: usize,
    /// The time of its first batch; -1: it is empty.
    pub(super) first_timestamp: i64,
    pub(super) largest_timestamp: i64,
}

impl Segment {
    pub(super) const fn new(base_offset: i64) -> Self {
        Self { base_offset, bytes: 0, first_timestamp: -1, largest_timestamp: -1 }
    }

    pub(super) fn take(&mut self, batch: &Batch) {
        if self.bytes == 0 {
            self.first_timestamp = batch.header.max_timestamp;
        }
        self.bytes += batch.bytes.len();
        self.largest_timestamp = self.largest_timestamp.max(batch.header.max_timestamp);
    }
}

/// What isolates a reader from open transactions.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(super) enum Isolation {
    /// Everything.
    ReadUncommitted,
    /// Up to the first transaction that is open, and what was aborted is told.
    ReadCommitted,
}

impl Isolation {
    /// Refuses what is no level. As Kafka says it: it has no error of its own for that.
    pub(super) const fn check(level: i8) -> Result<(), ResponseError> {
        match level {
            0 | 1 => Ok(()),
            _ => Err(ResponseError::UnknownServerError),
        }
    }
}

/// For a level that was [checked](Isolation::check).
impl From<i8> for Isolation {
    fn from(level: i8) -> Self {
        if level == 1 { Self::ReadCommitted } else { Self::ReadUncommitted }
    }
}

/// What was read.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Read {
    pub(super) records: Bytes,
    /// After the last record that was read; the offset asked for if none was.
    pub(super) next_offset: i64,
}

/// One partition.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(in crate::broker::core) struct Partition {
    pub(super) batches: VecDeque<Batch>,
    /// At least one: the last is the one that is written to.
    pub(super) segments: VecDeque<Segment>,
    pub(super) start: i64,
    pub(super) end: i64,
    pub(super) producers: Producers,
    /// In the order of their markers.
    pub(super) aborted: Vec<Aborted>,
    /// Where the oldest open transaction begins.
    pub(super) first_open: Option<i64>,
    /// Leader epochs with their first offsets; there is one more after each truncation.
    pub(super) epochs: Vec<(i32, i64)>,
    /// What all batches cost, in bytes.
    pub(super) cost: usize,
    /// What is below was compacted.
    pub(super) clean_until: i64,
}

impl Partition {
    pub(super) fn new() -> Self {
        Self {
            batches: VecDeque::new(),
            segments: VecDeque::from([Segment::new(0)]),
            start: 0,
            end: 0,
            producers: Producers::default(),
            aborted: Vec::new(),
            first_open: None,
            epochs: vec![(0, 0)],
            cost: 0,
            clean_until: 0,
        }
    }

    /// The offset of the next record. With one replica it is the high watermark too.
    #[must_use]
    pub(in crate::broker::core) const fn end(&self) -> i64 {
        self.end
    }

    /// The first offset that can be read.
    #[must_use]
    pub(in crate::broker::core) const fn start(&self) -> i64 {
        self.start
    }

    /// Below this every transaction is decided (KIP-98).
    #[must_use]
    pub(in crate::broker::core) fn last_stable_offset(&self) -> i64 {
        self.first_open.map_or(self.end, |first| first.max(self.start))
    }

    /// Whether a producer has an open transaction here, in this epoch.
    #[must_use]
    pub(in crate::broker::core) fn in_transaction(&self, producer_id: i64, epoch: i16) -> bool {
        self.producers.in_transaction(producer_id, epoch)
    }

    /// Up to where one may read.
    pub(super) fn visible_end(&self, isolation: Isolation) -> i64 {
        match isolation {
            Isolation::ReadUncommitted => self.end,
            Isolation::ReadCommitted => self.last_stable_offset(),
        }
    }

    pub(super) fn leader_epoch(&self) -> i32 {
        self.epochs.last().map_or(0, |(epoch, _)| *epoch)
    }

    /// Where the next batch goes.
    pub(super) fn next(&self) -> Place {
        Place { offset: self.end, leader_epoch: self.leader_epoch() }
    }

    /// Appends a batch that has its place already, and keeps books.
    pub(super) fn push(&mut self, batch: Batch, settings: &Settings) {
        let header = &batch.header;
        self.roll_for(&batch, settings);
        if let Some(segment) = self.segments.back_mut() {
            segment.take(&batch);
        }
        self.end = header.last_offset() + 1;
        self.cost += batch.cost();
        self.aborted.extend(self.producers.note(&batch));
        if header.is_transactional() {
            self.first_open = self.producers.first_open();
        }
        self.batches.push_back(batch);
    }

    fn roll_for(&mut self, batch: &Batch, settings: &Settings) {
        let Some(segment) = self.segments.back().filter(|segment| segment.bytes > 0) else { return };
        let full = segment.bytes + batch.bytes.len() > settings.segment_bytes;
        let age = batch.header.max_timestamp.saturating_sub(segment.first_timestamp);
        // What has to be compacted by a time has to leave the last segment by then.
        let most = if settings.compact { settings.max_compaction_lag_ms } else { i64::MAX }.min(settings.segment_ms);
        if full || (segment.first_timestamp >= 0 && age > most) {
            self.segments.push_back(Segment::new(batch.header.base_offset));
        }
    }

    /// Ends a producer's transaction, whether there is one here or not; the marker's offset.
    ///
    /// # Errors
    /// INVALID_PRODUCER_EPOCH for an epoch older than the last one seen here, TRANSACTION_COORDINATOR_FENCED for a
    /// coordinator older than the last one.
    pub(super) fn write_marker(
        &mut self,
        marker: Marker,
        now_ms: i64,
        settings: &Settings,
    ) -> Result<i64, ResponseError> {
        self.producers.check_marker(&marker)?;
        let offset = self.end;
        self.push(marker.batch(self.next(), now_ms), settings);
        Ok(offset)
    }

    /// The index of the first batch that ends at an offset or after it.
    pub(super) fn find(&self, offset: i64) -> usize {
        self.batches.partition_point(|batch| batch.header.last_offset() < offset)
    }

    /// Whole batches from the one that holds `offset`, below `end`, at most `max_bytes` of them; where `first` is set, the
    /// first of them even if it is larger.
    pub(super) fn read(&self, offset: i64, end: i64, max_bytes: usize, first: bool) -> Read {
        let from = self.find(offset);
        let mut bytes = 0;
        let fits = |batch: &&Batch| {
            let size = batch.bytes.len();
            let fits = batch.header.last_offset() < end && (bytes + size <= max_bytes || (first && bytes == 0));
            bytes += size;
            fits
        };
        let count = self.batches.range(from..).take_while(fits).count();
        let batches = self.batches.range(from..from + count);
        let next_offset = batches.clone().next_back().map_or(offset, |batch| batch.header.last_offset() + 1);
        let records = match count {
            0 => Bytes::new(),
            1 => self.batches[from].bytes.clone(),
            _ => {
                let mut records = BytesMut::with_capacity(batches.clone().map(|batch| batch.bytes.len()).sum());
                batches.for_each(|batch| records.extend_from_slice(&batch.bytes));
                records.freeze()
            }
        };
        Read { records, next_offset }
    }

    /// Bytes that could be read from an offset, counted until they are `enough`.
    pub(super) fn available(&self, offset: i64, end: i64, enough: usize) -> usize {
        let mut bytes = 0;
        for batch in self.batches.range(self.find(offset)..).take_while(|batch| batch.header.last_offset() < end) {
            bytes += batch.bytes.len();
            if bytes >= enough {
                break;
            }
        }
        bytes
    }

    /// The aborted transactions that a reader of these offsets has to know.
    pub(super) fn aborted_between(&self, from: i64, to: i64) -> impl Iterator<Item = &Aborted> {
        let first = self.aborted.partition_point(|aborted| aborted.last_offset < from);
        self.aborted[first..].iter().filter(move |aborted| aborted.first_offset < to)
    }

    /// Moves the first offset that can be read; what lies wholly below it is gone.
    pub(super) fn delete_before(&mut self, offset: i64) {
        self.start = self.start.max(offset.min(self.end));
        while self.batches.front().is_some_and(|batch| batch.header.last_offset() < self.start) {
            let Some(batch) = self.batches.pop_front() else { break };
            self.cost -= batch.cost();
        }
        while self.segments.get(1).is_some_and(|second| second.base_offset <= self.start) {
            self.segments.pop_front();
        }
        self.aborted.retain(|aborted| aborted.last_offset >= self.start);
        self.clean_until = self.clean_until.max(self.start);
    }

    /// Loses everything from the batch that holds `offset` on, as an unclean election does, and begins a leader epoch.
    pub(super) fn truncate(&mut self, offset: i64) {
        let at = self.find(offset);
        let end = self.batches.get(at).map_or(self.end, |batch| batch.header.base_offset).max(self.start);
        let lost = self.batches.split_off(at);
        self.cost -= lost.iter().map(Batch::cost).sum::<usize>();
        self.end = end;
        self.clean_until = self.clean_until.min(end);
        self.aborted.retain(|aborted| aborted.last_offset < end);
        self.producers.truncate(end, self.batches.iter());
        self.first_open = self.producers.first_open();
        self.rebuild_segments();
        self.elect();
    }

    /// Begins a leader epoch; one in which nothing was written is forgotten.
    pub(super) fn elect(&mut self) {
        let next = self.leader_epoch() + 1;
        self.epochs.retain(|(_, first)| *first < self.end);
        self.epochs.push((next, self.end));
    }

    /// Counts segments again after batches changed inside them.
    pub(super) fn rebuild_segments(&mut self) {
        let mut segments: VecDeque<Segment> = mem::take(&mut self.segments)
            .into_iter()
            .filter(|segment| segment.base_offset <= self.end)
            .map(|segment| Segment::new(segment.base_offset))
            .collect();
        if segments.is_empty() {
            segments.push_back(Segment::new(self.end));
        }
        for batch in &self.batches {
            let at = segments.partition_point(|segment| segment.base_offset <= batch.header.base_offset);
            segments[at.saturating_sub(1)].take(batch);
        }
        self.segments = segments;
    }
}
