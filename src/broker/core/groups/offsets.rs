//! What one group has committed, and what transactions that are open will have committed if they commit (Kafka's
//! `OffsetMetadataManager`).

use std::collections::BTreeMap;

use kafka_protocol::{messages::TopicName, protocol::StrBytes};

use crate::{
    broker::core::sizes::{map, text},
    clock::Instant,
};

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

/// Offsets by partition, and the bytes of their texts.
#[derive(Clone, Debug, Default)]
struct Table {
    offsets: BTreeMap<Partition, Numbered>,
    texts: usize,
}

fn texts((topic, _): &Partition, committed: &Committed) -> usize {
    text(topic.len()) + text(committed.metadata.len())
}

impl Table {
    fn insert(&mut self, partition: Partition, (number, committed): Numbered) {
        self.texts = self.texts + texts(&partition, &committed) - self.texts_of(&partition);
        self.offsets.insert(partition, (number, committed));
    }

    /// Those that are there for a partition.
    fn texts_of(&self, partition: &Partition) -> usize {
        self.offsets.get(partition).map_or(0, |(_, committed)| texts(partition, committed))
    }

    fn retain(&mut self, kept: impl Fn(&Partition, &Committed) -> bool) {
        self.offsets.retain(|partition, (_, committed)| kept(partition, committed));
        self.texts = self.offsets.iter().map(|(partition, (_, committed))| texts(partition, committed)).sum();
    }

    const fn size_of(count: usize, texts: usize) -> usize {
        map::<(Partition, Numbered)>(count) + texts
    }

    fn size(&self) -> usize {
        Self::size_of(self.offsets.len(), self.texts)
    }

    /// How much larger it is with this.
    fn growth(&self, partition: &Partition, committed: &Committed) -> usize {
        let count = self.offsets.len() + usize::from(!self.offsets.contains_key(partition));
        let texts = self.texts + texts(partition, committed) - self.texts_of(partition);
        Self::size_of(count, texts).saturating_sub(self.size())
    }
}

#[derive(Clone, Debug, Default)]
pub(super) struct Offsets {
    committed: Table,
    /// By producer id.
    pending: BTreeMap<i64, Table>,
    /// The bytes of those tables.
    pending_size: usize,
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
        let pending = self.pending.entry(producer).or_default();
        self.pending_size -= pending.size();
        pending.insert(partition, (self.written, committed));
        self.pending_size += pending.size();
    }

    /// How much larger it is with a commit, in the transaction of a producer where one is given.
    pub(super) fn growth(&self, producer: Option<i64>, partition: &Partition, committed: &Committed) -> usize {
        let Some(producer) = producer else { return self.committed.growth(partition, committed) };
        if let Some(pending) = self.pending.get(&producer) {
            return pending.growth(partition, committed);
        }
        let producers = self.pending.len();
        let place = map::<(i64, Table)>(producers + 1) - map::<(i64, Table)>(producers);
        place + Table::default().growth(partition, committed)
    }

    /// The bytes of all.
    pub(super) fn size(&self) -> usize {
        self.committed.size() + map::<(i64, Table)>(self.pending.len()) + self.pending_size
    }

    #[cfg(test)]
    pub(super) fn recount(&self) -> usize {
        let table = |table: &Table| {
            let texts = table.offsets.iter().map(|(partition, (_, committed))| texts(partition, committed));
            map::<(Partition, Numbered)>(table.offsets.len()) + texts.sum::<usize>()
        };
        let pending: usize = self.pending.values().map(table).sum();
        table(&self.committed) + map::<(i64, Table)>(self.pending.len()) + pending
    }

    /// The producer's transaction ends.
    pub(super) fn end_transaction(&mut self, producer: i64, commit: bool) {
        let pending = self.pending.remove(&producer).unwrap_or_default();
        self.pending_size -= pending.size();
        for (partition, (written, committed)) in pending.offsets.into_iter().filter(|_| commit) {
            if self.committed.offsets.get(&partition).is_none_or(|(before, _)| *before < written) {
                self.committed.insert(partition, (written, committed));
            }
        }
    }

    pub(super) fn get(&self, partition: &Partition) -> Option<&Committed> {
        self.committed.offsets.get(partition).map(|(_, committed)| committed)
    }

    /// An open transaction may change it yet.
    pub(super) fn is_unstable(&self, partition: &Partition) -> bool {
        is_pending(&self.pending, partition)
    }

    /// The partitions with a committed offset.
    pub(super) fn partitions(&self) -> impl Iterator<Item = &Partition> {
        self.committed.offsets.keys()
    }

    /// Forgets what is committed and expired, but what an open transaction may change yet.
    pub(super) fn expire(&mut self, expired: impl Fn(&TopicName, &Committed) -> bool) {
        let pending = &self.pending;
        let kept = |partition: &Partition, committed: &Committed| {
            !expired(&partition.0, committed) || is_pending(pending, partition)
        };
        self.committed.retain(kept);
    }

    /// Nothing is committed, and no transaction is open.
    pub(super) fn is_empty(&self) -> bool {
        self.committed.offsets.is_empty() && self.pending.is_empty()
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
        self.pending.retain(|_, pending| !pending.offsets.is_empty());
        self.pending_size = self.pending.values().map(Table::size).sum();
    }
}

fn is_pending(pending: &BTreeMap<i64, Table>, partition: &Partition) -> bool {
    pending.values().any(|pending| pending.offsets.contains_key(partition))
}
