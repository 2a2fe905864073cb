//! Where reading is to stop at the end that its topics have at the start: partitions that other members of the group hold are
//! a part of it. A member that has died holds some for as long as its session lasts, and nobody reads them meanwhile. Pure.

use std::{collections::BTreeMap, time::Duration};

use super::options::Start;
use crate::{
    clock::Instant,
    kafka::client::{NextOffset, TopicPartition, Watermarks},
};

/// How often the group is asked how far the others are.
const ASK_EVERY: Duration = Duration::from_secs(1);

/// Where every partition ends, and whether those that are held elsewhere are committed up to there.
#[derive(Debug)]
pub(super) struct Others {
    start: Start,
    /// Of every partition of the topics, as it was first seen.
    seen: BTreeMap<TopicPartition, Watermarks>,
    done: bool,
    ask_at: Instant,
}

impl Others {
    /// Nothing is known yet. `start`: where a new group begins.
    pub(super) const fn new(start: Start) -> Self {
        Self { start, seen: BTreeMap::new(), done: false, ask_at: Instant::ZERO }
    }

    /// A partition was looked at; only the first look counts.
    pub(super) fn see(&mut self, watermarks: Watermarks) {
        self.seen.entry(watermarks.partition.clone()).or_insert(watermarks);
    }

    /// The topic of a partition was made anew.
    pub(super) fn see_anew(&mut self, partition: &TopicPartition, low: NextOffset, high: NextOffset) {
        self.seen.insert(partition.clone(), Watermarks { partition: partition.clone(), low, high });
    }

    /// Where a partition ended when it was first seen.
    pub(super) fn end(&self, partition: &TopicPartition) -> Option<NextOffset> {
        self.seen.get(partition).map(|watermarks| watermarks.high)
    }

    /// The group has given partitions, or taken some: all is to be asked anew.
    pub(super) fn change(&mut self) {
        (self.done, self.ask_at) = (false, Instant::ZERO);
    }

    /// The partitions of which it is time to ask how far they are committed: those that are not held here. `None`: it is
    /// not, or it is known that they are done.
    pub(super) fn to_ask(
        &self,
        is_held: impl Fn(&TopicPartition) -> bool,
        now: Instant,
    ) -> Option<Vec<TopicPartition>> {
        // Before the group has given any, if only none, nothing is seen.
        let due = !self.seen.is_empty() && !self.done && now >= self.ask_at;
        due.then(|| self.seen.keys().filter(|partition| !is_held(partition)).cloned().collect())
    }

    /// How far these are committed. Whether all of them are read to their ends.
    pub(super) fn hear(&mut self, committed: &[(TopicPartition, Option<NextOffset>)], now: Instant) -> bool {
        self.ask_at = now + ASK_EVERY;
        self.done = committed.iter().all(|(partition, next)| self.is_done(partition, *next));
        self.done
    }

    /// They could not be asked now.
    pub(super) fn ask_later(&mut self, now: Instant) {
        self.ask_at = now + ASK_EVERY;
    }

    fn is_done(&self, partition: &TopicPartition, committed: Option<NextOffset>) -> bool {
        let Some(Watermarks { low, high, .. }) = self.seen.get(partition) else { return false };
        let first = if self.start == Start::Latest { high } else { low };
        committed.as_ref().unwrap_or(first) >= high
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: fn(u64) -> Instant = |s| Instant::from_nanos(s * 1_000_000_000);

    fn tp(partition: i32) -> TopicPartition {
        TopicPartition::new("t", partition)
    }

    /// Partition 0 holds 2 to 4, partition 1 nothing.
    fn others(start: Start) -> Others {
        let mut others = Others::new(start);
        for (partition, low, high) in [(0, 2, 5), (1, 7, 7)] {
            others.see(Watermarks { partition: tp(partition), low: NextOffset(low), high: NextOffset(high) });
        }
        others.change();
        others
    }

    #[test]
    fn what_is_held_elsewhere_is_done_when_it_is_committed_to_its_end() {
        let mut others = others(Start::Earliest);
        assert_eq!(others.to_ask(|p| *p == tp(0), S(0)), Some(vec![tp(1)]));
        assert!(others.hear(&[(tp(1), None)], S(0)), "there is nothing in it");
        others.change();
        assert_eq!(others.to_ask(|_| false, S(0)), Some(vec![tp(0), tp(1)]));
        assert!(!others.hear(&[(tp(0), None), (tp(1), None)], S(0)));
        assert_eq!(others.to_ask(|_| false, S(0)), None, "it is asked every second");
        assert!(others.to_ask(|_| false, S(1)).is_some());
        assert!(!others.hear(&[(tp(0), Some(NextOffset(4))), (tp(1), None)], S(1)));
        assert!(others.hear(&[(tp(0), Some(NextOffset(5))), (tp(1), None)], S(2)));
        assert_eq!(others.to_ask(|_| false, S(9)), None);
    }

    #[test]
    fn after_a_change_all_is_asked_anew() {
        let mut others = others(Start::Earliest);
        assert!(others.hear(&[], S(0)));
        assert_eq!(others.to_ask(|_| false, S(9)), None);
        others.change();
        assert!(others.to_ask(|_| false, S(9)).is_some());
    }

    #[test]
    fn a_new_group_that_begins_at_the_end_has_nothing_to_read() {
        let mut others = others(Start::Latest);
        assert!(others.hear(&[(tp(0), None), (tp(1), None)], S(0)));
        assert!(!others.hear(&[(tp(0), Some(NextOffset(4)))], S(0)));
    }

    #[test]
    fn of_topics_that_nobody_has_looked_at_nothing_is_known() {
        let mut others = Others::new(Start::Earliest);
        assert_eq!(others.to_ask(|_| false, S(9)), None, "the group has not given anything yet");
        others.change();
        assert_eq!(others.to_ask(|_| false, S(9)), None);
    }

    #[test]
    fn only_the_first_look_counts() {
        let mut others = others(Start::Earliest);
        others.see(Watermarks { partition: tp(0), low: NextOffset(2), high: NextOffset(9) });
        assert_eq!(others.end(&tp(0)), Some(NextOffset(5)));
    }
}
