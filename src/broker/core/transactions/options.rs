//! What transactions are bounded by; the names and defaults are Kafka's broker configuration.

use std::time::Duration;

/// Bounds of transactions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TransactionOptions {
    /// `transaction.max.timeout.ms`: the longest timeout that a producer may ask for, 15 min.
    pub max_timeout: Duration,
    /// Bytes of all transactional ids together, with what is part of their transactions; Kafka has no such bound. Here
    /// 32 MiB.
    pub max_bytes: usize,
    /// `transactional.id.expiration.ms`: how long an id is remembered whose producer does nothing: 7 days.
    pub id_expiration: Duration,
    /// `transaction.remove.expired.transaction.cleanup.interval.ms`: how often ids are looked at for that: 1 h.
    pub id_expiration_check_interval: Duration,
}

impl Default for TransactionOptions {
    fn default() -> Self {
        Self {
            max_timeout: Duration::from_mins(15),
            max_bytes: 32 << 20,
            id_expiration: Duration::from_hours(7 * 24),
            id_expiration_check_interval: Duration::from_hours(1),
        }
    }
}
