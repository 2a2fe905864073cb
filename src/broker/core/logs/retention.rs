//! Retention: whole segments go when they are too old, or too many bytes (`UnifiedLog.deleteOldSegments`).

use kafka_protocol::error::ResponseError;

use super::{
    Logs,
    config::Settings,
    partition::{Partition, Segment},
};

impl Partition {
    /// Deletes the segments that the topic no longer wants; the last one too, if its time has come.
    pub(super) fn retain(&mut self, settings: &Settings, now_ms: i64) {
        if !settings.delete {
            return;
        }
        if let Some(most) = settings.retention_bytes {
            let mut over = self.segments.iter().map(|segment| segment.bytes).sum::<usize>().saturating_sub(most);
            self.delete_segments(|segment| {
                let goes = over > 0 && over >= segment.bytes;
                over = over.saturating_sub(segment.bytes);
                goes
            });
        }
        if let Some(age) = settings.retention_ms {
            // What has no time has no age.
            let dated = |segment: &Segment| segment.largest_timestamp >= 0;
            self.delete_segments(|s| dated(s) && now_ms.saturating_sub(s.largest_timestamp) > age);
        }
    }

    fn delete_segments(&mut self, mut goes: impl FnMut(&Segment) -> bool) {
        while self.segments.front().is_some_and(|segment| segment.bytes > 0 && goes(segment)) {
            if self.segments.len() == 1 {
                self.segments.push_back(Segment::new(self.end));
            }
            let next = self.segments.get(1).map_or(self.end, |next| next.base_offset);
            self.segments.pop_front();
            self.delete_before(next);
        }
    }
}

impl Logs {
    /// Lets retention have its way with every topic.
    pub(super) fn retain(&mut self, now_ms: i64) {
        for topic in self.topics.values_mut() {
            for (index, partition) in (0..).zip(&mut topic.partitions) {
                let (before, start) = (partition.cost, partition.start());
                partition.retain(&topic.settings, now_ms);
                self.cost = self.cost - before + partition.cost;
                if partition.start() > start {
                    self.changed.push((topic.id, index));
                }
            }
        }
    }

    /// Forgets producers that were idle too long.
    pub(super) fn expire_producers(&mut self, now_ms: i64) {
        let expired = now_ms - i64::try_from(self.options.producer_id_expiration.as_millis()).unwrap_or(i64::MAX);
        for topic in self.topics.values_mut() {
            for (index, partition) in topic.partitions.iter_mut().enumerate() {
                let before = partition.producers.count();
                partition.producers.expire(expired);
                self.remembered.note((topic.id, index), before, partition.producers.count());
            }
        }
    }

    /// Makes room for so many bytes, if retention can.
    ///
    /// # Errors
    /// KAFKA_STORAGE_ERROR if it cannot: as a broker whose disk is full.
    pub(super) fn make_room(&mut self, bytes: usize, now_ms: i64) -> Result<(), ResponseError> {
        if self.cost + bytes > self.options.max_bytes {
            self.retain(now_ms);
        }
        if self.cost + bytes > self.options.max_bytes {
            return Err(ResponseError::KafkaStorageError);
        }
        Ok(())
    }
}
