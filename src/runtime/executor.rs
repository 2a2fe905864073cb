//! An executor: tasks, the queue between them, and the ledger of their trees. A value with `step(now)`; threads drive
//! it, or a test.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, atomic::Ordering, mpsc},
};

use super::{
    commit::CommitStep,
    error::EngineError,
    link::{Incoming, Outgoing},
    task::{Kind, SpoutTask, Task, guarded},
    vitals::Vitals,
};
use crate::{
    clock::Instant,
    topology::{
        CommitNumber, CommitState, ComponentError, Ended, Ending, Failure, Next, Owner, SpoutOutput, TreeFailure, Trees,
    },
    tuple::{Batch, Edge, RootId, mix},
};

/// What an executor is told.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) enum Command {
    /// Spouts may emit.
    Activate,
    /// Spouts stop emitting; trees in flight go on.
    Deactivate,
    /// A step of a commit, to be answered.
    Commit(CommitStep),
    /// The end: tasks are closed.
    Stop,
}

/// What an executor says.
#[derive(Debug)]
pub(crate) enum Report {
    /// A step of a commit is done.
    Done(CommitStep),
    /// The executor has ended, for this reason if it was not told to.
    Ended(Result<(), EngineError>),
}

/// What a step has found.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
#[must_use]
pub(crate) enum Step {
    /// There may be more to do at once.
    Worked,
    /// Nothing to do before `until`, unless something comes.
    Idle { until: Instant },
    /// The tasks are closed.
    Stopped,
}

/// Limits of one executor.
#[derive(Copy, Clone, Debug)]
pub(crate) struct Limits {
    pub(crate) spout_batch: usize,
    pub(crate) max_pending: usize,
    pub(crate) flush_interval: std::time::Duration,
}

/// The tasks of one thread.
pub(crate) struct Executor {
    pub(crate) shard: usize,
    pub(crate) tasks: Vec<Task>,
    /// The task that a tuple goes to → its executor and its index there.
    pub(crate) places: Arc<[(usize, usize)]>,
    pub(crate) incoming: Vec<Incoming>,
    /// By executor; `None` at this one's own place.
    pub(crate) outgoing: Vec<Option<Outgoing>>,
    pub(crate) trees: Trees,
    pub(crate) tracked: bool,
    pub(crate) vitals: Arc<[Vitals]>,
    pub(crate) commands: mpsc::Receiver<Command>,
    pub(crate) reports: mpsc::SyncSender<Report>,
    pub(crate) limits: Limits,
    pub(crate) names: Arc<[Arc<str>]>,
    pub(crate) state: ExecutorState,
}

/// What an executor is in the middle of.
#[derive(Default)]
pub(crate) struct ExecutorState {
    queue: VecDeque<Batch>,
    active: bool,
    stopped: bool,
    /// The step of a commit that is not done yet.
    commit: Option<CommitStep>,
    /// Why trees of this ledger fail, until their end was told.
    failures: HashMap<RootId, TreeFailure>,
    ended: Vec<Ended>,
    /// Emptied batches, lent to each task while it runs.
    spare: Vec<Batch>,
    last_poll: Instant,
}

/// How often sinks are asked for their acknowledgements and spouts for their commits.
const POLL_INTERVAL: std::time::Duration = std::time::Duration::from_millis(1);
/// Batches taken from one ring in one step.
const BATCHES_PER_RING: usize = 16;
/// The longest sleep: what has no deadline is looked after this often.
const LONGEST_SLEEP: std::time::Duration = std::time::Duration::from_millis(100);

impl Executor {
    /// Does what there is to do now.
    ///
    /// # Errors
    /// What ends the generation.
    pub(crate) fn step(&mut self, now: Instant) -> Result<Step, EngineError> {
        self.vitals().begin_step(now);
        let worked = self.take_commands(now)?;
        if self.state.stopped {
            return Ok(Step::Stopped);
        }
        let mut worked = self.take_acks(now)? | worked;
        worked |= self.take_batches();
        worked |= self.run_queue(now)?;
        worked |= self.run_spouts(now)?;
        worked |= self.run_queue(now)?;
        worked |= self.tell_ended(now)?;
        worked |= self.tick(now)?;
        worked |= self.poll_outside(now, worked)?;
        worked |= self.send(now, !worked);
        self.expire(now);
        worked |= self.tell_ended(now)?;
        self.end_step(worked);
        Ok(if worked { Step::Worked } else { Step::Idle { until: self.wake_at(now) } })
    }

