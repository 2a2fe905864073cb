//! One call: all of it or nothing, and what it does to its input and to held ones.

use std::{
    collections::BTreeSet,
    sync::{Arc, atomic::Ordering},
};

use super::{
    build::Nothing,
    harness::{Harness, value},
};
use crate::{
    topology::{ComponentError, CustomGrouping, Grouping, Held, OutStream, TopologyBuilder},
    tuple::Value,
};

const D: OutStream = OutStream::DEFAULT;

fn error() -> ComponentError {
    ComponentError::new("no")
}

fn int(i: i64) -> [Value<'static>; 1] {
    [Value::Int(i)]
}

/// Holds everything that waits for task 1.
fn hold_all(h: &mut Harness) -> Vec<Held> {
    let mut held = Vec::new();
    h.execute(1, |input, out| {
        let (handled, token) = input.hold(out);
        held.push(token);
        Ok(handled)
    });
    held
}

#[test]
fn a_call_that_fails_leaves_no_trace_even_in_full_batches() {
    for batch_rows in [1, 2, 3, 100] {
        let mut h = Harness::chain(batch_rows);
        (0..6).for_each(|i| h.root(i, i64::try_from(i).unwrap()));
        h.execute(1, |input, out| {
            let i = value(*input.tuple());
            (0..4).for_each(|n| out.emit(&int(10 * i + n)));
            if i % 2 == 1 { Err(error()) } else { Ok(input.ack()) }
        });
        assert_eq!(h.values(2), [0, 1, 2, 3, 20, 21, 22, 23, 40, 41, 42, 43], "{batch_rows} rows");
        assert_eq!(h.deliver(), [(1, "failed"), (3, "failed"), (5, "failed")]);
        assert_eq!(h.trees.ledger().live(), 3);
    }
}

#[test]
fn a_call_that_has_failed_has_come_back_too() {
    let mut h = Harness::chain(10);
    (0..4).for_each(|i| h.root(i, 0));
    let (pulse, mut seen) = (Arc::clone(&h.pulse), BTreeSet::new());
    h.execute(1, |_, _| {
        seen.insert(pulse.load(Ordering::Relaxed));
        Err(error())
    });
    assert_eq!(seen.len(), 4, "the watchdog sees each call");
}

#[test]
fn nothing_of_a_call_is_sealed_before_it_has_ended() {
    let mut h = Harness::chain(1);
    h.root(1, 1);
    h.execute(1, |input, out| {
        (0..5).for_each(|n| out.emit(&int(n)));
        assert!(out.take_sealed().next().is_none());
        Ok(input.ack())
    });
    assert_eq!(h.values(2), [0, 1, 2, 3, 4]);
}

#[test]
fn a_panic_is_as_an_error() {
    let mut h = Harness::chain(1);
    h.root(1, 1);
    h.root(2, 2);
    h.execute(1, |input, out| {
        let (handled, _held) = input.hold(out);
        out.emit(&int(9));
        Ok(handled)
    });
    // The driver's steps after a panic in a tick that had emitted and held nothing.
    h.outputs[1].begin_unanchored();
    h.outputs[1].emit(&int(10));
    h.outputs[1].fail_call(error());
    h.outputs[1].fail_all_held("gone");
    assert_eq!(h.values(2), [9, 9]);
    assert_eq!(h.deliver(), [(1, "failed"), (2, "failed")]);
    assert_eq!(h.outputs[1].held(), 0);
}

#[test]
fn values_that_do_not_fit_the_stream_fail_the_input() {
    let mut h = Harness::chain(4);
    (1..5).for_each(|i| h.root(i, i64::try_from(i).unwrap()));
    h.execute(1, |input, out| {
        out.emit(&int(7));
        match value(*input.tuple()) {
            1 => out.emit(&[]),
            2 => out.emit(&[Value::Null, Value::Null]),
            3 => out.emit_on(OutStream(1), &int(1)),
            _ => {}
        }
        Ok(input.ack())
    });
    assert_eq!(h.values(2), [7]);
    let failures = h.outputs[1].take_failures();
    let said: Vec<_> = failures.iter().map(|f| (f.error.to_string(), f.error.is_retriable())).collect();
    assert_eq!(said[0].0, "emitted 0 values on stream \"default\", which declares 1 fields");
    assert_eq!(said[2].0, "emitted on a stream that the component does not declare");
    assert!(said.iter().all(|(_, retriable)| !retriable));
    assert_eq!(h.deliver(), [(1, "failed"), (2, "failed"), (3, "failed")]);
}

