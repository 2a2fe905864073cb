//! Fetch: whole batches from many partitions, at once or when there is enough (Kafka's `DelayedFetch`, KIP-74).
//!
//! There are no fetch sessions (KIP-227): a client that wants one is told session 0, as by a broker whose cache is full,
//! and goes on with whole requests.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use bytes::Bytes;
use kafka_protocol::{
    error::ResponseError,
    messages::{
        FetchRequest, FetchResponse, TopicName,
        fetch_request::{FetchPartition, FetchTopic},
        fetch_response::{AbortedTransaction, EpochEndOffset, FetchableTopicResponse, PartitionData},
    },
};
use uuid::Uuid;

use super::{
    Logs,
    epochs::check_epoch,
    partition::{Isolation, Partition},
};
use crate::{
    broker::core::request::{Answers, Reply, Ticket},
    clock::Instant,
};

/// `fetch.max.bytes` of a broker: no response is larger, but for a first batch that is.
const MAX_BYTES: usize = 55 << 20;
/// The most that a fetch which has waited brings: many may have waited for the same, and are answered at once.
const MAX_BYTES_OF_WOKEN: i32 = 1 << 20;
/// From this version on topics are named by their ids.
const TOPIC_IDS_SINCE: i16 = 13;

/// Fetches that wait for more to read.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    fetches: BTreeMap<Ticket, Fetch>,
    by_partition: BTreeMap<(Uuid, i32), BTreeSet<Ticket>>,
    deadlines: BTreeSet<(Instant, Ticket)>,
}

/// A fetch that waits.
#[derive(Debug)]
struct Fetch {
    request: FetchRequest,
    version: i16,
    deadline: Instant,
    partitions: Vec<(Uuid, i32)>,
}

impl Waiting {
    pub(super) fn due(&self) -> Instant {
        self.deadlines.first().map_or(Instant::FAR_FUTURE, |(deadline, _)| *deadline)
    }

    fn insert(&mut self, ticket: Ticket, fetch: Fetch) {
        for partition in &fetch.partitions {
            self.by_partition.entry(*partition).or_default().insert(ticket);
        }
        self.deadlines.insert((fetch.deadline, ticket));
        self.fetches.insert(ticket, fetch);
    }

    fn remove(&mut self, ticket: Ticket) -> Option<Fetch> {
        let fetch = self.fetches.remove(&ticket)?;
        self.deadlines.remove(&(fetch.deadline, ticket));
        for partition in &fetch.partitions {
            if let Some(tickets) = self.by_partition.get_mut(partition) {
                tickets.remove(&ticket);
                if tickets.is_empty() {
                    self.by_partition.remove(partition);
                }
            }
        }
        Some(fetch)
    }
}

impl Logs {
    /// Answers with what there is, if that is enough, or keeps the ticket until it is or the client's patience ends.
    pub(in crate::broker::core) fn fetch(
        &mut self,
        ticket: Ticket,
        request: &FetchRequest,
        version: i16,
        now: Instant,
    ) -> Reply {
        if let Some(error) = refusal_of_session(request) {
            return Reply::Now(FetchResponse::default().with_error_code(error.code()).into());
        }
        if let Err(error) = Isolation::check(request.isolation_level) {
            return Reply::Now(all_failed(request, version, error).into());
        }
        let Ok(patience @ 1..) = u64::try_from(request.max_wait_ms) else {
            return Reply::Now(self.fetched(request, version).into());
        };
        if self.is_enough(request, version) {
            return Reply::Now(self.fetched(request, version).into());
        }
        let named = request.topics.iter().filter_map(|topic| Some((self.fetched_topic(topic, version)?.1, topic)));
        let partitions =
            named.flat_map(|(id, topic)| topic.partitions.iter().map(move |p| (id, p.partition))).collect();
        let deadline = now + Duration::from_millis(patience);
        self.waiting.insert(ticket, Fetch { request: request.clone(), version, deadline, partitions });
        Reply::Later
    }

