//! Handles: a metric with its labels resolved. Cheap to clone; clones share the value.

#![expect(missing_docs, reason = "each field is explained by the line of `TABLE` that it is named after")]

use std::time::Duration;

/// A number that only grows.
#[derive(Clone, Debug)]
pub struct Counter(pub(super) prometheus::IntCounter);

impl Counter {
    /// Adds `n`.
    pub fn add(&self, n: u64) {
        self.0.inc_by(n);
    }

    /// What was counted so far.
    #[must_use]
    pub fn get(&self) -> u64 {
        self.0.get()
    }
}

/// A number that goes up and down.
#[derive(Clone, Debug)]
pub struct Gauge(pub(super) prometheus::IntGauge);

impl Gauge {
    /// Replaces the value; what does not fit is shown as the largest that does.
    pub fn set(&self, value: u64) {
        self.0.set(i64::try_from(value).unwrap_or(i64::MAX));
    }

    /// Adds, or takes away, `n`: for a value that several tasks share.
    pub fn add(&self, n: i64) {
        self.0.add(n);
    }

    /// The value now.
    #[must_use]
    pub fn get(&self) -> i64 {
        self.0.get()
    }
}

/// A point in time.
#[derive(Clone, Debug)]
pub struct Timestamp(pub(super) prometheus::Gauge);

impl Timestamp {
    /// Sets it to `millis` since 1970.
    #[expect(clippy::cast_precision_loss, reason = "milliseconds since 1970 fit a float's 53 bits")]
    pub fn set_millis(&self, millis: i64) {
        self.0.set(millis as f64 / 1000.0);
    }
}

/// A distribution of durations.
#[derive(Clone, Debug)]
pub struct Histogram(pub(super) prometheus::Histogram);

impl Histogram {
    /// Adds one sample. Not for the hot path: one a batch.
    pub fn observe(&self, span: Duration) {
        self.0.observe(span.as_secs_f64());
    }
}

/// Handles of one component.
#[derive(Clone, Debug)]
pub struct ComponentMetrics {
    pub tasks: Gauge,
    pub executed: Counter,
    pub acked: Counter,
    pub failed: Counter,
}

/// Handles of the trees of one spout.
#[derive(Clone, Debug)]
pub struct TreeMetrics {
    pub started: Counter,
    pub acked: Counter,
    pub failed: Counter,
    pub timed_out: Counter,
}

/// Handles of one topic that is read.
#[derive(Clone, Debug)]
pub struct ConsumedMetrics {
    pub records: Counter,
    pub bytes: Counter,
}

/// Handles of one topic that is written.
#[derive(Clone, Debug)]
pub struct ProducedMetrics {
    pub acknowledged: Counter,
    pub failed: Counter,
    pub bytes: Counter,
}

/// Handles of one partition that is assigned.
#[derive(Clone, Debug)]
pub struct PartitionMetrics {
    pub lag: Gauge,
    pub committed_offset: Gauge,
}

/// Handles of the commits.
#[derive(Clone, Debug)]
pub struct CommitMetrics {
    pub committed: Counter,
    pub refused: Counter,
    pub failed: Counter,
    pub duration: Histogram,
    pub last_timestamp: Timestamp,
}
