//! Threads for the executors and companions of a generation.

use std::{
    io,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, OnceLock, mpsc},
    thread::{Builder, JoinHandle},
    time::Duration,
};

use super::{
    error::{EngineError, panic_message},
    executor::{Executor, Report, Step},
    generation::Controls,
    vitals::Vitals,
    wake::Bed,
};
use crate::{
    clock::{Clock, Instant},
    topology::{Companion, CompanionStep},
};

/// The threads of a generation.
pub(super) struct Threads {
    executors: Vec<JoinHandle<()>>,
    companions: Vec<JoinHandle<()>>,
    vitals: Arc<[Arc<Vitals>]>,
    /// Set when the companions shall leave: how long they may take.
    leaving: Arc<OnceLock<Duration>>,
}

/// The longest that a companion waits for the outside before it looks whether it shall leave.
const COMPANION_WAIT: Duration = Duration::from_millis(20);

/// How long companions may take to say goodbye (a consumer leaves its group). A group in the midst of a rebalance answers
/// only when every member has heard of it, which takes a heartbeat, and has let go of what it must.
const GOODBYE: Duration = Duration::from_secs(10);
/// The same where nobody wants to wait.
const SHORT_GOODBYE: Duration = Duration::from_millis(500);

impl Threads {
    pub(super) fn start(
        executors: Vec<Executor>,
        companions: Vec<Box<dyn Companion>>,
        control: &Controls,
        clock: &Clock,
    ) -> Result<Self, EngineError> {
        let vitals = Arc::clone(&control.vitals);
        let mut threads = Self { executors: Vec::new(), companions: Vec::new(), vitals, leaving: Arc::default() };
        match threads.spawn_all(executors, companions, control, clock) {
            Ok(()) => Ok(threads),
            Err(error) => {
                // The machine has no more threads: those that run already must not run on alone.
                threads.fence();
                threads.finish(clock, Duration::ZERO, &|| true);
                Err(error)
            }
        }
    }

    fn spawn_all(
        &mut self,
        executors: Vec<Executor>,
        companions: Vec<Box<dyn Companion>>,
        control: &Controls,
        clock: &Clock,
    ) -> Result<(), EngineError> {
        let report = &control.report;
        for (executor, bed) in executors.into_iter().zip(&control.beds) {
            let name = format!("executor-{}", executor.shard);
            let (bed, clock) = (bed.clone(), clock.clone());
            let run = move || drive_executor(executor, &bed, &clock);
            self.executors.push(spawn(name, report.clone(), run)?);
        }
        for companion in companions {
            let name = companion.name().to_owned();
            let (clock, leaving) = (clock.clone(), Arc::clone(&self.leaving));
            let run = move || drive_companion(companion, &clock, &leaving);
            self.companions.push(spawn(name, report.clone(), run)?);
        }
        Ok(())
    }

    /// Waits until the threads have ended, `patience` at most; those that hang are given up. Companions leave after the
    /// executors, whose last words they pass on, and shortly as soon as `hurry` says so.
    pub(super) fn finish(self, clock: &Clock, patience: Duration, hurry: &dyn Fn() -> bool) {
        let Self { executors, companions, vitals, leaving } = self;
        join_until(executors, clock, clock.now() + patience, &|| false);
        vitals.iter().for_each(|vitals| vitals.fence());
        let goodbye = *leaving.get_or_init(|| if hurry() { SHORT_GOODBYE } else { GOODBYE });
        join_until(companions, clock, clock.now() + goodbye + COMPANION_WAIT, hurry);
    }

    /// Nothing more of this generation is to reach the outside. A call that hangs now is not followed by another batch.
    pub(super) fn fence(&self) {
        self.vitals.iter().for_each(|vitals| vitals.fence());
    }
}

fn join_until(handles: Vec<JoinHandle<()>>, clock: &Clock, mut deadline: Instant, hurry: &dyn Fn() -> bool) {
    for handle in handles {
        while !handle.is_finished() && clock.now() < deadline {
            if hurry() {
                // From the first time on: what comes later is no earlier deadline.
                deadline = deadline.min(clock.now() + SHORT_GOODBYE + COMPANION_WAIT);
            }
            std::thread::park_timeout(Duration::from_millis(1));
        }
        if handle.is_finished() {
            // Its panic was reported by the thread itself.
            drop(handle.join());
        } else {
            let thread = handle.thread().name().unwrap_or("?").to_owned();
            tracing::warn!(thread, "a thread does not end: it is given up");
        }
    }
}

fn spawn(
    name: String,
    report: mpsc::SyncSender<Report>,
    run: impl FnOnce() -> Result<(), EngineError> + Send + 'static,
) -> Result<JoinHandle<()>, EngineError> {
    let body = move || {
        let result = catch_unwind(AssertUnwindSafe(run))
            .unwrap_or_else(|panic| Err(EngineError::Panicked(panic_message(&*panic).to_owned())));
        // Nobody listens any more if the generation was given up.
        drop(report.send(Report::Ended(result)));
    };
    Builder::new().name(name).spawn(body).map_err(|error: io::Error| EngineError::Thread(error.to_string()))
}

fn drive_executor(mut executor: Executor, bed: &Bed, clock: &Clock) -> Result<(), EngineError> {
    bed.take();
    while !executor.own.is_fenced() {
        let now = clock.now();
        match executor.step(now)? {
            Step::Worked => {}
            Step::Idle { until } => bed.sleep(until - now),
            Step::Stopped => break,
        }
    }
    Ok(())
}

fn drive_companion(
    mut companion: Box<dyn Companion>,
    clock: &Clock,
    leaving: &OnceLock<Duration>,
) -> Result<(), EngineError> {
    let result = loop {
        if leaving.get().is_some() {
            break Ok(());
        }
        match companion.step(clock.now(), COMPANION_WAIT) {
            Ok(CompanionStep::Continue) => {}
            Ok(CompanionStep::Finished) => break Ok(()),
            Err(error) => break Err(EngineError::component(companion.name(), error)),
        }
    };
    companion.close(leaving.get().copied().unwrap_or(GOODBYE));
    result
}
