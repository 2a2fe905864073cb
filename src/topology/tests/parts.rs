//! Parts of a text are emitted as if each were emitted by itself.

use super::{build::Nothing, harness::Harness};
use crate::{
    topology::{Grouping, OutStream, Output, TopologyBuilder},
    tuple::{Batch, Value},
};

/// Not ASCII, and with words of all lengths that are hashed in different ways, up to the very end.
const TEXT: &str = "a bc def ghij klmno pqrstuvw xyzäöüßabcdefgh longer_than_sixteen_bytes é by";

/// How a bolt emits the words of a text.
type Emit = fn(&mut Output, &str);

const BY_PARTS: Emit = |out, text| out.emit_parts(text, text.split(' '));
const ONE_BY_ONE: Emit = |out, text| text.split(' ').for_each(|word| out.emit(&[Value::Str(word)]));

/// A spout, a bolt that reads it in task 1, and three tasks from 2 on that read the bolt.
fn harness(grouping: &Grouping) -> Harness {
    let mut t = TopologyBuilder::new("parts");
    t.spout("s", || Nothing).fields(["x"]);
    t.acking_bolt("a", || Nothing).reads("s", Grouping::Shuffle).fields(["word"]);
    t.acking_bolt("b", || Nothing).tasks(3).reads("a", grouping.clone());
    Harness::new(&t, 4)
}

/// Everything that arrives in three tasks: the task, the root, the edge, the key, further anchors and the word.
fn arrived(h: &mut Harness, first: u32) -> Vec<(u32, String)> {
    let mut all = Vec::new();
    for task in first..first + 3 {
        for batch in h.batches(task) {
            all.extend(batch.tuples_from(0).map(|tuple| {
                let (row, anchors) = (tuple.row(), tuple.anchors());
                let word = tuple.str(0).unwrap();
                (task, format!("{:?} {:?} {:?} {anchors:?} {word}", row.root, row.edge, row.key))
            }));
        }
    }
    all
}

fn emitted(grouping: &Grouping, emit: Emit, texts: &[&str]) -> Vec<(u32, String)> {
    let mut h = harness(grouping);
    h.root(1, 0);
    h.root(2, 0);
    h.execute(1, |input, out| {
        for text in texts {
            emit(out, text);
            out.emit(&[Value::Str("behind them")]);
        }
        Ok(input.ack())
    });
    assert_eq!(h.deliver(), [], "the words are in the trees");
    arrived(&mut h, 2)
}

#[test]
fn parts_arrive_where_and_as_they_would_one_by_one() {
    for grouping in [Grouping::fields(["word"]), Grouping::Shuffle, Grouping::All, Grouping::partial_key(["word"])] {
        // A text that goes every way as a whole, those that are too short and too long for that, and all together.
        let long = [TEXT; 10].join(" ");
        let texts = ["a bc", TEXT, &long];
        for texts in texts.chunks(1).chain([&texts[..]]) {
            let parts = emitted(&grouping, BY_PARTS, texts);
            assert_eq!(parts, emitted(&grouping, ONE_BY_ONE, texts), "{grouping:?}");
            let words: usize = texts.iter().map(|text| text.split(' ').count() + 1).sum();
            assert!(parts.len() >= 2 * words, "{grouping:?}: {}", parts.len());
        }
    }
}

#[test]
fn texts_of_which_a_way_gets_no_part_are_not_kept_for_it() {
    let mut h = harness(&Grouping::fields(["word"]));
    (1..=1000).for_each(|id| h.root(id, 0));
    let mut calls = 0;
    h.execute(1, |input, out| {
        calls += 1;
        out.emit_parts(TEXT, TEXT.split(' ').take(if calls < 1000 { 1 } else { 11 }));
        Ok(input.ack())
    });
    let batches: Vec<_> = (2..5).flat_map(|task| h.batches(task)).collect();
    assert_eq!(batches.iter().map(Batch::len).sum::<usize>(), 999 + 10);
    let most = batches.iter().map(Batch::bytes).max().unwrap();
    assert!(most <= 8 * TEXT.len(), "{most} bytes for a batch of 4 tuples");
}

#[test]
fn parts_of_several_trees_are_in_all_of_them() {
    let of = |emit: Emit| {
        let mut t = TopologyBuilder::new("joined");
        t.spout("s", || Nothing).fields(["x"]);
        t.acking_bolt("join", || Nothing).reads("s", Grouping::Shuffle).fields(["x"]);
        t.acking_bolt("a", || Nothing).reads("join", Grouping::Shuffle).fields(["word"]);
        t.acking_bolt("b", || Nothing).tasks(3).reads("a", Grouping::fields(["word"]));
        let mut h = Harness::new(&t, 4);
        (1..3).for_each(|id| h.root(id, 0));
        let mut held = Vec::new();
        h.execute(1, |input, out| {
            let (handled, token) = input.hold(out);
            held.push(token);
            Ok(handled)
        });
        h.tick(1, |out| {
            out.emit_anchored(OutStream::DEFAULT, &held.iter().collect::<Vec<_>>(), &[Value::Int(1)]);
            held.into_iter().for_each(|held| out.ack(held));
        });
        h.execute(2, |input, out| {
            emit(out, TEXT);
            Ok(input.ack())
        });
        assert_eq!(h.deliver(), [], "the words are in both trees");
        let arrived = arrived(&mut h, 3);
        assert!(arrived.iter().all(|(_, row)| row.contains("Anchor")), "{arrived:?}");
        arrived
    };
    assert_eq!(of(BY_PARTS), of(ONE_BY_ONE));
}

#[test]
fn parts_of_a_call_that_fails_are_taken_back() {
    let mut h = harness(&Grouping::fields(["word"]));
    h.root(1, 0);
    h.execute(1, |_, out| {
        out.emit_parts(TEXT, TEXT.split(' '));
        Err(crate::topology::ComponentError::new("no"))
    });
    assert_eq!((arrived(&mut h, 2).len(), h.deliver()), (0, vec![(1, "failed")]));
}

#[test]
fn what_is_no_part_of_the_text_is_emitted_all_the_same() {
    let of = |emit: Emit| {
        let mut h = harness(&Grouping::fields(["word"]));
        h.tick(1, |out| emit(out, TEXT));
        arrived(&mut h, 2)
    };
    let strange: Emit = |out, text| {
        let copy = text.to_owned();
        out.emit_parts("another text", copy.split(' '));
    };
    assert_eq!(of(strange), of(ONE_BY_ONE));
}

#[test]
fn parts_on_a_stream_of_two_fields_fail_the_input() {
    let mut t = TopologyBuilder::new("pairs");
    t.spout("s", || Nothing).fields(["x"]);
    t.acking_bolt("a", || Nothing).reads("s", Grouping::Shuffle).fields(["word", "count"]);
    t.acking_bolt("b", || Nothing).reads("a", Grouping::fields(["word"]));
    let mut h = Harness::new(&t, 4);
    h.root(1, 0);
    h.execute(1, |input, out| {
        out.emit_parts(TEXT, TEXT.split(' '));
        Ok(input.ack())
    });
    assert_eq!(h.deliver(), [(1, "failed")]);
}
