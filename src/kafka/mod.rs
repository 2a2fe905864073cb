//! The real client: records in and out of Kafka, behind ports that a simulated client can stand below.
//!
//! Two rings. The source and sink ports of `topology` stand above this folder; the *client* ports of [`client`] stand
//! below its logic. Nothing of the library that speaks Kafka's protocol passes through the client ports, so everything
//! that decides (what to commit, what to retry, what a revoke means) runs unchanged over a simulation.
//!
//! Files in reading order: `client` (the client ports), `record` (a block of records over one arena), `produce` (a
//! batch of records to send), `options` (how to reach Kafka, and what may not be overridden).
//!
//! The spout, decisions first: `offsets` (the frontier that is committed), `retry`, `pending` (records in flight),
//! `format` (from bytes to a value), `lineage`, `partition` (one assigned partition), `commit_metadata` (what stands
//! beside a committed offset), `round` (one commit), `departure` (partitions that are
//! asked back), `out_of_range` (offsets that are gone); then
//! `source_options`, `source`, `hearing`, `emission` and `committing` (the spout), `poller` (its part on a thread of its own), `channel` (what the
//! two say to each other), `letter` and `dead_letters`, `gauges`. The sink: `sink_options`, `latest` (per key), `sink`.
//! The changelog: `topics`, `transactions` and `scan` (its client ports), `changelog/`.
//!
//! Over librdkafka, which only these files name: `native` (its batch calls: the one place with `unsafe`), `rdkafka` (what
//! its clients share), `trouble` (its errors in words, each said once),
//! `unheard` (outputs that nobody acknowledges), `intake` (from records to blocks), `commits`
//! (one at a time, fenced), `subscription`, `rdkafka_source`, `rdkafka_sink`, `lookup` (what may be asked), `reader` (a
//! whole topic, once), `admin`, `admin_group`, `rdkafka_topics`, `rdkafka_transactions`, `rdkafka_scan` and
//! `rdkafka_changelog` (the clients of a changelog), `replay` (letters written back), `version`.
//!
//! Invariants:
//! 1. Whoever is below a client port never decides: it reports events and does what it is told. It does not assign,
//!    commit, seek or drop a record by itself.
//! 2. Records of a partition arrive in the order of their offsets, and only between `assign` and `unassign`.
//! 3. Every record that a sink client took is reported exactly once: acknowledged or failed.
//! 4. No message holds a secret.
//! 5. A commit holds exactly what was done when it was frozen, and never goes back.
//! 6. A record is done once: its tree is complete, or the broker has its dead letter, or there was nothing to emit.

pub mod admin;
pub mod admin_group;
pub mod changelog;
mod channel;
pub mod client;
mod commit_metadata;
mod commits;
mod committing;
mod dead_letters;
mod departure;
mod emission;
#[cfg(test)]
mod fake;
pub mod format;
mod gauges;
mod hearing;
mod intake;
mod latest;
mod letter;
pub mod lineage;
mod lookup;
mod native;
pub mod offsets;
mod one_by_one;
mod options;
mod out_of_range;
mod partition;
mod pending;
mod poller;
pub mod produce;
mod rdkafka;
mod rdkafka_changelog;
mod rdkafka_scan;
mod rdkafka_sink;
mod rdkafka_source;
mod rdkafka_topics;
mod rdkafka_transactions;
pub mod reader;
pub mod record;
pub mod replay;
pub mod retry;
mod round;
pub mod scan;
mod sink;
mod sink_options;
mod source;
mod source_options;
mod subscription;
#[cfg(test)]
mod tests;
pub mod topics;
pub mod transactions;
mod trouble;
mod unheard;
mod unowned;
mod version;

pub use self::rdkafka::check_property;
pub use changelog::{ChangelogOptions, KafkaChangelog};
pub use dead_letters::{DeadLetterOptions, SinkFactory};
pub use letter::DeadLetter;
pub use options::{Assignment, Connection, SinkOptions, SourceOptions, TransactionOptions, check_overrides, is_secret};
pub use out_of_range::OutOfRange;
pub use rdkafka_changelog::ChangelogConnections;
pub use rdkafka_scan::RdkafkaScan;
pub use rdkafka_sink::RdkafkaSink;
pub use rdkafka_source::{CLOSED_AGAIN_LOG_TARGET, RdkafkaSource};
pub use rdkafka_topics::RdkafkaTopics;
pub use rdkafka_transactions::RdkafkaTransactions;
pub use sink::{KafkaSink, LINEAGE_HEADER};
pub use sink_options::{Emit, KafkaSinkOptions};
pub use source::KafkaSpout;
pub use source_options::{KafkaSpoutOptions, RecordField, SourceFactory, Start};
pub use version::librdkafka_version;
