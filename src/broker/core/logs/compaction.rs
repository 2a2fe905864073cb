//! Compaction: of the records with one key the last stays (Kafka's `Cleaner`). Offsets stay what they were and leave
//! holes; a batch of which records go is packed again in its own codec, and the last one of a producer stays without any;
//! what a transaction left open, and everything after it, waits.

use std::{
    collections::{BTreeSet, VecDeque},
    mem,
};

use kafka_protocol::records::Compression;

use super::{
    Logs,
    batch::{Batch, Header, Marker},
    codec::{pack, unpack},
    config::Settings,
    latest::Latest,
    partition::{Partition, Segment},
    producers::Aborted,
    records::Records,
};

/// One run over a partition.
struct Run<'a> {
    latest: Latest,
    now_ms: i64,
    /// When what is met for the first time may go.
    horizon: i64,
    bound: usize,
    /// Producers of whose transaction a batch was met, until its marker.
    met: BTreeSet<i64>,
    partition: &'a Partition,
    /// Markers of aborted transactions of which nothing is left.
    forgotten: BTreeSet<i64>,
}

impl Partition {
    /// Compacts what there is to be compacted, if it is worth it.
    pub(super) fn compact_if_worth_it(&mut self, settings: &Settings, now_ms: i64, bound: usize) {
        let until = self.compactable_until(settings, now_ms);
        if settings.compact && self.is_worth_compacting(until, settings, now_ms) {
            self.compact(until, settings, now_ms, bound);
        }
    }

    /// Below this offset nothing is open, in the last segment, or too young.
    fn compactable_until(&self, settings: &Settings, now_ms: i64) -> i64 {
        let youngest = now_ms.saturating_sub(settings.min_compaction_lag_ms);
        let too_young = |segment: &&Segment| settings.min_compaction_lag_ms > 0 && segment.largest_timestamp > youngest;
        let closed = self.segments.iter().take(self.segments.len() - 1);
        let young = closed.filter(|segment| segment.base_offset >= self.clean_until).find(too_young);
        let active = self.segments.back().map_or(self.end, |segment| segment.base_offset);
        active.min(young.map_or(active, |segment| segment.base_offset)).min(self.last_stable_offset())
    }

    fn is_worth_compacting(&self, until: i64, settings: &Settings, now_ms: i64) -> bool {
        let (clean, dirty) = (self.find(self.clean_until), self.find(until));
        if clean >= dirty {
            return false;
        }
        let bytes = |from: usize, to: usize| self.batches.range(from..to).map(|b| b.bytes.len()).sum::<usize>() as f64;
        let dirty_bytes = bytes(clean, dirty);
        let oldest = self.batches[clean].header.max_timestamp;
        dirty_bytes / (bytes(0, clean) + dirty_bytes) > settings.min_dirty_ratio
            || now_ms.saturating_sub(oldest) > settings.max_compaction_lag_ms
    }

    /// Compacts all but the last batch, whatever the topic says of when.
    pub(super) fn compact_now(&mut self, settings: &Settings, now_ms: i64, bound: usize) {
        let Some(last) = self.batches.back().map(|batch| batch.header.base_offset) else { return };
        if self.segments.back().is_some_and(|segment| segment.base_offset < last) {
            self.segments.push_back(Segment::new(last));
        }
        self.compact(last.min(self.last_stable_offset()), settings, now_ms, bound);
    }

    fn compact(&mut self, until: i64, settings: &Settings, now_ms: i64, bound: usize) {
        let mut run = Run {
            latest: self.latest_offsets(until, bound),
            now_ms,
            horizon: now_ms.saturating_add(settings.delete_retention_ms),
            bound,
            met: BTreeSet::new(),
            partition: self,
            forgotten: BTreeSet::new(),
        };
        let at = self.find(until);
        let mut kept: VecDeque<Batch> = self.batches.range(..at).filter_map(|batch| run.keep(batch)).collect();
        let forgotten = mem::take(&mut run.forgotten);
        kept.extend(self.batches.split_off(at));
        self.cost = kept.iter().map(Batch::cost).sum();
        self.batches = kept;
        self.aborted.retain(|aborted| !forgotten.contains(&aborted.last_offset));
        self.clean_until = until;
        self.rebuild_segments();
    }

