//! A whole run without threads: generations, their restarts, and every part of them stepped by somebody else, in virtual time.

use std::time::Duration;

use super::{
    EngineOptions, RunReport,
    conductor::{Conductor, Ending},
    error::EngineError,
    executor::{Command, Executor, Report, Step},
    generation::Generation,
    restarts::{Lived, Next, Restarts},
    starting::RestoreReport,
    watchdog::Watchdogs,
};
use crate::{
    clock::Instant,
    metrics::Metrics,
    topology::{Companion, CompanionStep, Plan},
};

/// The longest that a companion waits for the outside.
const COMPANION_WAIT: Duration = Duration::from_millis(100);
/// The longest wait between two looks at the watchdogs.
const LOOK: Duration = Duration::from_millis(100);
/// How long companions may take to say goodbye.
const GOODBYE: Duration = Duration::from_secs(5);

/// What [`run`](super::run) does, as a value: whoever has it steps its parts, in any order, as often as he likes. Each part
/// stands for a thread: the companions first, then the executors, and the supervisor last.
pub struct SteppedRun {
    plan: Plan,
    options: EngineOptions,
    metrics: Metrics,
    restarts: Restarts,
    state: State,
    report: RunReport,
    was_ready: bool,
    drain: bool,
    #[cfg(test)]
    alone: bool,
}

enum State {
    /// The next generation begins then.
    Resting(Instant),
    Running(Box<Running>),
    Over(Result<RunReport, EngineError>),
}

/// A generation.
struct Running {
    companions: Vec<Option<Box<dyn Companion>>>,
    /// `None`: it has ended, and said so.
    executors: Vec<Option<Executor>>,
    hung: Vec<bool>,
    conductor: Conductor,
    watchdogs: Watchdogs,
    draining: bool,
}

impl std::fmt::Debug for SteppedRun {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SteppedRun").field("report", &self.report).finish_non_exhaustive()
    }
}

impl SteppedRun {
    /// A run whose first generation begins with the first step.
    #[must_use]
    pub fn new(plan: Plan, options: EngineOptions, metrics: Metrics) -> Self {
        let report = RunReport {
            ending: Ending::Stopped { open_trees: 0 },
            commits: 0,
            restarts: 0,
            open_at_stop: 0,
            restored: RestoreReport::default(),
        };
        Self {
            restarts: Restarts::new(options.restart_backoff),
            plan,
            options,
            metrics,
            state: State::Resting(Instant::ZERO),
            report,
            was_ready: false,
            drain: false,
            #[cfg(test)]
            alone: false,
        }
    }

    /// How many parts there are now: one at least. It changes where a generation begins or ends.
    #[must_use]
    pub fn parts(&self) -> usize {
        match &self.state {
            State::Running(running) => running.companions.len() + running.executors.len() + 1,
            State::Resting(_) | State::Over(_) => 1,
        }
    }

    /// How the run has ended, once it has.
    #[must_use]
    pub const fn outcome(&self) -> Option<&Result<RunReport, EngineError>> {
        match &self.state {
            State::Over(outcome) => Some(outcome),
            State::Resting(_) | State::Running(_) => None,
        }
    }

    /// Trees that are open now.
    #[must_use]
    pub fn open_trees(&self) -> usize {
        match &self.state {
            State::Running(running) => running.conductor.open_trees(),
            State::Resting(_) | State::Over(_) => 0,
        }
    }

    /// Tuples in those queues that have no bound of their own: what spouts may have in flight bounds them.
    #[must_use]
    pub fn waiting_tuples(&self) -> usize {
        match &self.state {
            State::Running(running) => running.executors.iter().flatten().map(Executor::waiting_tuples).sum(),
            State::Resting(_) | State::Over(_) => 0,
        }
    }

    /// Commits and restarts so far, and what was restored.
    #[must_use]
    pub fn report(&self) -> RunReport {
        let mut report = self.report;
        if let State::Running(running) = &self.state {
            report.commits += running.conductor.commits();
            report.restored.add(running.conductor.restored());
        }
        report
    }

    /// Spouts stop, what is in flight is finished and committed.
    pub const fn drain(&mut self) {
        self.drain = true;
    }

