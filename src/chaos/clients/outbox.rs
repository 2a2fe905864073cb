//! Records on their way out: shared among partitions, numbered, sent one batch a partition at a time, and sent again with the
//! same numbers until the broker has said what became of them (KIP-98).

use std::{sync::Arc, time::Duration};

use kafka_protocol::{
    error::ResponseError as E,
    messages::{
        ProduceRequest, ProduceResponse, ResponseKind, TransactionalId,
        produce_request::{PartitionProduceData, TopicProduceData},
    },
};

use super::{
    LATER, METADATA, PATIENCE, PRODUCE, by_topic, error,
    lane::{Lane, Queue},
    metadata,
};
use crate::{
    chaos::{
        host::Host,
        link::{Call, Heard, Link},
    },
    clock::Instant,
    kafka::client::{
        FlushId, ProduceBatch,
        produce::{BY_KEY, ProduceRow},
    },
};

/// How records are sent.
#[derive(Clone, Debug)]
pub(super) struct OutboxOptions {
    /// The most records in one request for a partition.
    pub(super) request_records: usize,
    /// The most records taken and not yet acknowledged.
    pub(super) queue_records: usize,
    /// After so long without acknowledgement a record is given up.
    pub(super) delivery_timeout: Duration,
    /// Milliseconds since 1970 at [`Instant::ZERO`].
    pub(super) epoch_ms: i64,
    pub(super) transactional_id: Option<TransactionalId>,
}

/// What became of records of one partition.
#[derive(Debug)]
pub(super) enum Delivery {
    /// So many records of each flush.
    Acked(Vec<(FlushId, usize)>),
    Failed(ProduceBatch, E),
}

/// A topic that is written.
#[derive(Debug)]
struct Topic {
    name: Arc<str>,
    /// 0: not known yet.
    partitions: i32,
    /// Records that came before that was known.
    unplaced: Queue,
    /// By partition.
    lanes: Vec<Lane>,
}

impl Topic {
    fn new(name: Arc<str>) -> Self {
        Self { unplaced: Queue::new(Arc::clone(&name)), name, partitions: 0, lanes: Vec::new() }
    }

    /// Puts a record where it belongs. `spread` is moved by those that may go anywhere.
    fn place(&mut self, (batch, row): (&ProduceBatch, &ProduceRow), until: Instant, spread: &mut i32) {
        if self.partitions == 0 {
            return self.unplaced.push(batch, row, until);
        }
        let partition = match (batch.parts(row).0, row.partition) {
            (Some(key), BY_KEY) => murmur2_partition(key, self.partitions),
            (None, BY_KEY) => {
                *spread = (*spread + 1) % self.partitions;
                *spread
            }
            (_, chosen) => chosen,
        };
        let at = usize::try_from(partition).unwrap_or(0);
        if self.lanes.len() <= at {
            self.lanes.resize_with(at + 1, || Lane::new(Arc::clone(batch.topic())));
        }
        if let Some(lane) = self.lanes.get_mut(at) {
            lane.waiting.push(batch, row, until);
        }
    }
}

pub(super) type LaneId = (Arc<str>, i32);

/// The way out of one producer.
#[derive(Debug)]
pub(super) struct Outbox {
    host: Host,
    pub(super) options: OutboxOptions,
    pub(super) link: Link,
    /// Producer id and epoch.
    pub(super) identity: Option<(i64, i16)>,
    /// By name.
    topics: Vec<Topic>,
    asking: Option<Call>,
    ask_at: Instant,
    request: Option<Call>,
    in_flight: usize,
    spread: i32,
}

impl Outbox {
    pub(super) fn new(host: Host, options: OutboxOptions) -> Self {
        Self {
            link: host.link(),
            host,
            options,
            identity: None,
            topics: Vec::new(),
            asking: None,
            ask_at: Instant::ZERO,
            request: None,
            in_flight: 0,
            spread: 0,
        }
    }

    pub(super) const fn in_flight(&self) -> usize {
        self.in_flight
    }

    /// Takes rows of `batch` from row `from` on; how many.
    pub(super) fn take(&mut self, batch: &ProduceBatch, from: usize) -> usize {
        let room = self.options.queue_records.saturating_sub(self.in_flight);
        let rows = batch.rows().get(from..).unwrap_or_default();
        let taken = rows.len().min(room);
        let until = self.host.now() + self.options.delivery_timeout;
        if taken > 0 {
            let (name, spread) = (batch.topic(), &mut self.spread);
            let topic = topic_of(&mut self.topics, name);
            rows.iter().take(taken).for_each(|row| topic.place((batch, row), until, spread));
        }
        self.in_flight += taken;
        taken
    }

