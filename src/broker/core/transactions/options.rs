//! What transactions are bounded by; the names and defaults are Kafka's broker configuration.

use std::time::Duration;

/// Bounds of transactions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TransactionOptions {
    /// `transaction.max.timeout.ms`: the longest timeout that a producer may ask for, 15 min.
    pub max_timeout: Duration,
}

impl Default for TransactionOptions {
    fn default() -> Self {
        Self { max_timeout: Duration::from_mins(15) }
    }
}
