//! A process of the product: its lives, and when each of its parts is to be stepped.

use std::{sync::atomic::Ordering, time::Duration};

use super::{
    caps,
    dice::Dice,
    host::{Host, HostId},
    network::Network,
    pipeline::{Make, Mischief, build},
    substitutes::Substitutes,
};
use crate::{
    clock::{Clock, Instant},
    metrics::{DuplicateOutcome, Metrics},
    runtime::{Ending, EngineError, RunReport, SteppedRun},
};

/// How soon a part that has worked is stepped again, and one that was called: in microseconds. A thread that is woken takes as
/// long, and which of two comes first is left to chance.
const AGAIN_US: (u64, u64) = (10, 150);
const CALLED_US: (u64, u64) = (20, 300);
/// The shortest wait of a part that has nothing to do.
const SHORTEST_IDLE: Duration = Duration::from_millis(2);

/// What every process of a run is made from.
#[derive(Clone, Debug)]
pub(super) struct Setting {
    pub(super) make: Make,
    pub(super) network: Network,
    pub(super) clock: Clock,
    pub(super) epoch_ms: i64,
    /// The series of all lives.
    pub(super) metrics: Option<Metrics>,
    pub(super) substitutes: Substitutes,
}

/// What lives of processes have told of repeats.
#[derive(Copy, Clone, Default, Debug)]
pub(super) struct Told {
    pub(super) lives: u64,
    pub(super) restarts: u64,
    /// Lives that were asked to stop and could not finish in time.
    pub(super) cut_short: u64,
    /// Repeats that were counted.
    pub(super) duplicates: u64,
    /// Records of which it was said at starts that they may be repeated.
    pub(super) possible_repeats: u64,
    /// Records of which it was said that another process may repeat them.
    pub(super) left_unfinished: u64,
    /// Records of which it was said that they were deleted before they were read.
    pub(super) lost: u64,
    /// Calls of bolts that failed or panicked because they were told to.
    pub(super) struck: u64,
}

impl Told {
    /// With what the metrics of all lives have counted.
    pub(super) fn with(self, metrics: &Metrics) -> Self {
        Self {
            duplicates: metrics.duplicates(DuplicateOutcome::Visible).get(),
            left_unfinished: metrics.left_unfinished().get(),
            lost: metrics.records_lost().get(),
            ..self
        }
    }

    /// Adds what a life has told.
    pub(super) const fn add(&mut self, other: &Self) {
        self.lives += other.lives;
        self.restarts += other.restarts;
        self.cut_short += other.cut_short;
        self.possible_repeats += other.possible_repeats;
        self.struck += other.struck;
    }
}

/// What a life has come to.
#[derive(Debug)]
pub(super) enum Fate {
    /// It goes on.
    Alive,
    /// It was killed.
    Killed,
    /// It has ended by itself.
    Ended(Result<RunReport, EngineError>),
}

/// One life of a process.
pub(super) struct Process {
    /// Its place among the processes, which it has in every life.
    pub(super) number: usize,
    pub(super) host: Host,
    pub(super) mischief: Mischief,
    run: SteppedRun,
    /// When each part is to be stepped.
    due: Vec<Instant>,
    /// The first of them, and whose it is.
    first: (Instant, usize),
    /// Whether its last step has done anything.
    worked: bool,
    /// It stands still until then.
    pub(super) paused_until: Instant,
    dice: Dice,
}

impl Process {
    /// A process that begins now. `None` if it cannot be put together.
    pub(super) fn start(setting: &Setting, number: usize, host: HostId, dice: Dice) -> Option<Self> {
        let host = Host::new(host, setting.network.clone(), setting.clock.clone());
        let (metrics, mischief) = (setting.metrics.as_ref()?.for_another_life(), Mischief::default());
        let place = (&host, &setting.clock, setting.epoch_ms);
        let built = build(&setting.make, place, number, (&metrics, &mischief), &setting.substitutes).ok()?;
        #[cfg_attr(not(test), expect(unused_mut, reason = "nothing is substituted"))]
        let mut run = SteppedRun::new(built.plan, built.options, metrics);
        #[cfg(test)]
        if setting.substitutes.starts_executors_alone {
            run.start_executors_alone();
        }
        let due = vec![setting.clock.now()];
        let first = (setting.clock.now(), 0);
        Some(Self { number, host, mischief, run, due, first, worked: true, paused_until: Instant::ZERO, dice })
    }