    /// True if something has come since the last step.
    pub(crate) fn has_input(&self) -> bool {
        self.incoming.iter().any(|link| !link.is_empty())
    }

    fn vitals(&self) -> &Vitals {
        #[expect(clippy::indexing_slicing, reason = "there is one for each executor")]
        &self.vitals[self.shard]
    }

    fn end_step(&mut self, worked: bool) {
        let queued = self.state.queue.iter().map(|b| b.born);
        let waiting = self.tasks.iter().flat_map(|t| &t.waiting).map(|b| b.born);
        let lanes = self.tasks.iter().filter_map(|t| t.output.oldest_lane());
        let rings = self.incoming.iter().filter_map(Incoming::oldest);
        let unsent = self.outgoing.iter().flatten().filter_map(Outgoing::oldest);
        let oldest = queued.chain(waiting).chain(lanes).chain(rings).chain(unsent).min();
        let busy = worked || oldest.is_some() || self.outgoing.iter().flatten().any(Outgoing::has_pending);
        let vitals = self.vitals();
        vitals.live.store(self.trees.ledger().live(), Ordering::Relaxed);
        vitals.end_step(oldest, !busy);
    }

    fn take_commands(&mut self, now: Instant) -> Result<bool, EngineError> {
        let mut any = false;
        while let Ok(command) = self.commands.try_recv() {
            any = true;
            match command {
                Command::Activate => self.set_active(true),
                Command::Deactivate => self.set_active(false),
                Command::Commit(step) => self.begin_commit_step(step, now)?,
                Command::Stop => {
                    self.state.stopped = true;
                    self.tasks.iter_mut().for_each(Task::close);
                }
            }
        }
        Ok(any)
    }

    fn set_active(&mut self, active: bool) {
        self.state.active = active;
        for task in &mut self.tasks {
            if let Kind::Spout(spout) = &mut task.kind {
                if active { spout.spout.activate() } else { spout.spout.deactivate() }
            }
        }
    }

    /// Acks from other executors, and what they end.
    fn take_acks(&mut self, now: Instant) -> Result<bool, EngineError> {
        let mut any = false;
        for link in &mut self.incoming {
            while let Some(packet) = link.next_acks() {
                any = true;
                for failure in packet.failures {
                    self.state.failures.entry(failure.root).or_insert(failure);
                }
                self.trees.apply(packet.acks);
            }
        }
        Ok(self.tell_ended(now)? | any)
    }

    fn take_batches(&mut self) -> bool {
        let mut received = 0;
        for link in &mut self.incoming {
            for _ in 0..BATCHES_PER_RING {
                let Some(batch) = link.next_batch() else { break };
                received += 1;
                self.state.queue.push_back(batch);
            }
        }
        if received > 0 {
            self.vitals().received.fetch_add(received, Ordering::AcqRel);
        }
        received > 0
    }

    /// Runs tasks until no batch for this executor is left, or only such as sinks cannot take now.
    fn run_queue(&mut self, now: Instant) -> Result<bool, EngineError> {
        let mut any = self.retry_waiting(now)?;
        while let Some(batch) = self.state.queue.pop_front() {
            any = true;
            let index = self.places.get(batch.target.index()).map_or(usize::MAX, |place| place.1);
            self.run_batch(index, batch, now)?;
        }
        Ok(any)
    }

    fn run_batch(&mut self, index: usize, batch: Batch, now: Instant) -> Result<(), EngineError> {
        let shard = self.shard;
        let Some(task) = self.tasks.get_mut(index) else { return Ok(()) };
        if let Kind::Sink(sink) = &mut task.kind
            && (!task.waiting.is_empty() || !sink.sink.ready())
        {
            task.waiting.push_back(batch);
            return Ok(());
        }
        if let Some(vitals) = self.vitals.get(shard) {
            vitals.call(task.id.0);
        }
        task.output.swap_spare(&mut self.state.spare);
        let result = task.run(batch, now);
        self.collect(index);
        if let Some(task) = self.tasks.get_mut(index) {
            task.output.swap_spare(&mut self.state.spare);
        }
        result
    }

