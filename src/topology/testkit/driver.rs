//! Runs a plan to completion on one thread, in virtual time.

use std::{
    collections::{BTreeSet, VecDeque},
    panic::{AssertUnwindSafe, catch_unwind},
};

use super::{
    Emitted, Violation,
    call::{Instance, MAX_POLLS, Task, flush_sink, instance, work},
    row, violation,
};
use crate::{
    ack::Ledger,
    clock::Instant,
    topology::{
        CommitNumber, CommitState, ComponentError, ComponentResult, Delivery, Ended, Ending, Failure, Grouping, Next,
        Output, OutputSettings, Owner, Plan, Spout, SpoutOutput, Trees,
    },
    tuple::{Batch, Edge, Tuple},
};

/// How hostile a run is.
#[derive(Copy, Clone, Debug)]
pub(super) struct Schedule {
    /// Tuples in a batch: 1 makes every outbox one slot.
    pub(super) batch_rows: usize,
    /// Roots that a spout may emit at once.
    pub(super) budget: usize,
    /// Each tree is reported as timed out when it completes for the first time.
    pub(super) replay: bool,
    /// Each batch of a bolt meets a fresh instance, as after a panic.
    pub(super) fresh: bool,
}

impl Schedule {
    pub(super) const FRIENDLY: Self = Self { batch_rows: 256, budget: usize::MAX, replay: false, fresh: false };
}

/// What was seen of one component.
#[derive(Clone, Default, Debug)]
pub(super) struct Seen {
    pub(super) emitted: Vec<Emitted>,
    /// Trees (of a spout) or inputs (of the others).
    pub(super) acked: u64,
    pub(super) failed: u64,
    pub(super) held: usize,
    pub(super) errors: Vec<String>,
}

pub(super) struct Driver<'p> {
    plan: &'p Plan,
    tap: Option<usize>,
    tasks: Vec<Task>,
    trees: Trees,
    queue: VecDeque<Batch>,
    schedule: Schedule,
    now: Instant,
    seen: Vec<Seen>,
}

/// Rounds without any work, each one tick apart, after which a run ends though trees are open.
const MAX_IDLE_ROUNDS: usize = 100;

impl<'p> Driver<'p> {
    /// Opens every task. `tap` is the component that reads everything.
    pub(super) fn new(plan: &'p Plan, tap: Option<usize>, schedule: Schedule) -> Result<Self, Violation> {
        let mut tasks = Vec::new();
        for task in plan.tasks() {
            let settings = OutputSettings {
                task: task.task,
                batch_rows: schedule.batch_rows,
                effects: task.component.effects,
                lineage: true,
                pulse: Default::default(),
            };
            let context = plan.context(task, Delivery::AtLeastOnce);
            let factory = task.component.factory.clone();
            tasks.push(Task {
                instance: instance(&factory, &context)?,
                factory,
                context,
                output: Output::new(plan.output_streams(task, |_| true), 1, settings),
                component: task.id.index(),
                depth: task.component.depth,
                tick: task.component.tick,
                open: BTreeSet::new(),
                failed_once: BTreeSet::new(),
                exhausted: false,
            });
        }
        let seen = vec![Seen::default(); plan.components.len()];
        let trees = Trees::new(Ledger::new(0, 16), None);
        let (queue, now) = (VecDeque::new(), Instant::ZERO);
        Ok(Self { plan, tap, tasks, trees, queue, schedule, now, seen })
    }

    /// Runs until spouts have no more and every tree has ended, then ticks and flushes once.
    pub(super) fn run(mut self) -> Result<Vec<Seen>, Violation> {
        let mut idle = 0;
        while idle < MAX_IDLE_ROUNDS {
            let mut worked = false;
            for at in 0..self.tasks.len() {
                worked |= self.run_spout(at)?;
                worked |= self.drain()?;
            }
            let exhausted = self.tasks.iter().all(|t| t.exhausted || !matches!(t.instance, Instance::Spout(_)));
            if !worked && exhausted && self.trees.ledger().live() == 0 {
                break;
            }
            idle = if worked { 0 } else { idle + 1 };
            if !worked {
                self.tick()?;
            }
        }
        self.tick()?;
        self.commit()?;
        Ok(self.close())
    }

    fn run_spout(&mut self, at: usize) -> Result<bool, Violation> {
        let Some(task) = self.tasks.get_mut(at) else { return Ok(false) };
        let Instance::Spout(spout) = &mut task.instance else { return Ok(false) };
        task.output.set_now(self.now);
        let budget = self.schedule.budget;
        let mut out = SpoutOutput::new(&mut task.output, Some(&mut self.trees), at);
        let found = spout.next(self.now, budget, &mut out);
        let (emitted, misuse) = out.finish();
        let name = &task.context.component;
        if let Some(error) = misuse {
            return Err(violation("Spout 6", name, &error.to_string()));
        }
        let found = found.map_err(|error| violation("Spout 6", name, &format!("next: {error}")))?;
        if emitted > budget {
            return Err(violation("Spout 3", name, &format!("emitted {emitted} tuples on a budget of {budget}")));
        }
        task.exhausted = found == Next::Exhausted;
        if let Next::Idle { until: Some(until) } = found {
            self.now = self.now.max(until);
        }
        let before = self.queue.len();
        self.collect(at);
        self.note_opened(at, before)?;
        Ok(emitted > 0 || self.trees.has_ended())
    }

