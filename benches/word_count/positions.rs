//! How far a loop by hand has read, and what it commits.

use stormglass::kafka::client::{AssignmentEpoch, Commit, NextOffset, RecordBlock, TopicPartition};

/// Where each partition is to be read on.
pub(crate) struct Positions {
    pub(crate) epoch: AssignmentEpoch,
    next: Vec<(TopicPartition, NextOffset)>,
}

impl Positions {
    /// Nothing was read.
    pub(crate) const fn new() -> Self {
        Self { epoch: AssignmentEpoch(0), next: Vec::new() }
    }

    pub(crate) fn note(&mut self, block: &RecordBlock) {
        let Some(next) = block.records().last().map(|record| record.offset.next()) else { return };
        match self.next.iter_mut().find(|(partition, _)| *partition == block.partition) {
            Some((_, at)) => *at = next,
            None => self.next.push((block.partition.clone(), next)),
        }
    }

    pub(crate) fn commits(&self) -> Vec<Commit> {
        let commit = |(partition, next): &(TopicPartition, NextOffset)| Commit {
            partition: partition.clone(),
            epoch: self.epoch,
            next: *next,
            metadata: String::new(),
        };
        self.next.iter().map(commit).collect()
    }
}