    /// Forgets a fetch whose client is gone.
    pub(in crate::broker::core) fn forget(&mut self, ticket: Ticket) {
        self.waiting.remove(ticket);
    }

    /// Answers the fetches that have enough since something changed.
    pub(in crate::broker::core) fn wake(&mut self, answers: &mut Answers) {
        if self.changed.is_empty() {
            return;
        }
        let changed = std::mem::take(&mut self.changed);
        let tickets = changed.iter().filter_map(|partition| self.waiting.by_partition.get(partition)).flatten();
        let tickets: BTreeSet<Ticket> = tickets.copied().collect();
        for ticket in tickets {
            let enough = |fetch: &Fetch| self.is_enough(&fetch.request, fetch.version);
            if self.waiting.fetches.get(&ticket).is_some_and(enough) {
                self.answer_fetch(ticket, answers);
            }
        }
    }

    /// Answers the fetches whose clients will wait no longer.
    pub(super) fn end_patience(&mut self, now: Instant, answers: &mut Answers) {
        while let Some((_, ticket)) = self.waiting.deadlines.first().copied().filter(|(deadline, _)| *deadline <= now) {
            self.answer_fetch(ticket, answers);
        }
    }

    fn answer_fetch(&mut self, ticket: Ticket, answers: &mut Answers) {
        if let Some(Fetch { mut request, version, .. }) = self.waiting.remove(ticket) {
            request.max_bytes = request.max_bytes.min(MAX_BYTES_OF_WOKEN);
            answers.push_back((ticket, self.fetched(&request, version).into()));
        }
    }

    /// The topic that is asked for, by its id or its name.
    fn fetched_topic<'a>(&'a self, topic: &'a FetchTopic, version: i16) -> Option<(&'a TopicName, Uuid)> {
        if version < TOPIC_IDS_SINCE {
            return Some((&topic.topic, self.topic(&topic.topic)?.id));
        }
        Some((self.name_of(topic.topic_id)?, topic.topic_id))
    }

    /// The partition that is asked for, if it can be read there.
    fn fetched_partition(
        &self,
        topic: &FetchTopic,
        fetch: &FetchPartition,
        version: i16,
    ) -> Result<&Partition, ResponseError> {
        let unknown = ResponseError::UnknownTopicOrPartition;
        let unknown_topic = if version < TOPIC_IDS_SINCE { unknown } else { ResponseError::UnknownTopicId };
        let (name, _) = self.fetched_topic(topic, version).ok_or(unknown_topic)?;
        let partition = self.partition(name, fetch.partition).ok_or(unknown)?;
        check_epoch(partition, fetch.current_leader_epoch)?;
        if fetch.partition_max_bytes < 0 {
            return Err(ResponseError::UnknownServerError);
        }
        if (partition.start()..=partition.end()).contains(&fetch.fetch_offset) {
            Ok(partition)
        } else {
            Err(ResponseError::OffsetOutOfRange)
        }
    }

    /// Whether a fetch need not wait: there are its `min_bytes`, or there is something to tell.
    fn is_enough(&self, request: &FetchRequest, version: i16) -> bool {
        let isolation = Isolation::from(request.isolation_level);
        let enough = usize::try_from(request.min_bytes).unwrap_or(0);
        let asked = request.topics.iter().flat_map(|topic| topic.partitions.iter().map(move |fetch| (topic, fetch)));
        let (mut bytes, mut any) = (0, false);
        for (topic, fetch) in asked {
            any = true;
            let Ok(partition) = self.fetched_partition(topic, fetch, version) else { return true };
            let most = usize::try_from(fetch.partition_max_bytes).unwrap_or(0);
            let there = partition.available(fetch.fetch_offset, partition.visible_end(isolation), enough - bytes);
            bytes += there.min(most.max(1));
            if bytes >= enough || diverging(partition, fetch).is_some() {
                return true;
            }
        }
        !any
    }

    /// Everything that is there, within the bounds of the request.
    fn fetched(&self, request: &FetchRequest, version: i16) -> FetchResponse {
        let isolation = Isolation::from(request.isolation_level);
        let mut room = usize::try_from(request.max_bytes).unwrap_or(0).min(MAX_BYTES);
        let mut first = true;
        let topics = request.topics.iter().map(|topic| {
            let partitions = topic.partitions.iter().map(|fetch| {
                let data = match self.fetched_partition(topic, fetch, version) {
                    Ok(partition) => read(partition, fetch, isolation, (room, first)),
                    Err(error) => failed(error),
                };
                let bytes = data.records.as_ref().map_or(0, Bytes::len);
                (room, first) = (room.saturating_sub(bytes), first && bytes == 0);
                data.with_partition_index(fetch.partition)
            });
            FetchableTopicResponse::default()
                .with_topic(topic.topic.clone())
                .with_topic_id(topic.topic_id)
                .with_partitions(partitions.collect())
        });
        FetchResponse::default().with_responses(topics.collect())
    }
}