    /// Makes topics known; true once they are.
    pub(super) fn know(&mut self, topics: &[Arc<str>]) -> bool {
        let mut known = true;
        for name in topics {
            known &= topic_of(&mut self.topics, name).partitions > 0;
        }
        known
    }

    /// Looks up topics that are not known.
    pub(super) fn look(&mut self, now: Instant) {
        if let Some(call) = self.asking.take() {
            match self.link.hear(call) {
                Heard::Nothing => self.asking = Some(call),
                Heard::Answer(ResponseKind::Metadata(answer)) => {
                    for (topic, n) in metadata::counts(&answer) {
                        self.found(topic.as_str(), n);
                    }
                    self.ask_at = now + LATER;
                }
                Heard::Answer(_) | Heard::Lost => self.ask_at = now + LATER,
            }
            return;
        }
        let unknown: Vec<_> =
            self.topics.iter().filter(|topic| topic.partitions == 0).map(|topic| Arc::clone(&topic.name)).collect();
        if !unknown.is_empty() && now >= self.ask_at && self.link.is_ready() {
            self.asking = Some(self.link.ask(METADATA, metadata::about(unknown).into(), PATIENCE));
        }
    }

    /// A topic has so many partitions: what has waited for that is placed.
    fn found(&mut self, name: &str, partitions: i32) {
        let Some(topic) = self.topics.iter_mut().find(|topic| *topic.name == *name) else { return };
        topic.partitions = partitions;
        let unplaced = topic.unplaced.take();
        unplaced.each(|batch, row, until| topic.place((batch, row), until, &mut self.spread));
    }

    fn lanes(&self) -> impl Iterator<Item = (&Arc<str>, i32, &Lane)> {
        self.topics.iter().flat_map(|topic| topic.lanes.iter().zip(0..).map(|(lane, n)| (&topic.name, n, lane)))
    }

    /// Partitions with records that the open transaction does not know of.
    pub(super) fn to_add(&self) -> Vec<LaneId> {
        let new = self.lanes().filter(|(_, _, lane)| !lane.added && !lane.waiting.is_empty());
        new.map(|(name, partition, _)| (Arc::clone(name), partition)).collect()
    }

    /// The open transaction knows of them.
    pub(super) fn added(&mut self, lanes: &[LaneId]) {
        for (topic, partition) in lanes {
            if let Some(lane) = self.lane(topic, *partition) {
                lane.added = true;
            }
        }
    }

    fn lane(&mut self, topic: &str, partition: i32) -> Option<&mut Lane> {
        let topic = self.topics.iter_mut().find(|of| *of.name == *topic)?;
        topic.lanes.get_mut(usize::try_from(partition).ok()?)
    }

    /// The next transaction knows of no partition.
    pub(super) fn forget_added(&mut self) {
        self.topics.iter_mut().flat_map(|topic| &mut topic.lanes).for_each(|lane| lane.added = false);
    }

    /// Hears what became of the request on its way, and sends the next.
    pub(super) fn turn(&mut self, now: Instant, out: &mut Vec<Delivery>) {
        self.look(now);
        if let Some(call) = self.request.take() {
            match self.link.hear(call) {
                Heard::Nothing => self.request = Some(call),
                Heard::Answer(ResponseKind::Produce(answer)) => self.answered(&answer, now, out),
                // Sent again as it was.
                Heard::Answer(_) | Heard::Lost => {}
            }
        }
        self.give_up(now, out);
        if self.request.is_none() && self.link.is_ready() {
            self.send(now);
        }
    }

    fn send(&mut self, now: Instant) {
        let Some(identity) = self.identity else { return };
        let transactional = self.options.transactional_id.is_some();
        let timestamp = self.options.epoch_ms + i64::try_from(now.nanos() / 1_000_000).unwrap_or(i64::MAX);
        let mut data = Vec::new();
        for topic in &mut self.topics {
            for (lane, partition) in topic.lanes.iter_mut().zip(0..) {
                if now >= lane.not_before
                    && (lane.added || !transactional)
                    && let Some(bytes) = lane.request(identity, transactional, timestamp, self.options.request_records)
                {
                    let part = PartitionProduceData::default().with_index(partition);
                    data.push((&*topic.name, part.with_records(Some(bytes))));
                }
            }
        }
        if data.is_empty() {
            return;
        }
        let topics = by_topic(data);
        let topics = topics
            .into_iter()
            .map(|(topic, parts)| TopicProduceData::default().with_name(topic).with_partition_data(parts));
        let request = ProduceRequest::default()
            .with_transactional_id(self.options.transactional_id.clone())
            .with_acks(-1)
            .with_timeout_ms(30_000)
            .with_topic_data(topics.collect());
        self.request = Some(self.link.ask(PRODUCE, request.into(), PATIENCE));
    }

