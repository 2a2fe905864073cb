//! What the spout shows of its partitions and commits.

use std::time::Duration;

use super::{partition::Partition, round::Answer};
use crate::{
    clock::wall_millis,
    kafka::client::TopicPartition,
    metrics::{CommitMetrics, ConsumedMetrics, Metrics, PartitionMetrics},
};

/// Handles of one partition.
#[derive(Debug)]
pub(super) struct PartitionGauges {
    consumed: ConsumedMetrics,
    /// Made when there is something to show: an unknown lag must not look like 0.
    partition: Option<PartitionMetrics>,
    metrics: Metrics,
}

impl PartitionGauges {
    pub(super) fn new(metrics: &Metrics, id: &TopicPartition) -> Self {
        Self { consumed: metrics.consumed(&id.topic), partition: None, metrics: metrics.clone() }
    }

    pub(super) fn consumed(&self, records: usize, bytes: usize) {
        self.consumed.records.add(records as u64);
        self.consumed.bytes.add(bytes as u64);
    }

    pub(super) fn show(&mut self, partition: &Partition) {
        let (Some(committed), Some(lag)) = (&partition.committed, partition.lag()) else { return };
        let id = &partition.id;
        let shown = self.partition.get_or_insert_with(|| self.metrics.partition(&id.topic, id.partition));
        shown.lag.set(lag);
        shown.committed_offset.set(u64::try_from(committed.next.0).unwrap_or(0));
    }
}

/// Handles of the commits.
#[derive(Debug)]
pub(super) struct CommitGauges {
    commits: CommitMetrics,
    /// A sentence about values that are sent again was said, and no commit has succeeded since.
    in_trouble: bool,
}

impl CommitGauges {
    pub(super) fn new(metrics: &Metrics) -> Self {
        Self { commits: metrics.commits(), in_trouble: false }
    }

    pub(super) fn answered(&mut self, answer: &Answer, took: Duration) {
        if answer.broken.is_some() {
            self.commits.failed.add(1);
        } else if let Some(why) = &answer.again {
            if !std::mem::replace(&mut self.in_trouble, true) {
                tracing::warn!("{why}; the same offsets are committed again until that succeeds");
            }
        } else if answer.refused {
            self.commits.refused.add(1);
        } else {
            if std::mem::take(&mut self.in_trouble) {
                tracing::info!("offsets are committed again");
            }
            self.commits.committed.add(1);
            self.commits.duration.observe(took);
            self.commits.last_timestamp.set_millis(wall_millis());
        }
    }
}
