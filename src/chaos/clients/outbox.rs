//! Records on their way out: shared among partitions, numbered, sent one batch a partition at a time, and sent again with the
//! same numbers until the broker has said what became of them (KIP-98).

use std::{
    collections::{BTreeMap, VecDeque},
    mem,
    sync::Arc,
    time::Duration,
};

use bytes::Bytes;
use kafka_protocol::{
    error::ResponseError as E,
    messages::{
        ProduceRequest, ProduceResponse, ResponseKind, TransactionalId,
        produce_request::{PartitionProduceData, TopicProduceData},
    },
};

use super::{
    LATER, METADATA, PATIENCE, PRODUCE, by_topic, error, metadata,
    records::{Author, Row, encode},
};
use crate::{
    chaos::{
        host::Host,
        link::{Call, Heard, Link},
    },
    clock::Instant,
    kafka::{
        client::{FlushId, ProduceBatch},
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

/// A record on its way.
#[derive(Clone, Debug)]
pub(super) struct Item {
    pub(super) topic: Arc<str>,
    pub(super) row: Row,
    pub(super) flush: FlushId,
    pub(super) tag: u32,
    partition: i32,
    deadline: Instant,
}

/// What became of records of one partition.
#[derive(Debug)]
pub(super) enum Delivery {
    Acked(Vec<Item>),
    Failed(Vec<Item>, E),
}

/// The records for one partition.
#[derive(Debug, Default)]
struct Lane {
    waiting: VecDeque<Item>,
    /// Without answer: as it was encoded, and what it holds.
    sent: Option<(Bytes, Vec<Item>)>,
    /// The next number.
    sequence: i32,
    not_before: Instant,
    /// Of a transactional producer: the open transaction knows of the partition.
    added: bool,
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
    topics: BTreeMap<Arc<str>, i32>,
    asking: Option<Call>,
    ask_at: Instant,
    /// Records of topics that are not known yet.
    unplaced: VecDeque<Item>,
    lanes: BTreeMap<LaneId, Lane>,
    request: Option<(Call, Vec<LaneId>)>,
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
            topics: BTreeMap::new(),
            asking: None,
            ask_at: Instant::ZERO,
            unplaced: VecDeque::new(),
            lanes: BTreeMap::new(),
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
        for row in rows.iter().take(taken) {
            let item = self.item(batch, row);
            self.place(item);
        }
        self.in_flight += taken;
        taken
    }

    fn item(&self, batch: &ProduceBatch, row: &ProduceRow) -> Item {
        let (key, value, headers) = batch.parts(row);
        Item {
            topic: Arc::clone(batch.topic()),
            row: Row {
                key: key.map(Bytes::copy_from_slice),
                value: value.map(Bytes::copy_from_slice),
                headers: Bytes::copy_from_slice(headers),
            },
            flush: row.flush,
            tag: row.tag,
            partition: row.partition,
            deadline: self.host.now() + self.options.delivery_timeout,
        }
    }

    fn place(&mut self, item: Item) {
        let Some(&partitions) = self.topics.get(&item.topic).filter(|n| **n > 0) else {
            self.unplaced.push_back(item);
            return;
        };
        let partition = match (&item.row.key, item.partition) {
            (Some(key), BY_KEY) => murmur2_partition(key, partitions),
            (None, BY_KEY) => {
                self.spread = (self.spread + 1) % partitions;
                self.spread
            }
            (_, chosen) => chosen,
        };
        self.lanes.entry((Arc::clone(&item.topic), partition)).or_default().waiting.push_back(item);
    }

    /// Makes a topic known; true once it is.
    pub(super) fn know(&mut self, topics: &[Arc<str>]) -> bool {
        for topic in topics {
            if !self.topics.contains_key(topic) {
                self.topics.insert(Arc::clone(topic), 0);
            }
        }
        topics.iter().all(|topic| self.topics.get(topic).is_some_and(|n| *n > 0))
    }

    /// Looks up topics that are not known.
    pub(super) fn look(&mut self, now: Instant) {
        if let Some(call) = self.asking.take() {
            match self.link.hear(call) {
                Heard::Nothing => self.asking = Some(call),
                Heard::Answer(ResponseKind::Metadata(answer)) => {
                    for (topic, n) in metadata::counts(&answer) {
                        if let Some(known) = self.topics.get_mut(topic.as_str()) {
                            *known = n;
                        }
                    }
                    let unplaced = mem::take(&mut self.unplaced);
                    unplaced.into_iter().for_each(|item| self.place(item));
                    self.ask_at = now + LATER;
                }
                Heard::Answer(_) | Heard::Lost => self.ask_at = now + LATER,
            }
            return;
        }
        let of_records = self.unplaced.iter().map(|item| Arc::clone(&item.topic));
        let mut unknown: Vec<_> = of_records.collect();
        unknown.extend(self.topics.iter().filter(|(_, n)| **n == 0).map(|(topic, _)| Arc::clone(topic)));
        unknown.sort();
        unknown.dedup();
        if unknown.is_empty() || now < self.ask_at || !self.link.is_ready() {
            return;
        }
        for topic in &unknown {
            self.topics.entry(Arc::clone(topic)).or_insert(0);
        }
        self.asking = Some(self.link.ask(METADATA, metadata::about(unknown).into(), PATIENCE));
    }

    /// Partitions with records that the open transaction does not know of.
    pub(super) fn to_add(&self) -> Vec<LaneId> {
        let new = |(_, lane): &(&LaneId, &Lane)| !lane.added && !lane.waiting.is_empty();
        self.lanes.iter().filter(new).map(|(id, _)| id.clone()).collect()
    }

    /// The open transaction knows of them.
    pub(super) fn added(&mut self, lanes: &[LaneId]) {
        for id in lanes {
            if let Some(lane) = self.lanes.get_mut(id) {
                lane.added = true;
            }
        }
    }

    /// The next transaction knows of no partition.
    pub(super) fn forget_added(&mut self) {
        self.lanes.values_mut().for_each(|lane| lane.added = false);
    }

    /// Hears what became of the request on its way, and sends the next.
    pub(super) fn turn(&mut self, now: Instant, out: &mut Vec<Delivery>) {
        self.look(now);
        if let Some((call, lanes)) = self.request.take() {
            match self.link.hear(call) {
                Heard::Nothing => self.request = Some((call, lanes)),
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
        let Some((producer_id, epoch)) = self.identity else { return };
        let transactional = self.options.transactional_id.is_some();
        let timestamp = self.options.epoch_ms + i64::try_from(now.nanos() / 1_000_000).unwrap_or(i64::MAX);
        let (mut asked, mut data) = (Vec::new(), Vec::new());
        for (id, lane) in &mut self.lanes {
            if now < lane.not_before || (transactional && !lane.added) {
                continue;
            }
            if lane.sent.is_none() && !lane.waiting.is_empty() {
                let count = lane.waiting.len().min(self.options.request_records);
                let items: Vec<_> = lane.waiting.drain(..count).collect();
                let author = Author { producer_id, epoch, sequence: lane.sequence, transactional };
                let bytes = encode(author, timestamp, items.iter().map(|item| &item.row));
                lane.sent = Some((bytes, items));
            }
            if let Some((bytes, _)) = &lane.sent {
                asked.push(id.clone());
                data.push((id, bytes.clone()));
            }
        }
        if asked.is_empty() {
            return;
        }
        let topics = by_topic(data.into_iter().map(|((topic, partition), bytes)| {
            (&**topic, PartitionProduceData::default().with_index(*partition).with_records(Some(bytes)))
        }));
        let topics = topics
            .into_iter()
            .map(|(topic, parts)| TopicProduceData::default().with_name(topic).with_partition_data(parts));
        let request = ProduceRequest::default()
            .with_transactional_id(self.options.transactional_id.clone())
            .with_acks(-1)
            .with_timeout_ms(30_000)
            .with_topic_data(topics.collect());
        self.request = Some((self.link.ask(PRODUCE, request.into(), PATIENCE), asked));
    }

    fn answered(&mut self, answer: &ProduceResponse, now: Instant, out: &mut Vec<Delivery>) {
        for topic in &answer.responses {
            for part in &topic.partition_responses {
                let id = (Arc::from(&*topic.name.0), part.index);
                let Some(lane) = self.lanes.get_mut(&id) else { continue };
                let code = error(part.error_code);
                if code.is_some_and(|code| is_retriable(&code)) {
                    lane.not_before = now + LATER;
                    continue;
                }
                let Some((_, items)) = lane.sent.take() else { continue };
                self.in_flight -= items.len();
                out.push(match code {
                    None | Some(E::DuplicateSequenceNumber) => {
                        lane.sequence = next_sequence(lane.sequence, items.len());
                        Delivery::Acked(items)
                    }
                    Some(code) => Delivery::Failed(items, code),
                });
            }
        }
    }

    /// Gives everything up once a record has waited for too long: whether the broker has it is not known, so the numbers that
    /// follow are not either, and the next records need another identity.
    fn give_up(&mut self, now: Instant, out: &mut Vec<Delivery>) {
        let late = |item: &Item| now >= item.deadline;
        let any = self.lanes.values().any(|lane| {
            lane.waiting.front().is_some_and(late) || lane.sent.iter().any(|(_, items)| items.iter().any(late))
        });
        if any || self.unplaced.front().is_some_and(late) {
            self.drop_all(E::RequestTimedOut, out);
            self.identity = None;
        }
    }

    /// Fails everything that is in flight.
    pub(super) fn drop_all(&mut self, why: E, out: &mut Vec<Delivery>) {
        self.request = None;
        let mut items: Vec<_> = mem::take(&mut self.unplaced).into();
        for lane in mem::take(&mut self.lanes).into_values() {
            items.extend(lane.sent.into_iter().flat_map(|(_, items)| items));
            items.extend(lane.waiting);
        }
        self.in_flight = 0;
        if !items.is_empty() {
            out.push(Delivery::Failed(items, why));
        }
    }

    pub(super) fn close(&mut self) {
        self.link.close();
        self.drop_all(E::RequestTimedOut, &mut Vec::new());
    }
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

/// Sequences wrap at 2^31.
fn next_sequence(sequence: i32, records: usize) -> i32 {
    let next = (i64::from(sequence) + i64::try_from(records).unwrap_or(0)) & i64::from(i32::MAX);
    i32::try_from(next).unwrap_or(0)
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

    #[test]
    fn sequences_begin_again_after_the_largest() {
        assert_eq!(next_sequence(i32::MAX, 1), 0);
        assert_eq!(next_sequence(i32::MAX - 1, 3), 1);
        assert_eq!(next_sequence(5, 3), 8);
    }
}
