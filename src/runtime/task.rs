//! A task: an instance of a component with its output, called so that neither an error nor a panic of it gets further.

use std::{
    collections::VecDeque,
    panic::{AssertUnwindSafe, catch_unwind},
};

use super::error::{EngineError, panic_message};
use crate::{
    clock::Instant,
    metrics::{ComponentMetrics, Counter, TreeMetrics},
    topology::{
        AckingBolt, BatchOutput, Bolt, ComponentError, ComponentResult, Factory, Input, Next, Output, Sink, Spout,
        TaskContext, Trees,
    },
    tuple::{Batch, TaskId},
};

/// A task as its executor hosts it.
pub(super) struct Task {
    pub(super) id: TaskId,
    pub(super) context: TaskContext,
    pub(super) kind: Kind,
    pub(super) output: Output,
    /// The longest way from a spout: when it is flushed.
    pub(super) depth: usize,
    pub(super) ticks: Option<Ticks>,
    /// Batches that came while a sink was not ready.
    pub(super) waiting: VecDeque<Batch>,
    pub(super) metrics: ComponentMetrics,
    pub(super) emitted: Vec<Counter>,
    factory: Factory,
}

/// What a task is an instance of.
pub(super) enum Kind {
    Spout(SpoutTask),
    Bolt(Box<dyn Bolt>),
    AckingBolt(Box<dyn AckingBolt>),
    Sink(SinkTask),
}

/// A spout with what the executor knows of it.
pub(super) struct SpoutTask {
    pub(super) spout: Box<dyn Spout>,
    /// Live trees.
    pub(super) pending: usize,
    pub(super) next: Next,
    pub(super) trees: TreeMetrics,
}

/// A sink with what it still owes.
pub(super) struct SinkTask {
    pub(super) sink: Box<dyn Sink>,
    pub(super) in_flight: usize,
}

/// When a component is ticked.
#[derive(Copy, Clone, Debug)]
pub(super) struct Ticks {
    pub(super) every: std::time::Duration,
    pub(super) next: Instant,
}

impl Task {
    /// Makes the task's instance and prepares it.
    pub(super) fn new(
        id: TaskId,
        context: TaskContext,
        factory: Factory,
        output: Output,
        handles: (ComponentMetrics, Vec<Counter>, Option<TreeMetrics>),
    ) -> Result<Self, EngineError> {
        let (metrics, emitted, trees) = handles;
        let kind = guarded(&context, || instance(&factory, &context, trees))?;
        Ok(Self {
            id,
            context,
            kind,
            output,
            depth: 0,
            ticks: None,
            waiting: VecDeque::new(),
            metrics,
            emitted,
            factory,
        })
    }

    /// An error of this task that ends the generation.
    pub(super) fn error(&self, error: ComponentError) -> EngineError {
        EngineError::component(&self.context.component, error)
    }

    /// Works on a batch: every row of it is acked, failed or held afterwards.
    pub(super) fn run(&mut self, batch: Batch, trees: &mut Trees, now: Instant) -> Result<(), EngineError> {
        self.output.set_now(now);
        match &mut self.kind {
            Kind::Bolt(_) => self.run_bolt(&batch, trees)?,
            Kind::AckingBolt(_) => self.run_acking(&batch)?,
            Kind::Sink(sink) => write_batch(&mut sink.sink, &batch, &mut self.output, trees),
            // The builder refuses a spout that reads.
            Kind::Spout(_) => {}
        }
        self.output.recycle(batch);
        Ok(())
    }

    fn run_bolt(&mut self, batch: &Batch, trees: &mut Trees) -> Result<(), EngineError> {
        let mut next_row = 0;
        while next_row < batch.len() {
            let Kind::Bolt(bolt) = &mut self.kind else { return Ok(()) };
            let mut out = BatchOutput::new(&mut self.output, Some(trees), next_row);
            let call = catch_unwind(AssertUnwindSafe(|| bolt.execute_batch(batch, &mut out)));
            match &call {
                Ok(()) => fail_unreported(&mut out, batch),
                Err(panic) => out.failed(panicked(&**panic)),
            }
            next_row = out.next_row();
            if let Err(panic) = call {
                self.replace_instance(&*panic)?;
            }
        }
        Ok(())
    }

