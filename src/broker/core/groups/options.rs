//! What groups are bounded by; the names and defaults are Kafka's broker configuration.

use std::time::Duration;

/// Bounds of consumer groups.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupOptions {
    /// `group.initial.rebalance.delay.ms`: how long an empty group waits for more members. Here 0, as everyone sets it
    /// for tests and demos; Kafka's own default is 3 s.
    pub initial_rebalance_delay: Duration,
    /// `group.min.session.timeout.ms`: here 1 s, as tests want short sessions; Kafka's own default is 6 s.
    pub min_session_timeout: Duration,
    /// `group.max.session.timeout.ms`: 30 min.
    pub max_session_timeout: Duration,
    /// `group.max.size`: members of one group; no bound but the number's own.
    pub max_size: usize,
    /// Bytes of all groups together, with their members, names and offsets; Kafka has no such bound. Here 128 MiB.
    pub max_bytes: usize,
    /// `offset.metadata.max.bytes`: 4,096.
    pub max_offset_metadata: usize,
    /// `offsets.retention.minutes`: how long what is committed outlives the last member of its group, or the commit where
    /// there never was a member: 7 days.
    pub offsets_retention: Duration,
    /// `offsets.retention.check.interval.ms`: how often it is seen to that offsets expire, and groups with them: 10 min.
    pub offsets_retention_check_interval: Duration,
}

impl Default for GroupOptions {
    fn default() -> Self {
        Self {
            initial_rebalance_delay: Duration::ZERO,
            min_session_timeout: Duration::from_secs(1),
            max_session_timeout: Duration::from_mins(30),
            max_size: usize::MAX,
            max_bytes: 128 << 20,
            max_offset_metadata: 4096,
            offsets_retention: Duration::from_hours(7 * 24),
            offsets_retention_check_interval: Duration::from_mins(10),
        }
    }
}
