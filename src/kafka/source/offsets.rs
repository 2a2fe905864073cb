//! The frontier of one partition: everything below it is done. Pure.

use std::collections::VecDeque;

use crate::{
    kafka::client::{NextOffset, Offset},
    state::OffsetRanges,
};

/// A record by its place among those delivered, counted over the partition's slot: without holes, where offsets have
/// some.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Seq(pub u64);

/// What is done of a partition: everything below an offset, and some of what is above it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DoneOffsets {
    /// Everything below is done.
    pub next: NextOffset,
    /// Done above it.
    pub above: OffsetRanges,
}

/// From record `seq` on, offsets rise one by one from `offset`, up to the next run.
#[derive(Copy, Clone, Debug)]
struct Run {
    seq: u64,
    offset: i64,
}

/// How far a partition is done. Records are delivered in the order of their offsets and done in any order.
///
/// Offsets that were never delivered (compacted, control records, aborted batches) are crossed: by a delivered record
/// beyond them, or by [`Frontier::passed`] at the partition's end. One bit for each record above the frontier, and 16
/// bytes for each hole.
///
/// What an earlier reader had done above the offset where reading begins is known from the start: such a record is open
/// when it is delivered, like any other, and it is for the caller to ask [`Frontier::was_done`] and to end it at once.
#[derive(Clone, Debug)]
pub struct Frontier {
    /// The first record that is not done, or `next`.
    base: u64,
    /// The record that will be delivered next.
    next: u64,
    /// Which 64 records the first word of `done` stands for.
    first_word: u64,
    done: VecDeque<u64>,
    runs: VecDeque<Run>,
    /// Everything below was delivered or never will be; unknown before the first news.
    passed: Option<NextOffset>,
    /// Done before reading began, and its end; emptied when it was passed.
    before: OffsetRanges,
    before_end: i64,
}

impl Frontier {
    /// Begins where reading begins, if that is known, with what was done above it before; records are counted from
    /// `first`.
    #[must_use]
    pub fn new(start: Option<NextOffset>, before: OffsetRanges, first: Seq) -> Self {
        Self {
            before_end: before.iter().last().map_or(i64::MIN, |(_, end)| end),
            before,
            base: first.0,
            next: first.0,
            first_word: first.0 / 64,
            done: VecDeque::new(),
            runs: VecDeque::new(),
            passed: start,
        }
    }

    /// A record was delivered. `None` if its offset was already passed: it is no news, and must not be emitted again.
    #[inline]
    pub fn delivered(&mut self, offset: Offset) -> Option<Seq> {
        if self.passed.is_some_and(|passed| offset.0 < passed.0) {
            return None;
        }
        let seq = self.next;
        let goes_on = self.runs.back().is_some_and(|run| offset.0 - run.offset == (seq - run.seq).cast_signed());
        if !goes_on {
            if self.base == seq {
                // Nothing is open: the runs before say nothing any more.
                self.runs.clear();
            }
            self.runs.push_back(Run { seq, offset: offset.0 });
        }
        if seq / 64 >= self.first_word + self.done.len() as u64 {
            self.done.push_back(0);
        }
        self.next += 1;
        self.passed = Some(offset.next());
        Some(Seq(seq))
    }

    /// Whether a record at or beyond `offset` can have been done before reading began.
    #[inline]
    #[must_use]
    pub const fn knows_beyond(&self, offset: Offset) -> bool {
        offset.0 < self.before_end
    }

    /// Whether the record at `offset` was done before reading began.
    #[must_use]
    pub fn was_done(&self, offset: Offset) -> bool {
        self.before.contains(offset.0)
    }

    /// All offsets below `next` were delivered or never will be.
    pub fn passed(&mut self, next: NextOffset) {
        self.passed = self.passed.max(Some(next));
    }

    /// A record is done. `false`, and nothing happens, if it was done before or is none of this frontier's.
    #[inline]
    pub fn done(&mut self, seq: Seq) -> bool {
        if !(self.base..self.next).contains(&seq.0) {
            return false;
        }
        let Some(word) = self.word_mut(seq.0) else { return false };
        let bit = 1 << (seq.0 % 64);
        if *word & bit != 0 {
            return false;
        }
        *word |= bit;
        if seq.0 == self.base {
            self.advance();
        }
        true
    }

