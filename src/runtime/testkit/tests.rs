//! The kit finds what is broken, and passes what is not.

use std::time::Duration;

use super::*;
use crate::{
    clock::Instant,
    topology::{
        AckingBolt, BatchOutput, Bolt, ComponentError, ComponentResult, Failure, Grouping, Handled, Held, InFlight,
        Input, MessageId, Next, OutStream, Output, Sink, Spout, SpoutOutput, TopologyBuilder,
    },
    tuple::{Batch, Tuple, Value},
};

struct Double;
impl Bolt for Double {
    fn execute(&mut self, input: &Tuple<'_>, out: &mut Output) -> ComponentResult {
        let Some(i) = input.get(0).as_int() else { return Err(ComponentError::permanent("no number")) };
        out.emit(&[Value::Int(2 * i)]);
        if i == 13 { Err(ComponentError::new("unlucky")) } else { Ok(()) }
    }
}

fn ints(values: impl IntoIterator<Item = i64>) -> Vec<Row> {
    values.into_iter().map(|i| row(&[Value::Int(i)])).collect()
}

#[test]
fn a_bolt_gives_back_what_it_emitted_acked_and_failed() {
    let double = BoltTester::new(|| Double, ["x"]).emits("default", ["y"]);
    let observed = double.run(&ints([3, 13, 4])).unwrap();
    assert_eq!(observed.rows("default"), ints([6, 8]));
    // The mocked source gives up after three replays.
    assert_eq!((observed.acked, observed.failed, observed.errors.len()), (2, 4, 4));
}

/// Emits the sum of a batch with its last row.
struct PerBatch;
impl Bolt for PerBatch {
    fn execute(&mut self, _: &Tuple<'_>, _: &mut Output) -> ComponentResult {
        Ok(())
    }
    fn execute_batch(&mut self, batch: &Batch, out: &mut BatchOutput<'_>) {
        for tuple in batch.tuples_from(out.next_row()) {
            out.begin(&tuple);
            if tuple.index() + 1 == batch.len() {
                out.output().emit(&[Value::Int(i64::try_from(batch.len()).unwrap())]);
            }
            out.done();
        }
    }
}

#[test]
fn a_bolt_that_depends_on_the_batches_is_found_unless_it_may() {
    let tester = BoltTester::new(|| PerBatch, ["x"]).emits("default", ["n"]);
    assert_eq!(tester.run(&ints(0..3)).unwrap_err().contract, "Bolt 2");
    assert_eq!(tester.may_differ().run(&ints(0..3)).unwrap().rows("default"), ints([3]));
}

struct Forgets;
impl Bolt for Forgets {
    fn execute(&mut self, _: &Tuple<'_>, _: &mut Output) -> ComponentResult {
        Ok(())
    }
    fn execute_batch(&mut self, _: &Batch, _: &mut BatchOutput<'_>) {}
}

#[test]
fn a_bolt_that_does_not_report_its_rows_is_found() {
    let error = BoltTester::new(|| Forgets, ["x"]).run(&ints([1])).unwrap_err();
    assert_eq!(error.to_string(), "contract Bolt::execute_batch: \"tested\" execute_batch reported 0 of 1 rows");
}

/// Joins inputs two by two, and lets go of a single one at a tick.
#[derive(Default)]
struct Pairs(Option<Held>);
impl AckingBolt for Pairs {
    fn execute<'a>(&mut self, input: Input<'a>, out: &mut Output) -> ComponentResult<Handled<'a>> {
        let (handled, held) = input.hold(out);
        match self.0.take() {
            None => self.0 = Some(held),
            Some(first) => {
                let values = [first.tuple().get(0), held.tuple().get(0)];
                out.emit_anchored(OutStream::DEFAULT, &[&first, &held], &values);
                out.ack(first);
                out.ack(held);
            }
        }
        Ok(handled)
    }
    fn tick(&mut self, _: Instant, out: &mut Output) -> ComponentResult {
        if let Some(held) = self.0.take() {
            out.ack(held);
        }
        Ok(())
    }
}

#[test]
fn an_acking_bolt_holds_and_acks_later() {
    let pairs = BoltTester::acking(Pairs::default, ["x"]).emits("default", ["a", "b"]).may_differ();
    let ticked = pairs.clone().tick_every(Duration::from_secs(1)).run(&ints(0..5)).unwrap();
    assert_eq!((ticked.acked, ticked.failed, ticked.held), (5, 0, 0));
    assert_eq!(ticked.emitted.len(), 2);
    assert_eq!(pairs.run(&ints(0..5)).unwrap().held, 1);
}