    /// Roots of the spout that were opened by its last call: their ids must not be those of open trees.
    fn note_opened(&mut self, at: usize, before: usize) -> Result<(), Violation> {
        let batches = self.queue.iter().skip(before);
        let roots: BTreeSet<_> = batches.flat_map(Batch::rows).map(|row| row.root).collect();
        let owners = roots.iter().filter_map(|root| self.trees.owner(*root));
        let opened: Vec<_> = owners
            .filter_map(|owner| match owner {
                Owner::Spout { id, .. } => Some(id),
                Owner::Flush => None,
            })
            .collect();
        let Some(task) = self.tasks.get_mut(at) else { return Ok(()) };
        let name = &task.context.component;
        for id in opened {
            if !task.open.insert(id) {
                return Err(violation("Spout 2", name, &format!("emitted {id:?} again while its tree is open")));
            }
        }
        if task.exhausted && !task.open.is_empty() {
            let open = task.open.len();
            return Err(violation(
                "Next::Exhausted",
                name,
                &format!("says Exhausted while {open} of its trees are open"),
            ));
        }
        Ok(())
    }

    /// Takes over what a task has put out.
    fn collect(&mut self, at: usize) {
        let Some(task) = self.tasks.get_mut(at) else { return };
        task.output.seal_lanes(|_, _| true);
        self.queue.extend(task.output.take_sealed());
        if let Some(acks) = task.output.acks_for(0) {
            self.trees.apply(acks.drain());
        }
        let Some(seen) = self.seen.get_mut(task.component) else { return };
        let (counts, _) = task.output.take_counts();
        if !matches!(task.instance, Instance::Spout(_)) {
            seen.acked += counts.acked;
            seen.failed += counts.failed;
        }
        seen.errors.extend(task.output.take_failures().into_iter().map(|f| f.error.to_string()));
    }

    /// Works on every batch, and tells spouts what has ended.
    fn drain(&mut self) -> Result<bool, Violation> {
        let mut any = self.tell_ended();
        while let Some(batch) = self.queue.pop_front() {
            any = true;
            self.note_emitted(&batch);
            let at = batch.target.index();
            if self.schedule.fresh {
                self.replace(at)?;
            }
            self.run_batch(at, &batch)?;
            self.collect(at);
            self.tell_ended();
        }
        Ok(any)
    }

    fn note_emitted(&mut self, batch: &Batch) {
        let Some(stream) = self.plan.streams.get(batch.stream.index()) else { return };
        let Some(reader) = self.tasks.get(batch.target.index()).map(|task| task.component) else { return };
        // Direct tuples do not come to the tap.
        let direct = self.plan.edges.iter().any(|edge| {
            edge.stream == batch.stream && edge.reader.index() == reader && matches!(edge.grouping, Grouping::Direct)
        });
        let emitter = self.plan.components.iter().position(|c| *c.name == *stream.component);
        if (self.tap == Some(reader) || direct)
            && let Some(seen) = emitter.and_then(|at| self.seen.get_mut(at))
        {
            let tuple = |t: Tuple<'_>| Emitted { stream: stream.name.clone(), values: row::of_tuple(&t) };
            seen.emitted.extend(batch.tuples_from(0).map(tuple));
        }
    }

    fn run_batch(&mut self, at: usize, batch: &Batch) -> Result<(), Violation> {
        let mut row = 0;
        while row < batch.len() {
            let Some(task) = self.tasks.get_mut(at) else { return Ok(()) };
            task.output.set_now(self.now);
            let ended = catch_unwind(AssertUnwindSafe(|| work(task, batch, &mut row)));
            match ended {
                Ok(result) => result?,
                Err(_) => {
                    task.output.fail_call(ComponentError::new("panicked"));
                    row += 1;
                    self.replace(at)?;
                }
            }
        }
        Ok(())
    }

    /// A fresh instance of a bolt: what the old one held fails.
    fn replace(&mut self, at: usize) -> Result<(), Violation> {
        let Some(task) = self.tasks.get_mut(at) else { return Ok(()) };
        if matches!(task.instance, Instance::Bolt(_) | Instance::AckingBolt(_)) {
            task.output.fail_all_held("held by an instance that is gone");
            task.instance = instance(&task.factory, &task.context)?;
        }
        Ok(())
    }

