//! The clients of the ports over librdkafka.
//!
//! Files in reading order: `native` (its batch calls: the one place with `unsafe`), `shared` (what its clients share), `offsets` (what any consumer may ask),
//! `trouble` (its errors in words, each said once), `intake` (from records to blocks), `commits` (one at a time, fenced),
//! `subscription`, `unowned` (partitions that the group has left to nobody), `source`; `unheard` (outputs that nobody
//! acknowledges), `sink`; `topics`, `transactions`, `scan` and `changelog` (the clients of a changelog); `version`.

mod changelog;
mod commits;
pub(super) mod intake;
pub(super) mod native;
pub(super) mod offsets;
mod scan;
pub(super) mod shared;
mod sink;
mod source;
pub(super) mod subscription;
mod topics;
mod transactions;
pub(super) mod trouble;
mod unheard;
mod unowned;
mod version;

pub use changelog::ChangelogConnections;
pub use scan::RdkafkaScan;
pub use shared::{check_property, knows_property};
pub use sink::RdkafkaSink;
pub use source::{CLOSED_AGAIN_LOG_TARGET, RdkafkaSource};
pub use topics::RdkafkaTopics;
pub use transactions::RdkafkaTransactions;
pub use version::librdkafka_version;
