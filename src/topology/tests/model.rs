//! Random topologies and random calls against trees as sets of open tuples: *complete exactly when done*.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::{
    build::Nothing,
    harness::{Harness, value},
};
use crate::{
    topology::{ComponentError, Grouping, Held, Input, OutStream, TopologyBuilder},
    tuple::{Batch, Value},
};

/// Trees as sets: each tuple is open as often as there are copies of it.
#[derive(Default)]
struct Model {
    /// Tree -> open tuples with their copies.
    open: BTreeMap<u64, BTreeMap<i64, usize>>,
    /// Tuple -> its trees.
    trees: BTreeMap<i64, BTreeSet<u64>>,
    ended: Vec<(u64, &'static str)>,
    tuples: i64,
    roots: u64,
}

impl Model {
    fn tuple(&mut self, trees: &BTreeSet<u64>, copies: usize) {
        self.trees.insert(self.tuples, trees.clone());
        for tree in trees {
            if let Some(open) = self.open.get_mut(tree).filter(|_| copies > 0) {
                open.insert(self.tuples, copies);
            }
        }
        self.tuples += 1;
    }

    fn ack(&mut self, tuple: i64) {
        for tree in &self.trees[&tuple] {
            let Some(open) = self.open.get_mut(tree) else { continue };
            let copies = open.get_mut(&tuple).unwrap();
            *copies -= 1;
            if *copies == 0 {
                open.remove(&tuple);
            }
        }
        self.close();
    }

    fn close(&mut self) {
        let done = self.open.extract_if(.., |_, open| open.is_empty());
        self.ended.extend(done.map(|(tree, _)| (tree, "done")));
    }

    fn fail(&mut self, tuple: i64) {
        for tree in &self.trees[&tuple] {
            if self.open.remove(tree).is_some() {
                self.ended.push((*tree, "failed"));
            }
        }
    }
}

/// What is done next; numbers choose among what there is.
#[derive(Clone, Debug)]
enum Step {
    Root,
    /// The next batch of some task: for each of its tuples in turn, one of these calls.
    Run(usize, Vec<Call>),
    Tick(usize, Call),
    Deliver,
    Panic(usize),
}

#[derive(Clone, Debug)]
struct Call {
    emits: usize,
    /// Emits anchored to held inputs, chosen by bits.
    anchored: Vec<u8>,
    ack_held: bool,
    fail_held: bool,
    unanchored: bool,
    fate: Fate,
}

#[derive(Clone, Debug)]
enum Fate {
    Ack,
    Hold,
    Fail,
    Error,
}

fn call() -> impl Strategy<Value = Call> {
    let fate = prop_oneof![8 => Just(Fate::Ack), 4 => Just(Fate::Hold), 1 => Just(Fate::Fail), 1 => Just(Fate::Error)];
    let anchored = prop::collection::vec(any::<u8>(), 0..3);
    (0..3_usize, anchored, prop::bool::weighted(0.4), prop::bool::weighted(0.05), prop::bool::weighted(0.1), fate)
        .prop_map(|(emits, anchored, ack_held, fail_held, unanchored, fate)| Call {
            emits,
            anchored,
            ack_held,
            fail_held,
            unanchored,
            fate,
        })
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => Just(Step::Root),
        10 => (any::<usize>(), prop::collection::vec(call(), 1..5)).prop_map(|(t, calls)| Step::Run(t, calls)),
        3 => (any::<usize>(), call()).prop_map(|(t, call)| Step::Tick(t, call)),
        2 => Just(Step::Deliver),
        1 => any::<usize>().prop_map(Step::Panic),
    ]
}

/// A topology by layers: each bolt reads the spout or the bolt before it, and maybe one more before that.
#[derive(Clone, Debug)]
struct Shape {
    /// Per bolt: tasks, grouping, whether it reads one more.
    bolts: Vec<(u16, u8, bool)>,
    batch_rows: usize,
}

fn grouping(choice: u8) -> Grouping {
    match choice % 5 {
        0 => Grouping::Shuffle,
        1 => Grouping::fields(["x"]),
        2 => Grouping::All,
        3 => Grouping::partial_key(["x"]),
        _ => Grouping::Global,
    }
}