#[test]
fn an_ack_value_is_the_edge_xor_the_edges_of_the_children() {
    let mut h = Harness::chain(4);
    h.root(1, 1);
    let mut edge = 0;
    h.execute(1, |input, out| {
        edge = input.tuple().row().edge.bits();
        out.emit(&int(1));
        out.emit(&int(2));
        Ok(input.ack())
    });
    let children: Vec<_> =
        h.batches(2).iter().flat_map(|b| b.rows().iter().map(|r| r.edge.bits()).collect::<Vec<_>>()).collect();
    let ack = h.outputs[1].acks_for(0).unwrap().drain().next().unwrap();
    assert_eq!((children.len(), ack.acks), (2, 1));
    assert_eq!(ack.xor, edge ^ children[0] ^ children[1]);
}

#[test]
fn a_held_input_keeps_its_tree_open_until_it_is_acked_or_failed() {
    let mut h = Harness::chain(4);
    (1..4).for_each(|i| h.root(i, 0));
    let mut held = hold_all(&mut h);
    assert_eq!((h.deliver(), h.outputs[1].held()), (vec![], 3));
    let (third, second, first) = (held.pop().unwrap(), held.pop().unwrap(), held.pop().unwrap());
    h.tick(1, |out| out.ack(second));
    assert_eq!(h.deliver(), [(2, "done")]);
    h.tick(1, |out| out.fail(third, error()));
    assert_eq!(h.deliver(), [(3, "failed")]);
    drop(first);
    assert_eq!(h.outputs[1].held(), 1, "a held input that is dropped shows in the gauge");
    assert_eq!(h.trees.ledger().live(), 1);
}

#[test]
fn a_held_input_is_emitted_from_while_it_is_executed_and_afterwards() {
    let mut h = Harness::chain(4);
    h.root(1, 1);
    let mut held = None;
    h.execute(1, |input, out| {
        out.emit(&int(1));
        let (handled, token) = input.hold(out);
        out.emit_anchored(D, &[&token], &int(2));
        out.emit(&int(3));
        held = Some(token);
        Ok(handled)
    });
    h.tick(1, |out| out.emit_anchored(D, &[held.as_ref().unwrap()], &int(4)));
    h.tick(1, |out| out.ack(held.take().unwrap()));
    assert_eq!(h.deliver(), [], "four descendants are open");
    let mut seen = 0;
    h.execute(2, |input, _| {
        seen += 1;
        Ok(input.ack())
    });
    assert_eq!((seen, h.deliver()), (4, vec![(1, "done")]));
}

#[test]
fn edges_of_descendants_differ_whether_emitted_plainly_or_anchored() {
    let mut h = Harness::chain(9);
    h.root(1, 1);
    h.execute(1, |input, out| {
        (0..3).for_each(|i| out.emit(&int(i)));
        let (handled, token) = input.hold(out);
        (0..3).for_each(|i| out.emit_anchored(D, &[&token], &int(i)));
        out.ack(token);
        Ok(handled)
    });
    let batches = h.batches(2);
    let edges: BTreeSet<_> = batches.iter().flat_map(|b| b.rows()).map(|r| r.edge).collect();
    assert_eq!(edges.len(), 6);
}

#[test]
fn a_tuple_with_several_anchors_is_in_all_their_trees() {
    let mut h = Harness::chain(4);
    (1..4).for_each(|i| h.root(i, 0));
    let held = hold_all(&mut h);
    h.tick(1, |out| {
        out.emit_anchored(D, &held.iter().collect::<Vec<_>>(), &int(1));
        held.into_iter().for_each(|held| out.ack(held));
    });
    assert_eq!(h.deliver(), []);
    h.execute(2, |input, _| Ok(input.ack()));
    assert_eq!(h.deliver(), [(1, "done"), (2, "done"), (3, "done")]);
}