    fn run_acking(&mut self, batch: &Batch) -> Result<(), EngineError> {
        let mut next_row = 0;
        while next_row < batch.len() {
            let Kind::AckingBolt(bolt) = &mut self.kind else { return Ok(()) };
            let output = &mut self.output;
            let row = &mut next_row;
            let call = catch_unwind(AssertUnwindSafe(|| execute_each(&mut **bolt, batch, output, row)));
            if let Err(panic) = call {
                self.output.fail_call(panicked(&*panic));
                next_row += 1;
                self.replace_instance(&*panic)?;
            }
        }
        Ok(())
    }

    /// After a panic the instance cannot be trusted: what it held fails, and a new one takes its place.
    fn replace_instance(&mut self, panic: &(dyn std::any::Any + Send)) -> Result<(), EngineError> {
        let said = panic_message(panic);
        tracing::warn!(
            component = &*self.context.component,
            task = self.context.index,
            panic = said,
            "a bolt panicked: its input fails, a new instance goes on"
        );
        self.output.fail_all_held(&format!("held by an instance that panicked: {said}"));
        self.kind = guarded(&self.context, || instance(&self.factory, &self.context, None))?;
        Ok(())
    }

    /// Ticks the component if it is due. An error of a tick is logged: nothing was acked by it.
    pub(super) fn tick(&mut self, now: Instant) -> Result<bool, EngineError> {
        let Some(ticks) = self.ticks.as_mut().filter(|ticks| now >= ticks.next) else {
            return Ok(false);
        };
        ticks.next = now + ticks.every;
        self.output.set_now(now);
        self.output.begin_unanchored();
        let (kind, output) = (&mut self.kind, &mut self.output);
        let call = catch_unwind(AssertUnwindSafe(|| match kind {
            Kind::Bolt(bolt) => bolt.tick(now, output),
            Kind::AckingBolt(bolt) => bolt.tick(now, output),
            Kind::Spout(_) | Kind::Sink(_) => Ok(()),
        }));
        let result = match call {
            Ok(result) => result,
            Err(panic) => {
                self.output.discard_call();
                self.replace_instance(&*panic)?;
                return Ok(true);
            }
        };
        let ended = if result.is_err() {
            self.output.discard_call();
            result
        } else {
            self.output.end_root().map(|_| ())
        };
        if let Err(error) = ended {
            let component = &*self.context.component;
            tracing::warn!(component, %error, "a tick failed: what it emitted is discarded");
        }
        Ok(true)
    }

    /// Lets a bolt hand over what has changed, anchored to `root`; the XOR of the edges emitted.
    pub(super) fn flush(
        &mut self,
        root: (crate::tuple::RootId, crate::tuple::Edge),
        now: Instant,
    ) -> Result<u64, EngineError> {
        self.output.set_now(now);
        self.output.begin_root(root.0, root.1);
        let (kind, output) = (&mut self.kind, &mut self.output);
        let flushed = guarded(&self.context, || match kind {
            Kind::Bolt(bolt) => bolt.flush(output),
            Kind::AckingBolt(bolt) => bolt.flush(output),
            Kind::Spout(_) | Kind::Sink(_) => Ok(()),
        });
        flushed?;
        self.output.end_flush().map_err(|error| self.error(error))
    }

    /// Adds what happened since the last look to the metrics.
    pub(super) fn count(&mut self) {
        let (counts, emitted) = self.output.take_counts();
        if counts.executed > 0 {
            self.metrics.executed.add(counts.executed);
        }
        if counts.acked > 0 {
            self.metrics.acked.add(counts.acked);
        }
        if counts.failed > 0 {
            self.metrics.failed.add(counts.failed);
        }
        for (stream, tuples) in emitted {
            let at = self.context.outputs.iter().position(|s| s.id == stream);
            if let Some(counter) = at.and_then(|at| self.emitted.get(at)) {
                counter.add(tuples);
            }
        }
    }