/// There are no sessions to go on with; a whole request may end one or ask for one.
fn refusal_of_session(request: &FetchRequest) -> Option<ResponseError> {
    let whole = matches!(request.session_epoch, -1 | 0);
    (!whole).then_some(ResponseError::FetchSessionIdNotFound)
}

/// The error for the whole request, and in versions that may not know of that, for each partition.
fn all_failed(request: &FetchRequest, version: i16, error: ResponseError) -> FetchResponse {
    let topics = request.topics.iter().filter(|_| version < TOPIC_IDS_SINCE).map(|topic| {
        let partitions = topic.partitions.iter().map(|fetch| failed(error).with_partition_index(fetch.partition));
        FetchableTopicResponse::default().with_topic(topic.topic.clone()).with_partitions(partitions.collect())
    });
    FetchResponse::default().with_error_code(error.code()).with_responses(topics.collect())
}

fn failed(error: ResponseError) -> PartitionData {
    PartitionData::default()
        .with_error_code(error.code())
        .with_high_watermark(-1)
        .with_last_stable_offset(-1)
        .with_log_start_offset(-1)
        .with_aborted_transactions(None)
        .with_records(Some(Bytes::new()))
}

fn read(
    partition: &Partition,
    fetch: &FetchPartition,
    isolation: Isolation,
    (room, first): (usize, bool),
) -> PartitionData {
    let data = PartitionData::default()
        .with_high_watermark(partition.end())
        .with_last_stable_offset(partition.last_stable_offset())
        .with_log_start_offset(partition.start());
    if let Some(diverging) = diverging(partition, fetch) {
        return data.with_diverging_epoch(diverging).with_records(Some(Bytes::new()));
    }
    let most = usize::try_from(fetch.partition_max_bytes).unwrap_or(0).min(room);
    let read = partition.read(fetch.fetch_offset, partition.visible_end(isolation), most, first);
    let aborted = (isolation == Isolation::ReadCommitted).then(|| {
        let aborted = partition.aborted_between(fetch.fetch_offset, read.next_offset);
        let told = aborted.map(|aborted| {
            let told = AbortedTransaction::default().with_producer_id(aborted.producer_id.into());
            told.with_first_offset(aborted.first_offset)
        });
        told.collect()
    });
    data.with_aborted_transactions(aborted).with_records(Some(read.records))
}

/// Where the log parts from what the client has read of it (KIP-595): after a truncation.
fn diverging(partition: &Partition, fetch: &FetchPartition) -> Option<EpochEndOffset> {
    if fetch.last_fetched_epoch < 0 {
        return None;
    }
    let (epoch, end) = partition.end_of_epoch(fetch.last_fetched_epoch);
    let told = EpochEndOffset::default().with_epoch(epoch).with_end_offset(end);
    (epoch < fetch.last_fetched_epoch || end < fetch.fetch_offset).then_some(told)
}
