//! An executor: tasks, the queue between them, and the ledger of their trees. A value with `step(now)`; threads drive
//! it, or a test.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, atomic::Ordering, mpsc},
};

use super::{
    commit::CommitStep,
    error::EngineError,
    keeper::KeeperNews,
    link::{AckPacket, Incoming, Outgoing},
    stores::Asked,
    task::{Kind, SpoutTask, Task, guarded},
    vitals::Vitals,
};
use crate::{
    clock::Instant,
    state::{Changes, SourcePosition, SourceStart},
    topology::{Ended, Next, SpoutOutput, TreeFailure, Trees, changelog::StoreId},
    tuple::{Batch, RootId},
};

/// What an executor is told.
#[derive(Clone, Debug)]
pub(crate) enum Command {
    /// Spouts find out where they begin, to be answered when all know.
    Begin,
    /// Entries of a store of this task, from the changelog.
    Restore {
        /// The task, by its index here.
        task: usize,
        /// The store.
        store: StoreId,
        /// The key group that the entries belong to.
        group: u16,
        /// The entries.
        entries: Changes,
    },
    /// Everything was restored: to be answered with the number of entries.
    Restored,
    /// Spouts find out whether they may go on from where they begin, to be answered when all may.
    Confirm,
    /// Spouts may emit.
    Activate,
    /// Spouts stop emitting; trees in flight go on.
    Deactivate,
    /// A step of a commit, to be answered.
    Commit(CommitStep),
    /// The end: tasks are closed.
    Stop,
}

/// What an executor says, or the changelog.
#[derive(Debug)]
pub(crate) enum Report {
    /// Where this executor's spouts begin.
    Begins(Vec<SourceStart>),
    /// So many entries are in this executor's stores.
    Restored(u64),
    /// This executor's spouts may go on from where they begin.
    Confirmed,
    /// Entries of this executor's stores that have changed.
    Changed(Vec<(StoreId, Changes)>),
    /// Where this executor's spouts stood at the freeze, and how far they have come since.
    Positions(Vec<SourcePosition>),
    /// From the changelog.
    Changelog(KeeperNews),
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
    /// Of every executor, for timeouts: what waits anywhere.
    pub(crate) vitals: Arc<[Arc<Vitals>]>,
    /// This one's.
    pub(crate) own: Arc<Vitals>,
    pub(crate) commands: mpsc::Receiver<Command>,
    pub(crate) reports: mpsc::SyncSender<Report>,
    pub(crate) limits: Limits,
    pub(crate) names: Arc<[Arc<str>]>,
    /// Whether there is a changelog that wants to know where spouts stand.
    pub(crate) keeps: bool,
    pub(crate) state: ExecutorState,
}

/// What an executor is in the middle of.
#[derive(Default)]
pub(crate) struct ExecutorState {
    pub(super) queue: VecDeque<Batch>,
    pub(super) active: bool,
    pub(super) stopped: bool,
    /// What spouts are still to find out before they may emit.
    pub(super) asked: Option<Asked>,
    /// The step of a commit that is not done yet.
    pub(super) commit: Option<CommitStep>,
    /// Why trees of this ledger fail, until their end was told.
    pub(super) failures: HashMap<RootId, TreeFailure>,
    pub(super) ended: Vec<Ended>,
    /// Emptied batches, lent to each task while it runs.
    pub(super) spare: Vec<Batch>,
    pub(super) last_poll: Instant,
}

