//! The order of a commit: freeze, flush, wait for the outside, commit what was frozen. A pure state machine.

use std::time::Duration;

use crate::{clock::Instant, topology::CommitNumber};

/// What every executor is told to do next, and answers once.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
#[must_use = "the executors wait for it"]
pub(crate) enum CommitStep {
    /// Spouts remember what is done now.
    Freeze(CommitNumber),
    /// Bolts at this depth hand over what has changed; done when the sinks have it.
    Flush(CommitNumber, usize),
    /// Tasks with stores hand over the entries that have changed.
    HandOver(CommitNumber),
    /// Sinks send everything and wait for the outside to acknowledge it.
    Deliver(CommitNumber),
    /// Spouts commit what was frozen.
    Commit(CommitNumber),
}

impl CommitStep {
    /// Whom it waits for.
    pub(crate) const fn waits_for(self) -> &'static str {
        match self {
            Self::Freeze(_) | Self::HandOver(_) => "the executors",
            Self::Flush(..) => "what the bolts have flushed to be worked through",
            Self::Deliver(_) => "the outputs, and the changelog, to be acknowledged",
            Self::Commit(_) => "the offsets to be taken by the group",
        }
    }
}

/// Where the stores of a topology are kept.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) enum Keeps {
    /// There are none.
    Nothing,
    /// Nowhere but in memory.
    InMemory,
    /// In a changelog: it answers a `Deliver` too, when it holds what was handed over.
    InChangelog,
}

/// Where a commit stands.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
enum State {
    Resting { since: Instant },
    At { step: CommitStep, answers: usize, since: Instant, said: bool },
}

/// A step that takes longer is worth a word: something outside does not answer.
const SLOW: Duration = Duration::from_secs(30);

/// Drives one commit after the other. A step is broadcast only when every executor has answered the one before, so what
/// is committed was frozen before the flush that covers it.
#[derive(Debug)]
pub(crate) struct Committer {
    executors: usize,
    keeps: Keeps,
    /// Depths that bolts stand at: 1 to this.
    depth: usize,
    interval: Duration,
    number: CommitNumber,
    state: State,
    committed: u64,
}

impl Committer {
    pub(crate) const fn new(executors: usize, depth: usize, keeps: Keeps, interval: Duration, now: Instant) -> Self {
        let state = State::Resting { since: now };
        Self { executors, keeps, depth, interval, number: CommitNumber(0), state, committed: 0 }
    }

    /// Counts on from here: the next commit has this number.
    pub(crate) const fn start_at(&mut self, next: CommitNumber) {
        self.number = CommitNumber(next.0.saturating_sub(1));
    }

    /// Begins a commit if none goes on and the interval has passed.
    #[must_use]
    pub(crate) fn begin_if_due(&mut self, now: Instant) -> Option<CommitStep> {
        match self.state {
            State::Resting { since } if now - since >= self.interval => self.begin(now),
            State::Resting { .. } | State::At { .. } => None,
        }
    }

    /// Begins a commit if none goes on.
    #[must_use]
    pub(crate) fn begin(&mut self, now: Instant) -> Option<CommitStep> {
        if !self.is_resting() {
            return None;
        }
        self.number.0 += 1;
        Some(self.go_to(CommitStep::Freeze(self.number), now))
    }

    const fn go_to(&mut self, step: CommitStep, now: Instant) -> CommitStep {
        self.state = State::At { step, answers: 0, since: now, said: false };
        step
    }

    /// The step that has taken too long by now, once.
    pub(crate) fn slow(&mut self, now: Instant) -> Option<CommitStep> {
        match &mut self.state {
            State::At { step, since, said, .. } if !*said && now - *since >= SLOW => {
                *said = true;
                Some(*step)
            }
            State::At { .. } | State::Resting { .. } => None,
        }
    }

    /// One executor has done `step`. The next step, once all have.
    pub(crate) fn answered(&mut self, done: CommitStep, now: Instant) -> Progress {
        let State::At { step, answers, .. } = &mut self.state else { return Progress::Waiting };
        if *step != done {
            return Progress::Waiting;
        }
        *answers += 1;
        let changelog = self.keeps == Keeps::InChangelog && matches!(done, CommitStep::Deliver(_));
        if *answers < self.executors + usize::from(changelog) {
            return Progress::Waiting;
        }
        let n = self.number;
        let next = match done {
            CommitStep::Freeze(_) if self.depth > 0 => CommitStep::Flush(n, 1),
            CommitStep::Flush(_, depth) if depth < self.depth => CommitStep::Flush(n, depth + 1),
            CommitStep::Freeze(_) | CommitStep::Flush(..) if self.keeps != Keeps::Nothing => CommitStep::HandOver(n),
            CommitStep::Freeze(_) | CommitStep::Flush(..) | CommitStep::HandOver(_) => CommitStep::Deliver(n),
            CommitStep::Deliver(_) => CommitStep::Commit(n),
            CommitStep::Commit(_) => {
                self.committed += 1;
                self.state = State::Resting { since: now };
                return Progress::Finished;
            }
        };
        Progress::Next(self.go_to(next, now))
    }

