//! Which letters of a partition were replayed: all below an offset, and ranges above it. Pure.

use crate::{
    kafka::client::{Committed, NextOffset},
    state::OffsetRanges,
};

/// What the text beside the offset begins with.
const PREFIX: &str = "stormglass-replay:";

/// The most bytes of that text: brokers refuse more than `offset.metadata.max.bytes`, which is 4,096 unless it was set.
const BUDGET: usize = 4_000;

/// What was replayed of one partition.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Progress {
    next: i64,
    done: OffsetRanges,
}

impl Progress {
    /// What a commit says.
    pub(super) fn read(committed: Option<&Committed>) -> Self {
        let Some(committed) = committed else { return Self::default() };
        let done = committed.metadata.strip_prefix(PREFIX).and_then(OffsetRanges::decode).unwrap_or_default();
        Self { next: committed.next.0, done }
    }

    /// Offset and text of a commit; `None` if there are more ranges than the text can hold.
    pub(super) fn write(&self) -> Option<(NextOffset, String)> {
        let ranges = self.done.encode(BUDGET - PREFIX.len());
        let whole = OffsetRanges::decode(&ranges).as_ref() == Some(&self.done);
        whole.then(|| (NextOffset(self.next), format!("{PREFIX}{ranges}")))
    }

    /// Whether the letter at `offset` was replayed.
    pub(super) fn has(&self, offset: i64) -> bool {
        offset < self.next || self.done.contains(offset)
    }

    /// Adds the letter at `offset`.
    pub(super) fn add(&mut self, offset: i64) {
        self.add_range(offset, offset + 1);
    }

    /// Adds every offset below `end` from `start` on: letters, and offsets where there is none.
    pub(super) fn add_range(&mut self, start: i64, end: i64) {
        if start >= end {
            return;
        }
        let mut ranges: Vec<_> = self.done.iter().chain([(start, end)]).collect();
        ranges.sort_unstable();
        self.done = OffsetRanges::new();
        for (start, end) in ranges {
            if start <= self.next {
                self.next = self.next.max(end);
            } else {
                self.done.push(start, end);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn written(progress: &Progress) -> Committed {
        let (next, metadata) = progress.write().unwrap();
        Committed { next, metadata }
    }

    proptest! {
        #[test]
        fn it_knows_exactly_what_was_added(added in prop::collection::vec((0..60_i64, 0..5_i64), 0..40)) {
            let (mut progress, mut model) = (Progress::default(), BTreeSet::new());
            for (start, length) in added {
                progress.add_range(start, start + length);
                model.extend(start..start + length);
                let again = Progress::read(Some(&written(&progress)));
                prop_assert_eq!(&again, &progress);
                let known: BTreeSet<_> = (0..70).filter(|offset| again.has(*offset)).collect();
                prop_assert_eq!(&known, &model);
            }
        }
    }

    #[test]
    fn what_another_program_wrote_beside_the_offset_says_nothing() {
        let committed = Committed { next: NextOffset(3), metadata: "who knows".to_owned() };
        let progress = Progress::read(Some(&committed));
        assert_eq!([progress.has(2), progress.has(3)], [true, false]);
    }

    #[test]
    fn more_than_the_text_can_hold_is_no_text() {
        let mut progress = Progress::default();
        (0..3000).for_each(|n| progress.add(2 * n + 1));
        assert_eq!(progress.write(), None);
        progress.add_range(0, 5000);
        assert!(progress.write().is_some());
    }
}
