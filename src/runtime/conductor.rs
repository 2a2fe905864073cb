//! What a running generation does next: commits when they are due, drains when it is asked to, ends when all is done.
//! Decides from reports and vitals; threads, or a test, bring them.

use std::{sync::atomic::Ordering, time::Duration};

use super::{
    EngineOptions,
    commit::{Committer, Progress},
    error::EngineError,
    executor::{Command, Report},
    generation::Controls,
};
use crate::clock::Instant;

/// How a generation came to its end.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Ending {
    /// Every spout came to its end, everything is done and committed.
    Exhausted,
    /// It was asked to drain, and everything in flight was done and committed.
    Drained,
    /// It was asked to drain, and the deadline passed: so many trees were still open and will be replayed.
    DrainTimedOut {
        /// Open trees.
        open_trees: usize,
    },
    /// It was told to stop at once; so many trees were open.
    Stopped {
        /// Open trees.
        open_trees: usize,
    },
}

#[derive(Copy, Clone, PartialEq, Eq, Debug)]
enum Phase {
    /// Spouts emit.
    Running,
    /// Spouts have stopped or have come to their end; trees in flight go on.
    Draining { deadline: Instant, ending: Ending },
    /// The last commit goes on.
    LastCommit { deadline: Instant, ending: Ending },
}

/// Drives one generation.
#[derive(Debug)]
pub(crate) struct Conductor {
    pub(crate) control: Controls,
    committer: Committer,
    phase: Phase,
    drain_timeout: Duration,
    /// Moves of all executors at the last commit.
    moves: u64,
    last_commit: Instant,
    /// Batches sent and received at the last look that found everything idle.
    quiet: Option<(u64, u64)>,
}

/// With nothing emitted and nothing done a commit is put off for so long at most: holes and ends of partitions that were
/// crossed meanwhile are committed too.
const LONGEST_WITHOUT_COMMIT: Duration = Duration::from_secs(1);

impl Conductor {
    pub(crate) fn new(control: Controls, depth: usize, options: &EngineOptions, now: Instant) -> Self {
        let executors = control.commands.len();
        control.broadcast(Command::Activate);
        Self {
            control,
            committer: Committer::new(executors, depth, options.commit_interval, now),
            phase: Phase::Running,
            drain_timeout: options.drain_timeout,
            moves: 0,
            last_commit: now,
            quiet: None,
        }
    }

    /// Takes what an executor says.
    ///
    /// # Errors
    /// If the executor has ended without being told to.
    pub(crate) fn handle(&mut self, report: Report, now: Instant) -> Result<(), EngineError> {
        match report {
            Report::Ended(result) => result,
            Report::Done(step) => {
                match self.committer.answered(step, now) {
                    Progress::Waiting => {}
                    Progress::Next(next) => self.control.broadcast(Command::Commit(next)),
                    Progress::Finished => self.last_commit = now,
                }
                Ok(())
            }
        }
    }

    /// Stops the spouts; the generation ends when what is in flight is done, or at the deadline.
    pub(crate) fn drain(&mut self, now: Instant) {
        if self.phase == Phase::Running {
            self.control.broadcast(Command::Deactivate);
            let deadline = now + self.drain_timeout;
            self.phase = Phase::Draining { deadline, ending: Ending::Drained };
        }
    }

    /// Begins a commit, due or not, unless one goes on. True if it did.
    pub(crate) fn commit(&mut self) -> bool {
        let begun = self.committer.begin();
        if let Some(step) = begun {
            self.control.broadcast(Command::Commit(step));
        }
        begun.is_some()
    }

    /// Does what is due. How the generation has ended, once it has: the executors are then to be stopped.
    pub(crate) fn poll(&mut self, now: Instant) -> Option<Ending> {
        match self.phase {
            Phase::Running => {
                if self.is_exhausted() {
                    let deadline = now + self.drain_timeout;
                    self.phase = Phase::Draining { deadline, ending: Ending::Exhausted };
                }
                self.commit_if_due(now);
                None
            }
            Phase::Draining { deadline, .. } | Phase::LastCommit { deadline, .. } if now >= deadline => {
                Some(Ending::DrainTimedOut { open_trees: self.open_trees() })
            }
            Phase::Draining { deadline, ending } => {
                if !self.is_quiet() {
                    self.commit_if_due(now);
                } else if self.commit() {
                    self.phase = Phase::LastCommit { deadline, ending };
                }
                None
            }
            Phase::LastCommit { ending, .. } => self.committer.is_resting().then_some(ending),
        }
    }

    fn commit_if_due(&mut self, now: Instant) {
        let moves = self.moves();
        if moves == self.moves && now - self.last_commit < LONGEST_WITHOUT_COMMIT {
            if self.committer.due().is_some_and(|due| now >= due) {
                self.committer.skip(now);
            }
            return;
        }
        if let Some(step) = self.committer.begin_if_due(now) {
            self.moves = moves;
            self.control.broadcast(Command::Commit(step));
        }
    }

    /// When `poll` has something to do even if nothing is reported.
    pub(crate) fn due(&self, now: Instant) -> Instant {
        /// How often a drain looks whether it is over.
        const DRAIN_LOOK: Duration = Duration::from_millis(1);
        match self.phase {
            Phase::Running => self.committer.due().unwrap_or(Instant::FAR_FUTURE),
            Phase::Draining { .. } | Phase::LastCommit { .. } => now + DRAIN_LOOK,
        }
    }

    /// Commits that were finished.
    pub(crate) const fn commits(&self) -> u64 {
        self.committer.committed()
    }

    /// Trees that are open now.
    pub(crate) fn open_trees(&self) -> usize {
        self.control.vitals.iter().map(|v| v.live.load(Ordering::Relaxed)).sum()
    }

    /// Roots emitted and trees ended.
    pub(crate) fn moves(&self) -> u64 {
        self.sum(|v| v.moves.load(Ordering::Relaxed))
    }

    fn sum(&self, of: impl Fn(&super::vitals::Vitals) -> u64) -> u64 {
        self.control.vitals.iter().map(|vitals| of(vitals)).sum()
    }

    fn is_exhausted(&self) -> bool {
        self.control.vitals.iter().all(|v| v.exhausted.load(Ordering::Acquire))
    }

    /// True if nothing is in flight: no open tree, every executor idle, every batch sent was received; seen twice with
    /// the same counts, so that nothing moved in between. A commit that goes on is waited for first.
    fn is_quiet(&mut self) -> bool {
        let idle = self.committer.is_resting()
            && self.open_trees() == 0
            && self.control.vitals.iter().all(|v| v.idle.load(Ordering::Acquire));
        let counts = (self.sum(|v| v.sent.load(Ordering::Acquire)), self.sum(|v| v.received.load(Ordering::Acquire)));
        if !idle || counts.0 != counts.1 {
            self.quiet = None;
            return false;
        }
        self.quiet.replace(counts) == Some(counts)
    }
}
