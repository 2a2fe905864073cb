//! The same executors without threads: one thread steps them all, and time is moved by hand.

use std::time::Duration;

use super::{
    EngineOptions,
    conductor::{Conductor, Ending},
    error::EngineError,
    executor::{Command, Executor, Step},
    generation::Generation,
};
use crate::{
    clock::Instant,
    metrics::Metrics,
    state::Change,
    topology::{Companion, Plan, changelog::StoreId},
};

/// One generation of a topology under virtual time: for tests of topologies and for simulation.
///
/// Everything is deterministic: executors and companions are stepped in order, and time is what
/// [`Stepper::advance`] makes it.
pub struct Stepper {
    executors: Vec<Executor>,
    companions: Vec<Box<dyn Companion>>,
    conductor: Conductor,
    now: Instant,
    /// True if the last step found nothing to do.
    idle: bool,
}

impl std::fmt::Debug for Stepper {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Stepper").field("now", &self.now).finish_non_exhaustive()
    }
}

impl Stepper {
    /// Makes, opens and prepares every task, at virtual time 0.
    ///
    /// # Errors
    /// What keeps a component from starting.
    pub fn new(plan: &Plan, options: &EngineOptions, metrics: &Metrics) -> Result<Self, EngineError> {
        let now = Instant::ZERO;
        let Generation { executors, companions, control } = Generation::new(plan, options, metrics, now)?;
        let conductor = Conductor::new(control, plan, options, now);
        Ok(Self { executors, companions, conductor, now, idle: false })
    }

    /// The virtual time.
    #[must_use]
    pub const fn now(&self) -> Instant {
        self.now
    }

    /// Moves time; nothing else happens.
    pub fn advance(&mut self, span: Duration) {
        self.now = self.now + span;
    }

    /// Steps every companion and executor once, at the present time. How the generation has ended, once it has.
    ///
    /// # Errors
    /// What ends the generation.
    pub fn step(&mut self) -> Result<Option<Ending>, EngineError> {
        let before = self.now;
        for companion in &mut self.companions {
            let step = companion.step(before, Duration::ZERO);
            if let Err(error) = step {
                return Err(EngineError::component(companion.name(), error));
            }
        }
        self.idle = true;
        for executor in &mut self.executors {
            self.idle &= executor.step(before)? != Step::Worked;
        }
        while let Ok(report) = self.conductor.control.reports.try_recv() {
            self.conductor.handle(report, before)?;
        }
        Ok(self.conductor.poll(before))
    }

    /// Steps and moves time, a `tick` a step, until the generation ends or `limit` has passed.
    ///
    /// # Errors
    /// What ends the generation.
    pub fn run(&mut self, tick: Duration, limit: Duration) -> Result<Option<Ending>, EngineError> {
        let until = self.now + limit;
        while self.now < until {
            if let Some(ending) = self.step()? {
                self.stop()?;
                return Ok(Some(ending));
            }
            self.advance(tick);
        }
        Ok(None)
    }

    /// Stops the spouts, as SIGTERM does.
    pub fn drain(&mut self) {
        self.conductor.drain(self.now);
    }

    /// True if the last step found nothing to do: only time, or the outside, brings more.
    #[must_use]
    pub const fn is_idle(&self) -> bool {
        self.idle
    }

    /// Begins a commit now.
    pub(super) fn commit(&mut self) {
        self.conductor.commit(self.now);
    }

    /// Roots emitted and trees ended so far.
    pub(super) fn moves(&self) -> u64 {
        self.conductor.moves()
    }

    /// Inputs that a component's tasks hold now.
    pub(super) fn held(&self, component: &str) -> usize {
        let tasks = self.executors.iter().flat_map(|executor| &executor.tasks);
        tasks.filter(|task| *task.context.component == *component).map(|task| task.output.held()).sum()
    }

    /// Shows every entry of the stores of a component's tasks.
    pub(super) fn scan_stores(&mut self, component: &str, mut visit: impl FnMut(StoreId, Change<'_>)) {
        let tasks = self.executors.iter_mut().flat_map(|executor| &mut executor.tasks);
        for task in tasks.filter(|task| *task.context.component == *component) {
            let scanned = task.output.scan_stores(&mut visit);
            debug_assert!(scanned.is_ok(), "a store in memory can be read");
        }
    }

    /// Trees that are open now.
    #[must_use]
    pub fn open_trees(&self) -> usize {
        self.conductor.open_trees()
    }

    /// What was restored from the changelog at the start.
    #[must_use]
    pub const fn restored(&self) -> super::RestoreReport {
        self.conductor.restored()
    }

    /// Commits that were finished.
    #[must_use]
    pub const fn commits(&self) -> u64 {
        self.conductor.commits()
    }

    /// Closes every task. Dropping a stepper without it is a crash.
    ///
    /// # Errors
    /// What a task still had to say.
    pub fn stop(&mut self) -> Result<(), EngineError> {
        self.conductor.control.broadcast(&Command::Stop);
        for executor in &mut self.executors {
            while executor.step(self.now)? != Step::Stopped {}
        }
        for companion in &mut self.companions {
            companion.close(Duration::ZERO);
        }
        Ok(())
    }
}
