//! One hop: a tuple is emitted, routed, queued, executed and acked, and the ledger folds its edge in. The engine itself,
//! stepped on this thread.

use std::{
    num::NonZeroUsize,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use criterion::{Criterion, Throughput};
use stormglass::{
    clock::Instant,
    metrics::{Counter, Metrics},
    runtime::{EngineOptions, Stepper},
    topology::{
        Bolt, ComponentResult, Delivery, Failure, Grouping, MessageId, Next, Output, Spout, SpoutOutput,
        TopologyBuilder,
    },
    tuple::{Tuple, Value},
};

/// Bolts in a row: with so many the spout's share is small.
const HOPS: usize = 8;
/// Roots of one round, what a spout emits in one go.
const ROOTS: usize = 64;

/// A hop with a key and without, with trees and without. Each reports time and rate of one hop.
pub(crate) fn benches(c: &mut Criterion) {
    let mut group = c.benchmark_group("hop");
    group.throughput(Throughput::Elements((ROOTS * HOPS) as u64));
    for (grouping, how) in [(Grouping::LocalOrShuffle, "local"), (Grouping::fields(["n"]), "by key")] {
        for (delivery, tracking) in [(Delivery::AtLeastOnce, "tracked"), (Delivery::NoGuarantee, "untracked")] {
            let mut line = Line::new(&grouping, delivery);
            group.bench_function(format!("{how}, {tracking}"), |b| b.iter(|| line.round()));
        }
    }
}

/// A spout and bolts in a row.
struct Line {
    stepper: Stepper,
    /// Roots that the spout is to emit.
    wanted: Arc<AtomicUsize>,
    executed: Counter,
    acked: Counter,
    rounds: u64,
    tracked: bool,
}

impl Line {
    fn new(grouping: &Grouping, delivery: Delivery) -> Self {
        let wanted = Arc::new(AtomicUsize::new(0));
        let mut t = TopologyBuilder::new("line");
        let of_spout = Arc::clone(&wanted);
        t.spout("hop-0", move || Numbers { wanted: Arc::clone(&of_spout), next: 0 }).fields(["n"]);
        for hop in 1..=HOPS {
            let (name, before) = (format!("hop-{hop}"), format!("hop-{}", hop - 1));
            t.bolt(name, || Pass).reads(before, grouping.clone()).fields(["n"]);
        }
        let plan = t.build().expect("the topology is sound");
        let metrics = Metrics::new("none").expect("metrics");
        let options = EngineOptions { delivery, executors: NonZeroUsize::MIN, ..EngineOptions::default() };
        Self {
            stepper: Stepper::new(&plan, &options, &metrics).expect("starts"),
            wanted,
            executed: metrics.component(&format!("hop-{HOPS}")).executed,
            acked: metrics.trees("hop-0").acked,
            rounds: 0,
            tracked: delivery.is_tracked(),
        }
    }

    /// Roots are emitted and go all the way.
    fn round(&mut self) {
        self.wanted.fetch_add(ROOTS, Ordering::Relaxed);
        self.rounds += 1;
        let all = self.rounds * ROOTS as u64;
        loop {
            assert_eq!(self.stepper.step().expect("no component fails"), None);
            let done = if self.tracked { self.acked.get() } else { self.executed.get() };
            if done == all {
                break;
            }
        }
        // What the figure says only if it is true: every tuple was executed, and every tree has ended.
        assert_eq!((self.executed.get(), self.stepper.open_trees()), (all, 0));
    }
}

struct Numbers {
    wanted: Arc<AtomicUsize>,
    next: u64,
}

impl Spout for Numbers {
    fn next(&mut self, _: Instant, budget: usize, out: &mut SpoutOutput<'_>) -> ComponentResult<Next> {
        let wanted = self.wanted.swap(0, Ordering::Relaxed);
        assert!(wanted <= budget, "a round is one call");
        for _ in 0..wanted {
            out.emit(MessageId(self.next), self.next, &[Value::Int(self.next.cast_signed())]);
            self.next += 1;
        }
        Ok(if wanted > 0 { Next::Emitted } else { Next::Idle { until: None } })
    }

    fn ack(&mut self, _: MessageId) {}

    fn fail(&mut self, _: Instant, id: MessageId, failure: Failure<'_>, _: u64) {
        unreachable!("{id:?}: {failure:?}");
    }
}

struct Pass;

impl Bolt for Pass {
    fn execute(&mut self, input: &Tuple<'_>, out: &mut Output) -> ComponentResult {
        out.emit(&[input.get(0)]);
        Ok(())
    }
}