#[test]
fn a_diamond_closes_once_both_its_sides_are_done() {
    let mut t = TopologyBuilder::new("diamond");
    t.spout("s", || Nothing).fields(["x"]);
    t.acking_bolt("join", || Nothing).reads("s", Grouping::Shuffle).reads("side", Grouping::Shuffle).fields(["x"]);
    t.bolt("side", || Nothing).reads("s", Grouping::Shuffle).fields(["x"]);
    t.bolt("end", || Nothing).reads("join", Grouping::Shuffle);
    let mut h = Harness::new(&t, 4);
    h.root(1, 1);
    let mut held = hold_all(&mut h);
    h.execute(2, |input, out| {
        out.emit(&int(2));
        Ok(input.ack())
    });
    held.extend(hold_all(&mut h));
    assert_eq!(held.len(), 2, "two inputs of one tree");
    h.tick(1, |out| {
        out.emit_anchored(D, &[&held[0], &held[1]], &int(3));
        out.emit_anchored(D, &[&held[1], &held[0], &held[1]], &int(4));
    });
    let (second, first) = (held.pop().unwrap(), held.pop().unwrap());
    h.tick(1, |out| out.ack(first));
    assert_eq!(h.deliver(), []);
    h.tick(1, |out| out.ack(second));
    assert_eq!(h.deliver(), [], "what was emitted from both is open");
    h.execute(3, |input, _| Ok(input.ack()));
    assert_eq!(h.deliver(), [(1, "done")]);
}

#[test]
fn a_join_with_a_replayed_tuple_does_not_close_the_other_tree_early() {
    // The same record twice, as after a timeout: equal edges in two trees, both joined with one held input.
    let mut t = TopologyBuilder::new("join");
    t.spout("s", || Nothing).fields(["x"]);
    t.acking_bolt("join", || Nothing).reads("s", Grouping::Shuffle).fields(["x"]);
    t.bolt("next", || Nothing).reads("join", Grouping::Shuffle).fields(["x"]);
    t.bolt("end", || Nothing).reads("next", Grouping::Shuffle);
    let mut h = Harness::new(&t, 4);
    [1, 1, 2].into_iter().for_each(|id| h.root(id, 0));
    let mut held = hold_all(&mut h);
    let other = held.pop().unwrap();
    h.tick(1, |out| {
        for replay in held {
            out.emit_anchored(D, &[&replay, &other], &int(1));
            out.ack(replay);
        }
        out.ack(other);
    });
    h.execute(2, |input, out| {
        out.emit(&int(2));
        Ok(input.ack())
    });
    assert_eq!(h.deliver(), [], "two tuples of the other tree are still to be worked on");
    h.execute(3, |input, _| Ok(input.ack()));
    assert_eq!(h.deliver(), [(1, "done"), (1, "done"), (2, "done")]);
}

#[test]
fn a_call_that_fails_holds_nothing_and_fails_what_it_acked() {
    let mut h = Harness::chain(4);
    h.root(1, 0);
    let mut held = hold_all(&mut h);
    h.root(2, 0);
    h.execute(1, |input, out| {
        let (_, token) = input.hold(out);
        let earlier = held.pop().unwrap();
        out.emit_anchored(D, &[&earlier, &token], &int(1));
        out.ack(earlier);
        Err(error())
    });
    assert_eq!((h.values(2), h.outputs[1].held()), (vec![], 0));
    assert_eq!(h.deliver(), [(1, "failed"), (2, "failed")]);
    let (counts, _) = h.outputs[1].take_counts();
    assert_eq!((counts.executed, counts.acked, counts.failed), (2, 0, 2), "each input is failed once");
}

