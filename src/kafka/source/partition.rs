//! One assigned partition: its frontier, its records in flight and its retries. Pure.

use std::ops::Range;

use super::{
    channel::Arrival,
    commit_metadata::{CommitMetadata, MOST_RANGES},
    lineage::PartitionLineage,
    offsets::{DoneOffsets, Frontier, Seq},
    pending::Pending,
    retry::{Retries, RetryPolicy},
    round::Frozen,
};
use crate::{
    kafka::client::{AssignmentEpoch, NextOffset, Offset, RecordBlock, TopicPartition},
    metrics::ReplayReason,
    state::OffsetRanges,
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
    /// The first record that was delivered.
    began: Option<Offset>,
    /// Behind the highest record that was emitted.
    started: Option<NextOffset>,
    /// Records below were emitted by an earlier reader, as far as is known: emitting them is a replay.
    pub(super) started_before: Option<NextOffset>,
    /// What is read below was emitted before, by this process or by the one that has committed last.
    pub(super) again_below: Option<NextOffset>,
    /// Why such a record comes again.
    pub(super) replay_reason: ReplayReason,
    /// What a commit was asked for last: a lower offset must never follow.
    pub(super) asked: Option<DoneOffsets>,
    pub(super) committed: Option<DoneOffsets>,
    /// What stood beside the offset that was found committed.
    text: Option<String>,
    /// The last commit that was asked for has no answer yet.
    pub(super) awaits_commit: bool,
    /// Trees that are open, and dead letters on their way.
    pub(super) in_flight: usize,
    /// The partition is on its way out: nothing of it is emitted any more, but what was committed for at-most-once.
    pub(super) leaving: bool,
    pub(super) paused: bool,
    hoards: bool,
    seen_open: Seq,
}

impl Partition {
    pub(super) fn new(arrival: Arrival, epoch: AssignmentEpoch, first: Seq, retry: RetryPolicy, gated: bool) -> Self {
        let metadata = arrival.committed.as_ref().and_then(|committed| CommitMetadata::decode(&committed.metadata));
        let started_before = metadata.as_ref().map(|metadata| metadata.started);
        let above = metadata.map_or_else(OffsetRanges::new, |metadata| metadata.done);
        let (found, text) = arrival.committed.map(|committed| (committed.next, committed.metadata)).unzip();
        let committed = found.map(|next| DoneOffsets { next, above: above.clone() });
        Self {
            lineage: PartitionLineage::of(&arrival.partition),
            id: arrival.partition,
            epoch,
            frontier: Frontier::new(found.or(arrival.first), above, first),
            pending: Pending::new(first),
            retries: Retries::new(retry),
            first,
            allowed: if gated { first } else { Seq(u64::MAX) },
            end: arrival.end,
            known_end: arrival.end,
            began: None,
            started: None,
            started_before,
            again_below: started_before,
            replay_reason: ReplayReason::Restart,
            asked: committed.clone(),
            committed,
            text,
            awaits_commit: false,
            in_flight: 0,
            leaving: false,
            paused: false,
            hoards: false,
            seen_open: first,
        }
    }