    /// The last call.
    pub(super) fn close(&mut self) {
        let kind = &mut self.kind;
        let call = catch_unwind(AssertUnwindSafe(|| match kind {
            Kind::Spout(task) => task.spout.close(),
            Kind::Bolt(bolt) => bolt.cleanup(),
            Kind::AckingBolt(bolt) => bolt.cleanup(),
            Kind::Sink(task) => task.sink.close(),
        }));
        if let Err(panic) = call {
            let (component, said) = (&*self.context.component, panic_message(&*panic));
            tracing::warn!(component, panic = said, "a component panicked while it was closed");
        }
    }
}

/// Calls a component where an error, and a panic too, ends the generation.
pub(super) fn guarded<T>(context: &TaskContext, call: impl FnOnce() -> ComponentResult<T>) -> Result<T, EngineError> {
    let result = catch_unwind(AssertUnwindSafe(call)).unwrap_or_else(|panic| Err(panicked(&*panic)));
    result.map_err(|error| EngineError::component(&context.component, error))
}

fn panicked(panic: &(dyn std::any::Any + Send)) -> ComponentError {
    ComponentError::new(format!("panicked: {}", panic_message(panic)))
}

fn instance(factory: &Factory, context: &TaskContext, trees: Option<TreeMetrics>) -> ComponentResult<Kind> {
    Ok(match factory {
        Factory::Spout(make) => {
            let mut spout = make();
            spout.open(context)?;
            let trees = trees.ok_or_else(|| ComponentError::permanent("a spout without tree metrics"))?;
            Kind::Spout(SpoutTask { spout, pending: 0, next: Next::Emitted, trees })
        }
        Factory::Bolt(make) => {
            let mut bolt = make();
            bolt.prepare(context)?;
            Kind::Bolt(bolt)
        }
        Factory::AckingBolt(make) => {
            let mut bolt = make();
            bolt.prepare(context)?;
            Kind::AckingBolt(bolt)
        }
        Factory::Sink(make) => {
            let mut sink = make();
            sink.open(context)?;
            Kind::Sink(SinkTask { sink, in_flight: 0 })
        }
    })
}

/// A batch bolt that forgets rows would lose them: they fail.
fn fail_unreported(out: &mut BatchOutput<'_>, batch: &Batch) {
    for tuple in batch.tuples_from(out.next_row()) {
        out.begin(&tuple);
        out.failed(ComponentError::new("execute_batch did not report on the row"));
    }
}

fn execute_each(bolt: &mut dyn AckingBolt, batch: &Batch, output: &mut Output, next_row: &mut usize) {
    for tuple in batch.tuples_from(*next_row) {
        output.begin(&tuple);
        match bolt.execute(Input::new(tuple, batch), output) {
            Ok(handled) => output.settle(handled.into_fate()),
            Err(error) => output.fail_call(error),
        }
        *next_row += 1;
    }
}

fn write_batch(sink: &mut Box<dyn Sink>, batch: &Batch, output: &mut Output, trees: &mut Trees) {
    let mut tuples = batch.tuples_from(0);
    let call = catch_unwind(AssertUnwindSafe(|| {
        sink.write_batch(batch, &mut |result| {
            let Some(tuple) = tuples.next() else { return };
            output.begin(&tuple);
            match result {
                Ok(()) => output.succeed(Some(trees)),
                Err(error) => output.fail_call(error),
            }
        });
    }));
    // What the sink did not report on, it did not take.
    for tuple in tuples {
        output.begin(&tuple);
        output.fail_call(match &call {
            Ok(()) => ComponentError::new("write_batch did not report on the row"),
            Err(panic) => panicked(&**panic),
        });
    }
}