struct Run {
    h: Harness,
    model: Model,
    /// By task: what it holds.
    held: Vec<Vec<Held>>,
    /// By component: copies of each tuple that it emits.
    copies: Vec<usize>,
    waiting: Vec<Batch>,
}

impl Run {
    fn new(shape: &Shape) -> Self {
        let mut t = TopologyBuilder::new("random");
        t.spout("c0", || Nothing).fields(["x"]);
        let mut copies = vec![0; shape.bolts.len() + 1];
        for (i, (tasks, choice, more)) in (1..).zip(&shape.bolts) {
            let mut bolt = t.acking_bolt(format!("c{i}"), || Nothing);
            bolt.tasks(*tasks).fields(["x"]);
            let sources = [Some(i - 1), (*more && i > 1).then(|| i - 2)];
            for source in sources.into_iter().flatten() {
                bolt.reads(format!("c{source}"), grouping(*choice));
                copies[source] += if choice % 5 == 2 { usize::from(*tasks) } else { 1 };
            }
        }
        let h = Harness::new(&t, shape.batch_rows);
        let held = h.outputs.iter().map(|_| Vec::new()).collect();
        Self { h, model: Model::default(), held, copies, waiting: Vec::new() }
    }

    fn component(&self, task: usize) -> usize {
        self.h.plan.tasks().nth(task).unwrap().id.index()
    }

    fn step(&mut self, step: &Step) {
        let tasks = self.h.outputs.len();
        match step {
            Step::Root => {
                self.model.roots += 1;
                let (tree, value) = (self.model.roots, self.model.tuples);
                self.model.open.insert(tree, BTreeMap::new());
                self.model.tuple(&BTreeSet::from([tree]), self.copies[0]);
                self.model.close();
                self.h.root(tree, value);
            }
            Step::Run(task, calls) => {
                (0..u32::try_from(tasks).unwrap()).for_each(|t| self.waiting.extend(self.h.batches(t)));
                if !self.waiting.is_empty() {
                    let batch = self.waiting.swap_remove(task % self.waiting.len());
                    self.run(&batch, calls);
                }
            }
            Step::Tick(task, call) => self.tick(1 + task % (tasks - 1), call),
            Step::Deliver => self.check(),
            Step::Panic(task) => {
                let task = 1 + task % (tasks - 1);
                self.h.outputs[task].fail_all_held("panic");
                for held in self.held[task].drain(..) {
                    self.model.fail(value(held.tuple()));
                }
            }
        }
    }

    fn run(&mut self, batch: &Batch, calls: &[Call]) {
        let task = batch.target.index();
        for (tuple, call) in batch.tuples_from(0).zip(calls.iter().cycle()) {
            let (id, mut effects) = (value(tuple), Effects::default());
            self.h.outputs[task].begin(&tuple);
            let own: Vec<_> = (0..call.emits).map(|_| self.emit(task, &mut effects, &[id])).collect();
            own.into_iter().for_each(|v| self.h.outputs[task].emit(&[Value::Int(v)]));
            self.on_held(task, call, &mut effects);
            let output = &mut self.h.outputs[task];
            let input = Input::new(tuple, batch);
            match call.fate {
                Fate::Ack => output.settle(input.ack().into_fate()),
                Fate::Fail => output.settle(input.fail(ComponentError::new("no")).into_fate()),
                Fate::Hold => {
                    let (handled, held) = input.hold(output);
                    output.settle(handled.into_fate());
                    self.held[task].push(held);
                }
                Fate::Error => {
                    drop(input.hold(output));
                    output.fail_call(ComponentError::new("no"));
                }
            }
            let failed = matches!(call.fate, Fate::Error);
            match call.fate {
                Fate::Ack => effects.acked.push(id),
                Fate::Fail | Fate::Error => effects.failed.push(id),
                Fate::Hold => {}
            }
            self.apply(effects, failed);
        }
    }

    fn tick(&mut self, task: usize, call: &Call) {
        let mut effects = Effects::default();
        self.h.outputs[task].begin_unanchored();
        self.on_held(task, call, &mut effects);
        let fails = matches!(call.fate, Fate::Error);
        if fails {
            self.h.outputs[task].discard_call();
        } else {
            self.h.outputs[task].end_root().unwrap();
        }
        self.apply(effects, fails);
    }

