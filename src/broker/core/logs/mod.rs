//! Topics, their partitions and the batches in them. Batches stay as the client sent them, but for what a broker has to
//! write: base offset, leader epoch, and the time where the log dates records.
//!
//! Files in reading order: `batch` (the header), `producers` (sequences, epochs, open transactions), `partition` (one
//! log), `config` (what a topic can be told), `topics` (which there are); then what is asked of them.
//!
//! Invariants:
//! 1. Offsets grow by one a record and are never given twice, unless a fault loses the tail of a log.
//! 2. `start <= last stable offset <= end` in every partition; what is appended can be read at once (there is one replica).
//! 3. What was acknowledged goes only by retention, compaction, DeleteRecords, DeleteTopics or a fault.

mod batch;
mod config;
mod options;
mod partition;
mod producers;
mod topics;

use std::collections::BTreeMap;

use kafka_protocol::{
    error::ResponseError,
    messages::{ProducerId, TopicName},
};
use uuid::Uuid;

pub use batch::Marker;
pub use options::LogOptions;
pub use partition::Partition;
pub use topics::Topic;

use super::broker::BrokerOptions;
use crate::clock::Instant;

/// Every topic of the broker.
#[derive(Debug)]
pub struct Logs {
    options: LogOptions,
    /// Milliseconds since 1970 at [`Instant::ZERO`].
    epoch_ms: i64,
    seed: u64,
    topics: BTreeMap<TopicName, Topic>,
    names: BTreeMap<Uuid, TopicName>,
    /// Topics that there ever were: the next one's number.
    created: u64,
    /// What all batches cost, in bytes.
    cost: usize,
    next_producer_id: i64,
    /// Partitions that were written to, or are gone, since fetches were last looked at.
    changed: Vec<(Uuid, i32)>,
}

/// A write in a transaction that is the first of its producer in a partition.
#[derive(Copy, Clone, Debug)]
pub struct TransactionalWrite<'a> {
    /// By this id the coordinator knows the producer.
    pub transactional_id: &'a str,
    /// The producer as the batch names it.
    pub producer_id: i64,
    /// Its epoch as the batch names it.
    pub producer_epoch: i16,
    /// The topic that it writes to.
    pub topic: &'a TopicName,
    /// The partition that it writes to.
    pub partition: i32,
}

/// Who knows which partitions a transaction has (KIP-890: no batch is taken that its coordinator does not know of, or
/// nobody would ever end its transaction).
pub trait OpenTransactions {
    /// Whether the partition is in the producer's ongoing transaction.
    ///
    /// # Errors
    /// As the response has to say it: TRANSACTION_ABORTABLE if it is not (older producers are told INVALID_TXN_STATE),
    /// INVALID_PRODUCER_EPOCH, INVALID_PRODUCER_ID_MAPPING, CONCURRENT_TRANSACTIONS.
    fn admits(&self, write: TransactionalWrite<'_>) -> Result<(), ResponseError>;
}

impl Logs {
    /// No topics.
    #[must_use]
    pub fn new(options: &BrokerOptions) -> Self {
        Self {
            options: options.logs.clone(),
            epoch_ms: options.epoch_ms,
            seed: options.seed,
            topics: BTreeMap::new(),
            names: BTreeMap::new(),
            created: 0,
            cost: 0,
            next_producer_id: 0,
            changed: Vec::new(),
        }
    }

    /// Milliseconds since 1970.
    fn wall_ms(&self, now: Instant) -> i64 {
        self.epoch_ms + i64::try_from(now.saturating_since(Instant::ZERO).as_millis()).unwrap_or(i64::MAX / 2)
    }

    /// A topic by its name.
    #[must_use]
    pub fn topic(&self, name: &TopicName) -> Option<&Topic> {
        self.topics.get(name)
    }

    /// Every topic with its name, in the order of names.
    pub fn topics(&self) -> impl Iterator<Item = (&TopicName, &Topic)> {
        self.topics.iter()
    }

    /// A partition.
    #[must_use]
    pub fn partition(&self, topic: &TopicName, partition: i32) -> Option<&Partition> {
        self.topics.get(topic)?.partitions.get(usize::try_from(partition).ok()?)
    }

    /// An id that no producer has had.
    pub const fn new_producer_id(&mut self) -> ProducerId {
        let id = self.next_producer_id;
        self.next_producer_id += 1;
        ProducerId(id)
    }

    /// Writes the end of a producer's transaction to a partition, whether it has written there or not; the marker's
    /// offset. Readers that waited for it are answered when the request in hand is done with.
    ///
    /// # Errors
    /// UNKNOWN_TOPIC_OR_PARTITION if the partition is gone: nothing to end then. INVALID_PRODUCER_EPOCH if a later epoch
    /// has written here, TRANSACTION_COORDINATOR_FENCED if a later coordinator has.
    pub fn write_marker(
        &mut self,
        topic: &TopicName,
        partition: i32,
        marker: Marker,
        now: Instant,
    ) -> Result<i64, ResponseError> {
        let now_ms = self.wall_ms(now);
        let written = self.change(topic, partition, |log, settings| log.write_marker(marker, now_ms, settings));
        written.unwrap_or(Err(ResponseError::UnknownTopicOrPartition))
    }

    /// A fault: a partition loses what it holds from an offset on (from the batch in which it is), as after an unclean
    /// election, and a new leader epoch begins. `false`: no such partition.
    pub fn lose_tail(&mut self, topic: &TopicName, partition: i32, from: i64) -> bool {
        self.change(topic, partition, |log, _| log.truncate(from)).is_some()
    }

    /// A fault without loss: a new leader epoch begins in every partition, as after a restart.
    pub fn elect_leaders(&mut self) {
        self.topics.values_mut().flat_map(|topic| &mut topic.partitions).for_each(Partition::elect);
    }

    /// Changes a partition, and keeps books of it; `None`: no such partition.
    fn change<T>(
        &mut self,
        topic: &TopicName,
        index: i32,
        change: impl FnOnce(&mut Partition, &config::Settings) -> T,
    ) -> Option<T> {
        let topic = self.topics.get_mut(topic)?;
        let partition = topic.partitions.get_mut(usize::try_from(index).ok()?)?;
        let before = partition.cost;
        let result = change(partition, &topic.settings);
        self.cost = self.cost - before + partition.cost;
        self.changed.push((topic.id, index));
        Some(result)
    }
}
