//! All tasks of a plan as bare outputs with one ledger: the test plays the components.

use std::{
    collections::VecDeque,
    sync::{Arc, atomic::AtomicU64},
};

use super::build::Nothing;
use crate::{
    ack::Ledger,
    topology::{
        ComponentResult, Ended, Ending, Handled, Input, MessageId, OutStream, Output, OutputSettings, Owner, Plan,
        SpoutOutput, TopologyBuilder, Trees,
    },
    tuple::{Batch, TaskId, Value},
};

pub(super) struct Harness {
    pub(super) plan: Plan,
    pub(super) outputs: Vec<Output>,
    pub(super) trees: Trees,
    /// Moved by each call that has ended.
    pub(super) pulse: Arc<AtomicU64>,
    /// Batches that were sent and not taken.
    pub(super) queue: VecDeque<Batch>,
}

impl Harness {
    pub(super) fn new(t: &TopologyBuilder, batch_rows: usize) -> Self {
        let plan = t.build().unwrap();
        let pulse = Arc::<AtomicU64>::default();
        let output = |task: crate::topology::TaskPlan<'_>| {
            let settings = OutputSettings {
                task: task.task,
                batch_rows,
                effects: task.component.effects,
                lineage: false,
                pulse: Arc::clone(&pulse),
            };
            let mut output = Output::new(plan.output_streams(task, |_| true), 1, settings);
            output.open_stores(plan.task_stores(task));
            output
        };
        let outputs = plan.tasks().map(output).collect();
        let trees = Trees::new(Ledger::new(0, 2), None);
        Self { plan, outputs, trees, pulse, queue: VecDeque::new() }
    }

    /// Spout `s` -> bolt `a` -> bolt `b`, all with one task; each carries one value.
    pub(super) fn chain(batch_rows: usize) -> Self {
        use crate::topology::Grouping;
        let mut t = TopologyBuilder::new("chain");
        t.spout("s", || Nothing).fields(["x"]);
        t.acking_bolt("a", || Nothing).reads("s", Grouping::Shuffle).fields(["x"]);
        t.acking_bolt("b", || Nothing).reads("a", Grouping::Shuffle);
        Self::new(&t, batch_rows)
    }

    /// The spout in task 0 emits a root.
    pub(super) fn root(&mut self, id: u64, value: i64) {
        self.root_on(OutStream::DEFAULT, id, value);
    }

    pub(super) fn root_on(&mut self, stream: OutStream, id: u64, value: i64) {
        let mut out = SpoutOutput::new(&mut self.outputs[0], Some(&mut self.trees), 0);
        out.emit_on(stream, MessageId(id), id, &[Value::Int(value)]);
        assert!(out.finish().1.is_none());
    }

    /// Sends everything emitted; takes the batches for one task.
    pub(super) fn batches(&mut self, task: u32) -> Vec<Batch> {
        for output in &mut self.outputs {
            output.seal_lanes(|_, _| true);
            self.queue.extend(output.take_sealed());
        }
        let all = std::mem::take(&mut self.queue);
        let (taken, left) = all.into_iter().partition(|batch| batch.target == TaskId(task));
        self.queue = left;
        taken.into()
    }

    /// The values that wait for a task; they are taken.
    pub(super) fn values(&mut self, task: u32) -> Vec<i64> {
        let batches = self.batches(task);
        batches.iter().flat_map(|b| b.tuples_from(0).map(value)).collect()
    }

    /// Calls `execute` for every tuple that waits for a task, as an acking bolt's driver does.
    pub(super) fn execute(
        &mut self,
        task: u32,
        mut execute: impl for<'a> FnMut(Input<'a>, &mut Output) -> ComponentResult<Handled<'a>>,
    ) {
        for batch in self.batches(task) {
            let output = &mut self.outputs[task as usize];
            for tuple in batch.tuples_from(0) {
                output.begin(&tuple);
                match execute(Input::new(tuple, &batch), output) {
                    Ok(handled) => output.settle(handled.into_fate()),
                    Err(error) => output.fail_call(error),
                }
            }
        }
    }

    /// A call without an input, as a tick.
    pub(super) fn tick(&mut self, task: u32, call: impl FnOnce(&mut Output)) {
        let output = &mut self.outputs[task as usize];
        output.begin_unanchored();
        call(output);
        output.end_root().unwrap();
    }

    /// Brings all acks to the ledger; which trees have ended since, in order of their ids.
    pub(super) fn deliver(&mut self) -> Vec<(u64, &'static str)> {
        for output in &mut self.outputs {
            self.trees.apply(output.acks_for(0).unwrap().drain());
        }
        let mut ended: Vec<_> = self.trees.take_ended(Vec::new()).iter().filter_map(told).collect();
        ended.sort_unstable();
        ended
    }
}

fn told(end: &Ended) -> Option<(u64, &'static str)> {
    let Owner::Spout { id, .. } = end.owner else { return None };
    match end.ending {
        Ending::Completed => Some((id.0, "done")),
        Ending::Failed { .. } => Some((id.0, "failed")),
        Ending::TimedOut { .. } => Some((id.0, "timed out")),
        Ending::Late { .. } => None,
    }
}

pub(super) fn value(tuple: crate::tuple::Tuple<'_>) -> i64 {
    tuple.get(0).as_int().unwrap()
}
