//! Every exported metric, in one table, and typed handles to update them.
//!
//! Handles are resolved once, when a component or a topic becomes known, and updated once a *batch*: an update is an
//! atomic addition, a look-up takes a lock. Clones are cheap and share their values. No other
//! folder names the crate behind this.

mod handles;
mod labels;
pub mod process;
mod readiness;

pub use self::{
    handles::{
        CommitMetrics, ComponentMetrics, ConsumedMetrics, Counter, Gauge, Histogram, PartitionMetrics, ProducedMetrics,
        Timestamp, TreeMetrics,
    },
    labels::{
        CommitResult, DeadLetterReason, DuplicateOutcome, ProduceResult, RebalanceEvent, ReplayReason, TreeOutcome,
    },
    readiness::{Readiness, Unready},
};

use std::{fmt, sync::Arc};

use prometheus::{GaugeVec, HistogramOpts, HistogramVec, IntCounterVec, IntGaugeVec, Opts, Registry};

/// What kind of value a metric has.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Kind {
    /// A whole number that only grows.
    Counter,
    /// A whole number that goes up and down.
    Gauge,
    /// A point in time, in seconds since 1970.
    Timestamp,
    /// Durations, from a tenth of a millisecond to a minute.
    Duration,
}

/// One line of the table.
#[derive(Copy, Clone, Debug)]
pub struct Definition {
    /// Full name, with prefix and unit.
    pub name: &'static str,
    /// What kind of value it has.
    pub kind: Kind,
    /// Unit of the value: `1` for a number of things.
    pub unit: &'static str,
    /// Names of its labels.
    pub labels: &'static [&'static str],
    /// What it means, in a sentence.
    pub help: &'static str,
}

macro_rules! family {
    (Counter) => {
        IntCounterVec
    };
    (Gauge) => {
        IntGaugeVec
    };
    (Timestamp) => {
        GaugeVec
    };
    (Duration) => {
        HistogramVec
    };
}

macro_rules! new_family {
    (Duration, $definition:expr) => {
        HistogramVec::new(histogram($definition), $definition.labels)
    };
    ($kind:ident, $definition:expr) => {
        <family!($kind)>::new(Opts::new($definition.name, $definition.help), $definition.labels)
    };
}

macro_rules! table {
    ($($field:ident $kind:ident $unit:literal [$($label:literal)*] $help:literal;)*) => {
        /// The table: every metric there is.
        pub const TABLE: &[Definition] = &[$(Definition {
            name: concat!("stormglass_", stringify!($field)),
            kind: Kind::$kind,
            unit: $unit,
            labels: &[$($label),*],
            help: $help,
        }),*];

        #[derive(Debug)]
        struct Families { $($field: family!($kind),)* }

        impl Families {
            fn register(registry: &Registry) -> Result<Self, prometheus::Error> {
                let mut definitions = TABLE.iter();
                $(
                    let $field = match definitions.next() {
                        Some(definition) => new_family!($kind, definition)?,
                        None => return Err(prometheus::Error::Msg("the table ended early".to_owned())),
                    };
                    registry.register(Box::new($field.clone()))?;
                )*
                Ok(Self { $($field),* })
            }
        }
    };
}

