//! How a topology with stores starts: spouts learn what is committed, the stores are read back, and only if both belong
//! together something is emitted. Decides; the conductor sends.

use std::time::Duration;

use crate::{
    clock::Instant,
    state::{Position, RestartPlan, SourceStart, next_commit, plan_restart},
    topology::{CommitNumber, Delivery},
};

/// A start that goes on.
#[derive(Debug)]
pub(super) struct Start {
    /// Executors whose spouts do not know yet where they begin.
    waiting_for: usize,
    starts: Vec<SourceStart>,
    restore_began: Option<Instant>,
    entries: u64,
    delivery: Delivery,
}

/// What the stores were found to be at the start of a generation.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
pub struct RestoreReport {
    /// Records that come again and may be in the state already: an upper bound.
    pub possible_repeats: u64,
    /// The most entries that a generation has read back into the stores.
    pub keys: u64,
    /// How long opening the changelog and reading it took.
    pub took: Duration,
}

impl RestoreReport {
    /// What a later generation has found: of its keys the most that there were, the rest adds up.
    pub(super) fn add(&mut self, later: Self) {
        self.possible_repeats += later.possible_repeats;
        self.keys = later.keys.max(self.keys);
        self.took += later.took;
    }
}

/// How a start has ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Started {
    /// Spouts may emit; the next commit has this number.
    Go(CommitNumber, RestoreReport),
    /// State and offsets do not belong together: a sentence.
    Refuse(String),
}

impl Start {
    pub(super) const fn new(executors: usize, delivery: Delivery) -> Self {
        Self { waiting_for: executors, starts: Vec::new(), restore_began: None, entries: 0, delivery }
    }

    /// The spouts of one executor know where they begin. True if all do: the stores are to be restored now.
    pub(super) fn begins_at(&mut self, starts: Vec<SourceStart>, now: Instant) -> bool {
        self.starts.extend(starts);
        self.waiting_for = self.waiting_for.saturating_sub(1);
        if self.waiting_for > 0 {
            return false;
        }
        self.restore_began = Some(now);
        true
    }

    /// Entries were read; one key may come several times.
    pub(super) const fn read(&mut self, entries: u64) {
        self.entries += entries;
    }

    /// Entries read so far.
    pub(super) const fn entries(&self) -> u64 {
        self.entries
    }

    /// Everything was read.
    pub(super) fn restored(&self, position: Option<&Position>, keys: u64, now: Instant) -> Started {
        let took = self.restore_began.map_or(Duration::ZERO, |began| now - began);
        match plan_restart(position, &self.starts) {
            RestartPlan::Go { next_commit, possible_repeats } => {
                let possible_repeats = if self.delivery.is_tracked() { possible_repeats } else { 0 };
                Started::Go(CommitNumber(next_commit), RestoreReport { possible_repeats, keys, took })
            }
            // Who does not replay commits ahead of the state: what a crash takes from it is the mode's own promise.
            RestartPlan::Refuse(_) if !self.delivery.is_tracked() && position.is_some() => {
                let next = CommitNumber(next_commit(position, &self.starts));
                Started::Go(next, RestoreReport { possible_repeats: 0, keys, took })
            }
            RestartPlan::Refuse(sentence) => Started::Refuse(sentence),
        }
    }
}
