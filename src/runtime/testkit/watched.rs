//! Components between the engine and the ones under test: they look at every call, and make a run hostile.

use std::{collections::BTreeSet, sync::Arc};

use super::{course::Schedule, watch::Watch};
use crate::{
    clock::Instant,
    topology::{
        AckingBolt, BatchOutput, Bolt, CommitNumber, CommitState, Companion, ComponentError, ComponentResult, Factory,
        Failure, Handled, InFlight, Input, MessageId, Next, Output, Sink, Spout, SpoutOutput, TaskContext,
        testkit::of_tuple,
    },
    tuple::{Batch, Tuple},
};

/// Polls after which nothing should be in flight.
pub(super) const MAX_POLLS: usize = 10_000;

/// A factory of the same components, watched.
pub(super) fn watched(factory: &Factory, watch: &Watch, schedule: Schedule) -> Factory {
    let watch = watch.clone();
    match factory.clone() {
        Factory::Spout(make) => Factory::spout(move || WatchedSpout {
            spout: make(),
            watch: watch.clone(),
            replay: schedule.replay,
            task: (String::new(), 0),
            failed_once: BTreeSet::new(),
            now: Instant::ZERO,
        }),
        Factory::Bolt(make) => Factory::bolt(move || Watched::new(&make, &watch, schedule.fresh)),
        Factory::AckingBolt(make) => Factory::acking_bolt(move || Watched::new(&make, &watch, schedule.fresh)),
        Factory::Sink(make) => Factory::sink(move || WatchedSink {
            sink: make(),
            watch: watch.clone(),
            component: String::new(),
            polls: 0,
        }),
    }
}

struct WatchedSpout {
    spout: Box<dyn Spout>,
    watch: Watch,
    /// Each tree fails when it completes for the first time.
    replay: bool,
    task: (String, usize),
    failed_once: BTreeSet<MessageId>,
    now: Instant,
}

impl WatchedSpout {
    fn check(&self, found: Next, budget: usize, out: &SpoutOutput<'_>) {
        let broken = |contract, what: String| self.watch.broken(contract, &self.task.0, &what);
        if out.emitted() > budget {
            broken("Spout 3", format!("emitted {} tuples on a budget of {budget}", out.emitted()));
        }
        let mut open = BTreeSet::new();
        for id in out.open_trees() {
            if !open.insert(id) {
                broken("Spout 2", format!("emitted {id:?} again while its tree is open"));
            }
        }
        if found == Next::Exhausted && !open.is_empty() {
            broken("Next::Exhausted", format!("says Exhausted while {} of its trees are open", open.len()));
        }
    }
}

impl Spout for WatchedSpout {
    fn open(&mut self, context: &TaskContext) -> ComponentResult {
        self.task = (context.component.to_string(), context.index);
        self.spout.open(context)
    }

    /// Never exhausted for the engine: the run decides when it is over.
    fn next(&mut self, now: Instant, budget: usize, out: &mut SpoutOutput<'_>) -> ComponentResult<Next> {
        self.now = now;
        let found = self.spout.next(now, budget, out)?;
        self.check(found, budget, out);
        let mut seen = self.watch.seen();
        match found {
            Next::Exhausted => drop(seen.exhausted.insert(self.task.clone())),
            Next::Emitted | Next::Idle { .. } => drop(seen.exhausted.remove(&self.task)),
        }
        seen.due = match found {
            Next::Idle { until } => until,
            Next::Emitted | Next::Exhausted => None,
        };
        Ok(if found == Next::Exhausted { Next::Idle { until: None } } else { found })
    }

    fn poll(&mut self, now: Instant) -> ComponentResult {
        self.spout.poll(now)
    }

    fn ack(&mut self, id: MessageId) {
        if self.replay && self.failed_once.insert(id) {
            self.spout.fail(self.now, id, Failure::TimedOut, 0);
        } else {
            self.spout.ack(id);
        }
    }

    fn fail(&mut self, now: Instant, id: MessageId, failure: Failure<'_>, effects: u64) {
        if let Failure::Failed { component, error, .. } = failure {
            self.watch.error(component, error);
        }
        self.spout.fail(now, id, failure, effects);
    }

    fn late_effects(&mut self, id: MessageId, effects: u64) {
        self.spout.late_effects(id, effects);
    }

    fn activate(&mut self) {
        self.spout.activate();
    }

    fn deactivate(&mut self) {
        self.spout.deactivate();
    }

    fn freeze(&mut self, number: CommitNumber) {
        self.spout.freeze(number);
    }

    fn commit(&mut self, number: CommitNumber) -> ComponentResult {
        self.spout.commit(number)
    }

    fn commit_state(&mut self, now: Instant) -> ComponentResult<CommitState> {
        self.spout.commit_state(now)
    }

    fn companion(&mut self) -> Option<Box<dyn Companion>> {
        self.spout.companion()
    }

    fn close(&mut self) {
        self.spout.close();
    }
}

/// A bolt of either kind.
struct Watched<B: ?Sized> {
    bolt: Box<B>,
    make: Arc<dyn Fn() -> Box<B> + Send + Sync>,
    watch: Watch,
    /// Each batch meets a fresh instance, as after a panic.
    fresh: bool,
    context: Option<TaskContext>,
}

impl<B: ?Sized> Watched<B> {
    fn new(make: &Arc<dyn Fn() -> Box<B> + Send + Sync>, watch: &Watch, fresh: bool) -> Self {
        Self { bolt: make(), make: Arc::clone(make), watch: watch.clone(), fresh, context: None }
    }

