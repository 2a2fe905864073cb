//! The frontier of one partition: everything below it is done. Pure.

use std::collections::VecDeque;

use super::client::{NextOffset, Offset};

/// A record by its place among those delivered, counted over the partition's slot: without holes, where offsets have
/// some.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Seq(pub u64);

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
}

impl Frontier {
    /// Begins where reading begins, if that is known; records are counted from `first`.
    #[must_use]
    pub fn new(start: Option<NextOffset>, first: Seq) -> Self {
        Self {
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
    }

    /// Everything below is done: what may be committed. `None` while it is not known where reading began.
    #[must_use]
    pub fn frontier(&self) -> Option<NextOffset> {
        if self.base == self.next {
            return self.passed;
        }
        self.runs.front().map(|run| NextOffset(run.offset + (self.base - run.seq).cast_signed()))
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
        let mut frontier = Frontier::new(Some(NextOffset(10)), Seq(0));
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
        let mut frontier = Frontier::new(None, Seq(5));
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
        let mut frontier = Frontier::new(None, Seq(0));
        let first = frontier.delivered(Offset(0)).unwrap();
        frontier.done(first);
        frontier.passed(NextOffset(2));
        frontier.delivered(Offset(2));
        assert_eq!(frontier.frontier(), Some(NextOffset(2)));
    }

    #[test]
    fn memory_follows_the_open_span_and_not_the_history() {
        let mut frontier = Frontier::new(Some(NextOffset(0)), Seq(0));
        for offset in 0..1_000_000 {
            let seq = frontier.delivered(Offset(offset)).unwrap();
            if let Some(old) = seq.0.checked_sub(100) {
                frontier.done(Seq(old));
            }
        }
        assert!(frontier.memory() < 1024, "{}", frontier.memory());
    }

    proptest! {
        #[test]
        fn the_frontier_equals_a_set_of_offsets(
            first in 0_u64..200,
            steps in prop::collection::vec((0_u8..10, 0_usize..400, 1_i64..4), 1..600),
        ) {
            let mut frontier = Frontier::new(Some(NextOffset(0)), Seq(first));
            // The oracle: which offsets are open, and what was passed.
            let (mut open, mut passed) = (BTreeSet::new(), 0);
            let mut ids: BTreeMap<u64, i64> = BTreeMap::new();
            for (kind, pick, gap) in steps {
                match kind {
                    0..5 => {
                        let offset = passed + if gap == 3 { 7 } else { 0 };
                        let seq = frontier.delivered(Offset(offset)).unwrap();
                        ids.insert(seq.0, offset);
                        open.insert(offset);
                        passed = offset + 1;
                    }
                    5..9 if !ids.is_empty() => {
                        // Also ones that were done long ago.
                        let (&seq, &offset) = ids.iter().nth(pick % ids.len()).unwrap();
                        prop_assert_eq!(frontier.is_open(Seq(seq)), open.contains(&offset));
                        prop_assert_eq!(frontier.done(Seq(seq)), open.remove(&offset));
                    }
                    _ => {
                        passed += gap;
                        frontier.passed(NextOffset(passed));
                    }
                }
                let expected = open.first().copied().unwrap_or(passed);
                prop_assert_eq!(frontier.frontier(), Some(NextOffset(expected)));
                prop_assert!(!frontier.done(Seq(first + ids.len() as u64)));
            }
        }
    }
}