/// How often sinks are asked for their acknowledgements and spouts for their commits.
pub(super) const POLL_INTERVAL: std::time::Duration = std::time::Duration::from_millis(1);
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
        self.own.begin_step(now);
        let worked = self.take_commands(now)?;
        if self.state.stopped {
            return Ok(Step::Stopped);
        }
        let mut worked = self.take_acks(now)? | self.ask_spouts(now)? | worked;
        worked |= self.take_batches();
        worked |= self.run_queue(now)?;
        if self.run_spouts(now)? {
            worked = true;
            self.run_queue(now)?;
        }
        worked |= self.tell_ended(now)?;
        worked |= self.tick(now)?;
        if self.own.is_fenced() {
            return Ok(Step::Stopped);
        }
        worked |= self.poll_outside(now, worked)?;
        self.give_back();
        worked |= self.send(now, !worked);
        self.expire(now);
        worked |= self.tell_ended(now)?;
        self.end_step(worked);
        Ok(if worked { Step::Worked } else { Step::Idle { until: self.wake_at(now) } })
    }

    /// A deliberate bug, for tests of what finds it: tasks but spouts are those of `fresh`, and what waited is gone.
    #[cfg(test)]
    pub(crate) fn start_again(&mut self, fresh: &mut Self) {
        for (task, fresh) in self.tasks.iter_mut().zip(fresh.tasks.drain(..)) {
            if !matches!(task.kind, Kind::Spout(_)) {
                *task = fresh;
            }
        }
        self.state.queue.clear();
        self.own.end_step(None, false);
    }

    fn end_step(&mut self, worked: bool) {
        let oldest = self.oldest_waiting();
        let busy = worked || oldest.is_some() || self.outgoing.iter().flatten().any(Outgoing::has_pending);
        let vitals = &self.own;
        vitals.live.store(self.trees.ledger().live(), Ordering::Relaxed);
        vitals.end_step(oldest, !busy);
    }

    /// When the oldest tuple was emitted that waits here: asked for in every step, so in plain loops.
    fn oldest_waiting(&self) -> Option<Instant> {
        let mut oldest = None;
        let mut note = |born: Option<Instant>| {
            if oldest.is_none_or(|oldest| born.is_some_and(|born| born < oldest)) {
                oldest = born;
            }
        };
        self.state.queue.iter().for_each(|batch| note(Some(batch.born)));
        for task in &self.tasks {
            task.waiting.iter().for_each(|batch| note(Some(batch.born)));
            note(task.output.oldest_lane());
        }
        self.incoming.iter().for_each(|link| note(link.oldest()));
        self.outgoing.iter().flatten().for_each(|link| note(link.oldest()));
        oldest
    }

    fn take_commands(&mut self, now: Instant) -> Result<bool, EngineError> {
        let mut any = false;
        while let Ok(command) = self.commands.try_recv() {
            any = true;
            match command {
                Command::Begin => self.state.asked = Some(Asked::Begins),
                Command::Restore { task, store, group, entries } => self.restore(task, store, group, &entries)?,
                Command::Restored => self.tell_restored(),
                Command::Confirm => self.state.asked = Some(Asked::Confirms),
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
            while let Some(AckPacket { mut acks, failures }) = link.next_acks() {
                any = true;
                for failure in failures {
                    self.state.failures.entry(failure.root).or_insert(failure);
                }
                self.trees.apply(acks.drain(..));
                link.give_back_acks(acks);
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
            self.own.received.fetch_add(received, Ordering::AcqRel);
        }
        received > 0
    }

    /// Runs tasks until no batch for this executor is left, or only such as sinks cannot take now; or until a call comes back
    /// that was given up.
    fn run_queue(&mut self, now: Instant) -> Result<bool, EngineError> {
        let mut any = self.retry_waiting(now)?;
        while !self.own.is_fenced()
            && let Some(batch) = self.state.queue.pop_front()
        {
            any = true;
            let index = self.places.get(batch.target.index()).map_or(usize::MAX, |place| place.1);
            self.run_batch(index, batch, now)?;
        }
        Ok(any)
    }

    /// Works on a batch, unless it is for a sink that cannot take it now: then it waits in front of it.
    #[inline]
    fn run_batch(&mut self, index: usize, batch: Batch, now: Instant) -> Result<(), EngineError> {
        let Some(task) = self.tasks.get_mut(index) else { return Ok(()) };
        if let Kind::Sink(sink) = &mut task.kind
            && (!task.waiting.is_empty() || !sink.sink.ready())
        {
            task.waiting.push_back(batch);
            return Ok(());
        }
        self.call_task(index, batch, now)
    }

    /// Gives sinks what came while they were not ready.
    fn retry_waiting(&mut self, now: Instant) -> Result<bool, EngineError> {
        let mut any = false;
        for index in 0..self.tasks.len() {
            while !self.own.is_fenced()
                && let Some(task) = self.tasks.get_mut(index)
                && let Kind::Sink(sink) = &mut task.kind
                && !task.waiting.is_empty()
                && sink.sink.ready()
                && let Some(batch) = task.waiting.pop_front()
            {
                any = true;
                self.call_task(index, batch, now)?;
            }
        }
        Ok(any)
    }

    #[inline]
    fn call_task(&mut self, index: usize, batch: Batch, now: Instant) -> Result<(), EngineError> {
        self.lend_spare(index);
        let Some(task) = self.tasks.get_mut(index) else { return Ok(()) };
        self.own.call(task.id.0);
        let result = task.run(batch, &mut self.trees, now);
        self.collect(index);
        self.take_spare(index);
        result
    }

    /// Takes over what a task has put out: acks to the ledgers, sealed batches to the tasks they are for. Batches for
    /// this executor need not be full: they are worked on while they are in the cache.
    pub(super) fn collect(&mut self, index: usize) {
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
                    self.own.sent.fetch_add(1, Ordering::AcqRel);
                    link.send(batch);
                }
                _ => self.state.queue.push_back(batch),
            }
        }
    }

    /// Tuples in its queue, before its sinks, and on their way to executors that have no room for them.
    pub(crate) fn waiting_tuples(&self) -> usize {
        let queued = self.state.queue.iter().chain(self.tasks.iter().flat_map(|task| &task.waiting));
        let unsent = self.outgoing.iter().flatten().map(Outgoing::waiting_tuples);
        queued.map(Batch::len).chain(unsent).sum()
    }

    /// Lets spouts emit, unless tuples wait somewhere for room.
    fn run_spouts(&mut self, now: Instant) -> Result<bool, EngineError> {
        let blocked = self.outgoing.iter().flatten().any(Outgoing::is_blocked)
            || self.tasks.iter().any(|task| !task.waiting.is_empty());
        let mut any = false;
        let tasks = if self.state.active && !blocked { self.tasks.len() } else { 0 };
        for index in 0..tasks {
            if !self.tasks.get(index).is_some_and(|task| matches!(task.kind, Kind::Spout(_))) {
                continue;
            }
            self.lend_spare(index);
            let emitted = self.run_spout(index, now)?;
            if emitted {
                any = true;
                self.collect(index);
            }
            self.take_spare(index);
        }
        self.note_exhausted();
        Ok(any)
    }

    fn run_spout(&mut self, index: usize, now: Instant) -> Result<bool, EngineError> {
        let limits = self.limits;
        let Some(task) = self.tasks.get_mut(index) else { return Ok(false) };
        let Kind::Spout(spout) = &mut task.kind else { return Ok(false) };
        let budget = limits.max_pending.saturating_sub(spout.pending).min(limits.spout_batch);
        if budget == 0 {
            return Ok(false);
        }
        self.own.call(task.id.0);
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
            self.own.moves.fetch_add(emitted as u64, Ordering::Relaxed);
        }
        let more = spout.next == Next::Emitted;
        Ok(emitted > 0 || more)
    }

    fn note_exhausted(&self) {
        let exhausted = self.tasks.iter().all(|task| match &task.kind {
            Kind::Spout(spout) => spout.next == Next::Exhausted,
            Kind::Bolt(_) | Kind::AckingBolt(_) | Kind::Sink(_) => true,
        });
        self.own.exhausted.store(exhausted, Ordering::Release);
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
            any |= link.pump(now, idle);
        }
        any
    }

    fn expire(&mut self, now: Instant) {
        let vitals = &self.vitals;
        self.trees.advance(now, || vitals.iter().filter_map(|v| v.oldest_queued()).min());
    }

    fn wake_at(&self, now: Instant) -> Instant {
        let in_flight =
            |task: &Task| matches!(&task.kind, Kind::Sink(s) if s.in_flight > 0) || !task.waiting.is_empty();
        let polls = self.state.commit.is_some() || self.state.asked.is_some() || self.tasks.iter().any(in_flight);
        let poll = if polls { now + POLL_INTERVAL } else { Instant::FAR_FUTURE };
        let ticks = self.tasks.iter().filter_map(|t| t.ticks.as_ref()).map(|t| t.next);
        let retries = self.tasks.iter().filter_map(|t| match &t.kind {
            Kind::Spout(SpoutTask { next: Next::Idle { until }, .. }) => *until,
            _ => None,
        });
        ticks.chain(retries).chain([poll, now + LONGEST_SLEEP]).min().unwrap_or(now + LONGEST_SLEEP)
    }
}
