//! What a partition remembers of its producers: sequences, epochs, open transactions (KIP-98, `ProducerStateManager`).

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use kafka_protocol::error::ResponseError;

use super::batch::{Batch, Header, Marker};
use crate::broker::core::sizes::map;

/// Batches of a producer that can be recognised when they come again: as many as an idempotent producer has in flight.
const REMEMBERED: usize = 5;

/// A batch that was appended.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(super) struct Appended {
    pub(super) first_sequence: i32,
    pub(super) last_sequence: i32,
    pub(super) base_offset: i64,
    pub(super) last_offset: i64,
    pub(super) max_timestamp: i64,
}

impl Appended {
    const fn of(header: &Header) -> Self {
        Self {
            first_sequence: header.base_sequence,
            last_sequence: header.last_sequence(),
            base_offset: header.base_offset,
            last_offset: header.last_offset(),
            max_timestamp: header.max_timestamp,
        }
    }
}

/// A producer as a partition knows it.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Producer {
    epoch: i16,
    coordinator_epoch: i32,
    batches: VecDeque<Appended>,
    /// Where its open transaction begins.
    transaction: Option<i64>,
    /// The last offset that it or its coordinator wrote.
    last_offset: i64,
    last_timestamp: i64,
}

impl Producer {
    const fn new(epoch: i16) -> Self {
        Self {
            epoch,
            coordinator_epoch: -1,
            batches: VecDeque::new(),
            transaction: None,
            last_offset: -1,
            last_timestamp: -1,
        }
    }

    fn renew(&mut self, epoch: i16) {
        if self.epoch != epoch {
            self.epoch = epoch;
            self.batches.clear();
        }
    }

    fn append(&mut self, header: &Header) {
        self.renew(header.producer_epoch);
        // What was written without a sequence, as a coordinator does, is nothing to be recognised.
        if header.base_sequence >= 0 {
            if self.batches.len() == REMEMBERED {
                self.batches.pop_front();
            }
            self.batches.push_back(Appended::of(header));
        }
        if header.is_transactional() {
            self.transaction.get_or_insert(header.base_offset);
        }
        (self.last_offset, self.last_timestamp) = (header.last_offset(), header.max_timestamp);
    }

    /// Ends its transaction; where that began, if one was open.
    fn end(&mut self, marker: &Marker, header: &Header) -> Option<i64> {
        self.renew(marker.producer_epoch);
        self.coordinator_epoch = marker.coordinator_epoch;
        (self.last_offset, self.last_timestamp) = (header.last_offset(), header.max_timestamp);
        self.transaction.take()
    }
}

/// Every producer once, so that nobody has to look at all of them.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
struct Order {
    /// Those with an open transaction, by where it begins.
    open: BTreeSet<(i64, i64)>,
    /// The others, by the last offset that they wrote: who has been idle longest is the first.
    idle: BTreeSet<(i64, i64)>,
}

impl Order {
    const fn of(&mut self, producer: &Producer) -> (&mut BTreeSet<(i64, i64)>, i64) {
        match producer.transaction {
            Some(first) => (&mut self.open, first),
            None => (&mut self.idle, producer.last_offset),
        }
    }

    fn insert(&mut self, id: i64, producer: &Producer) {
        let (those, offset) = self.of(producer);
        those.insert((offset, id));
    }

    fn remove(&mut self, id: i64, producer: &Producer) {
        let (those, offset) = self.of(producer);
        those.remove(&(offset, id));
    }
}

/// How many producers a partition knows.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Count {
    pub(super) all: usize,
    /// Those without an open transaction: they may be forgotten.
    pub(super) idle: usize,
}

/// A transaction that was aborted, for those who read only what is committed.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(super) struct Aborted {
    pub(super) producer_id: i64,
    pub(super) first_offset: i64,
    /// The offset of its marker.
    pub(super) last_offset: i64,
}

/// Every producer that a partition knows.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Producers {
    known: BTreeMap<i64, Producer>,
    order: Order,
}

impl Producers {
    /// What so many producers take, in bytes.
    pub(super) const fn size(count: usize) -> usize {
        // The batches of each are an allocation that doubles.
        let batches = REMEMBERED.next_power_of_two() * size_of::<Appended>() + 16;
        map::<(i64, Producer)>(count) + 2 * map::<(i64, i64)>(count) + count * batches
    }

    pub(super) fn count(&self) -> Count {
        Count { all: self.known.len(), idle: self.order.idle.len() }
    }

    /// How many bytes more it takes to know the producer of a batch too.
    pub(super) fn growth_by(&self, header: &Header) -> usize {
        if !header.has_producer() || self.known.contains_key(&header.producer_id) {
            return 0;
        }
        Self::size(self.known.len() + 1) - Self::size(self.known.len())
    }

    /// The batch that this one is a copy of.
    pub(super) fn duplicate(&self, header: &Header) -> Option<Appended> {
        let producer = self.known.get(&header.producer_id).filter(|known| known.epoch == header.producer_epoch)?;
        let sequences = (header.base_sequence, header.last_sequence());
        producer.batches.iter().find(|known| (known.first_sequence, known.last_sequence) == sequences).copied()
    }

