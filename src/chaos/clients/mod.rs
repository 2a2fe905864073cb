//! The client ports of `kafka`, over the simulated network: what librdkafka does between its caller and the broker, as far
//! as the caller can see it, in one thread and in virtual time.
//!
//! Files in reading order: `records` (batches), `metadata` (how many partitions topics have), `assignors`, `consumer_protocol`
//! (what members say to each other), `group` (a member of a group), `fetching` (positions and fetches), `commits`, `source`
//! (the source port); `lane` (sequences) and `outbox` (retries), `sink`, `transactions`; `scan`, `topics`.
//!
//! Invariants:
//! 1. A client does nothing by itself: time passes for it only in the calls of its port. Those come at least every tenth of
//!    a virtual second, so that what librdkafka does on its own threads is done in time.
//! 2. Every call counts, see [`Host::die_after`](super::host::Host::die_after).

mod assignors;
mod commits;
mod consumer_protocol;
mod fetching;
mod group;
mod lane;
mod metadata;
mod outbox;
mod records;
mod scan;
mod sink;
mod source;
mod topics;
mod transactions;

use std::time::Duration;

use kafka_protocol::{
    error::ResponseError,
    messages::{ApiKey, TopicName},
    protocol::StrBytes,
};

pub(super) use fetching::read;
pub use group::MemberOptions;
pub(super) use metadata::about;
pub(super) use records::{Author, Record as Reading, Row, encode};
pub use scan::SimScan;
pub use sink::SimSink;
pub use source::SimSource;
pub use topics::SimTopics;
pub use transactions::SimTransactions;

/// An API in the version in which it is used: the last that names topics by their names and groups one by one.
type Api = (ApiKey, i16);

const PRODUCE: Api = (ApiKey::Produce, 9);
const FETCH: Api = (ApiKey::Fetch, 11);
const LIST_OFFSETS: Api = (ApiKey::ListOffsets, 5);
const METADATA: Api = (ApiKey::Metadata, 9);
const OFFSET_COMMIT: Api = (ApiKey::OffsetCommit, 8);
const OFFSET_FETCH: Api = (ApiKey::OffsetFetch, 7);
const FIND_COORDINATOR: Api = (ApiKey::FindCoordinator, 3);
const JOIN_GROUP: Api = (ApiKey::JoinGroup, 7);
const HEARTBEAT: Api = (ApiKey::Heartbeat, 4);
const LEAVE_GROUP: Api = (ApiKey::LeaveGroup, 4);
const SYNC_GROUP: Api = (ApiKey::SyncGroup, 5);
const CREATE_TOPICS: Api = (ApiKey::CreateTopics, 5);
const INIT_PRODUCER_ID: Api = (ApiKey::InitProducerId, 4);
const ADD_PARTITIONS: Api = (ApiKey::AddPartitionsToTxn, 3);
const END_TXN: Api = (ApiKey::EndTxn, 3);
const DESCRIBE_CONFIGS: Api = (ApiKey::DescribeConfigs, 4);

/// How long a request may be without answer before its connection is given up: `socket.timeout.ms`.
const PATIENCE: Duration = Duration::from_secs(2);

/// How long a client waits after an answer that says "later".
const LATER: Duration = Duration::from_millis(100);

/// Which error a code is; `None`: none.
fn error(code: i16) -> Option<ResponseError> {
    ResponseError::try_from_code(code)
}

/// A name as the protocol has it.
fn text(name: &str) -> StrBytes {
    StrBytes::from_string(name.to_owned())
}

/// A topic's name as the protocol has it.
fn topic_name(name: &str) -> TopicName {
    TopicName(text(name))
}

/// Items by topic, as most requests want them.
fn by_topic<'a, T>(items: impl IntoIterator<Item = (&'a str, T)>) -> Vec<(TopicName, Vec<T>)> {
    let mut topics: Vec<(TopicName, Vec<T>)> = Vec::new();
    for (topic, item) in items {
        match topics.iter_mut().find(|(name, _)| *name.0 == *topic) {
            Some((_, items)) => items.push(item),
            None => topics.push((topic_name(topic), vec![item])),
        }
    }
    topics
}