    #[inline]
    fn word_mut(&mut self, seq: u64) -> Option<&mut u64> {
        let index = usize::try_from(seq / 64 - self.first_word).ok()?;
        self.done.get_mut(index)
    }

    #[inline]
    fn advance(&mut self) {
        while let Some(word) = self.done.front() {
            let at = self.base % 64;
            let ones = u64::from((!(*word >> at)).trailing_zeros());
            self.base += ones;
            if at + ones < 64 {
                break;
            }
            self.done.pop_front();
            self.first_word += 1;
        }
        while self.runs.get(1).is_some_and(|run| run.seq <= self.base) {
            self.runs.pop_front();
        }
        if !self.before.is_empty() && self.passed.is_some_and(|passed| passed.0 >= self.before_end) {
            self.before = OffsetRanges::new();
        }
    }

    /// Everything below is done: what may be committed. `None` while it is not known where reading began.
    #[must_use]
    pub fn frontier(&self) -> Option<NextOffset> {
        if self.base == self.next {
            return self.passed;
        }
        self.runs.front().map(|run| NextOffset(run.offset + (self.base - run.seq).cast_signed()))
    }

    /// What is done above the frontier, what was done before reading began included: the lowest ranges, `most` of them.
    /// Offsets between two records that are done, of which none was delivered, count as done with them.
    #[must_use]
    pub fn done_above(&self, most: usize) -> OffsetRanges {
        let mut ranges = OffsetRanges::new();
        let mut seq = self.base;
        let mut run = 0;
        while ranges.len() < most
            && let Some(first) = self.find(seq, true)
        {
            seq = self.find(first, false).unwrap_or(self.next);
            let (Some(start), Some(last)) = (self.offset_of(first, &mut run), self.offset_of(seq - 1, &mut run)) else {
                break;
            };
            ranges.push(start, last + 1);
        }
        let Some(passed) = self.passed else { return ranges };
        for (start, end) in self.before.iter() {
            if ranges.len() < most {
                ranges.push(start.max(passed.0), end);
            }
        }
        ranges
    }

    /// The first record from `seq` on that is done, or that is not.
    fn find(&self, mut seq: u64, done: bool) -> Option<u64> {
        while seq < self.next {
            let index = usize::try_from(seq / 64 - self.first_word).ok()?;
            let word = self.done.get(index)?;
            let at = seq % 64;
            let wanted = if done { *word } else { !*word } >> at;
            if wanted != 0 {
                let found = seq + u64::from(wanted.trailing_zeros());
                return (found < self.next).then_some(found);
            }
            seq += 64 - at;
        }
        None
    }

    /// The offset of a record at or above the frontier. `run` is the place of its run or of one before.
    fn offset_of(&self, seq: u64, run: &mut usize) -> Option<i64> {
        while self.runs.get(*run + 1).is_some_and(|next| next.seq <= seq) {
            *run += 1;
        }
        let run = self.runs.get(*run)?;
        Some(run.offset + (seq - run.seq).cast_signed())
    }

    /// Everything below was delivered or never will be.
    #[must_use]
    pub const fn delivered_up_to(&self) -> Option<NextOffset> {
        self.passed
    }

    /// The record that will be delivered next.
    #[must_use]
    pub const fn next_seq(&self) -> Seq {
        Seq(self.next)
    }

    /// The first record that is not done.
    #[must_use]
    pub const fn first_open(&self) -> Seq {
        Seq(self.base)
    }

    /// Whether a record was delivered and is not done.
    #[must_use]
    pub fn is_open(&self, seq: Seq) -> bool {
        let index = (seq.0 / 64).checked_sub(self.first_word).and_then(|i| usize::try_from(i).ok());
        let word = index.and_then(|i| self.done.get(i));
        (self.base..self.next).contains(&seq.0) && word.is_some_and(|word| word & (1 << (seq.0 % 64)) == 0)
    }