    /// Notes which part is due first; of several the one with the lowest number.
    fn order(&mut self) {
        let first = self.due.iter().copied().zip(0..).min_by_key(|(due, _)| *due);
        self.first = first.unwrap_or((Instant::FAR_FUTURE, 0));
    }

    /// When it wants to be stepped.
    pub(super) fn due(&self) -> Instant {
        self.first.0.max(self.paused_until)
    }

    /// Something has come for its clients.
    pub(super) fn call(&mut self, now: Instant) {
        for due in &mut self.due {
            call(due, &mut self.dice, now);
        }
        self.order();
    }

    /// Steps the part that is due first.
    pub(super) fn step(&mut self, now: Instant) -> Fate {
        let part = self.first.1;
        let parts = self.run.parts();
        let next = self.run.step(part, now);
        self.worked = next <= now;
        if self.host.is_dead() {
            return Fate::Killed;
        }
        if let Some(outcome) = self.run.outcome() {
            return Fate::Ended(outcome.clone());
        }
        if self.run.parts() != parts || self.due.len() != parts {
            // A generation begins or has ended.
            self.due = vec![now; self.run.parts()];
            self.order();
            return Fate::Alive;
        }
        let again = Duration::from_micros(self.dice.between(AGAIN_US.0, AGAIN_US.1));
        let next = if self.worked { now + again } else { next.max(now + SHORTEST_IDLE) };
        if let Some(due) = self.due.get_mut(part) {
            *due = next;
        }
        self.pass_on(part, now);
        self.order();
        Fate::Alive
    }

    /// Wakes those parts that another one has brought something for.
    fn pass_on(&mut self, from: usize, now: Instant) {
        let mut any = self.worked;
        for part in self.run.called() {
            any = true;
            if let Some(due) = self.due.get_mut(part) {
                call(due, &mut self.dice, now);
            }
        }
        if any {
            // What an executor orders of a companion, or reports to the supervisor, wakes nobody by itself.
            for (part, due) in self.due.iter_mut().enumerate() {
                if part != from {
                    call(due, &mut self.dice, now);
                }
            }
        }
    }

    /// Asks it to finish what it has begun and to end.
    pub(super) fn drain(&mut self, now: Instant) {
        self.run.drain();
        self.call(now);
    }

    /// One of its executors hangs. False if there is none now.
    pub(super) fn hang(&mut self, executor: usize, now: Instant) -> bool {
        self.run.hang(executor, now)
    }

    /// So many of the next calls of one of its bolts fail, or panic.
    pub(super) fn misbehave(&self, last: bool, failures: u32, panics: u32) {
        let strikes = if last { &self.mischief.remember } else { &self.mischief.words };
        strikes.failures.fetch_add(failures, Ordering::Relaxed);
        strikes.panics.fetch_add(panics, Ordering::Relaxed);
    }

    /// Its bolts do nothing wrong from now on.
    pub(super) fn behave(&self) {
        for strikes in [&self.mischief.remember, &self.mischief.words] {
            strikes.failures.store(0, Ordering::Relaxed);
            strikes.panics.store(0, Ordering::Relaxed);
        }
    }

    /// Whether it keeps to its caps: none can be passed in a step that has done nothing.
    pub(super) fn check_caps(&self, max_pending: usize) -> Result<(), String> {
        if !self.worked {
            return Ok(());
        }
        caps::check(self.number, (self.open_trees(), self.run.waiting_tuples()), max_pending)
    }

    /// Trees that are open now.
    pub(super) fn open_trees(&self) -> usize {
        self.run.open_trees()
    }

    /// What it has told so far, but for what its metrics count.
    pub(super) fn told(&self) -> Told {
        let report = self.run.report();
        let cut_short = |ending| matches!(ending, Ending::DrainTimedOut { .. } | Ending::CutShort { .. });
        let is_cut_short =
            self.run.outcome().is_some_and(|over| over.as_ref().is_ok_and(|over| cut_short(over.ending)));
        Told {
            lives: 1,
            restarts: report.restarts,
            cut_short: u64::from(is_cut_short),
            possible_repeats: report.restored.possible_repeats,
            struck: [&self.mischief.words, &self.mischief.remember].map(|strikes| strikes.struck()).iter().sum(),
            ..Told::default()
        }
    }

    /// What it has done so far.
    pub(super) fn report(&self) -> RunReport {
        self.run.report()
    }
}

/// A part is stepped soon, if it is not anyway.
fn call(due: &mut Instant, dice: &mut Dice, now: Instant) {
    *due = (*due).min(now + Duration::from_micros(dice.between(CALLED_US.0, CALLED_US.1)));
}
