//! What one group has committed, and what transactions that are open will have committed if they commit (Kafka's
//! `OffsetMetadataManager`).

use std::collections::BTreeMap;

use kafka_protocol::{messages::TopicName, protocol::StrBytes};

use crate::clock::Instant;

/// A partition of a topic.
pub(in crate::broker::core) type Partition = (TopicName, i32);

/// One offset as it was committed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Committed {
    pub(super) offset: i64,
    pub(super) leader_epoch: i32,
    pub(super) metadata: StrBytes,
    /// When.
    pub(super) at: Instant,
}

/// What is committed has a number: a transaction's offsets count from when they were written, not from its end, so that a
/// plain commit in between is not undone by it.
type Numbered = (u64, Committed);

#[derive(Clone, Debug, Default)]
pub(super) struct Offsets {
    committed: BTreeMap<Partition, Numbered>,
    /// By producer id.
    pending: BTreeMap<i64, BTreeMap<Partition, Numbered>>,
    written: u64,
}

impl Offsets {
    pub(super) fn commit(&mut self, partition: Partition, committed: Committed) {
        self.written += 1;
        self.committed.insert(partition, (self.written, committed));
    }

    /// Commits it if the producer's transaction commits.
    pub(super) fn commit_with(&mut self, producer: i64, partition: Partition, committed: Committed) {
        self.written += 1;
        self.pending.entry(producer).or_default().insert(partition, (self.written, committed));
    }

    /// The producer's transaction ends.
    pub(super) fn end_transaction(&mut self, producer: i64, commit: bool) {
        let pending = self.pending.remove(&producer).unwrap_or_default();
        for (partition, (written, committed)) in pending.into_iter().filter(|_| commit) {
            if self.committed.get(&partition).is_none_or(|(before, _)| *before < written) {
                self.committed.insert(partition, (written, committed));
            }
        }
    }

    pub(super) fn get(&self, partition: &Partition) -> Option<&Committed> {
        self.committed.get(partition).map(|(_, committed)| committed)
    }

    /// An open transaction may change it yet.
    pub(super) fn is_unstable(&self, partition: &Partition) -> bool {
        self.pending.values().any(|pending| pending.contains_key(partition))
    }

    /// The partitions with a committed offset.
    pub(super) fn partitions(&self) -> impl Iterator<Item = &Partition> {
        self.committed.keys()
    }

    /// Forgets what is committed and expired, but what an open transaction may change yet.
    pub(super) fn expire(&mut self, expired: impl Fn(&TopicName, &Committed) -> bool) {
        let pending = &self.pending;
        let unstable = |partition: &Partition| pending.values().any(|pending| pending.contains_key(partition));
        self.committed.retain(|partition, (_, committed)| !expired(&partition.0, committed) || unstable(partition));
    }

    /// Nothing is committed, and no transaction is open.
    pub(super) fn is_empty(&self) -> bool {
        self.committed.is_empty() && self.pending.is_empty()
    }

    /// Forgets a partition, in open transactions too.
    pub(super) fn forget(&mut self, partition: &Partition) {
        self.forget_if(|other| other == partition);
    }

    /// Forgets all topics but these.
    pub(super) fn keep_topics(&mut self, kept: impl Fn(&TopicName) -> bool) {
        self.forget_if(|(name, _)| !kept(name));
    }

    fn forget_if(&mut self, forgotten: impl Fn(&Partition) -> bool) {
        self.committed.retain(|partition, _| !forgotten(partition));
        for pending in self.pending.values_mut() {
            pending.retain(|partition, _| !forgotten(partition));
        }
        self.pending.retain(|_, pending| !pending.is_empty());
    }
}