    /// An executor hangs from now on in what it called last. False if there is none of that number.
    pub fn hang(&mut self, executor: usize, now: Instant) -> bool {
        let State::Running(running) = &mut self.state else { return false };
        let (Some(hung), Some(vitals)) =
            (running.hung.get_mut(executor), running.conductor.control.vitals.get(executor))
        else {
            return false;
        };
        *hung = true;
        vitals.begin_step(now);
        true
    }

    /// The parts that were called since this was asked last, as threads are woken from their sleep.
    pub fn called(&self) -> impl Iterator<Item = usize> {
        let running = match &self.state {
            State::Running(running) => Some(running),
            State::Resting(_) | State::Over(_) => None,
        };
        running.into_iter().flat_map(|running| {
            let beds = running.conductor.control.beds.iter().zip(running.companions.len()..);
            beds.filter(|(bed, _)| bed.was_called()).map(|(_, part)| part)
        })
    }

    /// Steps a part. When it wants to be stepped again, unless it is called before: `now` if there may be more to do at once.
    pub fn step(&mut self, part: usize, now: Instant) -> Instant {
        match &mut self.state {
            State::Over(_) => Instant::FAR_FUTURE,
            State::Resting(until) => {
                let until = *until;
                if self.drain && self.was_ready {
                    self.state = State::Over(Ok(self.report));
                } else if now >= until {
                    self.begin(now);
                    return now;
                }
                until
            }
            State::Running(running) => {
                let last = running.companions.len() + running.executors.len();
                if part < last {
                    return running.step(part, now);
                }
                self.was_ready |= self.metrics.readiness().check().is_ok();
                if self.drain && !std::mem::replace(&mut running.draining, true) {
                    self.report.open_at_stop = running.conductor.open_trees();
                    self.metrics.readiness().set_draining();
                    running.conductor.drain(now);
                }
                #[cfg(test)]
                if self.alone
                    && let Err(error) = running.start_hung_alone((&self.plan, &self.options, &self.metrics), now)
                {
                    return self.end(Err(error), now);
                }
                match running.supervise(now) {
                    Ok(None) => running.conductor.due(now).min(now + LOOK),
                    Ok(Some(ending)) => self.end(Ok(ending), now),
                    Err(error) => self.end(Err(error), now),
                }
            }
        }
    }

    fn begin(&mut self, now: Instant) {
        match Running::new(&self.plan, &self.options, &self.metrics, now) {
            Ok(running) => self.state = State::Running(Box::new(running)),
            Err(error) => self.rest(error, (false, None), now),
        }
    }

    fn end(&mut self, result: Result<Ending, EngineError>, now: Instant) -> Instant {
        let report = self.report();
        let has_committed = report.commits > self.report.commits;
        self.report = report;
        let State::Running(running) = std::mem::replace(&mut self.state, State::Resting(now)) else { return now };
        let drained = running.draining.then(|| running.conductor.open_trees());
        running.end(result.is_ok(), now);
        match result {
            Ok(ending) => self.state = State::Over(Ok(RunReport { ending, ..self.report })),
            Err(error) => self.rest(error, (has_committed, drained), now),
        }
        now
    }

    /// `drained`: the generation was told to stop its spouts, and so many trees were open when it ended.
    fn rest(&mut self, error: EngineError, (has_committed, drained): (bool, Option<usize>), now: Instant) {
        let has_run = self.report.restarts > 0 || self.report.commits > 0 || self.was_ready;
        self.state = match self.restarts.after(&error, Lived { has_run, has_committed, drained: drained.is_some() }) {
            Next::StartAfter(pause) => {
                self.report.restarts += 1;
                State::Resting(now + pause)
            }
            Next::CutShort => {
                let ending = Ending::CutShort { open_trees: drained.unwrap_or(0) };
                State::Over(Ok(RunReport { ending, ..self.report }))
            }
            Next::Fail => State::Over(Err(error)),
        };
    }
}

/// A deliberate bug, for tests of what finds it.
#[cfg(test)]
impl SteppedRun {
    /// From now on an executor that hangs is made anew while the others go on, instead of the generation.
    pub(crate) const fn start_executors_alone(&mut self) {
        self.alone = true;
    }
}