#[test]
fn what_a_failed_call_emitted_from_a_held_input_does_not_shift_its_lineages() {
    let lineage = |fails_first: bool| {
        let mut h = Harness::chain(4);
        h.root(1, 0);
        let held = hold_all(&mut h);
        if fails_first {
            h.outputs[1].begin_unanchored();
            h.outputs[1].emit_anchored(D, &[&held[0]], &int(1));
            h.outputs[1].discard_call();
        }
        h.tick(1, |out| out.emit_anchored(D, &[&held[0]], &int(1)));
        h.batches(2)[0].get(0).unwrap().lineage()
    };
    assert_eq!(lineage(true), lineage(false));
}

#[test]
fn an_input_that_the_bolt_fails_takes_back_nothing_that_the_call_did_besides() {
    let mut h = Harness::chain(4);
    h.root(1, 0);
    let mut held = hold_all(&mut h);
    h.root(2, 0);
    h.execute(1, |input, out| {
        let earlier = held.pop().unwrap();
        out.emit_anchored(D, &[&earlier], &int(1));
        out.ack(earlier);
        Ok(input.fail(error()))
    });
    assert_eq!(h.deliver(), [(2, "failed")]);
    h.execute(2, |input, _| Ok(input.ack()));
    assert_eq!(h.deliver(), [(1, "done")]);
}

#[test]
fn an_unanchored_tuple_is_in_no_tree() {
    let mut h = Harness::chain(1);
    h.root(1, 0);
    h.execute(1, |input, out| {
        out.emit_unanchored(D, &int(5));
        Ok(input.ack())
    });
    assert_eq!(h.deliver(), [(1, "done")]);
    h.execute(2, |_, _| Err(error()));
    assert_eq!(h.deliver(), []);
}

#[test]
fn a_root_that_nobody_reads_is_done_at_once() {
    let mut t = TopologyBuilder::new("t");
    t.spout("s", || Nothing).fields(["x"]);
    let mut h = Harness::new(&t, 1);
    h.root(1, 0);
    assert_eq!(h.deliver(), [(1, "done")]);
}

fn direct_and_custom() -> Harness {
    struct AsSaid;
    impl CustomGrouping for AsSaid {
        fn choose(&self, values: &[Value<'_>], _: usize, chosen: &mut Vec<usize>) {
            let said = values.first().and_then(|v| v.as_int()).unwrap_or(0);
            chosen.extend((0..5).filter(|i| said >> i & 1 == 1));
        }
    }
    let mut t = TopologyBuilder::new("t");
    t.spout("s", || Nothing).fields(["x"]);
    t.acking_bolt("a", || Nothing).reads("s", Grouping::Shuffle).stream("d", ["x"]).stream("c", ["x"]);
    t.bolt("direct", || Nothing).tasks(3).reads_stream("a", "d", Grouping::Direct);
    t.bolt("custom", || Nothing).tasks(3).reads_stream("a", "c", Grouping::custom(AsSaid));
    Harness::new(&t, 2)
}

#[test]
fn direct_tuples_go_to_the_task_that_is_named_and_plain_ones_nowhere() {
    let mut h = direct_and_custom();
    h.root(1, 0);
    h.execute(1, |input, out| {
        out.emit(&int(8));
        out.emit_direct(D, 2, &int(9));
        Ok(input.ack())
    });
    assert_eq!((h.values(2), h.values(3), h.values(4)), (vec![], vec![], vec![9]));
    h.root(2, 0);
    h.execute(1, |input, out| {
        out.emit_direct(D, 3, &int(9));
        Ok(input.ack())
    });
    let said = h.outputs[1].take_failures().pop().unwrap().error.to_string();
    assert_eq!(said, "emitted to task 3 of a component that has 3 (they count from 0)");
    assert_eq!(h.deliver(), [(2, "failed")]);
}

#[test]
fn custom_tuples_go_where_the_rule_says_and_a_wrong_task_fails_the_input() {
    let mut h = direct_and_custom();
    [0b101, 0b1000, 0].into_iter().zip(1..).for_each(|(said, id)| h.root(id, said));
    h.execute(1, |input, out| {
        out.emit_on(OutStream(1), &[input.tuple().get(0)]);
        Ok(input.ack())
    });
    assert_eq!(h.deliver(), [(2, "failed"), (3, "done")]);
    assert_eq!((h.values(5), h.values(6), h.values(7)), (vec![5], vec![], vec![5]));
}