    /// Takes a block; gives it back if there is nothing in it to emit. Says how many records were new. Those that were
    /// done before reading began are done at once.
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
        self.began = self.began.or_else(|| block.records().get(start).map(|head| head.offset));
        let may_be_done = block.records().get(start).is_some_and(|head| self.frontier.knows_beyond(head.offset));
        let done = if may_be_done { self.done_before(&block, start..start + taken, first) } else { Vec::new() };
        self.pending.push(block, start..start + taken, first);
        let mut freed = None;
        for seq in done {
            self.frontier.done(seq);
            freed = freed.or(self.pending.skip(seq));
        }
        (taken, freed)
    }

    /// Those of the records in `range` of a block, which are `first` and following, that were done before.
    fn done_before(&self, block: &RecordBlock, range: Range<usize>, first: Seq) -> Vec<Seq> {
        let records = block.records().get(range).unwrap_or_default();
        let done = (first.0..).zip(records).filter(|(_, head)| self.frontier.was_done(head.offset));
        done.map(|(seq, _)| Seq(seq)).collect()
    }

    /// The next `records` were emitted for the first time, up to `started`.
    #[inline]
    pub(super) fn emitted(&mut self, records: usize, started: Option<NextOffset>) {
        self.started = self.started.max(started);
        self.pending.emitted(records);
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

    /// Records wait until their offsets are committed: at-most-once.
    const fn is_gated(&self) -> bool {
        self.allowed.0 != u64::MAX
    }

    /// Nothing of it is in flight, and nothing is to be committed.
    pub(super) fn is_settled(&self) -> bool {
        let emitted = !self.is_gated() || self.pending.cursor() >= self.allowed;
        let said = || self.freeze().is_none_or(|frozen| !self.is_news(&frozen.done));
        self.in_flight == 0 && emitted && !self.awaits_commit && said()
    }

    /// Offsets of records that were emitted here and are not committed: whoever reads the partition next emits them again.
    /// An upper bound, for it counts holes too.
    pub(super) fn unfinished(&self) -> u64 {
        let Some(started) = self.started else { return 0 };
        match (&self.committed, self.began) {
            (Some(committed), _) => committed.above.missing_between(committed.next.0, started.0),
            (None, Some(began)) => started.0.abs_diff(began.0),
            (None, None) => 0,
        }
    }

    /// How many records may be emitted for the first time now.
    #[inline]
    pub(super) fn emittable(&self, max_ahead: u64) -> u64 {
        if self.leaving && !self.is_gated() {
            return 0;
        }
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
    /// memory behind one, or has reached its end, or leaves. A pause costs what was fetched ahead, so a partition that moves is left
    /// alone.
    pub(super) fn should_pause(&self, max_ahead: u64) -> bool {
        self.ahead() >= if self.paused { max_ahead / 2 } else { max_ahead }
            || self.hoards
            || self.leaving
            || self.end.is_some_and(|end| self.frontier.delivered_up_to() >= Some(end))
    }

    /// Behind the highest record that was emitted, by an earlier reader too.
    pub(super) fn started(&self) -> Option<NextOffset> {
        self.started.max(self.started_before)
    }

    /// Where the partition stands now; `None` while it is not known where reading began.
    pub(super) fn freeze(&self) -> Option<Frozen> {
        let next = self.frontier.frontier()?;
        Some(Frozen {
            partition: self.id.clone(),
            epoch: self.epoch,
            done: DoneOffsets { next, above: self.frontier.done_above(MOST_RANGES) },
            started: next.max(self.started().unwrap_or(next)),
            committed: self.committed.as_ref().map(|done| done.next),
            text: None,
        })
    }

    /// What was found, to be committed again before anything is emitted: the offset with what stood beside it, or where
    /// reading begins.
    pub(super) fn freeze_found(&self) -> Option<Frozen> {
        let (frozen, text) = (self.freeze()?, self.text.clone());
        Some(Frozen { done: self.committed.clone().unwrap_or(frozen.done), text, ..frozen })
    }

    /// Where the partition stands once everything delivered is given up: at-most-once commits that before it emits.
    pub(super) fn freeze_ahead(&self) -> Option<Frozen> {
        let (next, frozen) = (self.frontier.delivered_up_to()?, self.freeze()?);
        let mut above = OffsetRanges::new();
        frozen.done.above.iter().for_each(|(start, end)| above.push(start.max(next.0), end));
        Some(Frozen { done: DoneOffsets { next, above }, started: frozen.started.max(next), ..frozen })
    }

    /// Whether a commit of this was never asked for, and does not go back.
    pub(super) fn is_news(&self, done: &DoneOffsets) -> bool {
        self.asked
            .as_ref()
            .is_none_or(|asked| done.next > asked.next || (done.next == asked.next && done.above != asked.above))
    }

    /// Whether the offset that was asked for last is committed.
    pub(super) fn is_committed_as_asked(&self) -> bool {
        self.committed.as_ref().map(|done| done.next) >= self.asked.as_ref().map(|done| done.next)
    }

    /// Records between what is committed and the end.
    pub(super) fn lag(&self) -> Option<u64> {
        let (end, committed) = (self.known_end?, self.committed.as_ref()?.next);
        u64::try_from(end.0 - committed.0).ok().or(Some(0))
    }
}
