//! What an executor shows of itself to the other threads.

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering},
};

use crate::clock::Instant;

/// Written by one executor, read by the supervisor and by the other executors' timeouts.
#[derive(Debug)]
pub(crate) struct Vitals {
    /// When the step that goes on now began, in nanoseconds; 0 between steps.
    step_began: AtomicU64,
    /// When the oldest tuple that waits here was emitted, as of the last step; `u64::MAX` if none waits.
    oldest: AtomicU64,
    /// The task that is being called, [`Vitals::NO_TASK`] if none is.
    calling: AtomicU32,
    /// Calls that its components have finished: shared with the outputs of its tasks.
    pub(crate) pulse: Arc<AtomicU64>,
    /// Live trees of this executor's spouts.
    pub(crate) live: AtomicUsize,
    /// Batches that were put into rings to other executors, since the start.
    pub(crate) sent: AtomicU64,
    /// Batches from other executors that were worked on, since the start.
    pub(crate) received: AtomicU64,
    /// Roots emitted and trees ended, since the start: a commit is due only if this moves.
    pub(crate) moves: AtomicU64,
    /// True if the last step found nothing to do.
    pub(crate) idle: AtomicBool,
    /// True if every spout here has come to its end.
    pub(crate) exhausted: AtomicBool,
    /// Written by the supervisor: the generation is given up.
    fenced: AtomicBool,
}

impl Default for Vitals {
    fn default() -> Self {
        Self {
            step_began: AtomicU64::new(0),
            oldest: AtomicU64::new(u64::MAX),
            calling: AtomicU32::new(Self::NO_TASK),
            pulse: Arc::default(),
            live: AtomicUsize::new(0),
            sent: AtomicU64::new(0),
            received: AtomicU64::new(0),
            moves: AtomicU64::new(0),
            idle: AtomicBool::new(false),
            exhausted: AtomicBool::new(false),
            fenced: AtomicBool::new(false),
        }
    }
}

impl Vitals {
    const NO_TASK: u32 = u32::MAX;

    /// The generation is given up: the next one repeats what this executor has taken, so that it must give nothing more to
    /// the outside, however late a call of it comes back.
    pub(crate) fn fence(&self) {
        self.fenced.store(true, Ordering::Release);
    }

    /// Whether the generation is given up.
    #[inline]
    pub(crate) fn is_fenced(&self) -> bool {
        self.fenced.load(Ordering::Acquire)
    }

    /// A step begins.
    pub(crate) fn begin_step(&self, now: Instant) {
        self.step_began.store(now.nanos().max(1), Ordering::Release);
    }

    /// The step is over, with what waits now.
    pub(crate) fn end_step(&self, oldest: Option<Instant>, idle: bool) {
        self.oldest.store(oldest.map_or(u64::MAX, Instant::nanos), Ordering::Relaxed);
        self.step_began.store(0, Ordering::Release);
        self.idle.store(idle, Ordering::Release);
    }

    /// A component is being called.
    #[inline]
    pub(crate) fn call(&self, task: u32) {
        self.calling.store(task, Ordering::Relaxed);
    }

    /// The task that is being called.
    pub(crate) fn calling(&self) -> Option<u32> {
        let task = self.calling.load(Ordering::Relaxed);
        (task != Self::NO_TASK).then_some(task)
    }

    /// Calls that its components have finished.
    pub(crate) fn calls(&self) -> u64 {
        self.pulse.load(Ordering::Relaxed)
    }

    /// When the step that goes on now began.
    pub(crate) fn step_began(&self) -> Option<Instant> {
        let nanos = self.step_began.load(Ordering::Acquire);
        (nanos != 0).then(|| Instant::from_nanos(nanos))
    }

    /// When the oldest tuple was emitted that waits here. During a step, what has arrived meanwhile is not known yet, so
    /// everything since the step's beginning counts as waiting.
    pub(crate) fn oldest_queued(&self) -> Option<Instant> {
        let oldest = self.oldest.load(Ordering::Relaxed);
        let oldest = (oldest != u64::MAX).then(|| Instant::from_nanos(oldest));
        oldest.into_iter().chain(self.step_began()).min()
    }
}
