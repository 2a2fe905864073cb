//! Topics, their partitions and the batches in them. Batches stay as the client sent them, but for what a broker has to
//! write: base offset, leader epoch, and the time where the log dates records.
//!
//! Files in reading order: `batch` (the header), `records`, `codec` and `stream` (what is inside), `producers` (sequences, epochs,
//! open transactions), `partition` (one log), `config` (what a topic can be told), `topics` (which there are). What is
//! asked of them: `incoming` (what may be appended) and `produce`, `fetch`, `list_offsets`, `epochs`, `metadata`,
//! `create_topics`, `delete`, `describe_configs`, `alter_configs` and `twice` (what they are told twice). What happens by itself: `retention`,
//! `compaction`, and what `room` there is for producers.
//!
//! Invariants:
//! 1. Offsets grow by one a record and are never given twice, unless a fault loses the tail of a log.
//! 2. `start <= last stable offset <= end` in every partition; what is appended can be read at once (there is one replica).
//! 3. What was acknowledged goes only by retention, compaction, DeleteRecords, DeleteTopics or a fault.

mod alter_configs;
mod batch;
#[cfg(test)]
mod bench;
mod codec;
mod compaction;
#[cfg(test)]
mod compaction_tests;
mod config;
mod create_topics;
mod delete;
mod describe_configs;
mod epochs;
mod fetch;
#[cfg(test)]
mod fetch_tests;
mod incoming;
mod latest;
mod list_offsets;
mod metadata;
#[cfg(test)]
mod model_tests;
mod options;
mod partition;
mod produce;
#[cfg(test)]
mod producer_tests;
mod producers;
mod records;
mod retention;
mod room;
#[cfg(test)]
mod room_tests;
mod stream;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod topic_tests;
mod topics;
mod twice;

use std::collections::BTreeMap;

use kafka_protocol::{
    error::ResponseError,
    messages::{InitProducerIdResponse, ProducerId, RequestKind, ResponseKind, TopicName},
    protocol::StrBytes,
};
use uuid::Uuid;

pub(super) use batch::Marker;
pub use options::LogOptions;
pub(super) use partition::Partition;
pub(super) use topics::Topic;

use super::{
    broker::BrokerOptions,
    request::{Answers, Reply, Ticket},
};
use crate::{clock::Instant, tuple::mix};

/// Every topic of the broker.
#[derive(Debug)]
pub(in crate::broker::core) struct Logs {
    options: LogOptions,
    host: StrBytes,
    port: i32,
    cluster_id: StrBytes,
    /// Milliseconds since 1970 at [`Instant::ZERO`].
    epoch_ms: i64,
    seed: u64,
    topics: BTreeMap<TopicName, Topic>,
    names: BTreeMap<Uuid, TopicName>,
    /// Topics that there ever were: the next one's number.
    created: u64,
    /// What all batches cost, in bytes.
    cost: usize,
    remembered: room::Remembered,
    next_producer_id: i64,
    /// Partitions that were written to, or are gone, since fetches were last looked at.
    changed: Vec<(Uuid, i32)>,
    waiting: fetch::Waiting,
    next_retention: Instant,
    next_compaction: Instant,
}

/// A write in a transaction that is the first of its producer in a partition.
#[derive(Copy, Clone, Debug)]
pub(in crate::broker::core) struct TransactionalWrite<'a> {
    /// By this id the coordinator knows the producer.
    pub(in crate::broker::core) transactional_id: &'a str,
    /// The producer as the batch names it.
    pub(in crate::broker::core) producer_id: i64,
    /// Its epoch as the batch names it.
    pub(in crate::broker::core) producer_epoch: i16,
    /// The topic that it writes to.
    pub(in crate::broker::core) topic: &'a TopicName,
    /// The partition that it writes to.
    pub(in crate::broker::core) partition: i32,
}

/// Who knows which partitions a transaction has (KIP-890: no batch is taken that its coordinator does not know of, or
/// nobody would ever end its transaction).
pub(in crate::broker::core) trait OpenTransactions {
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
    pub(in crate::broker::core) fn new(options: &BrokerOptions) -> Self {
        Self {
            options: options.logs.clone(),
            host: StrBytes::from_string(options.host.clone()),
            port: options.port.into(),
            cluster_id: StrBytes::from_string(format!("stormglass-{:011x}", mix(options.seed) >> 20)),
            epoch_ms: options.epoch_ms,
            seed: options.seed,
            topics: BTreeMap::new(),
            names: BTreeMap::new(),
            created: 0,
            cost: 0,
            remembered: room::Remembered::default(),
            next_producer_id: 0,
            changed: Vec::new(),
            waiting: fetch::Waiting::default(),
            next_retention: Instant::ZERO + options.logs.retention_check_interval,
            next_compaction: Instant::ZERO + options.logs.cleaner_backoff,
        }
    }

