//! What a running generation does next: commits when they are due, drains when it is asked to, ends when all is done.
//! Decides from reports and vitals; threads, or a test, bring them.

use std::{sync::atomic::Ordering, time::Duration};

use super::{
    EngineOptions,
    commit::{CommitStep, Committer, Keeps, Progress},
    error::EngineError,
    executor::{Command, Report},
    generation::Controls,
    keeper::KeeperNews,
    keeping::Keeping,
    starting::{RestoreReport, Started},
};
use crate::{clock::Instant, topology::Plan};

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
    /// It was asked to drain, and lost a part meanwhile: so many trees were still open and will be replayed.
    CutShort {
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
    /// Stores are restored; nothing is emitted yet.
    Starting,
    /// A stop was asked for meanwhile: there is nothing to finish.
    GivenUp,
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
    /// If the stores of the topology are kept in a changelog.
    keeping: Option<Keeping>,
    restored: RestoreReport,
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
    pub(crate) fn new(mut control: Controls, plan: &Plan, options: &EngineOptions, now: Instant) -> Self {
        let executors = control.commands.len();
        let keeping = control.keeping.take();
        let (keeps, phase, first) = match &keeping {
            Some(_) => (Keeps::InChangelog, Phase::Starting, Command::Begin),
            None if plan.stores.is_empty() => (Keeps::Nothing, Phase::Running, Command::Activate),
            None => (Keeps::InMemory, Phase::Running, Command::Activate),
        };
        control.broadcast(&first);
        Self {
            control,
            keeping,
            restored: RestoreReport::default(),
            committer: Committer::new(executors, plan.depth(), keeps, options.commit_interval, now),
            phase,
            drain_timeout: options.drain_timeout,
            moves: 0,
            last_commit: now,
            quiet: None,
        }
    }

    /// Takes what an executor says.
    ///
    /// # Errors
    /// If the executor has ended without being told to, or the changelog does not belong to this topology.
    pub(crate) fn handle(&mut self, report: Report, now: Instant) -> Result<(), EngineError> {
        match report {
            Report::Ended(result) => return result,
            Report::Done(step) => self.answered(step, now),
            Report::Begins(starts) => {
                if let Some(keeping) = &mut self.keeping {
                    keeping.begins_at(starts, now);
                }
            }
            Report::Restored(keys) => {
                if let Some(started) = self.keeping.as_mut().and_then(|keeping| keeping.restored(keys, now)) {
                    return self.start(started);
                }
            }
            Report::Confirmed => {
                if self.keeping.as_mut().is_some_and(Keeping::confirmed) {
                    self.activate();
                }
            }
            Report::Changed(changes) => {
                // Without a changelog there is nobody who wants them.
                if let Some(keeping) = &mut self.keeping {
                    keeping.changed(changes);
                }
            }
            Report::Positions(positions) => {
                if let Some(keeping) = &mut self.keeping {
                    keeping.positions(positions, self.committer.number());
                }
            }
            Report::Changelog(news) => return self.hear(news, now),
        }
        Ok(())
    }

    fn answered(&mut self, step: CommitStep, now: Instant) {
        match self.committer.answered(step, now) {
            Progress::Waiting => {}
            Progress::Next(next) => self.control.broadcast(&Command::Commit(next)),
            Progress::Finished => self.last_commit = now,
        }
    }

    fn hear(&mut self, news: KeeperNews, now: Instant) -> Result<(), EngineError> {
        let Some(keeping) = &mut self.keeping else { return Ok(()) };
        match news {
            KeeperNews::Entries { store, group, entries } => {
                let (executor, command) = keeping.route(store, group, entries)?;
                self.control.tell(executor, command);
            }
            KeeperNews::Remaining(remaining) => keeping.tell_remaining(remaining),
            KeeperNews::Restored(position) => {
                keeping.all_read(position);
                self.control.broadcast(&Command::Restored);
            }
            KeeperNews::Refused(sentence) => return Err(EngineError::Refused(sentence)),
            KeeperNews::Durable(number) => self.answered(CommitStep::Deliver(number), now),
        }
        Ok(())
    }

    /// The stores are restored: go on if the spouts still may, or refuse.
    fn start(&mut self, started: Started) -> Result<(), EngineError> {
        let (next, report) = match started {
            Started::Go(next, report) => (next, report),
            Started::Refuse(sentence) => return Err(EngineError::Disagreement(sentence)),
        };
        tracing::info!(
            restored_keys = report.keys,
            restore_seconds = report.took.as_secs_f64(),
            possible_repeats = report.possible_repeats,
            next_commit = next.0,
            "restored"
        );
        self.committer.start_at(next);
        self.restored = report;
        self.control.broadcast(&Command::Confirm);
        Ok(())
    }

    fn activate(&mut self) {
        if self.phase == Phase::Starting {
            self.phase = Phase::Running;
            self.control.broadcast(&Command::Activate);
        }
    }

    /// What was found in the stores' changelog at the start.
    pub(crate) const fn restored(&self) -> RestoreReport {
        self.restored
    }

    /// Stops the spouts; the generation ends when what is in flight is done, or at the deadline.
    pub(crate) fn drain(&mut self, now: Instant) {
        if self.phase == Phase::Starting {
            self.phase = Phase::GivenUp;
        }
        if self.phase == Phase::Running {
            self.control.broadcast(&Command::Deactivate);
            let deadline = now + self.drain_timeout;
            self.phase = Phase::Draining { deadline, ending: Ending::Drained };
        }
    }

    /// Begins a commit, due or not, unless one goes on. True if it did.
    pub(crate) fn commit(&mut self, now: Instant) -> bool {
        let begun = self.committer.begin(now);
        if let Some(step) = begun {
            self.control.broadcast(&Command::Commit(step));
        }
        begun.is_some()
    }

    /// Does what is due. How the generation has ended, once it has: the executors are then to be stopped.
    pub(crate) fn poll(&mut self, now: Instant) -> Option<Ending> {
        if let Some(step) = self.committer.slow(now) {
            tracing::warn!(commit = self.committer.number().0, "a commit waits for {}", step.waits_for());
        }
        match self.phase {
            Phase::Starting => None,
            Phase::GivenUp => Some(Ending::Stopped { open_trees: 0 }),
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
                } else if self.commit(now) {
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
            self.control.broadcast(&Command::Commit(step));
        }
    }

    /// When `poll` has something to do even if nothing is reported.
    pub(crate) fn due(&self, now: Instant) -> Instant {
        /// How often a drain looks whether it is over.
        const DRAIN_LOOK: Duration = Duration::from_millis(1);
        match self.phase {
            Phase::Running => self.committer.due().unwrap_or(Instant::FAR_FUTURE),
            Phase::Starting => Instant::FAR_FUTURE,
            Phase::GivenUp | Phase::Draining { .. } | Phase::LastCommit { .. } => now + DRAIN_LOOK,
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