    /// What a call does besides its input.
    fn on_held(&mut self, task: usize, call: &Call, effects: &mut Effects) {
        for bits in &call.anchored {
            let chosen = |at: usize| bits >> (at % 8) & 1 == 1;
            let anchors: Vec<_> = (0..self.held[task].len()).filter(|at| chosen(*at)).collect();
            let ids: Vec<_> = anchors.iter().map(|at| value(self.held[task][*at].tuple())).collect();
            let new = self.emit(task, effects, &ids);
            let held: Vec<_> = anchors.iter().map(|at| &self.held[task][*at]).collect();
            self.h.outputs[task].emit_anchored(OutStream::DEFAULT, &held, &[Value::Int(new)]);
        }
        if call.unanchored {
            let new = self.emit(task, effects, &[]);
            self.h.outputs[task].emit_unanchored(OutStream::DEFAULT, &[Value::Int(new)]);
        }
        if call.ack_held
            && let Some(held) = self.held[task].pop()
        {
            effects.acked.push(value(held.tuple()));
            self.h.outputs[task].ack(held);
        }
        if call.fail_held && !self.held[task].is_empty() {
            let held = self.held[task].remove(0);
            effects.failed.push(value(held.tuple()));
            self.h.outputs[task].fail(held, ComponentError::new("no"));
        }
    }

    /// Takes a number for a new tuple, anchored to these.
    fn emit(&mut self, task: usize, effects: &mut Effects, anchors: &[i64]) -> i64 {
        let trees = anchors.iter().flat_map(|a| &self.model.trees[a]).copied().collect();
        let copies = self.copies[self.component(task)];
        effects.emitted.push((self.model.tuples, trees, copies));
        self.model.tuples += 1;
        self.model.tuples - 1
    }

    fn apply(&mut self, effects: Effects, failed: bool) {
        let next = self.model.tuples;
        if !failed {
            for (id, trees, copies) in effects.emitted {
                self.model.tuples = id;
                self.model.tuple(&trees, copies);
            }
            self.model.tuples = next;
        }
        // A call that fails cannot give back the held inputs that it acked.
        let (acked, also_failed) = if failed { (vec![], effects.acked) } else { (effects.acked, vec![]) };
        acked.into_iter().for_each(|id| self.model.ack(id));
        effects.failed.into_iter().chain(also_failed).for_each(|id| self.model.fail(id));
    }

    fn check(&mut self) {
        let mut expected = std::mem::take(&mut self.model.ended);
        expected.sort_unstable();
        assert_eq!(self.h.deliver(), expected);
        assert_eq!(self.h.trees.ledger().live(), self.model.open.len());
    }
}

#[derive(Default)]
struct Effects {
    emitted: Vec<(i64, BTreeSet<u64>, usize)>,
    acked: Vec<i64>,
    failed: Vec<i64>,
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]
    #[test]
    fn trees_are_complete_exactly_when_they_are_done(
        bolts in prop::collection::vec((1..4_u16, any::<u8>(), any::<bool>()), 1..5),
        batch_rows in 1..5_usize,
        steps in prop::collection::vec(step(), 1..120),
    ) {
        let mut run = Run::new(&Shape { bolts, batch_rows });
        steps.iter().for_each(|step| run.step(step));
        run.check();
        // Work on everything that is left: no tree may stay open.
        let finish = Call { emits: 0, anchored: vec![], ack_held: false, fail_held: false, unanchored: false, fate: Fate::Ack };
        let let_go = Call { ack_held: true, ..finish.clone() };
        for task in 1..run.h.outputs.len() {
            while !run.held[task].is_empty() {
                run.step(&Step::Tick(task - 1, let_go.clone()));
            }
        }
        while { run.step(&Step::Run(0, vec![finish.clone()])); !run.waiting.is_empty() } {}
        run.check();
        prop_assert_eq!(run.h.trees.ledger().live(), 0);
        prop_assert_eq!(run.h.trees.ledger().counters().stale.unknown, 0);
    }
}
