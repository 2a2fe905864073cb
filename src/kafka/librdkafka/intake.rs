//! From the client's records, one at a time and of all partitions, to blocks of one partition each.

use std::{collections::HashMap, sync::Arc};

use rdkafka::error::RDKafkaErrorCode;

use super::native::RawRecord;
use crate::kafka::client::{
    AssignmentEpoch, NextOffset, Offset, Position, SourceEvent, TopicPartition, record::RecordBlock,
};

/// Bytes after which one poll ends, whatever its limit of records: large records must not become large memory.
const BYTES_PER_POLL: usize = 4 << 20;

/// Blocks that are kept for the next poll, and the largest that is worth keeping.
const KEPT_BLOCKS: usize = 64;
const KEPT_BYTES: usize = 1 << 20;

/// The partitions that are read, and the blocks that are being filled from them.
#[derive(Default)]
pub(in crate::kafka) struct Intake {
    slots: Vec<Slot>,
    /// The client's handle of a topic and a partition → slot; filled as records come.
    by_handle: HashMap<(usize, i32), usize>,
    /// The handle of the record before, which is nearly always this one's too.
    last: Option<((usize, i32), usize)>,
    names: Vec<Arc<str>>,
    pool: Vec<RecordBlock>,
    /// Bytes taken since the last [`Intake::flush`].
    bytes: usize,
    /// Errors of partitions that came in place of records, with the client's text.
    pub(in crate::kafka) errors: Vec<(TopicPartition, RDKafkaErrorCode, String)>,
    /// Whether anything came that shows a working broker.
    pub(in crate::kafka) heard: bool,
}

struct Slot {
    partition: TopicPartition,
    epoch: AssignmentEpoch,
    /// Where reading goes on, or began if nothing came yet.
    position: Position,
    block: Option<RecordBlock>,
}

impl Intake {
    /// One shared name per topic.
    pub(in crate::kafka) fn name(&mut self, topic: &str) -> Arc<str> {
        if let Some(name) = self.names.iter().find(|name| &***name == topic) {
            return Arc::clone(name);
        }
        let name: Arc<str> = topic.into();
        self.names.push(Arc::clone(&name));
        name
    }

    /// From now on records of a partition belong to `epoch`.
    pub(in crate::kafka) fn add(&mut self, partition: TopicPartition, epoch: AssignmentEpoch) {
        self.remove(&partition);
        self.slots.push(Slot { partition, epoch, position: Position::Beginning, block: None });
    }

    /// Reading of a partition begins, or goes on, at `position`; without a word, at the beginning.
    pub(in crate::kafka) fn move_to(&mut self, partition: &TopicPartition, position: Position) {
        if let Some(slot) = self.slots.iter_mut().find(|slot| slot.partition == *partition) {
            slot.position = position;
        }
    }

    /// Every partition, and where reading of it goes on.
    pub(super) fn positions(&self) -> impl Iterator<Item = (&TopicPartition, Position)> {
        self.slots.iter().map(|slot| (&slot.partition, slot.position))
    }

    /// Records of a partition are dropped from now on.
    pub(in crate::kafka) fn remove(&mut self, partition: &TopicPartition) {
        self.slots.retain(|slot| slot.partition != *partition);
        // Slots have moved, and a handle may come to stand for another topic once its partitions are gone.
        self.by_handle.clear();
        self.last = None;
    }

    /// The assignment of a partition, if it is assigned.
    pub(in crate::kafka) fn epoch(&self, partition: &TopicPartition) -> Option<AssignmentEpoch> {
        self.slots.iter().find(|slot| slot.partition == *partition).map(|slot| slot.epoch)
    }

    /// Takes a block's memory back.
    pub(in crate::kafka) fn recycle(&mut self, block: RecordBlock) {
        if self.pool.len() < KEPT_BLOCKS && block.memory() <= KEPT_BYTES {
            self.pool.push(block);
        }
    }

    /// Takes what the client handed over; `false` when the poll has enough bytes.
    #[inline]
    pub(in crate::kafka) fn take(&mut self, raw: &RawRecord<'_>, events: &mut Vec<SourceEvent>) -> bool {
        let handle = (raw.topic_id, raw.partition);
        let slot = match self.last {
            Some((last, slot)) if last == handle => slot,
            _ => match self.find(handle, raw) {
                Some(slot) => slot,
                // Left over from an assignment that has ended.
                None => return true,
            },
        };
        if raw.error.is_some() {
            self.take_error(slot, raw, events);
            return true;
        }
        let Some(slot) = self.slots.get_mut(slot) else {
            return true;
        };
        let block = match &mut slot.block {
            Some(block) => block,
            none => none.insert(new_block(&mut self.pool, &slot.partition, slot.epoch)),
        };
        block.push(Offset(raw.offset), raw.timestamp, raw.key, raw.value, raw.headers);
        self.bytes += raw.value.map_or(0, <[u8]>::len) + raw.key.map_or(0, <[u8]>::len) + raw.headers.len();
        self.bytes < BYTES_PER_POLL
    }

    #[cold]
    fn find(&mut self, handle: (usize, i32), raw: &RawRecord<'_>) -> Option<usize> {
        let found = self.by_handle.get(&handle).copied().or_else(|| {
            let topic = raw.topic();
            let is_it = |p: &TopicPartition| p.partition == raw.partition && *p.topic == *topic;
            self.slots.iter().position(|slot| is_it(&slot.partition))
        })?;
        self.by_handle.insert(handle, found);
        self.last = Some((handle, found));
        Some(found)
    }

    #[cold]
    fn take_error(&mut self, slot: usize, raw: &RawRecord<'_>, events: &mut Vec<SourceEvent>) {
        let Some(slot) = self.slots.get_mut(slot) else {
            return;
        };
        // What came before stays before.
        if let Some(block) = slot.block.take() {
            if let Some(last) = block.records().last() {
                slot.position = Position::At(last.offset.next());
            }
            events.push(SourceEvent::Records(block));
        }
        let partition = slot.partition.clone();
        let text = || String::from_utf8_lossy(raw.value.unwrap_or_default()).into_owned();
        match raw.error {
            None => {}
            Some(RDKafkaErrorCode::PartitionEOF) => {
                self.heard = true;
                let next = NextOffset(raw.offset);
                events.push(SourceEvent::EndOfPartition { partition, epoch: slot.epoch, next });
            }
            Some(RDKafkaErrorCode::AutoOffsetReset | RDKafkaErrorCode::OffsetOutOfRange) => {
                self.heard = true;
                tracing::debug!(%partition, raw.offset, "out of range: {}", text());
                let next = (raw.offset >= 0).then_some(NextOffset(raw.offset));
                events.push(SourceEvent::OutOfRange { partition, epoch: slot.epoch, next });
            }
            Some(code) => self.errors.push((partition, code, text())),
        }
    }

    /// Closes the blocks of this poll.
    pub(in crate::kafka) fn flush(&mut self, events: &mut Vec<SourceEvent>) {
        self.bytes = 0;
        for slot in &mut self.slots {
            if let Some(block) = slot.block.take() {
                self.heard = true;
                if let Some(last) = block.records().last() {
                    slot.position = Position::At(last.offset.next());
                }
                events.push(SourceEvent::Records(block));
            }
        }
    }
}

fn new_block(pool: &mut Vec<RecordBlock>, partition: &TopicPartition, epoch: AssignmentEpoch) -> RecordBlock {
    match pool.pop() {
        Some(used) => used.reuse(partition.clone(), epoch),
        None => RecordBlock::new(partition.clone(), epoch),
    }
}