    /// Gives sinks what came while they were not ready.
    fn retry_waiting(&mut self, now: Instant) -> Result<bool, EngineError> {
        let mut any = false;
        for index in 0..self.tasks.len() {
            while let Some(task) = self.tasks.get_mut(index)
                && let Kind::Sink(sink) = &mut task.kind
                && !task.waiting.is_empty()
                && sink.sink.ready()
                && let Some(batch) = task.waiting.pop_front()
            {
                any = true;
                task.run(batch, now)?;
                self.collect(index);
            }
        }
        Ok(any)
    }

    /// Takes over what a task has put out: acks to the ledgers, sealed batches to the tasks they are for. Batches for
    /// this executor need not be full: they are worked on while they are in the cache.
    fn collect(&mut self, index: usize) {
        let Some(task) = self.tasks.get_mut(index) else { return };
        let places = &self.places;
        let shard = self.shard;
        let is_here = |target: crate::tuple::TaskId| places.get(target.index()).is_some_and(|place| place.0 == shard);
        for failure in task.output.take_failures() {
            match self.outgoing.get_mut(failure.root.shard()) {
                Some(Some(link)) => link.pending_failures.push(failure),
                _ => drop(self.state.failures.entry(failure.root).or_insert(failure)),
            }
        }
        for (to, link) in self.outgoing.iter_mut().enumerate() {
            let Some(acks) = task.output.acks_for(to) else { continue };
            match link {
                Some(link) => acks.drain().for_each(|ack| link.pending_acks.push(ack)),
                None => self.trees.apply(acks.drain()),
            }
        }
        task.output.seal_lanes(|target, _| is_here(target));
        task.count();
        for batch in task.output.take_sealed() {
            let to = places.get(batch.target.index()).map_or(shard, |place| place.0);
            match self.outgoing.get_mut(to) {
                Some(Some(link)) => {
                    if let Some(vitals) = self.vitals.get(shard) {
                        vitals.sent.fetch_add(1, Ordering::AcqRel);
                    }
                    link.send(batch);
                }
                _ => self.state.queue.push_back(batch),
            }
        }
    }

    /// Lets spouts emit, unless tuples wait somewhere for room.
    fn run_spouts(&mut self, now: Instant) -> Result<bool, EngineError> {
        let blocked = self.outgoing.iter().flatten().any(Outgoing::is_blocked)
            || self.tasks.iter().any(|task| !task.waiting.is_empty());
        let mut any = false;
        for index in 0..self.tasks.len() {
            if self.state.active && !blocked && self.run_spout(index, now)? {
                any = true;
                self.collect(index);
            }
        }
        self.note_exhausted();
        Ok(any)
    }

    fn run_spout(&mut self, index: usize, now: Instant) -> Result<bool, EngineError> {
        let (shard, limits) = (self.shard, self.limits);
        let Some(task) = self.tasks.get_mut(index) else { return Ok(false) };
        let Kind::Spout(spout) = &mut task.kind else { return Ok(false) };
        let budget = limits.max_pending.saturating_sub(spout.pending).min(limits.spout_batch);
        if budget == 0 {
            return Ok(false);
        }
        if let Some(vitals) = self.vitals.get(shard) {
            vitals.call(task.id.0);
        }
        task.output.set_now(now);
        let trees = self.tracked.then_some(&mut self.trees);
        let mut out = SpoutOutput::new(&mut task.output, trees, index);
        let found = guarded(&task.context, || spout.spout.next(now, budget, &mut out));
        let (emitted, misuse) = out.finish();
        if let Some(error) = misuse {
            return Err(EngineError::component(&task.context.component, error));
        }
        spout.next = found?;
        if self.tracked {
            spout.pending += emitted;
        }
        if emitted > 0 {
            spout.trees.started.add(emitted as u64);
            if let Some(vitals) = self.vitals.get(shard) {
                vitals.moves.fetch_add(emitted as u64, Ordering::Relaxed);
            }
        }
        let more = spout.next == Next::Emitted;
        Ok(emitted > 0 || more)
    }

    fn note_exhausted(&self) {
        let exhausted = self.tasks.iter().all(|task| match &task.kind {
            Kind::Spout(spout) => spout.next == Next::Exhausted,
            Kind::Bolt(_) | Kind::AckingBolt(_) | Kind::Sink(_) => true,
        });
        self.vitals().exhausted.store(exhausted, Ordering::Release);
    }

