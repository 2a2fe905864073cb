//! The commit cut: whatever happens between freeze and commit, exactly the frozen values are committed, and after a
//! crash exactly what they do not cover is read again.

use std::{collections::BTreeSet, time::Duration};

use proptest::prelude::*;

use super::bench::{Bench, Out};
use crate::{
    kafka::{
        KafkaSpoutOptions,
        fake::{FakeBroker, tp},
        source::{commit_metadata::CommitMetadata, retry::RetryPolicy},
    },
    topology::{CommitNumber, CommitState, ComponentError, Spout as _},
};

#[derive(Clone, Debug)]
enum Step {
    Produce,
    Hole,
    Emit,
    Ack(usize),
    Fail(usize),
    Freeze,
    /// The sinks have everything of the frozen trees.
    Commit,
    Answer,
    /// The process dies: a new one starts from the broker.
    Crash,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => Just(Step::Produce),
        1 => Just(Step::Hole),
        4 => Just(Step::Emit),
        6 => any::<usize>().prop_map(Step::Ack),
        1 => any::<usize>().prop_map(Step::Fail),
        3 => Just(Step::Freeze),
        3 => Just(Step::Commit),
        2 => Just(Step::Answer),
        1 => Just(Step::Crash),
    ];
    prop::collection::vec(step, 1..120)
}

/// What must hold, told without frontiers: sets of texts.
#[derive(Default)]
struct Model {
    /// Offset of each record produced.
    offsets: Vec<i64>,
    end: i64,
    /// Records whose trees are done in this life of the process, or were when it began.
    done: BTreeSet<i64>,
    /// What was done at the freeze.
    frozen: Option<BTreeSet<i64>>,
    /// What a commit may cover: frozen, and its outputs flushed.
    durable: BTreeSet<i64>,
}

impl Model {
    /// The records that the group's commit covers.
    fn covered(&self, broker: &FakeBroker) -> BTreeSet<i64> {
        let Some(committed) = broker.get().committed.get(&tp(0)).cloned() else { return BTreeSet::new() };
        let above = CommitMetadata::decode(&committed.metadata).map(|metadata| metadata.done).unwrap_or_default();
        self.offsets.iter().copied().filter(|o| *o < committed.next.0 || above.contains(*o)).collect()
    }
}

fn offset(out: &Out) -> i64 {
    out.text.parse().unwrap()
}

/// One history.
struct Run {
    broker: FakeBroker,
    model: Model,
    bench: Bench,
    open: Vec<Out>,
    frozen: Option<CommitNumber>,
    /// A commit on its way, and what it must cover.
    number: Option<(CommitNumber, BTreeSet<i64>)>,
}

impl Run {
    fn new() -> Self {
        let broker = FakeBroker::default();
        broker.hole(0);
        let bench = Bench::new(&broker, KafkaSpoutOptions { retry: patient(), ..KafkaSpoutOptions::default() });
        let model = Model { end: 1, ..Model::default() };
        Self { broker, model, bench, open: Vec::new(), frozen: None, number: None }
    }

    fn emit(&mut self) {
        let emitted = self.bench.after(Duration::from_secs(10));
        assert!(emitted.iter().all(|out| !self.model.done.contains(&offset(out))), "emitted though done: {emitted:?}");
        self.open.extend(emitted);
    }

    fn step(&mut self, step: &Step) {
        match *step {
            Step::Produce => {
                self.broker.produce(0, Some(self.model.end.to_string().as_bytes()));
                self.model.offsets.push(self.model.end);
                self.model.end += 1;
            }
            Step::Hole => {
                self.broker.hole(0);
                self.model.end += 1;
            }
            Step::Emit => self.emit(),
            Step::Ack(at) if !self.open.is_empty() => {
                let out = self.open.swap_remove(at % self.open.len());
                self.bench.ack(&out);
                self.model.done.insert(offset(&out));
            }
            Step::Fail(at) if !self.open.is_empty() => {
                let out = self.open.swap_remove(at % self.open.len());
                self.bench.fail(&out, &ComponentError::new("again"));
            }
            Step::Freeze if self.number.is_none() => {
                self.frozen = Some(self.bench.freeze());
                self.model.frozen = Some(self.model.done.clone());
            }
            Step::Commit if self.number.is_none() => self.commit(),
            Step::Answer => self.answer(),
            Step::Crash => self.crash(),
            Step::Ack(_) | Step::Fail(_) | Step::Freeze | Step::Commit => {}
        }
    }

    fn commit(&mut self) {
        let Some(number) = self.frozen.take() else { return };
        let frozen = self.model.frozen.take().unwrap_or_default();
        self.model.durable.extend(&frozen);
        self.bench.spout.commit(number).unwrap();
        self.number = Some((number, frozen));
    }

    /// Not a record less than was frozen, and not one more.
    fn answer(&mut self) {
        let Some((_, frozen)) = self.number.take() else { return };
        assert_eq!(self.bench.commit_state(), CommitState::Done);
        assert_eq!(self.model.covered(&self.broker), frozen);
    }

    /// Only what is committed stays done, above the offset too: nothing else comes again. What is on its way never arrives.
    fn crash(&mut self) {
        self.bench = Bench::new(&self.broker, KafkaSpoutOptions { retry: patient(), ..KafkaSpoutOptions::default() });
        let covered = self.model.covered(&self.broker);
        (self.frozen, self.number, self.model.frozen) = (None, None, None);
        self.open.clear();
        self.model.done.clone_from(&covered);
        self.model.durable = covered;
    }

    fn check(&self) {
        let covered = self.model.covered(&self.broker);
        assert!(covered.is_subset(&self.model.durable), "{covered:?} are not all durable");
        assert!(self.broker.get().commits.is_sorted(), "a commit went back");
    }

    /// Nothing is lost: what is not committed comes, and in the end all of it is.
    fn finish(mut self) {
        for _ in 0..100 {
            self.emit();
            for out in std::mem::take(&mut self.open) {
                self.bench.ack(&out);
            }
        }
        self.answer();
        assert_eq!(self.bench.commit_now(), CommitState::Done);
        assert_eq!(self.bench.committed(0), Some(self.model.end));
    }
}

/// Nothing is given up: a dead letter would be done without an ack.
fn patient() -> RetryPolicy {
    RetryPolicy { max_retries: u32::MAX, ..RetryPolicy::default() }
}

proptest! {
    #[test]
    fn trees_that_finish_between_freeze_and_commit_are_not_committed_and_no_committed_record_comes_again(steps in steps()) {
        let mut run = Run::new();
        for step in &steps {
            run.step(step);
            run.check();
        }
        run.finish();
    }
}