    /// The last offset of every key that was written since the last run, but in transactions that were aborted.
    fn latest_offsets(&self, until: i64, bound: usize) -> Latest {
        let mut latest = Latest::default();
        let dirty = self.batches.range(self.find(self.clean_until)..self.find(until));
        for batch in dirty.filter(|batch| !batch.header.is_control() && !self.is_aborted(&batch.header)) {
            let Some(Ok(unpacked)) = batch.header.compression().map(|codec| unpack(codec, batch.payload(), bound))
            else {
                continue;
            };
            for record in Records::new(&unpacked).filter_map(Result::ok) {
                let offset = batch.header.base_offset + i64::from(record.offset_delta);
                if let Some(key) = record.key {
                    latest.note(key, offset);
                }
            }
        }
        latest
    }

    fn is_aborted(&self, header: &Header) -> bool {
        let first = self.aborted.partition_point(|aborted| aborted.last_offset < header.base_offset);
        let theirs =
            |aborted: &Aborted| aborted.producer_id == header.producer_id && aborted.first_offset <= header.base_offset;
        header.is_transactional() && self.aborted[first..].iter().any(theirs)
    }
}

impl Run<'_> {
    /// What is left of a batch.
    fn keep(&mut self, batch: &Batch) -> Option<Batch> {
        let header = &batch.header;
        if header.is_control() {
            return self.keep_marker(batch);
        }
        if header.is_transactional() {
            self.met.insert(header.producer_id);
        }
        if self.partition.is_aborted(header) {
            return self.keep_sequence(batch);
        }
        self.keep_records(batch)
    }

    /// Of a batch of which no record is left: one without any, if it holds the last sequence of a producer that the
    /// partition knows, which can be found in the log again then (Kafka's `RETAIN_EMPTY`).
    fn keep_sequence(&self, batch: &Batch) -> Option<Batch> {
        if !self.partition.producers.is_last(&batch.header) {
            return None;
        }
        let header = Header { count: 0, base_timestamp: -1, ..batch.header.with_compression(Compression::None) };
        Some(Batch::build(header, &[]))
    }

    /// A marker stays while there are records of its transaction, and for the time of a tombstone after them.
    fn keep_marker(&mut self, batch: &Batch) -> Option<Batch> {
        if self.met.remove(&batch.header.producer_id) {
            return Some(batch.clone());
        }
        let horizon = batch.delete_horizon.unwrap_or(self.horizon);
        if horizon > self.now_ms {
            return Some(Batch { delete_horizon: Some(horizon), ..batch.clone() });
        }
        if Marker::read(batch).is_some_and(|marker| !marker.commit) {
            self.forgotten.insert(batch.header.base_offset);
        }
        None
    }

    fn keep_records(&self, batch: &Batch) -> Option<Batch> {
        let header = &batch.header;
        let codec = header.compression()?;
        // It was read when it came.
        let Ok(unpacked) = unpack(codec, batch.payload(), self.bound) else { return Some(batch.clone()) };
        let tombstones_go = batch.delete_horizon.is_some_and(|horizon| horizon <= self.now_ms);
        let (mut payload, mut count, mut latest, mut tombstones) = (Vec::new(), 0, -1, false);
        for record in Records::new(&unpacked).filter_map(Result::ok) {
            let offset = header.base_offset + i64::from(record.offset_delta);
            let newest = record.key.is_some_and(|key| self.latest.of(key).is_none_or(|newest| newest <= offset));
            if !newest || (record.value.is_none() && tombstones_go) {
                continue;
            }
            tombstones |= record.value.is_none();
            latest = latest.max(header.base_timestamp.saturating_add(record.timestamp_delta));
            payload.extend_from_slice(record.bytes);
            count += 1;
        }
        let delete_horizon = tombstones.then(|| batch.delete_horizon.unwrap_or(self.horizon));
        if count == 0 {
            return self.keep_sequence(batch);
        }
        if count == header.count {
            return Some(Batch { delete_horizon, ..batch.clone() });
        }
        let max_timestamp = if header.is_log_append_time() { header.max_timestamp } else { latest };
        let packed = pack(codec, &payload)?;
        Some(Batch { delete_horizon, ..Batch::build(Header { count, max_timestamp, ..*header }, &packed) })
    }
}

impl Logs {
    /// Compacts every partition for which it is worth it.
    pub(super) fn compact(&mut self, now_ms: i64) {
        let bound = self.options.max_unpacked_batch;
        for topic in self.topics.values_mut().filter(|topic| topic.settings.compact) {
            for partition in &mut topic.partitions {
                let before = partition.cost;
                partition.compact_if_worth_it(&topic.settings, now_ms, bound);
                self.cost = self.cost - before + partition.cost;
            }
        }
    }
}