    /// Tells spouts, and a flush, how their trees have ended.
    fn tell_ended(&mut self, now: Instant) -> Result<bool, EngineError> {
        if !self.trees.has_ended() {
            return Ok(false);
        }
        let mut ended = self.trees.take_ended(std::mem::take(&mut self.state.ended));
        let of_spouts = ended.iter().filter(|end| end.owner != Owner::Flush).count() as u64;
        self.vitals().moves.fetch_add(of_spouts, Ordering::Relaxed);
        for end in ended.drain(..) {
            match end.owner {
                Owner::Flush => self.end_flush(end)?,
                Owner::Spout { task, .. } => {
                    let failure = self.state.failures.remove(&end.root);
                    if let Some(Task { kind: Kind::Spout(spout), context, .. }) = self.tasks.get_mut(task) {
                        guarded(context, || {
                            tell_spout(spout, end, failure.as_ref(), now, &self.names);
                            Ok(())
                        })?;
                    }
                }
            }
        }
        self.state.failures.clear();
        self.state.ended = ended;
        Ok(true)
    }

    fn end_flush(&mut self, end: Ended) -> Result<(), EngineError> {
        let failure = self.state.failures.remove(&end.root);
        match end.ending {
            Ending::Completed => {
                if let Some(step @ CommitStep::Flush(..)) = self.state.commit {
                    self.answer(step);
                }
                Ok(())
            }
            Ending::Late { .. } => Ok(()),
            Ending::Failed { .. } | Ending::TimedOut { .. } => {
                let name = failure.as_ref().and_then(|f| self.names.get(f.task.index()));
                let error = failure.as_ref().map_or_else(
                    || ComponentError::new("what a flush emitted made no progress for the tree timeout"),
                    |f| ComponentError::new(format!("what a flush emitted has failed: {}", f.error)),
                );
                Err(EngineError::component(name.map_or("flush", |n| n), error))
            }
        }
    }

    fn tick(&mut self, now: Instant) -> Result<bool, EngineError> {
        let mut any = false;
        for index in 0..self.tasks.len() {
            let Some(task) = self.tasks.get_mut(index) else { continue };
            if task.tick(now)? {
                any = true;
                self.collect(index);
            }
        }
        Ok(any)
    }

    fn begin_commit_step(&mut self, step: CommitStep, now: Instant) -> Result<(), EngineError> {
        self.state.commit = Some(step);
        match step {
            CommitStep::Freeze(n) => {
                for task in &mut self.tasks {
                    if let Kind::Spout(spout) = &mut task.kind {
                        guarded(&task.context, || {
                            spout.spout.freeze(n);
                            Ok(())
                        })?;
                    }
                }
                self.answer(step);
            }
            CommitStep::Flush(n, depth) => self.flush(n, depth, now)?,
            CommitStep::Deliver(_) => {
                for task in &mut self.tasks {
                    if let Kind::Sink(sink) = &mut task.kind {
                        guarded(&task.context, || sink.sink.flush(now))?;
                        sink.in_flight = usize::MAX;
                    }
                }
                self.state.last_poll = Instant::ZERO;
            }
            CommitStep::Commit(n) => {
                for task in &mut self.tasks {
                    if let Kind::Spout(spout) = &mut task.kind {
                        guarded(&task.context, || spout.spout.commit(n))?;
                    }
                }
                self.state.last_poll = Instant::ZERO;
            }
        }
        Ok(())
    }

    /// A flush is a tree: its root is the commit, and it is done when the sinks have taken what the bolts emitted.
    fn flush(&mut self, number: CommitNumber, depth: usize, now: Instant) -> Result<(), EngineError> {
        let Some(root) = self.trees.open(Owner::Flush) else {
            let error = ComponentError::new("no room for the tree of a flush");
            return Err(EngineError::component("flush", error));
        };
        let mut xor = 0;
        for index in 0..self.tasks.len() {
            let Some(task) = self.tasks.get_mut(index) else { continue };
            if task.depth == depth && matches!(task.kind, Kind::Bolt(_) | Kind::AckingBolt(_)) {
                let edge = Edge::root(mix(number.0) ^ u64::from(task.id.0));
                xor ^= task.flush((root, edge), now)?;
                self.collect(index);
            }
        }
        self.trees.begin(root, xor);
        Ok(())
    }

    fn answer(&mut self, step: CommitStep) {
        self.state.commit = None;
        // The supervisor hangs up only when it has given the generation up.
        drop(self.reports.send(Report::Done(step)));
    }