table! {
    build_info Gauge "1" ["version" "librdkafka"] "Always 1; the labels say what runs.";
    ready Gauge "1" [] "1 while brokers answer, partitions are assigned and nothing drains, else 0.";
    component_tasks Gauge "1" ["component"] "Tasks that a component runs as.";
    component_executed_total Counter "1" ["component"] "Tuples that a bolt or sink has executed.";
    component_emitted_total Counter "1" ["component" "stream"] "Tuples that a component has emitted.";
    component_acked_total Counter "1" ["component"] "Inputs that a bolt or sink has acked.";
    component_failed_total Counter "1" ["component"] "Inputs that a bolt or sink has failed.";
    trees_started_total Counter "1" ["component"] "Tuple trees that a spout has started.";
    trees_completed_total Counter "1" ["component" "outcome"] "Tuple trees that ended, by how.";
    records_replayed_total Counter "1" ["reason"] "Records emitted again, by why.";
    records_left_unfinished_total Counter "1" [] "Records emitted and not committed when their partition left, which whoever reads it next emits again; an upper bound.";
    records_lost_total Counter "1" [] "Records deleted before they were read, where that is skipped; an upper bound.";
    late_acks_total Counter "1" [] "Acks and failures of records whose partition had left: ignored.";
    duplicates_total Counter "1" ["outcome"] "Effects that were repeated, by whether anybody outside can see them.";
    dead_letters_total Counter "1" ["reason"] "Records given up and written to the dead-letter topic, by why.";
    kafka_records_consumed_total Counter "1" ["topic"] "Records read from a topic.";
    kafka_consumed_bytes_total Counter "B" ["topic"] "Bytes of keys and values read from a topic.";
    kafka_records_produced_total Counter "1" ["topic" "result"] "Records written to a topic, by the broker's answer.";
    kafka_produced_bytes_total Counter "B" ["topic"] "Bytes of keys and values handed over for a topic.";
    kafka_lag_records Gauge "1" ["topic" "partition"] "Records between the committed offset and the partition's end.";
    kafka_committed_offset Gauge "1" ["topic" "partition"] "Offset that a restart would read next.";
    kafka_commits_total Counter "1" ["result"] "Commits of offsets, by the broker's answer.";
    kafka_commit_duration_seconds Duration "s" [] "Time from freezing a commit to the broker's answer.";
    kafka_rebalances_total Counter "1" ["event"] "Changes of the assignment, by kind.";
    last_commit_timestamp_seconds Timestamp "s" [] "When offsets were committed last, in seconds since 1970.";
}

const DURATIONS: &[f64] =
    &[1e-4, 3e-4, 1e-3, 2e-3, 5e-3, 1e-2, 2e-2, 5e-2, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 60.0];

fn histogram(definition: &Definition) -> HistogramOpts {
    HistogramOpts::new(definition.name, definition.help).buckets(DURATIONS.to_vec())
}

/// The table and the registry disagree: a bug that every start would show.
#[derive(Debug, thiserror::Error)]
#[error("metrics cannot be registered: {0}")]
pub struct MetricsError(String);

impl From<prometheus::Error> for MetricsError {
    fn from(error: prometheus::Error) -> Self {
        Self(error.to_string())
    }
}

struct Series {
    registry: Registry,
    families: Families,
}

/// All metrics of one process (or of one test): cheap to clone, shared by its clones.
#[derive(Clone)]
pub struct Metrics {
    series: Arc<Series>,
    readiness: Readiness,
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Metrics({} families)", TABLE.len())
    }
}

impl Metrics {
    /// A registry of its own with every series that can be known beforehand at 0. `librdkafka` is the client's version.
    ///
    /// # Errors
    /// If the table contradicts itself, which a test rules out.
    pub fn new(librdkafka: &str) -> Result<Self, MetricsError> {
        let registry = Registry::new();
        let families = Families::register(&registry)?;
        families.build_info.with_label_values(&[env!("CARGO_PKG_VERSION"), librdkafka]).set(1);
        let metrics = Self { series: Arc::new(Series { registry, families }), readiness: Readiness::default() };
        metrics.show_known_series();
        Ok(metrics)
    }

    /// The same series for another life of the process, whose readiness begins anew: as a simulation has it, which starts
    /// thousands.
    #[must_use]
    pub fn for_another_life(&self) -> Self {
        Self { series: Arc::clone(&self.series), readiness: Readiness::default() }
    }

    /// Shows what the operating system counts for this process too: `process_*`, on Linux.
    ///
    /// # Errors
    /// If that was asked for before.
    pub fn show_process(&self) -> Result<(), MetricsError> {
        #[cfg(target_os = "linux")]
        self.series.registry.register(Box::new(prometheus::process_collector::ProcessCollector::for_self()))?;
        Ok(())
    }