    fn component(&self) -> &str {
        self.context.as_ref().map_or("", |context| &context.component)
    }

    fn replace(&mut self, prepare: impl Fn(&mut B, &TaskContext) -> ComponentResult) {
        self.bolt = (self.make)();
        let prepared = self.context.as_ref().map_or(Ok(()), |context| prepare(&mut self.bolt, context));
        self.note("1", "cannot start", prepared.as_ref().err());
    }

    fn note(&self, contract: &str, what: &str, error: Option<&ComponentError>) {
        if let Some(error) = error {
            self.watch.broken(contract, self.component(), &format!("{what}: {error}"));
        }
    }

    fn ticked(&self, result: ComponentResult) -> ComponentResult {
        result.inspect_err(|error| self.watch.error(self.component(), &format!("tick: {error}")))
    }
}

impl Bolt for Watched<dyn Bolt> {
    fn prepare(&mut self, context: &TaskContext) -> ComponentResult {
        self.context = Some(context.clone());
        self.bolt.prepare(context)
    }

    fn execute(&mut self, input: &Tuple<'_>, out: &mut Output) -> ComponentResult {
        self.bolt.execute(input, out)
    }

    fn execute_batch(&mut self, batch: &Batch, out: &mut BatchOutput<'_>) {
        if self.fresh {
            self.replace(|bolt, context| bolt.prepare(context));
        }
        self.bolt.execute_batch(batch, out);
        let reported = out.next_row();
        if reported < batch.len() {
            let what = format!("execute_batch reported {reported} of {} rows", batch.len());
            self.watch.broken("Bolt::execute_batch", self.component(), &what);
        }
    }

    fn tick(&mut self, now: Instant, out: &mut Output) -> ComponentResult {
        let result = self.bolt.tick(now, out);
        self.ticked(result)
    }

    fn flush(&mut self, out: &mut Output) -> ComponentResult {
        self.bolt.flush(out)
    }

    fn cleanup(&mut self) {
        self.bolt.cleanup();
    }
}

impl AckingBolt for Watched<dyn AckingBolt> {
    fn prepare(&mut self, context: &TaskContext) -> ComponentResult {
        self.context = Some(context.clone());
        self.bolt.prepare(context)
    }

    fn execute<'a>(&mut self, input: Input<'a>, out: &mut Output) -> ComponentResult<Handled<'a>> {
        if self.fresh {
            out.fail_all_held("held by an instance that is gone");
            self.replace(|bolt, context| bolt.prepare(context));
        }
        self.bolt.execute(input, out)
    }

    fn tick(&mut self, now: Instant, out: &mut Output) -> ComponentResult {
        let result = self.bolt.tick(now, out);
        self.ticked(result)
    }

    fn flush(&mut self, out: &mut Output) -> ComponentResult {
        self.bolt.flush(out)
    }

    fn cleanup(&mut self) {
        self.bolt.cleanup();
    }
}

struct WatchedSink {
    sink: Box<dyn Sink>,
    watch: Watch,
    component: String,
    /// Polls since the last flush that found something in flight.
    polls: usize,
}

impl Sink for WatchedSink {
    fn open(&mut self, context: &TaskContext) -> ComponentResult {
        self.component = context.component.to_string();
        self.sink.open(context)
    }

    fn ready(&mut self) -> bool {
        self.sink.ready()
    }

    fn write(&mut self, input: &Tuple<'_>) -> ComponentResult {
        self.sink.write(input)
    }

    fn write_batch(&mut self, batch: &Batch, report: &mut dyn FnMut(ComponentResult)) {
        let mut reported = 0;
        self.sink.write_batch(batch, &mut |result| {
            reported += 1;
            report(result);
        });
        if reported < batch.len() {
            let what = format!("write_batch reported {reported} of {} rows", batch.len());
            self.watch.broken("Sink::write_batch", &self.component, &what);
        }
    }

    fn flush(&mut self, now: Instant) -> ComponentResult {
        self.polls = 0;
        self.sink.flush(now)
    }

    fn poll(&mut self, now: Instant) -> ComponentResult<InFlight> {
        let found = self.sink.poll(now)?;
        self.polls = if found.records == 0 { 0 } else { self.polls + 1 };
        if self.polls >= MAX_POLLS {
            let what = format!("{} records are in flight after {MAX_POLLS} polls", found.records);
            self.watch.broken("Sink 4", &self.component, &what);
        }
        Ok(found)
    }

    fn close(&mut self) {
        self.sink.close();
    }
}

/// Reads every stream, so that what is emitted is seen.
pub(super) struct Tap(pub(super) Watch);

impl Sink for Tap {
    fn write(&mut self, _: &Tuple<'_>) -> ComponentResult {
        Ok(())
    }

    fn write_batch(&mut self, batch: &Batch, report: &mut dyn FnMut(ComponentResult)) {
        let rows = batch.tuples_from(0).map(|tuple| of_tuple(&tuple));
        self.0.seen().emitted.entry(batch.stream).or_default().extend(rows);
        batch.tuples_from(0).for_each(|_| report(Ok(())));
    }

    fn flush(&mut self, _: Instant) -> ComponentResult {
        Ok(())
    }

    fn poll(&mut self, _: Instant) -> ComponentResult<InFlight> {
        Ok(InFlight { records: 0 })
    }
}