    /// Serves what the outside has to say: sinks' acknowledgements and spouts' commits.
    fn poll_outside(&mut self, now: Instant, busy: bool) -> Result<bool, EngineError> {
        if busy && now - self.state.last_poll < POLL_INTERVAL {
            return Ok(false);
        }
        self.state.last_poll = now;
        for task in &mut self.tasks {
            if let Kind::Sink(sink) = &mut task.kind {
                sink.in_flight = guarded(&task.context, || sink.sink.poll(now))?.records;
            }
        }
        match self.state.commit {
            Some(step @ CommitStep::Deliver(_)) => {
                let open = |task: &Task| matches!(&task.kind, Kind::Sink(sink) if sink.in_flight > 0);
                if self.tasks.iter().any(open) {
                    return Ok(false);
                }
                self.answer(step);
                Ok(true)
            }
            Some(step @ CommitStep::Commit(_)) => {
                for task in &mut self.tasks {
                    if let Kind::Spout(spout) = &mut task.kind
                        && guarded(&task.context, || spout.spout.commit_state(now))? == CommitState::Pending
                    {
                        return Ok(false);
                    }
                }
                self.answer(step);
                Ok(true)
            }
            Some(CommitStep::Freeze(_) | CommitStep::Flush(..)) | None => Ok(false),
        }
    }

    /// Sends batches to other executors that are old enough, or all if there is nothing else to do, and acks.
    fn send(&mut self, now: Instant, idle: bool) -> bool {
        let interval = self.limits.flush_interval;
        let mut any = false;
        for index in 0..self.tasks.len() {
            let Some(task) = self.tasks.get_mut(index) else { continue };
            if task.output.oldest_lane().is_some_and(|born| idle || now - born >= interval) {
                task.output.seal_lanes(|_, born| idle || now - born >= interval);
                self.collect(index);
                any = true;
            }
        }
        for link in self.outgoing.iter_mut().flatten() {
            any |= link.pump();
        }
        any
    }

    fn expire(&mut self, now: Instant) {
        let vitals = &self.vitals;
        self.trees.advance(now, || vitals.iter().filter_map(Vitals::oldest_queued).min());
    }

    fn wake_at(&self, now: Instant) -> Instant {
        let in_flight =
            |task: &Task| matches!(&task.kind, Kind::Sink(s) if s.in_flight > 0) || !task.waiting.is_empty();
        let polls = self.state.commit.is_some() || self.tasks.iter().any(in_flight);
        let poll = if polls { now + POLL_INTERVAL } else { Instant::FAR_FUTURE };
        let ticks = self.tasks.iter().filter_map(|t| t.ticks.as_ref()).map(|t| t.next);
        let retries = self.tasks.iter().filter_map(|t| match &t.kind {
            Kind::Spout(SpoutTask { next: Next::Idle { until }, .. }) => *until,
            _ => None,
        });
        ticks.chain(retries).chain([poll, now + LONGEST_SLEEP]).min().unwrap_or(now + LONGEST_SLEEP)
    }
}

/// Tells a spout how one of its trees has ended.
fn tell_spout(task: &mut SpoutTask, end: Ended, failure: Option<&TreeFailure>, now: Instant, names: &[Arc<str>]) {
    let Owner::Spout { id, .. } = end.owner else { return };
    match end.ending {
        Ending::Completed => {
            task.pending = task.pending.saturating_sub(1);
            task.trees.acked.add(1);
            task.spout.ack(id);
        }
        Ending::Failed { effects } => {
            task.pending = task.pending.saturating_sub(1);
            task.trees.failed.add(1);
            let error = failure.map_or_else(|| "no reason was given".to_owned(), |f| f.error.to_string());
            let component = failure.and_then(|f| names.get(f.task.index()));
            let failure = Failure::Failed {
                component: component.map_or("", |name| name),
                error: &error,
                retriable: failure.is_none_or(|f| f.error.is_retriable()),
            };
            task.spout.fail(now, id, failure, effects);
        }
        Ending::TimedOut { effects } => {
            task.pending = task.pending.saturating_sub(1);
            task.trees.timed_out.add(1);
            task.spout.fail(now, id, Failure::TimedOut, effects);
        }
        Ending::Late { effects } => task.spout.late_effects(id, effects),
    }
}
