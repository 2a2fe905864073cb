//! Owns every thread, and starts the whole generation again when a part of it is lost.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU8, Ordering},
    },
    time::Duration,
};

use super::{
    EngineOptions,
    conductor::{Conductor, Ending},
    error::EngineError,
    executor::{Command, Report},
    generation::Generation,
    restarts::{Lived, Next, Restarts},
    starting::RestoreReport,
    threads::Threads,
    watchdog::Watchdogs,
};
use crate::{clock::Clock, metrics::Metrics, topology::Plan};

/// Asks a running topology to stop. Clones ask the same one.
#[derive(Clone, Debug, Default)]
pub struct StopHandle(Arc<AtomicU8>);

impl StopHandle {
    const DRAIN: u8 = 1;
    const NOW: u8 = 2;

    /// Spouts stop, what is in flight is finished and committed.
    pub fn drain(&self) {
        self.0.fetch_max(Self::DRAIN, Ordering::AcqRel);
    }

    /// Everything stops; what is in flight will be replayed.
    pub fn now(&self) {
        self.0.fetch_max(Self::NOW, Ordering::AcqRel);
    }

    /// True if any stop was asked for.
    #[must_use]
    pub fn is_asked(&self) -> bool {
        self.wants_drain()
    }

    fn wants_drain(&self) -> bool {
        self.0.load(Ordering::Acquire) >= Self::DRAIN
    }

    fn wants_now(&self) -> bool {
        self.0.load(Ordering::Acquire) >= Self::NOW
    }
}

/// How a run went.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct RunReport {
    /// How it ended.
    pub ending: Ending,
    /// Commits that were finished.
    pub commits: u64,
    /// How often the generation was started again.
    pub restarts: u64,
    /// Trees that were open when the stop was asked for; they were finished unless `ending` says otherwise.
    pub open_at_stop: usize,
    /// What was restored from the changelog, over all generations.
    pub restored: RestoreReport,
}

/// Runs a topology until it is told to stop or its spouts come to their end.
///
/// A generation that loses a part (a source or sink that cannot go on, a hung bolt) ends without a commit and is started
/// again from the last commit, after a pause that doubles up to 30 s.
///
/// # Errors
/// What made the first start fail, what no restart can mend, or a second hang.
pub fn run(
    plan: &Plan,
    options: &EngineOptions,
    metrics: &Metrics,
    clock: &Clock,
    stop: &StopHandle,
) -> Result<RunReport, EngineError> {
    let mut life = Life {
        plan,
        options,
        metrics,
        clock,
        stop,
        commits: 0,
        restarts: 0,
        draining: false,
        open_at_stop: 0,
        open_at_end: 0,
        restored: RestoreReport::default(),
        was_ready: false,
    };
    let mut restarts = Restarts::new(options.restart_backoff);
    loop {
        let commits_before = life.commits;
        let error = match life.generation() {
            Ok(ending) => return Ok(life.report(ending)),
            Err(error) => error,
        };
        let has_committed = life.commits > commits_before;
        match restarts.after(&error, Lived { has_run: life.has_run(), has_committed, drained: life.draining }) {
            Next::Fail => return Err(error),
            Next::CutShort => return Ok(life.report(Ending::CutShort { open_trees: life.open_at_end })),
            Next::StartAfter(pause) if life.pause(pause) => life.restarts += 1,
            Next::StartAfter(_) => return Ok(life.report(Ending::Stopped { open_trees: 0 })),
        }
    }
}

/// How long executors may take to come back when they are told to stop.
const STOP_PATIENCE: Duration = Duration::from_secs(2);
/// The longest wait between two looks at the stop handle and the watchdogs.
const LOOK: Duration = Duration::from_millis(20);

/// One run, over its generations.
struct Life<'a> {
    plan: &'a Plan,
    options: &'a EngineOptions,
    metrics: &'a Metrics,
    clock: &'a Clock,
    stop: &'a StopHandle,
    commits: u64,
    restarts: u64,
    /// The generation was told to stop its spouts.
    draining: bool,
    open_at_stop: usize,
    /// Trees that were open when the last generation ended.
    open_at_end: usize,
    restored: RestoreReport,
    was_ready: bool,
}

impl Life<'_> {
    const fn report(&self, ending: Ending) -> RunReport {
        let Self { commits, restarts, open_at_stop, restored, .. } = *self;
        RunReport { ending, commits, restarts, open_at_stop, restored }
    }

    /// True if a generation has ever worked: a failure of the very first start is told at once.
    const fn has_run(&self) -> bool {
        self.restarts > 0 || self.commits > 0 || self.was_ready
    }

    /// Waits; false if a stop was asked for meanwhile.
    fn pause(&self, span: Duration) -> bool {
        let until = self.clock.now() + span;
        while self.clock.now() < until {
            if self.stop.wants_drain() {
                return false;
            }
            std::thread::park_timeout(LOOK);
        }
        true
    }

    fn generation(&mut self) -> Result<Ending, EngineError> {
        let now = self.clock.now();
        let Generation { executors, companions, control } =
            Generation::new(self.plan, self.options, self.metrics, now)?;
        let threads = Threads::start(executors, companions, &control, self.clock)?;
        let mut conductor = Conductor::new(control, self.plan, self.options, now);
        let result = self.conduct(&mut conductor);
        self.open_at_end = conductor.open_trees();
        self.commits += conductor.commits();
        self.restored.add(conductor.restored());
        if result.is_err() {
            // Whatever a task has still to say, it must not reach the outside.
            threads.fence();
        }
        conductor.control.broadcast(&Command::Stop);
        threads.finish(self.clock, STOP_PATIENCE, &|| self.stop.wants_now());
        result
    }

    fn conduct(&mut self, conductor: &mut Conductor) -> Result<Ending, EngineError> {
        let executors = conductor.control.commands.len();
        let mut watchdogs = Watchdogs::new(executors, self.options.hang_timeout, self.clock.now());
        loop {
            let now = self.clock.now();
            // Remembered: what ends a generation may first have taken its partitions.
            self.was_ready |= self.metrics.readiness().check().is_ok();
            if self.stop.wants_now() {
                let open_trees = conductor.open_trees();
                return Ok(Ending::Stopped { open_trees });
            }
            if self.stop.wants_drain() && !self.draining {
                self.draining = true;
                self.open_at_stop = conductor.open_trees();
                self.metrics.readiness().set_draining();
                conductor.drain(now);
            }
            if let Some(ending) = conductor.poll(now) {
                return Ok(ending);
            }
            watchdogs.look(&conductor.control, now)?;
            let wait = (conductor.due(now) - now).min(LOOK);
            if let Ok(report) = conductor.control.reports.recv_timeout(wait) {
                self.take(conductor, report)?;
                while let Ok(report) = conductor.control.reports.try_recv() {
                    self.take(conductor, report)?;
                }
            }
        }
    }

    fn take(&self, conductor: &mut Conductor, report: Report) -> Result<(), EngineError> {
        conductor.handle(report, self.clock.now())
    }
}