    /// Bytes that the frontier holds on to.
    #[must_use]
    pub fn memory(&self) -> usize {
        self.done.capacity() * 8 + self.runs.capacity() * size_of::<Run>()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn failed_tuple_holds_the_offset() {
        let mut frontier = Frontier::new(Some(NextOffset(10)), OffsetRanges::new(), Seq(0));
        let seqs: Vec<_> = (10..14).filter_map(|o| frontier.delivered(Offset(o))).collect();
        for seq in &seqs[1..] {
            assert!(frontier.done(*seq));
        }
        assert_eq!(frontier.frontier(), Some(NextOffset(10)));
        frontier.done(seqs[0]);
        assert_eq!(frontier.frontier(), Some(NextOffset(14)));
    }

    #[test]
    fn holes_and_trailing_offsets_are_crossed() {
        let mut frontier = Frontier::new(None, OffsetRanges::new(), Seq(5));
        assert_eq!(frontier.frontier(), None);
        let a = frontier.delivered(Offset(3)).unwrap();
        let b = frontier.delivered(Offset(90)).unwrap();
        frontier.done(a);
        assert_eq!(frontier.frontier(), Some(NextOffset(90)));
        frontier.passed(NextOffset(100));
        assert_eq!(frontier.frontier(), Some(NextOffset(90)));
        frontier.done(b);
        assert_eq!(frontier.frontier(), Some(NextOffset(100)));
        assert_eq!(frontier.delivered(Offset(99)), None);
    }

    #[test]
    fn a_record_behind_a_hole_that_comes_when_all_is_done_is_the_frontier() {
        let mut frontier = Frontier::new(None, OffsetRanges::new(), Seq(0));
        let first = frontier.delivered(Offset(0)).unwrap();
        frontier.done(first);
        frontier.passed(NextOffset(2));
        frontier.delivered(Offset(2));
        assert_eq!(frontier.frontier(), Some(NextOffset(2)));
    }

    #[test]
    fn memory_follows_the_open_span_and_not_the_history() {
        let mut frontier = Frontier::new(Some(NextOffset(0)), OffsetRanges::new(), Seq(0));
        for offset in 0..1_000_000 {
            let seq = frontier.delivered(Offset(offset)).unwrap();
            if let Some(old) = seq.0.checked_sub(100) {
                frontier.done(Seq(old));
            }
        }
        assert!(frontier.memory() < 1024, "{}", frontier.memory());
    }

    fn ranges(of: &[(i64, i64)]) -> OffsetRanges {
        let mut ranges = OffsetRanges::new();
        of.iter().for_each(|(start, end)| ranges.push(*start, *end));
        ranges
    }

    #[test]
    fn what_is_done_above_the_frontier_joins_over_holes_and_not_over_open_records() {
        let mut frontier = Frontier::new(Some(NextOffset(0)), OffsetRanges::new(), Seq(0));
        let offsets = [0, 1, 4, 5, 9, 10, 11];
        let seqs = offsets.map(|offset| frontier.delivered(Offset(offset)).unwrap());
        for (seq, offset) in seqs.into_iter().zip(offsets) {
            assert!([0, 5].contains(&offset) || frontier.done(seq));
        }
        assert_eq!(frontier.done_above(9), ranges(&[(1, 5), (9, 12)]));
        assert_eq!(frontier.done_above(1), ranges(&[(1, 5)]));
        frontier.done(seqs[0]);
        assert_eq!((frontier.frontier(), frontier.done_above(9)), (Some(NextOffset(5)), ranges(&[(9, 12)])));
    }

    #[test]
    fn what_was_done_before_is_kept_until_it_is_passed() {
        let mut frontier = Frontier::new(Some(NextOffset(10)), ranges(&[(11, 13), (20, 30)]), Seq(0));
        assert_eq!(frontier.done_above(9), ranges(&[(11, 13), (20, 30)]));
        let open = frontier.delivered(Offset(10)).unwrap();
        let before = frontier.delivered(Offset(11)).unwrap();
        assert!(frontier.was_done(Offset(11)) && !frontier.was_done(Offset(10)) && !frontier.was_done(Offset(13)));
        frontier.done(before);
        assert_eq!(frontier.done_above(9), ranges(&[(11, 13), (20, 30)]));
        frontier.done(open);
        assert_eq!(
            (frontier.frontier(), frontier.done_above(9)),
            (Some(NextOffset(12)), ranges(&[(12, 13), (20, 30)]))
        );
        frontier.passed(NextOffset(25));
        assert_eq!((frontier.frontier(), frontier.done_above(9)), (Some(NextOffset(25)), ranges(&[(25, 30)])));
        assert!(frontier.knows_beyond(Offset(29)) && !frontier.knows_beyond(Offset(30)));
    }

    /// The naive frontier: sets of offsets.
    #[derive(Default)]
    struct Sets {
        open: BTreeSet<i64>,
        /// Offset of each record delivered, and whether it is done.
        delivered: BTreeMap<i64, bool>,
        before: BTreeSet<i64>,
        passed: i64,
    }

    impl Sets {
        fn frontier(&self) -> i64 {
            self.open.first().copied().unwrap_or(self.passed)
        }

        fn done_above(&self) -> OffsetRanges {
            let mut ranges = Vec::<(i64, i64)>::new();
            let mut joins = false;
            for (offset, done) in self.delivered.range(self.frontier()..) {
                match ranges.last_mut() {
                    Some(last) if *done && joins => last.1 = offset + 1,
                    _ if *done => ranges.push((*offset, offset + 1)),
                    _ => {}
                }
                joins = *done;
            }
            let mut all = self::ranges(&ranges);
            self.before.range(self.passed..).for_each(|offset| all.push(*offset, offset + 1));
            all
        }
    }

    proptest! {
        #[test]
        fn the_frontier_equals_a_set_of_offsets(
            first in 0_u64..200,
            before in prop::collection::btree_set(1_i64..300, 0..200),
            steps in prop::collection::vec((0_u8..10, 0_usize..400, 1_i64..4), 1..600),
        ) {
            let known = before.iter().fold(OffsetRanges::new(), |mut known, offset| {
                known.push(*offset, offset + 1);
                known
            });
            let mut frontier = Frontier::new(Some(NextOffset(0)), known, Seq(first));
            let mut sets = Sets { before, ..Sets::default() };
            let mut ids: BTreeMap<u64, i64> = BTreeMap::new();
            for (kind, pick, gap) in steps {
                match kind {
                    0..5 => {
                        let offset = sets.passed + if gap == 3 { 7 } else { 0 };
                        let seq = frontier.delivered(Offset(offset)).unwrap();
                        ids.insert(seq.0, offset);
                        let was_done = frontier.was_done(Offset(offset));
                        prop_assert_eq!(was_done, sets.before.contains(&offset));
                        prop_assert!(!was_done || frontier.knows_beyond(Offset(offset)));
                        prop_assert!(!was_done || frontier.done(seq));
                        sets.delivered.insert(offset, was_done);
                        if !was_done {
                            sets.open.insert(offset);
                        }
                        sets.passed = offset + 1;
                    }
                    5..9 if !ids.is_empty() => {
                        // Also ones that were done long ago.
                        let (&seq, &offset) = ids.iter().nth(pick % ids.len()).unwrap();
                        prop_assert_eq!(frontier.is_open(Seq(seq)), sets.open.contains(&offset));
                        prop_assert_eq!(frontier.done(Seq(seq)), sets.open.remove(&offset));
                        sets.delivered.insert(offset, true);
                    }
                    _ => {
                        sets.passed += gap;
                        frontier.passed(NextOffset(sets.passed));
                    }
                }
                prop_assert_eq!(frontier.frontier(), Some(NextOffset(sets.frontier())));
                prop_assert_eq!(frontier.done_above(usize::MAX), sets.done_above());
                prop_assert!(!frontier.done(Seq(first + ids.len() as u64)));
            }
        }
    }
}