    fn answered(&mut self, answer: &ProduceResponse, now: Instant, out: &mut Vec<Delivery>) {
        for topic in &answer.responses {
            for part in &topic.partition_responses {
                let Some(lane) = self.lane(&topic.name.0, part.index) else { continue };
                let code = error(part.error_code);
                if code.is_some_and(|code| is_retriable(&code)) {
                    lane.not_before = now + LATER;
                    continue;
                }
                match code.filter(|code| *code != E::DuplicateSequenceNumber) {
                    None => {
                        let Some(records) = lane.acked() else { continue };
                        self.in_flight -= records.iter().map(|(_, count)| count).sum::<usize>();
                        out.push(Delivery::Acked(records));
                    }
                    Some(code) => {
                        let Some(records) = lane.refused() else { continue };
                        self.in_flight -= records.len();
                        out.push(Delivery::Failed(records, code));
                    }
                }
            }
        }
    }

    /// Gives everything up once a record has waited for too long: whether the broker has it is not known, so the numbers that
    /// follow are not either, and the next records need another identity.
    fn give_up(&mut self, now: Instant, out: &mut Vec<Delivery>) {
        let late = |topic: &Topic| topic.unplaced.is_late(now) || topic.lanes.iter().any(|lane| lane.is_late(now));
        if self.in_flight > 0 && self.topics.iter().any(late) {
            self.drop_all(E::RequestTimedOut, out);
            self.identity = None;
        }
    }

    /// Fails everything that is in flight.
    pub(super) fn drop_all(&mut self, why: E, out: &mut Vec<Delivery>) {
        self.request = None;
        self.in_flight = 0;
        let mut all = Vec::new();
        for topic in &mut self.topics {
            topic.unplaced.drop_all(&mut all);
            topic.lanes.iter_mut().for_each(|lane| lane.drop_all(&mut all));
        }
        out.extend(all.into_iter().map(|records| Delivery::Failed(records, why)));
    }

    pub(super) fn close(&mut self) {
        self.link.close();
        self.drop_all(E::RequestTimedOut, &mut Vec::new());
    }
}

/// The topic of a name, which begins to be known with this.
fn topic_of<'a>(topics: &'a mut Vec<Topic>, name: &Arc<str>) -> &'a mut Topic {
    let at = topics.partition_point(|topic| topic.name < *name);
    if topics.get(at).is_none_or(|topic| topic.name != *name) {
        topics.insert(at, Topic::new(Arc::clone(name)));
    }
    &mut topics[at]
}

/// Whether the same request may succeed later.
fn is_retriable(code: &E) -> bool {
    matches!(
        code,
        E::NotLeaderOrFollower
            | E::LeaderNotAvailable
            | E::UnknownTopicOrPartition
            | E::NotEnoughReplicas
            | E::NotEnoughReplicasAfterAppend
            | E::RequestTimedOut
            | E::NetworkException
            | E::KafkaStorageError
            | E::ConcurrentTransactions
            | E::CoordinatorNotAvailable
            | E::CoordinatorLoadInProgress
            | E::NotCoordinator
    )
}

/// Where Java's clients put a key: murmur2, its sign bit cleared.
fn murmur2_partition(key: &[u8], partitions: i32) -> i32 {
    let positive = murmur2(key) & 0x7fff_ffff;
    i32::try_from(positive).unwrap_or(0) % partitions.max(1)
}

fn murmur2(key: &[u8]) -> u32 {
    const M: u32 = 0x5bd1_e995;
    let mut hash = 0x9747_b28c ^ u32::try_from(key.len()).unwrap_or(u32::MAX);
    let (fours, rest) = key.as_chunks::<4>();
    for four in fours {
        let mut k = u32::from_le_bytes(*four).wrapping_mul(M);
        k ^= k >> 24;
        hash = hash.wrapping_mul(M) ^ k.wrapping_mul(M);
    }
    if !rest.is_empty() {
        for (byte, shift) in rest.iter().zip([0, 8, 16]) {
            hash ^= u32::from(*byte) << shift;
        }
        hash = hash.wrapping_mul(M);
    }
    hash ^= hash >> 13;
    hash = hash.wrapping_mul(M);
    hash ^ (hash >> 15)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The values of Kafka's own `UtilsTest.testMurmur2`.
    #[test]
    fn keys_are_hashed_as_java_does() {
        let cases: [(&str, i32); 6] = [
            ("21", -973_932_308),
            ("foobar", -790_332_482),
            ("a-little-bit-long-string", -985_981_536),
            ("a-little-bit-longer-string", -1_486_304_829),
            ("lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58_897_971),
            ("abc", 479_470_107),
        ];
        for (key, hash) in cases {
            assert_eq!(murmur2(key.as_bytes()).cast_signed(), hash, "{key}");
        }
    }
}
