//! Partitions on their way out: nothing more is emitted of them, what is in flight ends, what is done is committed, and
//! then they are let go. Pure.

use std::time::Duration;

use crate::{clock::Instant, kafka::client::TopicPartition, topology::CommitNumber};

/// How long a commit may take that follows a drain that was cut short.
const LAST_COMMIT: Duration = Duration::from_secs(5);

/// Partitions that the group has asked back, from the question to the answer.
#[derive(Debug)]
pub(super) struct Departure {
    pub(super) partitions: Vec<TopicPartition>,
    /// What is in flight then is another member's to repeat.
    drain_until: Instant,
    /// The first commit that was frozen when the drain was over.
    last: Option<CommitNumber>,
}

impl Departure {
    /// Partitions that may be drained for `drain`.
    pub(super) fn revoked(partitions: Vec<TopicPartition>, now: Instant, drain: Duration) -> Self {
        Self { partitions, drain_until: now + drain, last: None }
    }

    /// Partitions that have gone already: there is nothing to wait for.
    pub(super) const fn lost() -> Self {
        Self { partitions: Vec::new(), drain_until: Instant::ZERO, last: None }
    }

    /// A commit was frozen.
    pub(super) fn frozen(&mut self, number: CommitNumber, now: Instant) {
        if now >= self.drain_until && self.last.is_none() {
            self.last = Some(number);
        }
    }

    /// Whether the partitions may be let go: each of them is settled, or the time is up and what was done by then is
    /// committed, or even that takes too long. `answered` is the last commit that has its answer.
    pub(super) fn is_over(
        &self,
        now: Instant,
        answered: CommitNumber,
        is_settled: impl Fn(&TopicPartition) -> bool,
    ) -> bool {
        self.partitions.iter().all(is_settled)
            || self.last.is_some_and(|last| last <= answered)
            || now >= self.drain_until + LAST_COMMIT
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: fn(u64) -> Instant = |ms| Instant::from_nanos(ms * 1_000_000);
    const OPEN: fn(&TopicPartition) -> bool = |_| false;

    fn departure() -> Departure {
        Departure::revoked(vec![TopicPartition::new("t", 0)], MS(0), Duration::from_secs(10))
    }

    #[test]
    fn what_is_settled_goes_at_once_and_what_was_lost_too() {
        assert!(departure().is_over(MS(0), CommitNumber(0), |_| true));
        assert!(!departure().is_over(MS(0), CommitNumber(0), OPEN));
        assert!(Departure::lost().is_over(MS(0), CommitNumber(0), OPEN));
    }

    #[test]
    fn when_the_time_is_up_what_is_done_is_committed_first() {
        let mut departure = departure();
        departure.frozen(CommitNumber(4), MS(9_999));
        assert!(!departure.is_over(MS(10_000), CommitNumber(4), OPEN));
        departure.frozen(CommitNumber(5), MS(10_001));
        departure.frozen(CommitNumber(6), MS(10_100));
        assert!(!departure.is_over(MS(10_200), CommitNumber(4), OPEN));
        assert!(departure.is_over(MS(10_200), CommitNumber(5), OPEN));
    }

    #[test]
    fn a_commit_that_never_ends_is_not_waited_for_without_end() {
        let mut departure = departure();
        departure.frozen(CommitNumber(1), MS(10_000));
        assert!(!departure.is_over(MS(14_999), CommitNumber(0), OPEN));
        assert!(departure.is_over(MS(15_000), CommitNumber(0), OPEN));
    }
}
