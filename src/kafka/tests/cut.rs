//! The commit cut: whatever happens between freeze and commit, exactly the frozen values are committed.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::bench::{Bench, Out};
use crate::{
    kafka::{KafkaSpoutOptions, fake::FakeBroker},
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
    /// Records whose trees are done in this life of the process.
    done: BTreeSet<i64>,
    /// What was done at the freeze.
    frozen: Option<BTreeSet<i64>>,
    /// What a commit may cover: frozen, and its outputs flushed.
    durable: BTreeSet<i64>,
}

impl Model {
    /// Everything below `next` must be durable.
    fn covers(&self, next: i64) -> bool {
        self.offsets.iter().filter(|o| **o < next).all(|o| self.durable.contains(o))
    }
}

fn offset(out: &Out) -> i64 {
    out.text.parse().unwrap()
}

fn run(steps: Vec<Step>) {
    let broker = FakeBroker::default();
    broker.hole(0);
    let mut model = Model { end: 1, ..Model::default() };
    let mut bench = Bench::new(&broker, KafkaSpoutOptions::default());
    let (mut open, mut frozen, mut number): (Vec<Out>, Option<CommitNumber>, _) = (Vec::new(), None, None);
    for step in steps {
        match step {
            Step::Produce => {
                broker.produce(0, Some(model.end.to_string().as_bytes()));
                model.offsets.push(model.end);
                model.end += 1;
            }
            Step::Hole => {
                broker.hole(0);
                model.end += 1;
            }
            Step::Emit => {
                bench.now = bench.now + std::time::Duration::from_secs(10);
                open.extend(bench.drain());
            }
            Step::Ack(at) if !open.is_empty() => {
                let out = open.swap_remove(at % open.len());
                bench.ack(&out);
                model.done.insert(offset(&out));
            }
            Step::Fail(at) if !open.is_empty() => {
                let out = open.swap_remove(at % open.len());
                bench.fail(&out, &ComponentError::new("again"));
                // After four failures it is a dead letter, and as good as done once that is stored.
                bench.drain().into_iter().for_each(|out| open.push(out));
                if !bench.letters.get().sent.is_empty() {
                    return;
                }
            }
            Step::Freeze if number.is_none() => {
                frozen = Some(bench.freeze());
                model.frozen = Some(model.done.clone());
            }
            Step::Commit if number.is_none() => {
                let Some(n) = frozen.take() else { continue };
                model.durable.extend(model.frozen.take().unwrap_or_default());
                bench.spout.commit(n).unwrap();
                number = Some(n);
            }
            Step::Answer if number.is_some() => {
                assert_eq!(bench.commit_state(), CommitState::Done);
                number = None;
            }
            Step::Crash => {
                // What is on its way may or may not arrive.
                bench = Bench::new(&broker, KafkaSpoutOptions::default());
                let next = bench.committed(0).unwrap_or(0);
                (frozen, number, model.frozen) = (None, None, None);
                open.clear();
                // Only what is committed stays done.
                model.done.retain(|o| *o < next);
                model.durable.retain(|o| *o < next);
            }
            _ => {}
        }
        let committed = bench.committed(0).unwrap_or(0);
        assert!(model.covers(committed), "{committed} covers records that are not durable");
        assert!(broker.get().commits.is_sorted(), "a commit went back");
    }
    // Nothing is lost: what is not committed comes, and in the end all of it is.
    for _ in 0..100 {
        bench.now = bench.now + std::time::Duration::from_secs(10);
        open.extend(bench.drain());
        open.drain(..).for_each(|out| bench.ack(&out));
    }
    if number.is_some() {
        let _state = bench.commit_state();
    }
    assert_eq!(bench.commit_now(), CommitState::Done);
    assert_eq!(bench.committed(0), Some(model.end));
}

proptest! {
    #[test]
    fn trees_that_finish_between_freeze_and_commit_are_not_committed(steps in steps()) {
        run(steps);
    }
}
