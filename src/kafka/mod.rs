//! The real client: records in and out of Kafka, behind ports that a simulated client can stand below.
//!
//! Two rings. The source and sink ports of `topology` stand above this folder; the *client* ports of [`client`] stand
//! below its logic. Nothing of the library that speaks Kafka's protocol passes through the client ports, so everything
//! that decides (what to commit, what to retry, what a revoke means) runs unchanged over a simulation.
//!
//! In reading order: `client` (the client ports, and what goes through them), `options` (how to reach Kafka) and
//! `overrides` (what of it may be set otherwise); `source` (the spout: what is read, retried and committed), `sink` (what
//! is written), `dead_letters` (what is given up), `changelog` (what stores keep). Over librdkafka, which only these two
//! folders name: `librdkafka` (the clients of the ports) and `admin` (what is asked and done beside the stream, by tools
//! and at starts).
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
pub mod changelog;
pub mod client;
mod dead_letters;
#[cfg(test)]
mod fake;
mod librdkafka;
mod options;
mod overrides;
mod sink;
pub mod source;
#[cfg(test)]
mod tests;

pub use changelog::{ChangelogOptions, KafkaChangelog};
pub use dead_letters::{DeadLetter, DeadLetterOptions, SinkFactory};
pub use librdkafka::{
    CLOSED_AGAIN_LOG_TARGET, ChangelogConnections, RdkafkaScan, RdkafkaSink, RdkafkaSource, RdkafkaTopics,
    RdkafkaTransactions, check_property, knows_property, librdkafka_version,
};
pub use options::{Assignment, Connection, SinkOptions, SourceOptions, TransactionOptions};
pub use overrides::{check_overrides, is_secret, without_logins};
pub use sink::{Emit, KafkaSink, KafkaSinkOptions, LINEAGE_HEADER};
pub use source::{KafkaSpout, KafkaSpoutOptions, OutOfRange, RecordField, SourceFactory, Start};