#[cfg(test)]
impl Running {
    /// Puts new tasks in the place of those of executors that hang; spouts stay, and so do their trees.
    fn start_hung_alone(
        &mut self,
        (plan, options, metrics): (&Plan, &EngineOptions, &Metrics),
        now: Instant,
    ) -> Result<(), EngineError> {
        let hung = self.hung.iter_mut().zip(&mut self.executors).enumerate().filter(|(_, (hung, _))| **hung);
        for (at, (hung, executor)) in hung {
            *hung = false;
            let mut fresh = Generation::new(plan, options, metrics, now)?;
            if let (Some(executor), Some(fresh)) = (executor, fresh.executors.get_mut(at)) {
                executor.start_again(fresh);
            }
        }
        Ok(())
    }
}

impl Running {
    fn new(plan: &Plan, options: &EngineOptions, metrics: &Metrics, now: Instant) -> Result<Self, EngineError> {
        let Generation { executors, companions, control } = Generation::new(plan, options, metrics, now)?;
        let hung = vec![false; executors.len()];
        let watchdogs = Watchdogs::new(executors.len(), options.hang_timeout, now);
        Ok(Self {
            companions: companions.into_iter().map(Some).collect(),
            executors: executors.into_iter().map(Some).collect(),
            hung,
            conductor: Conductor::new(control, plan, options, now),
            watchdogs,
            draining: false,
        })
    }

    fn step(&mut self, part: usize, now: Instant) -> Instant {
        let executor = part.checked_sub(self.companions.len());
        match executor {
            None => self.step_companion(part, now),
            Some(at) if self.hung.get(at).copied().unwrap_or(true) => Instant::FAR_FUTURE,
            Some(at) => self.step_executor(at, now),
        }
    }

    fn step_companion(&mut self, at: usize, now: Instant) -> Instant {
        let Some(slot) = self.companions.get_mut(at) else { return Instant::FAR_FUTURE };
        let Some(companion) = slot else { return Instant::FAR_FUTURE };
        let result = match companion.step(now, Duration::ZERO) {
            Ok(CompanionStep::Continue) => return now + COMPANION_WAIT,
            Ok(CompanionStep::Finished) => Ok(()),
            Err(error) => Err(EngineError::component(companion.name(), error)),
        };
        companion.close(GOODBYE);
        *slot = None;
        self.tell(Report::Ended(result));
        Instant::FAR_FUTURE
    }

    fn step_executor(&mut self, at: usize, now: Instant) -> Instant {
        let Some(Some(executor)) = self.executors.get_mut(at) else { return Instant::FAR_FUTURE };
        let result = match executor.step(now) {
            Ok(Step::Worked) => return now,
            Ok(Step::Idle { until }) => return until,
            Ok(Step::Stopped) => Ok(()),
            Err(error) => Err(error),
        };
        self.tell(Report::Ended(result));
        if let Some(executor) = self.executors.get_mut(at) {
            *executor = None;
        }
        Instant::FAR_FUTURE
    }

    fn tell(&self, report: Report) {
        // There is room: each part says this once, and what else it says is answered before it says more.
        drop(self.conductor.control.report.try_send(report));
    }

    fn supervise(&mut self, now: Instant) -> Result<Option<Ending>, EngineError> {
        if let Some(ending) = self.conductor.poll(now) {
            return Ok(Some(ending));
        }
        self.watchdogs.look(&self.conductor.control, now)?;
        while let Ok(report) = self.conductor.control.reports.try_recv() {
            self.conductor.handle(report, now)?;
        }
        Ok(None)
    }

    /// After an error whatever a task has still to say must not reach the outside; companions leave all the same.
    fn end(mut self, well: bool, now: Instant) {
        if well {
            self.conductor.control.broadcast(&Command::Stop);
            for executor in self.executors.iter_mut().flatten() {
                // What it says to its end changes nothing any more.
                while matches!(executor.step(now), Ok(Step::Worked | Step::Idle { .. })) {}
            }
        }
        drop(self.executors);
        for companion in self.companions.iter_mut().flatten() {
            companion.close(GOODBYE);
        }
    }
}
