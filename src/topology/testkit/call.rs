//! The calls of one instance, as the contracts have them.

use std::{
    collections::BTreeSet,
    panic::{AssertUnwindSafe, catch_unwind},
    time::Duration,
};

use super::{Violation, violation};
use crate::{
    clock::Instant,
    topology::{AckingBolt, BatchOutput, Bolt, Factory, Input, MessageId, Output, Sink, Spout, TaskContext},
    tuple::Batch,
};

/// Polls after which nothing should be in flight.
pub(super) const MAX_POLLS: usize = 10_000;

/// What a task is an instance of.
pub(super) enum Instance {
    Spout(Box<dyn Spout>),
    Bolt(Box<dyn Bolt>),
    AckingBolt(Box<dyn AckingBolt>),
    Sink(Box<dyn Sink>),
}

/// One instance with its output.
pub(super) struct Task {
    pub(super) instance: Instance,
    pub(super) factory: Factory,
    pub(super) context: TaskContext,
    pub(super) output: Output,
    pub(super) component: usize,
    pub(super) depth: usize,
    pub(super) tick: Option<Duration>,
    /// Message ids whose trees are open.
    pub(super) open: BTreeSet<MessageId>,
    /// Message ids whose trees were failed on purpose.
    pub(super) failed_once: BTreeSet<MessageId>,
    pub(super) exhausted: bool,
}

/// Makes an instance and starts it.
pub(super) fn instance(factory: &Factory, context: &TaskContext) -> Result<Instance, Violation> {
    let (instance, opened) = match factory {
        Factory::Spout(make) => {
            let mut spout = make();
            let opened = spout.open(context);
            spout.activate();
            (Instance::Spout(spout), opened)
        }
        Factory::Bolt(make) => {
            let mut bolt = make();
            let opened = bolt.prepare(context);
            (Instance::Bolt(bolt), opened)
        }
        Factory::AckingBolt(make) => {
            let mut bolt = make();
            let opened = bolt.prepare(context);
            (Instance::AckingBolt(bolt), opened)
        }
        Factory::Sink(make) => {
            let mut sink = make();
            let opened = sink.open(context);
            (Instance::Sink(sink), opened)
        }
    };
    opened.map_err(|error| violation("1", &context.component, &format!("cannot start: {error}")))?;
    Ok(instance)
}

/// Works on a batch from `row` on; `row` is the one in work when this panics.
pub(super) fn work(task: &mut Task, batch: &Batch, row: &mut usize) -> Result<(), Violation> {
    let Task { instance, output, context, .. } = task;
    match instance {
        Instance::Bolt(bolt) => {
            let mut out = BatchOutput::new(output, *row);
            let call = catch_unwind(AssertUnwindSafe(|| bolt.execute_batch(batch, &mut out)));
            *row = out.next_row();
            if let Err(panic) = call {
                std::panic::resume_unwind(panic);
            }
            if *row < batch.len() {
                let what = format!("execute_batch reported {row} of {} rows", batch.len());
                return Err(violation("Bolt::execute_batch", &context.component, &what));
            }
        }
        Instance::AckingBolt(bolt) => {
            while let Some(tuple) = batch.get(*row) {
                output.begin(&tuple);
                match bolt.execute(Input::new(tuple, batch), output) {
                    Ok(handled) => output.settle(handled.into_fate()),
                    Err(error) => output.fail_call(error),
                }
                *row += 1;
            }
        }
        Instance::Sink(sink) => {
            let first = *row;
            sink.write_batch(batch, &mut |result| {
                let Some(tuple) = batch.get(*row) else { return };
                output.begin(&tuple);
                match result {
                    Ok(()) => output.succeed(),
                    Err(error) => output.fail_call(error),
                }
                *row += 1;
            });
            if *row < batch.len() {
                let what = format!("write_batch reported {} of {} rows", *row - first, batch.len());
                return Err(violation("Sink::write_batch", &context.component, &what));
            }
        }
        Instance::Spout(_) => *row = batch.len(),
    }
    Ok(())
}

pub(super) fn flush_sink(sink: &mut dyn Sink, now: Instant) -> Result<(), (&'static str, String)> {
    sink.flush(now).map_err(|error| ("Sink 5", format!("flush: {error}")))?;
    let mut left = 0;
    for _ in 0..MAX_POLLS {
        left = sink.poll(now).map_err(|error| ("Sink 5", format!("poll: {error}")))?.records;
        if left == 0 {
            return Ok(());
        }
    }
    Err(("Sink 4", format!("{left} records are in flight after {MAX_POLLS} polls")))
}
