//! How far this process has emitted its partitions, over every generation of its spouts: what is read below comes again.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use crate::kafka::client::{NextOffset, TopicPartition};

/// Clones share what they know. Each spout notes what it has emitted when a partition leaves it, and when it is dropped.
#[derive(Clone, Debug, Default)]
pub struct History(Arc<Mutex<BTreeMap<TopicPartition, NextOffset>>>);

impl History {
    fn known(&self) -> MutexGuard<'_, BTreeMap<TopicPartition, NextOffset>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Everything below `next` was emitted.
    pub(super) fn note(&self, partition: &TopicPartition, next: NextOffset) {
        let mut known = self.known();
        let highest = known.entry(partition.clone()).or_insert(next);
        *highest = next.max(*highest);
    }

    /// Behind the highest record that was ever emitted.
    pub(super) fn emitted(&self, partition: &TopicPartition) -> Option<NextOffset> {
        self.known().get(partition).copied()
    }

    /// The partition's topic was made anew.
    pub(super) fn forget(&self, partition: &TopicPartition) {
        self.known().remove(partition);
    }
}
