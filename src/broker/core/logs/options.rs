//! What logs are bounded by; names and defaults are Kafka's broker configuration where Kafka has one.

use std::time::Duration;

/// Bounds of topics and their logs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogOptions {
    /// Bytes that all logs may take together: 1 GiB. What is over it is refused with KAFKA_STORAGE_ERROR, as by a broker
    /// whose disk is full, after retention was given its chance; nothing that was acknowledged is dropped to make room.
    pub max_bytes: usize,
    /// Bytes that all partitions together may take to remember their producers: 64 MiB. Beyond it those are forgotten that
    /// have been idle longest in the partition that has most of them, and have no transaction open. Kafka has no such
    /// bound.
    pub max_producer_bytes: usize,
    /// Partitions that all topics may have together: 10,000.
    pub max_partitions: usize,
    /// Bytes that one batch may unpack to: 64 MiB. A batch that unpacks to more is refused with INVALID_RECORD, as by a
    /// topic with that `max.decompressed.message.bytes`, which is 2 GiB by default.
    pub max_unpacked_batch: usize,
    /// `auto.create.topics.enable`: off, unlike Kafka's default. A misspelt topic is an error, not a new topic.
    pub auto_create_topics: bool,
    /// `num.partitions`: 1, of topics created without a number.
    pub num_partitions: i32,
    /// `log.retention.check.interval.ms`: 5 min.
    pub retention_check_interval: Duration,
    /// `log.cleaner.backoff.ms`: 15 s between looks for something to compact.
    pub cleaner_backoff: Duration,
    /// `producer.id.expiration.ms`: 1 day until an idle producer's sequence is forgotten.
    pub producer_id_expiration: Duration,
}

impl Default for LogOptions {
    fn default() -> Self {
        Self {
            max_bytes: 1 << 30,
            max_producer_bytes: 64 << 20,
            max_partitions: 10_000,
            max_unpacked_batch: 64 << 20,
            auto_create_topics: false,
            num_partitions: 1,
            retention_check_interval: Duration::from_mins(5),
            cleaner_backoff: Duration::from_secs(15),
            producer_id_expiration: Duration::from_hours(24),
        }
    }
}