    /// A first event must be a step from 0, or `rate()` does not see it.
    fn show_known_series(&self) {
        for reason in ReplayReason::ALL {
            drop(self.replayed(*reason));
        }
        for outcome in DuplicateOutcome::ALL {
            drop(self.duplicates(*outcome));
        }
        for reason in DeadLetterReason::ALL {
            drop(self.dead_letters(*reason));
        }
        for event in RebalanceEvent::ALL {
            drop(self.rebalances(*event));
        }
        drop(self.commits());
        drop((self.left_unfinished(), self.records_lost(), self.late_acks()));
    }

    /// What `/readyz` answers, and why.
    #[must_use]
    pub const fn readiness(&self) -> &Readiness {
        &self.readiness
    }

    /// Handles of component `name`.
    #[must_use]
    pub fn component(&self, name: &str) -> ComponentMetrics {
        let (f, l) = (&self.series.families, &[name]);
        ComponentMetrics {
            tasks: Gauge(f.component_tasks.with_label_values(l)),
            executed: Counter(f.component_executed_total.with_label_values(l)),
            acked: Counter(f.component_acked_total.with_label_values(l)),
            failed: Counter(f.component_failed_total.with_label_values(l)),
        }
    }

    /// Tuples that component `name` emits on `stream`.
    #[must_use]
    pub fn emitted(&self, name: &str, stream: &str) -> Counter {
        Counter(self.series.families.component_emitted_total.with_label_values(&[name, stream]))
    }

    /// Handles of the trees that spout `name` starts.
    #[must_use]
    pub fn trees(&self, name: &str) -> TreeMetrics {
        let (f, l) = (&self.series.families, &[name]);
        let ended = |o: TreeOutcome| Counter(f.trees_completed_total.with_label_values(&[name, o.label()]));
        TreeMetrics {
            started: Counter(f.trees_started_total.with_label_values(l)),
            acked: ended(TreeOutcome::Acked),
            failed: ended(TreeOutcome::Failed),
            timed_out: ended(TreeOutcome::TimedOut),
        }
    }

    /// Records emitted again because of `reason`.
    #[must_use]
    pub fn replayed(&self, reason: ReplayReason) -> Counter {
        Counter(self.series.families.records_replayed_total.with_label_values(&[reason.label()]))
    }

    /// Records that another member emits again because their partition went to it.
    #[must_use]
    pub fn left_unfinished(&self) -> Counter {
        let none: &[&str] = &[];
        Counter(self.series.families.records_left_unfinished_total.with_label_values(none))
    }

    /// Records that were deleted before they were read, and skipped.
    #[must_use]
    pub fn records_lost(&self) -> Counter {
        let none: &[&str] = &[];
        Counter(self.series.families.records_lost_total.with_label_values(none))
    }

    /// Acks and failures that came when the partition had left.
    #[must_use]
    pub fn late_acks(&self) -> Counter {
        let none: &[&str] = &[];
        Counter(self.series.families.late_acks_total.with_label_values(none))
    }

    /// Effects that were repeated.
    #[must_use]
    pub fn duplicates(&self, outcome: DuplicateOutcome) -> Counter {
        Counter(self.series.families.duplicates_total.with_label_values(&[outcome.label()]))
    }

    /// Records that were given up because of `reason`.
    #[must_use]
    pub fn dead_letters(&self, reason: DeadLetterReason) -> Counter {
        Counter(self.series.families.dead_letters_total.with_label_values(&[reason.label()]))
    }

    /// Handles of a topic that is read.
    #[must_use]
    pub fn consumed(&self, topic: &str) -> ConsumedMetrics {
        let f = &self.series.families;
        ConsumedMetrics {
            records: Counter(f.kafka_records_consumed_total.with_label_values(&[topic])),
            bytes: Counter(f.kafka_consumed_bytes_total.with_label_values(&[topic])),
        }
    }