    /// Works on a request that is about topics or their logs; `None`: it is not.
    pub(in crate::broker::core) fn handle(
        &mut self,
        (ticket, version): (Ticket, i16),
        request: &RequestKind,
        transactions: &dyn OpenTransactions,
        now: Instant,
    ) -> Option<Reply> {
        let response: ResponseKind = match request {
            RequestKind::Produce(produce) => return Some(self.produce(produce, version, transactions, now)),
            RequestKind::Fetch(fetch) => return Some(self.fetch(ticket, fetch, version, now)),
            RequestKind::ListOffsets(list) => self.list_offsets(list, version).into(),
            RequestKind::Metadata(metadata) => self.metadata(metadata, version).into(),
            RequestKind::CreateTopics(create) => self.create_topics(create).into(),
            RequestKind::DeleteTopics(delete) => self.delete_topics(delete).into(),
            RequestKind::DeleteRecords(delete) => self.delete_records(delete).into(),
            RequestKind::InitProducerId(init) if init.transactional_id.is_none() => self.init_producer_id().into(),
            RequestKind::OffsetForLeaderEpoch(epochs) => self.offset_for_leader_epoch(epochs).into(),
            RequestKind::DescribeConfigs(describe) => self.describe_configs(describe).into(),
            RequestKind::AlterConfigs(alter) => self.alter_configs(alter).into(),
            RequestKind::CreatePartitions(create) => self.create_partitions(create).into(),
            RequestKind::IncrementalAlterConfigs(alter) => self.incremental_alter_configs(alter).into(),
            RequestKind::DescribeCluster(describe) => self.describe_cluster(describe).into(),
            _ => return None,
        };
        Some(Reply::Now(response))
    }

    /// When [`Logs::tick`] is due.
    pub(in crate::broker::core) fn due(&self) -> Instant {
        // Without records there is nothing to keep up.
        let upkeep = if self.cost == 0 { Instant::FAR_FUTURE } else { self.next_retention.min(self.next_compaction) };
        self.waiting.due().min(upkeep)
    }

    /// Answers who has waited long enough, and does the upkeep that is due.
    pub(in crate::broker::core) fn tick(&mut self, now: Instant, answers: &mut Answers) {
        self.end_patience(now, answers);
        if self.next_retention <= now {
            self.next_retention = now + self.options.retention_check_interval;
            self.retain(self.wall_ms(now));
            self.expire_producers(self.wall_ms(now));
        }
        if self.next_compaction <= now {
            self.next_compaction = now + self.options.cleaner_backoff;
            self.compact(self.wall_ms(now));
        }
    }

    /// Milliseconds since 1970.
    fn wall_ms(&self, now: Instant) -> i64 {
        self.epoch_ms + i64::try_from(now.saturating_since(Instant::ZERO).as_millis()).unwrap_or(i64::MAX / 2)
    }

    /// A topic by its name.
    #[must_use]
    pub(in crate::broker::core) fn topic(&self, name: &TopicName) -> Option<&Topic> {
        self.topics.get(name)
    }

    /// Every topic with its name, in the order of names.
    pub(in crate::broker::core) fn topics(&self) -> impl Iterator<Item = (&TopicName, &Topic)> {
        self.topics.iter()
    }

    /// A partition.
    #[must_use]
    pub(in crate::broker::core) fn partition(&self, topic: &TopicName, partition: i32) -> Option<&Partition> {
        self.topics.get(topic)?.partitions.get(usize::try_from(partition).ok()?)
    }

    /// An id that no producer has had.
    pub(in crate::broker::core) const fn new_producer_id(&mut self) -> ProducerId {
        let id = self.next_producer_id;
        self.next_producer_id += 1;
        ProducerId(id)
    }

    /// Answers InitProducerId of a producer without a transactional id: always a new one.
    pub(super) fn init_producer_id(&mut self) -> InitProducerIdResponse {
        InitProducerIdResponse::default().with_producer_id(self.new_producer_id()).with_producer_epoch(0)
    }

    /// Writes the end of a producer's transaction to a partition, whether it has written there or not; the marker's
    /// offset. Readers that waited for it are answered when the request in hand is done with.
    ///
    /// # Errors
    /// UNKNOWN_TOPIC_OR_PARTITION if the partition is gone: nothing to end then. INVALID_PRODUCER_EPOCH if a later epoch
    /// has written here, TRANSACTION_COORDINATOR_FENCED if a later coordinator has.
    pub(in crate::broker::core) fn write_marker(
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
    pub(in crate::broker::core) fn lose_tail(&mut self, topic: &TopicName, partition: i32, from: i64) -> bool {
        self.change(topic, partition, |log, _| log.truncate(from)).is_some()
    }

    /// A fault: everything in a topic that can be compacted is, now. `false`: no such topic.
    pub(in crate::broker::core) fn compact_now(&mut self, topic: &TopicName, now: Instant) -> bool {
        let (now_ms, bound) = (self.wall_ms(now), self.options.max_unpacked_batch);
        let partitions = self.topic(topic).map_or(0, |topic| topic.partitions.len());
        let indices = (0..).take(partitions);
        let compact = |index| self.change(topic, index, |log, settings| log.compact_now(settings, now_ms, bound));
        indices.map(compact).fold(false, |any, done| any | done.is_some())
    }

    /// A fault without loss: a new leader epoch begins in every partition, as after a restart.
    pub(in crate::broker::core) fn elect_leaders(&mut self) {
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
        let at = usize::try_from(index).ok()?;
        let partition = topic.partitions.get_mut(at)?;
        let (cost, producers) = (partition.cost, partition.producers.count());
        let result = change(partition, &topic.settings);
        self.cost = self.cost - cost + partition.cost;
        self.remembered.note((topic.id, at), producers, partition.producers.count());
        self.changed.push((topic.id, index));
        self.forget_producers();
        Some(result)
    }
}