    fn tell_ended(&mut self) -> bool {
        let ended = self.trees.take_ended(Vec::new());
        let any = !ended.is_empty();
        for Ended { owner, ending, .. } in ended {
            let Owner::Spout { task, id } = owner else { continue };
            let Some(task) = self.tasks.get_mut(task) else { continue };
            let Some(seen) = self.seen.get_mut(task.component) else { continue };
            let Instance::Spout(spout) = &mut task.instance else { continue };
            let on_purpose = self.schedule.replay && ending == Ending::Completed && task.failed_once.insert(id);
            match ending {
                Ending::Completed if !on_purpose => {
                    task.open.remove(&id);
                    seen.acked += 1;
                    spout.ack(id);
                }
                Ending::Completed | Ending::Failed { .. } | Ending::TimedOut { .. } => {
                    task.open.remove(&id);
                    seen.failed += 1;
                    spout.fail(self.now, id, Failure::TimedOut, 0);
                }
                Ending::Late { effects } => spout.late_effects(id, effects),
            }
        }
        any
    }

    /// Ticks every component that wants it, each at its interval.
    fn tick(&mut self) -> Result<(), Violation> {
        for at in 0..self.tasks.len() {
            let Some(task) = self.tasks.get_mut(at) else { continue };
            let Some(interval) = task.tick else { continue };
            self.now = self.now + interval;
            task.output.set_now(self.now);
            task.output.begin_unanchored();
            let ticked = match &mut task.instance {
                Instance::Bolt(bolt) => bolt.tick(self.now, &mut task.output),
                Instance::AckingBolt(bolt) => bolt.tick(self.now, &mut task.output),
                Instance::Spout(_) | Instance::Sink(_) => Ok(()),
            };
            if let Err(error) = ticked.and_then(|()| task.output.end_root().map(drop)) {
                task.output.discard_call();
                if let Some(seen) = self.seen.get_mut(task.component) {
                    seen.errors.push(format!("tick: {error}"));
                }
            }
            self.collect(at);
            self.drain()?;
        }
        Ok(())
    }

    /// One commit: freeze, flush from the spouts outwards, commit.
    fn commit(&mut self) -> Result<(), Violation> {
        let number = CommitNumber(1);
        self.each_spout(|spout, _| {
            spout.freeze(number);
            Ok(())
        })?;
        let mut order: Vec<_> = (0..self.tasks.len()).collect();
        order.sort_by_key(|at| self.tasks.get(*at).map(|task| task.depth));
        for at in order {
            self.flush(at)?;
            self.collect(at);
            self.drain()?;
        }
        self.each_spout(|spout, now| {
            spout.commit(number)?;
            (0..MAX_POLLS)
                .find_map(|_| match spout.commit_state(now) {
                    Ok(CommitState::Pending) => None,
                    state => Some(state.map(drop)),
                })
                .unwrap_or_else(|| Err(ComponentError::new("the commit is still pending")))
        })
    }

    fn each_spout(
        &mut self,
        mut call: impl FnMut(&mut Box<dyn Spout>, Instant) -> ComponentResult,
    ) -> Result<(), Violation> {
        for task in &mut self.tasks {
            if let Instance::Spout(spout) = &mut task.instance {
                call(spout, self.now)
                    .map_err(|error| violation("Spout 6", &task.context.component, &error.to_string()))?;
            }
        }
        Ok(())
    }

    fn flush(&mut self, at: usize) -> Result<(), Violation> {
        let Some(task) = self.tasks.get_mut(at) else { return Ok(()) };
        let name = &task.context.component;
        if let Instance::Sink(sink) = &mut task.instance {
            return flush_sink(sink.as_mut(), self.now).map_err(|(contract, what)| violation(contract, name, &what));
        }
        let Some(root) = self.trees.open(Owner::Flush) else { return Ok(()) };
        task.output.begin_root(root, Edge::root(root.bits()));
        let flushed = match &mut task.instance {
            Instance::Bolt(bolt) => bolt.flush(&mut task.output),
            Instance::AckingBolt(bolt) => bolt.flush(&mut task.output),
            Instance::Spout(_) | Instance::Sink(_) => Ok(()),
        };
        let xor = flushed
            .and_then(|()| task.output.end_root())
            .map_err(|error| violation("Bolt 5", name, &format!("flush: {error}")))?;
        self.trees.begin(root, xor);
        Ok(())
    }

    fn close(mut self) -> Vec<Seen> {
        for task in &mut self.tasks {
            if let Some(seen) = self.seen.get_mut(task.component) {
                seen.held += task.output.held();
            }
            match &mut task.instance {
                Instance::Spout(spout) => spout.close(),
                Instance::Bolt(bolt) => bolt.cleanup(),
                Instance::AckingBolt(bolt) => bolt.cleanup(),
                Instance::Sink(sink) => sink.close(),
            }
        }
        self.seen
    }
}