    /// Handles of a topic that is written.
    #[must_use]
    pub fn produced(&self, topic: &str) -> ProducedMetrics {
        let f = &self.series.families;
        let by = |r: ProduceResult| Counter(f.kafka_records_produced_total.with_label_values(&[topic, r.label()]));
        ProducedMetrics {
            acknowledged: by(ProduceResult::Acknowledged),
            failed: by(ProduceResult::Failed),
            bytes: Counter(f.kafka_produced_bytes_total.with_label_values(&[topic])),
        }
    }

    /// Handles of a partition that was assigned. Drop them, then call [`Metrics::forget_partition`], when it leaves.
    #[must_use]
    pub fn partition(&self, topic: &str, partition: i32) -> PartitionMetrics {
        let (f, partition) = (&self.series.families, partition.to_string());
        let labels = &[topic, partition.as_str()];
        PartitionMetrics {
            lag: Gauge(f.kafka_lag_records.with_label_values(labels)),
            committed_offset: Gauge(f.kafka_committed_offset.with_label_values(labels)),
        }
    }

    /// Takes the series of a partition that is no longer ours out of the export.
    pub fn forget_partition(&self, topic: &str, partition: i32) {
        let (f, partition) = (&self.series.families, partition.to_string());
        let labels = &[topic, partition.as_str()];
        // An error says that there is no such series, which is the aim.
        f.kafka_lag_records.remove_label_values(labels).ok();
        f.kafka_committed_offset.remove_label_values(labels).ok();
    }

    /// Lag over all partitions that are assigned, for the progress line; `None` while it is not known of any.
    #[must_use]
    pub fn total_lag(&self) -> Option<u64> {
        let lags = &self.series.families.kafka_lag_records;
        let known = prometheus::core::Collector::collect(lags).iter().any(|family| !family.get_metric().is_empty());
        known.then(|| Self::total(lags, |m| m.get_gauge().get_value()))
    }

    /// Records read from all topics, for the progress line and the summary.
    #[must_use]
    pub fn total_consumed(&self) -> u64 {
        Self::total(&self.series.families.kafka_records_consumed_total, |m| m.get_counter().get_value())
    }

    fn total(family: &impl prometheus::core::Collector, value: impl Fn(&prometheus::proto::Metric) -> f64) -> u64 {
        let families = family.collect();
        let sum: f64 = families.iter().flat_map(prometheus::proto::MetricFamily::get_metric).map(value).sum();
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a sum of values that are never negative"
        )]
        let sum = sum as u64;
        sum
    }

    /// Handles of the commits.
    #[must_use]
    pub fn commits(&self) -> CommitMetrics {
        let f = &self.series.families;
        let by = |r: CommitResult| Counter(f.kafka_commits_total.with_label_values(&[r.label()]));
        let none: &[&str] = &[];
        CommitMetrics {
            committed: by(CommitResult::Committed),
            refused: by(CommitResult::Refused),
            failed: by(CommitResult::Failed),
            duration: Histogram(f.kafka_commit_duration_seconds.with_label_values(none)),
            last_timestamp: Timestamp(f.last_commit_timestamp_seconds.with_label_values(none)),
        }
    }

    /// Changes of the assignment.
    #[must_use]
    pub fn rebalances(&self, event: RebalanceEvent) -> Counter {
        Counter(self.series.families.kafka_rebalances_total.with_label_values(&[event.label()]))
    }

    /// All metrics as Prometheus' text format 0.0.4.
    ///
    /// # Errors
    /// If a value cannot be written as text, which is a bug.
    pub fn render(&self) -> Result<String, MetricsError> {
        let none: &[&str] = &[];
        let ready = i64::from(self.readiness().check().is_ok());
        self.series.families.ready.with_label_values(none).set(ready);
        Ok(prometheus::TextEncoder::new().encode_to_string(&self.series.registry.gather())?)
    }
}

#[cfg(test)]
mod tests;