    /// Whether a batch of a client, which is no duplicate, may be appended.
    ///
    /// A producer that is not known here may begin with any sequence, as since Kafka 2.5: what it wrote may have been
    /// deleted, so there is no UNKNOWN_PRODUCER_ID any more.
    pub(super) fn check(&self, header: &Header) -> Result<(), ResponseError> {
        let Some(producer) = self.known.get(&header.producer_id) else { return Ok(()) };
        if header.producer_epoch < producer.epoch {
            return Err(ResponseError::InvalidProducerEpoch);
        }
        let in_sequence = if header.producer_epoch > producer.epoch {
            header.base_sequence == 0
        } else {
            // After the largest comes 0. Nothing remembered in this epoch: it begins with 0.
            let last = producer.batches.back().map_or(-1, |batch| batch.last_sequence);
            header.base_sequence == last.wrapping_add(1) & i32::MAX
        };
        if !in_sequence {
            return Err(ResponseError::OutOfOrderSequenceNumber);
        }
        if producer.transaction.is_some() && !header.is_transactional() {
            return Err(ResponseError::InvalidTxnState);
        }
        Ok(())
    }

    /// Whether a producer has a transaction open here, in this epoch.
    pub(super) fn in_transaction(&self, producer_id: i64, epoch: i16) -> bool {
        self.known.get(&producer_id).is_some_and(|known| known.epoch == epoch && known.transaction.is_some())
    }

    /// Whether a marker may be written.
    pub(super) fn check_marker(&self, marker: &Marker) -> Result<(), ResponseError> {
        let Some(producer) = self.known.get(&marker.producer_id) else { return Ok(()) };
        if marker.producer_epoch < producer.epoch {
            return Err(ResponseError::InvalidProducerEpoch);
        }
        if marker.coordinator_epoch < producer.coordinator_epoch {
            return Err(ResponseError::TransactionCoordinatorFenced);
        }
        Ok(())
    }

    /// Takes note of a batch that was appended; the transaction, if it was aborted with it.
    pub(super) fn note(&mut self, batch: &Batch) -> Option<Aborted> {
        let header = &batch.header;
        if !header.has_producer() {
            return None;
        }
        if !header.is_control() {
            self.change(header, |producer| producer.append(header));
            return None;
        }
        let marker = Marker::read(batch)?;
        let first_offset = self.change(header, |producer| producer.end(&marker, header)).filter(|_| !marker.commit)?;
        Some(Aborted { producer_id: marker.producer_id, first_offset, last_offset: header.base_offset })
    }

    /// Changes the producer of a batch, who is known from now on.
    fn change<T>(&mut self, header: &Header, change: impl FnOnce(&mut Producer) -> T) -> T {
        let id = header.producer_id;
        let producer = self.known.entry(id).or_insert(Producer::new(header.producer_epoch));
        self.order.remove(id, producer);
        let result = change(producer);
        self.order.insert(id, producer);
        result
    }

    fn retain(&mut self, keep: impl Fn(&Producer) -> bool) {
        let Self { known, order } = self;
        known.retain(|id, producer| {
            let kept = keep(producer);
            if !kept {
                order.remove(*id, producer);
            }
            kept
        });
    }

    /// Whether a batch has the last sequence of its producer.
    pub(super) fn is_last(&self, header: &Header) -> bool {
        let last = self.known.get(&header.producer_id).and_then(|known| known.batches.back());
        last.is_some_and(|last| last.last_offset == header.last_offset())
    }

    /// Where the oldest open transaction begins.
    pub(super) fn first_open(&self) -> Option<i64> {
        self.order.open.first().map(|(first, _)| *first)
    }

    /// Forgets what was written from `end` on; `left` is what remains of the log.
    pub(super) fn truncate<'a>(&mut self, end: i64, left: impl Iterator<Item = &'a Batch>) {
        self.retain(|producer| producer.last_offset < end);
        // Those who wrote at the end are found again from what is left of them.
        let kept: Vec<i64> = self.known.keys().copied().collect();
        for batch in left.filter(|batch| kept.binary_search(&batch.header.producer_id).is_err()) {
            // What was aborted before is in the list already.
            let _aborted: Option<Aborted> = self.note(batch);
        }
    }

    /// Forgets producers that have written nothing since `time` and have no transaction open.
    pub(super) fn expire(&mut self, time: i64) {
        self.retain(|producer| producer.transaction.is_some() || producer.last_timestamp >= time);
    }

    /// Forgets who has been idle longest of those that have no transaction open.
    pub(super) fn forget_longest_idle(&mut self) {
        if let Some((_, id)) = self.order.idle.pop_first() {
            self.known.remove(&id);
        }
    }

    /// The sequence with which a producer goes on; of one that is not known, 0.
    #[cfg(test)]
    pub(super) fn next_sequence(&self, producer_id: i64) -> i32 {
        let last = self.known.get(&producer_id).and_then(|known| known.batches.back());
        last.map_or(0, |batch| batch.last_sequence + 1)
    }
}
