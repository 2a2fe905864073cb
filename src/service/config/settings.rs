//! The configuration as the program uses it: checked, typed, complete.

use std::{collections::BTreeMap, net::SocketAddr, num::NonZeroUsize, path::PathBuf, time::Duration};

use super::secrets::Secret;
use crate::{
    kafka::{Assignment, OutOfRange},
    topology::Delivery,
};

/// What a record's value is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Format {
    /// UTF-8 text.
    Text,
    /// JSON, of which the pointer (RFC 6901) selects the text; empty: the whole value.
    Json {
        /// The pointer.
        pointer: String,
    },
}

/// What to do with a record that a policy is asked about.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Policy {
    /// Let it pass (as lossy text, or as an empty one).
    Pass,
    /// Give it to the dead-letter topic.
    DeadLetter,
}

/// Where to start in a partition without a committed offset.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Start {
    /// At the first record there is.
    Earliest,
    /// Behind the last record there is.
    Latest,
}

/// Which results become records.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Emit {
    /// Every one, with its lineage in headers.
    Every,
    /// The latest of each key within the flush interval.
    LatestPerKey,
}

/// Properties of librdkafka by name.
pub type Properties = BTreeMap<String, Property>;

/// The value of a property.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Property {
    /// One that may be shown.
    Plain(String),
    /// One that may not.
    Secret(Secret),
}

impl Property {
    /// The value, for the one who passes it on to the client.
    #[must_use]
    pub fn expose(&self) -> &str {
        match self {
            Self::Plain(value) => value,
            Self::Secret(secret) => secret.expose(),
        }
    }
}

/// How to reach Kafka: all that `load` and `audit` need.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ClientSettings {
    /// Brokers, as HOST:PORT.
    pub brokers: Vec<String>,
    /// The client's name in the brokers' logs.
    pub client_id: String,
    /// Copies of each partition of a topic that is made; `None`: as many as the brokers make unasked.
    pub replication: Option<u16>,
    /// For every client.
    pub properties: Properties,
    /// For the consumer; wins over `properties`.
    pub consumer_properties: Properties,
    /// For the producer; wins over `properties`.
    pub producer_properties: Properties,
}

impl ClientSettings {
    /// The properties of a consumer, in the order in which they are to be set.
    pub fn consumer(&self) -> impl Iterator<Item = (&str, &str)> {
        overlaid(&self.properties, &self.consumer_properties)
    }

    /// The properties of a producer, in the order in which they are to be set.
    pub fn producer(&self) -> impl Iterator<Item = (&str, &str)> {
        overlaid(&self.properties, &self.producer_properties)
    }
}

fn overlaid<'a>(all: &'a Properties, own: &'a Properties) -> impl Iterator<Item = (&'a str, &'a str)> {
    all.iter().chain(own).map(|(name, value)| (name.as_str(), value.expose()))
}

/// As whom a process reads.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct IdentitySettings {
    /// The consumer group.
    pub group: String,
    /// The identity that was set, if one was.
    pub instance: Option<String>,
    /// After so long without a heartbeat the group goes on without the process.
    pub session_timeout: Duration,
    /// Folder for lock files.
    pub state_dir: PathBuf,
}

/// What is read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SourceSettings {
    /// Topics, or regular expressions that start with `^`.
    pub topics: Vec<String>,
    /// What a value is.
    pub format: Format,
    /// For text that is no UTF-8; `Pass` replaces what is invalid.
    pub non_utf8: Policy,
    /// For null and empty values.
    pub empty: Policy,
    /// Where to start without an offset.
    pub start: Start,
    /// How the group's members share partitions.
    pub assignment: Assignment,
    /// What to do if a partition does not hold the offset to go on from.
    pub out_of_range: OutOfRange,
    /// Longest drain of partitions that go to another member.
    pub revoke_timeout: Duration,
    /// Retries before the dead-letter topic; 0 if trees are not tracked.
    pub max_retries: u32,
    /// Before the first retry.
    pub retry_backoff: Duration,
    /// Between any two retries.
    pub retry_backoff_max: Duration,
    /// Where given-up records go.
    pub dead_letter_topic: String,
}

/// What is written.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SinkSettings {
    /// The topic.
    pub topic: String,
    /// Which results become records.
    pub emit: Emit,
}

/// How the topology is executed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EngineSettings {
    /// Threads; `None`: one for every two cores.
    pub executors: Option<NonZeroUsize>,
    /// Open trees of one spout.
    pub max_pending_records: usize,
    /// Bytes of their records.
    pub max_pending_bytes: usize,
    /// Time without progress after which a tree has failed.
    pub tree_timeout: Duration,
    /// Time between commits.
    pub commit_interval: Duration,
    /// Longest wait for a batch to fill.
    pub flush_interval: Duration,
    /// Time in one call after which a bolt hangs.
    pub hang_timeout: Duration,
    /// Longest wait of a stop for what is in flight.
    pub drain_timeout: Duration,
    /// Tuples in a batch.
    pub batch_rows: usize,
    /// Records that a spout emits in one go.
    pub spout_batch: usize,
    /// First pause before a generation is started again.
    pub restart_backoff: Duration,
}

/// How messages are written.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct LogSettings {
    /// The least important that are shown.
    pub level: tracing::Level,
    /// One JSON object a line instead of text.
    pub json: bool,
}

/// Everything that `run` needs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Settings {
    /// Name of the topology.
    pub topology: String,
    /// Its own options.
    pub topology_options: BTreeMap<String, String>,
    /// What happens to records when something fails.
    pub delivery: Delivery,
    /// As whom it reads.
    pub identity: IdentitySettings,
    /// How to reach Kafka.
    pub kafka: ClientSettings,
    /// What is read.
    pub source: SourceSettings,
    /// What is written.
    pub sink: SinkSettings,
    /// How it is executed.
    pub engine: EngineSettings,
    /// Where to serve metrics and health, if at all.
    pub http: Option<SocketAddr>,
    /// How messages are written.
    pub log: LogSettings,
}