#[test]
fn a_bolt_that_panics_fails_its_input_and_what_it_held() {
    struct Fragile(Vec<Held>);
    impl AckingBolt for Fragile {
        fn execute<'a>(&mut self, input: Input<'a>, out: &mut Output) -> ComponentResult<Handled<'a>> {
            assert_ne!(input.tuple().get(0).as_int(), Some(2), "two");
            let (handled, held) = input.hold(out);
            self.0.push(held);
            Ok(handled)
        }
    }
    let mut t = TopologyBuilder::new("t");
    t.spout("in", || MockSpout::new(ints(0..3)).max_retries(0)).fields(["x"]);
    t.acking_bolt("fragile", || Fragile(vec![])).reads("in", Grouping::Shuffle);
    let ran = complete_topology(&t, []).unwrap();
    assert_eq!((ran.of("fragile").failed, ran.of("in").failed, ran.of("fragile").held), (3, 3, 0));
}

struct Leaky(usize);
impl Sink for Leaky {
    fn write(&mut self, _: &Tuple<'_>) -> ComponentResult {
        self.0 += 1;
        Ok(())
    }
    fn flush(&mut self, _: Instant) -> ComponentResult {
        Ok(())
    }
    fn poll(&mut self, _: Instant) -> ComponentResult<InFlight> {
        Ok(InFlight { records: self.0 })
    }
}

#[test]
fn a_sink_that_never_counts_down_is_found() {
    assert_eq!(SinkTester::new(|| MockSink, ["x"]).run(&ints(0..3)).unwrap().acked, 3);
    assert_eq!(SinkTester::new(|| Leaky(0), ["x"]).run(&ints(0..3)).unwrap_err().contract, "Sink 4");
}

/// A spout that breaks the contract that it is told to break.
struct Bad(u8, bool);
impl Spout for Bad {
    fn next(&mut self, _: Instant, budget: usize, out: &mut SpoutOutput<'_>) -> ComponentResult<Next> {
        if self.1 {
            return Ok(Next::Exhausted);
        }
        self.1 = true;
        let id = |i: u64| MessageId(if self.0 == 2 { 0 } else { i });
        let more = if self.0 == 3 { 4 } else { 2_usize.min(budget) };
        (0..more as u64).for_each(|i| out.emit(id(i), i, &[Value::Null]));
        Ok(if self.0 == 9 { Next::Exhausted } else { Next::Emitted })
    }
    fn ack(&mut self, _: MessageId) {}
    fn fail(&mut self, _: Instant, _: MessageId, _: Failure<'_>, _: u64) {}
}

#[test]
fn a_spout_that_breaks_a_contract_is_told_which() {
    let broken = |contract| SpoutTester::new(move || Bad(contract, false), ["x"]).run().unwrap_err().contract;
    assert_eq!(broken(2), "Spout 2");
    assert_eq!(broken(3), "Spout 3");
    assert_eq!(broken(9), "Next::Exhausted");
    let good = SpoutTester::new(|| MockSpout::new(ints(0..5)), ["x"]).run().unwrap();
    assert_eq!((good.acked, good.failed, good.rows("default")), (5, 0, ints(0..5)));
}

#[test]
fn a_topology_that_is_not_sound_does_not_run() {
    let error = complete_topology(&TopologyBuilder::new("t"), []).unwrap_err();
    assert_eq!(error.contract, "build");
    let error = complete_topology(&TopologyBuilder::new("t"), [("nobody", vec![])]).unwrap_err();
    assert_eq!(error.what, "is mocked, but there is no spout of that name");
}

#[test]
fn what_is_sent_to_a_task_by_number_is_seen() {
    struct Deals;
    impl Bolt for Deals {
        fn execute(&mut self, input: &Tuple<'_>, out: &mut Output) -> ComponentResult {
            let card = input.get(0);
            out.emit_direct(OutStream::DEFAULT, usize::from(card.as_int() == Some(2)), &[card]);
            Ok(())
        }
    }
    let mut t = TopologyBuilder::new("t");
    t.spout("in", || MockSpout::new(ints(1..3))).fields(["x"]);
    t.bolt("deals", || Deals).reads("in", Grouping::Shuffle).fields(["x"]);
    t.sink("hands", || MockSink).tasks(2).reads("deals", Grouping::Direct);
    let ran = complete_topology(&t, []).unwrap();
    assert_eq!((ran.of("deals").rows("default"), ran.of("hands").acked), (ints(1..3), 2));
}

#[test]
fn what_is_only_emitted_by_ticks_and_flushes_is_seen() {
    struct Late(i64);
    impl Bolt for Late {
        fn execute(&mut self, _: &Tuple<'_>, _: &mut Output) -> ComponentResult {
            self.0 += 1;
            Ok(())
        }
        fn tick(&mut self, _: Instant, out: &mut Output) -> ComponentResult {
            out.emit(&[Value::Int(self.0)]);
            Ok(())
        }
        fn flush(&mut self, out: &mut Output) -> ComponentResult {
            out.emit(&[Value::Int(-self.0)]);
            Ok(())
        }
    }
    let late = BoltTester::new(|| Late(0), ["x"]).emits("default", ["n"]).tick_every(Duration::from_secs(3600));
    assert_eq!(late.run(&ints(0..3)).unwrap().rows("default"), ints([-3, 3]));
}