    /// True if no commit goes on.
    pub(crate) const fn is_resting(&self) -> bool {
        matches!(self.state, State::Resting { .. })
    }

    /// When the next commit is due, if none goes on.
    pub(crate) fn due(&self) -> Option<Instant> {
        match self.state {
            State::Resting { since } => Some(since + self.interval),
            State::At { .. } => None,
        }
    }

    /// Puts the next commit off by an interval: there is nothing to commit.
    pub(crate) fn skip(&mut self, now: Instant) {
        if self.is_resting() {
            self.state = State::Resting { since: now };
        }
    }

    /// The number of the commit that goes on, or of the last one.
    pub(crate) const fn number(&self) -> CommitNumber {
        self.number
    }

    /// Commits that were finished.
    pub(crate) const fn committed(&self) -> u64 {
        self.committed
    }
}

/// What an answer led to.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
#[must_use = "the next step is to be broadcast"]
pub(crate) enum Progress {
    /// Others have not answered yet.
    Waiting,
    /// All have: the next step.
    Next(CommitStep),
    /// The commit is finished.
    Finished,
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: fn(u64) -> Instant = |ms| Instant::from_nanos(ms * 1_000_000);

    #[test]
    fn the_order_is_freeze_flush_by_depth_deliver_commit() {
        let mut committer = Committer::new(1, 2, Keeps::Nothing, Duration::from_millis(100), MS(0));
        let n = CommitNumber(1);
        let mut step = committer.begin_if_due(MS(100)).unwrap();
        let mut order = vec![step];
        while let Progress::Next(next) = committer.answered(step, MS(101)) {
            step = next;
            order.push(step);
        }
        assert_eq!(
            order,
            [
                CommitStep::Freeze(n),
                CommitStep::Flush(n, 1),
                CommitStep::Flush(n, 2),
                CommitStep::Deliver(n),
                CommitStep::Commit(n),
            ]
        );
        assert!(committer.is_resting());
        assert_eq!(committer.committed(), 1);
    }

    #[test]
    fn a_step_that_takes_long_is_told_once() {
        let mut committer = Committer::new(1, 0, Keeps::Nothing, Duration::ZERO, MS(0));
        assert_eq!(committer.slow(MS(90_000)), None, "none goes on");
        let freeze = committer.begin(MS(0)).unwrap();
        assert!(matches!(committer.answered(freeze, MS(20_000)), Progress::Next(CommitStep::Deliver(_))));
        assert_eq!(committer.slow(MS(49_999)), None);
        assert_eq!(committer.slow(MS(50_000)), Some(CommitStep::Deliver(CommitNumber(1))));
        assert_eq!(committer.slow(MS(99_000)), None);
    }

    #[test]
    fn no_step_is_taken_before_every_executor_has_answered_the_one_before() {
        let mut committer = Committer::new(3, 0, Keeps::Nothing, Duration::ZERO, MS(0));
        let freeze = committer.begin(MS(0)).unwrap();
        assert_eq!(committer.answered(freeze, MS(0)), Progress::Waiting);
        // An answer to another step counts for nothing.
        assert_eq!(committer.answered(CommitStep::Deliver(CommitNumber(1)), MS(0)), Progress::Waiting);
        assert_eq!(committer.answered(freeze, MS(0)), Progress::Waiting);
        let deliver = CommitStep::Deliver(CommitNumber(1));
        assert_eq!(committer.answered(freeze, MS(0)), Progress::Next(deliver));
    }

    #[test]
    fn with_stores_the_changelog_must_hold_the_entries_before_the_offsets_are_committed() {
        let mut committer = Committer::new(1, 1, Keeps::InChangelog, Duration::ZERO, MS(0));
        committer.start_at(CommitNumber(7));
        let n = CommitNumber(7);
        let freeze = committer.begin(MS(0)).unwrap();
        assert_eq!(freeze, CommitStep::Freeze(n));
        let order = [CommitStep::Flush(n, 1), CommitStep::HandOver(n), CommitStep::Deliver(n)];
        let mut step = freeze;
        for next in order {
            assert_eq!(committer.answered(step, MS(0)), Progress::Next(next));
            step = next;
        }
        assert_eq!(committer.answered(step, MS(0)), Progress::Waiting, "the executor has delivered, the changelog not");
        assert_eq!(committer.answered(step, MS(0)), Progress::Next(CommitStep::Commit(n)));
    }

    #[test]
    fn one_commit_goes_on_at_a_time_and_the_next_waits_for_the_interval() {
        let mut committer = Committer::new(1, 0, Keeps::Nothing, Duration::from_millis(100), MS(0));
        assert_eq!(committer.begin_if_due(MS(99)), None);
        let mut step = committer.begin_if_due(MS(100)).unwrap();
        assert_eq!(committer.begin(MS(0)), None);
        while let Progress::Next(next) = committer.answered(step, MS(150)) {
            step = next;
        }
        assert_eq!(committer.due(), Some(MS(250)));
        assert_eq!(committer.begin_if_due(MS(249)), None);
    }
}
