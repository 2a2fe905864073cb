//! What a partition remembers of its producers: sequences, epochs, open transactions (KIP-98, `ProducerStateManager`).

use std::collections::{BTreeMap, VecDeque};

use kafka_protocol::error::ResponseError;

use super::batch::{Batch, Header, Marker};

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
}

impl Producers {
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
        let producer = self.known.entry(header.producer_id).or_insert(Producer::new(header.producer_epoch));
        if !header.is_control() {
            producer.append(header);
            return None;
        }
        let marker = Marker::read(batch)?;
        producer.renew(marker.producer_epoch);
        producer.coordinator_epoch = marker.coordinator_epoch;
        (producer.last_offset, producer.last_timestamp) = (header.last_offset(), header.max_timestamp);
        let first_offset = producer.transaction.take().filter(|_| !marker.commit)?;
        Some(Aborted { producer_id: marker.producer_id, first_offset, last_offset: header.base_offset })
    }

    /// Where the oldest open transaction begins.
    pub(super) fn first_open(&self) -> Option<i64> {
        self.known.values().filter_map(|producer| producer.transaction).min()
    }

    /// Forgets what was written from `end` on; `left` is what remains of the log.
    pub(super) fn truncate<'a>(&mut self, end: i64, left: impl Iterator<Item = &'a Batch>) {
        let known = &mut self.known;
        known.retain(|_, producer| producer.last_offset < end);
        // Those who wrote at the end are found again from what is left of them.
        let kept: Vec<i64> = known.keys().copied().collect();
        for batch in left.filter(|batch| kept.binary_search(&batch.header.producer_id).is_err()) {
            // What was aborted before is in the list already.
            let _aborted: Option<Aborted> = self.note(batch);
        }
    }

    /// Forgets producers that have written nothing since `time` and have no transaction open.
    pub(super) fn expire(&mut self, time: i64) {
        self.known.retain(|_, producer| producer.transaction.is_some() || producer.last_timestamp >= time);
    }
}
