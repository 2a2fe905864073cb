//! One assigned partition: its frontier, its records in flight and its retries. Pure.

use super::{
    channel::Arrival,
    client::{AssignmentEpoch, NextOffset, RecordBlock, TopicPartition},
    lineage::PartitionLineage,
    offsets::{Frontier, Seq},
    pending::Pending,
    retry::{Retries, RetryPolicy},
};

/// A partition from its assignment until it leaves.
#[derive(Debug)]
pub(super) struct Partition {
    pub(super) id: TopicPartition,
    pub(super) epoch: AssignmentEpoch,
    pub(super) lineage: PartitionLineage,
    pub(super) frontier: Frontier,
    pub(super) pending: Pending,
    pub(super) retries: Retries,
    /// The first record of this assignment; ids below are of an earlier one.
    pub(super) first: Seq,
    /// Records below may be emitted: those whose offsets are committed, under at-most-once; else all.
    pub(super) allowed: Seq,
    /// Reading ends here.
    pub(super) end: Option<NextOffset>,
    /// Where the partition ends, as far as is known.
    pub(super) known_end: Option<NextOffset>,
    /// The highest value that a commit was asked for: a lower one must never follow.
    pub(super) asked: Option<NextOffset>,
    pub(super) committed: Option<NextOffset>,
    pub(super) paused: bool,
    hoards: bool,
    seen_open: Seq,
}

impl Partition {
    pub(super) fn new(arrival: Arrival, epoch: AssignmentEpoch, first: Seq, retry: RetryPolicy, gated: bool) -> Self {
        Self {
            lineage: PartitionLineage::of(&arrival.partition),
            id: arrival.partition,
            epoch,
            frontier: Frontier::new(arrival.start, first),
            pending: Pending::new(first),
            retries: Retries::new(retry),
            first,
            allowed: if gated { first } else { Seq(u64::MAX) },
            end: arrival.end,
            known_end: arrival.end,
            asked: arrival.start,
            committed: arrival.start,
            paused: false,
            hoards: false,
            seen_open: first,
        }
    }

    /// Takes a block; gives it back if there is nothing new in it. Says how many records were taken.
    pub(super) fn take(&mut self, block: RecordBlock) -> (usize, Option<RecordBlock>) {
        let first = self.frontier.next_seq();
        let (mut start, mut taken) = (0, 0);
        for (at, head) in block.records().iter().enumerate() {
            if self.end.is_some_and(|end| head.offset.0 >= end.0) {
                // What came after the end that was found at the start is for the next run.
                self.pass(head.offset.next());
                break;
            }
            if self.frontier.delivered(head.offset).is_some() {
                if taken == 0 {
                    start = at;
                }
                taken += 1;
            }
        }
        if let Some(last) = block.records().last() {
            self.known_end = self.known_end.max(Some(last.offset.next()));
        }
        if taken == 0 {
            return (0, Some(block));
        }
        self.pending.push(block, start..start + taken, first);
        (taken, None)
    }

    /// Everything below `next` was delivered, or never will be.
    pub(super) fn pass(&mut self, next: NextOffset) {
        self.known_end = self.known_end.max(Some(next));
        self.frontier.passed(self.end.map_or(next, |end| end.min(next)));
    }

    /// A record is done; `None` if it was already. Gives back a block that is not needed any more.
    #[inline]
    pub(super) fn done(&mut self, seq: Seq) -> Option<Option<RecordBlock>> {
        if !self.frontier.done(seq) {
            return None;
        }
        self.retries.forget(seq);
        Some(self.pending.done(seq))
    }

    /// Whether an id names a record of this assignment.
    pub(super) fn owns(&self, seq: Seq) -> bool {
        (self.first..self.frontier.next_seq()).contains(&seq)
    }

    /// Everything up to the end is done.
    pub(super) fn is_exhausted(&self) -> bool {
        self.end.is_some_and(|end| self.frontier.frontier() >= Some(end))
    }

    /// Records from the first open one to the next to emit.
    fn ahead(&self) -> u64 {
        self.pending.cursor().0.saturating_sub(self.frontier.first_open().0)
    }

    /// How many records may be emitted for the first time now.
    #[inline]
    pub(super) fn emittable(&self, max_ahead: u64) -> u64 {
        let allowed = self.allowed.0.saturating_sub(self.pending.cursor().0);
        self.pending.unemitted().min(allowed).min(max_ahead.saturating_sub(self.ahead()))
    }

    /// Looks now and then whether the partition stands still while it holds more than `max_bytes`.
    pub(super) fn look(&mut self, max_bytes: usize) {
        let still = self.frontier.first_open() == self.seen_open;
        self.hoards =
            if self.hoards { self.pending.bytes() > max_bytes / 2 } else { still && self.pending.bytes() > max_bytes };
        self.seen_open = self.frontier.first_open();
    }

    /// Whether the partition should be paused: it has run too far ahead of an open record, or holds more than its share of
    /// memory behind one, or has reached its end. A pause costs what was fetched ahead, so a partition that moves is left
    /// alone.
    pub(super) fn should_pause(&self, max_ahead: u64) -> bool {
        self.ahead() >= if self.paused { max_ahead / 2 } else { max_ahead }
            || self.hoards
            || self.end.is_some_and(|end| self.frontier.delivered_up_to() >= Some(end))
    }

    /// What a commit would say now; `None` if that was said before.
    pub(super) fn uncommitted(&self) -> Option<NextOffset> {
        self.frontier.frontier().filter(|next| Some(*next) > self.asked)
    }

    /// Records between what is committed and the end.
    pub(super) fn lag(&self) -> Option<u64> {
        let (end, committed) = (self.known_end?, self.committed?);
        u64::try_from(end.0 - committed.0).ok().or(Some(0))
    }
}
