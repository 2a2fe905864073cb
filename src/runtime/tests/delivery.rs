//! Failures, panics, replays: every tree ends once, and what was done is done.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use super::parts::{Collect, Count, Lines, Shared, Split, metrics, options};
use crate::{
    runtime::{Ending, EngineOptions, stepper::Stepper},
    topology::{Delivery, Grouping, Plan, TopologyBuilder},
};

const TICK: Duration = Duration::from_millis(1);
const LIMIT: Duration = Duration::from_secs(60);

/// lines -> split -> words, no state.
fn splitting(lines: &'static [&'static str], seen: &Shared) -> Plan {
    let mut t = TopologyBuilder::new("splitting");
    let (from, into) = (Arc::clone(seen), Arc::clone(seen));
    let trouble = Arc::default();
    t.spout("lines", move || Lines::new(lines, &from)).fields(["line"]);
    t.bolt("split", move || Split { trouble: Arc::clone(&trouble) })
        .tasks(2)
        .reads("lines", Grouping::Shuffle)
        .fields(["word"]);
    t.sink("words", move || Collect::new(&into)).tasks(2).reads("split", Grouping::Shuffle);
    t.build().unwrap()
}

/// lines -> split -> count -> counts.
fn counting(lines: &'static [&'static str], seen: &Shared) -> Plan {
    let mut t = TopologyBuilder::new("counting");
    let (from, into) = (Arc::clone(seen), Arc::clone(seen));
    t.spout("lines", move || Lines::new(lines, &from)).fields(["line"]);
    t.bolt("split", Split::default).tasks(2).reads("lines", Grouping::Shuffle).fields(["word"]);
    t.bolt("count", || Count { counts: BTreeMap::new(), dirty: BTreeMap::new() })
        .tasks(4)
        .reads("split", Grouping::Fields(vec!["word".into()]))
        .fields(["word", "count"])
        .stateful();
    t.sink("counts", move || Collect::new(&into)).reads("count", Grouping::Global);
    t.build().unwrap()
}

fn run(plan: &Plan, options: &EngineOptions) -> Ending {
    let mut stepper = Stepper::new(plan, options, &metrics()).unwrap();
    stepper.run(TICK, LIMIT).unwrap().expect("ends within a virtual minute")
}

const LINES: &[&str] = &["the storm and the glass", "the glass", "", "storm storm storm"];

fn expected() -> BTreeMap<String, u64> {
    [("and", 1), ("glass", 2), ("storm", 4), ("the", 3)].map(|(w, n)| (w.to_owned(), n)).into()
}

#[test]
fn a_word_count_runs_to_its_end_on_any_number_of_executors() {
    for executors in 1..=5 {
        let seen = Shared::default();
        assert_eq!(run(&counting(LINES, &seen), &options(executors)), Ending::Exhausted);
        let seen = seen.lock().unwrap();
        assert_eq!(seen.words, expected(), "{executors} executors");
        assert_eq!(seen.acked.len(), LINES.len());
        assert_eq!(seen.committed.last(), Some(&LINES.len()));
    }
}

#[test]
fn one_tuple_a_batch_gives_the_same_counts() {
    let seen = Shared::default();
    let hostile = EngineOptions { batch_rows: 1, spout_batch: 1, max_pending: 1, ..options(3) };
    assert_eq!(run(&counting(LINES, &seen), &hostile), Ending::Exhausted);
    assert_eq!(seen.lock().unwrap().words, expected());
}

#[test]
fn without_tracking_everything_still_arrives_when_nothing_fails() {
    for delivery in [Delivery::AtMostOnce, Delivery::NoGuarantee] {
        let seen = Shared::default();
        let untracked = EngineOptions { delivery, ..options(2) };
        assert_eq!(run(&counting(LINES, &seen), &untracked), Ending::Exhausted);
        let seen = seen.lock().unwrap();
        assert_eq!(seen.words, expected(), "{delivery}");
        assert!(seen.acked.is_empty());
    }
}

#[test]
fn a_failed_execute_emits_nothing_and_its_line_comes_again() {
    for trouble in ["a fail:2 b", "a panic:2 b"] {
        let seen = Shared::default();
        let lines: &'static [&'static str] = vec!["x y", trouble, "z"].leak();
        assert_eq!(run(&splitting(lines, &seen), &options(2)), Ending::Exhausted);
        let seen = seen.lock().unwrap();
        let words: Vec<_> = seen.words.iter().map(|(w, n)| (w.as_str(), *n)).collect();
        let odd = trouble.split(' ').nth(1).unwrap();
        assert_eq!(words, [("a", 1), ("b", 1), (odd, 1), ("x", 1), ("y", 1), ("z", 1)]);
        assert_eq!(seen.failed.iter().map(|f| f.0).collect::<Vec<_>>(), [1, 1]);
        assert!(seen.failed[0].1.starts_with("split: "), "{}", seen.failed[0].1);
    }
}

#[test]
fn repeats_are_counted_exactly() {
    // "bad" fails in one of four counting tasks; the other words of its line are counted, and again with the replay.
    struct Once(bool);
    impl crate::topology::Bolt for Once {
        fn execute(
            &mut self,
            input: &crate::tuple::Tuple<'_>,
            out: &mut crate::topology::Output,
        ) -> crate::topology::ComponentResult {
            let word = input.str(0).unwrap_or_default();
            if word == "bad" && !std::mem::replace(&mut self.0, true) {
                return Err(crate::topology::ComponentError::new("bad once"));
            }
            out.emit(&[word.into()]);
            Ok(())
        }
    }
    let seen = Shared::default();
    let mut t = TopologyBuilder::new("repeats");
    let (from, into) = (Arc::clone(&seen), Arc::clone(&seen));
    let lines: &[&str] = &["one bad two three", "four"];
    t.spout("lines", move || Lines::new(lines, &from)).fields(["line"]);
    t.bolt("split", Split::default).reads("lines", Grouping::Shuffle).fields(["word"]);
    t.bolt("once", || Once(false)).reads("split", Grouping::Shuffle).fields(["word"]);
    t.sink("words", move || Collect::new(&into)).tasks(3).reads("once", Grouping::Shuffle);
    assert_eq!(run(&t.build().unwrap(), &options(3)), Ending::Exhausted);
    let seen = seen.lock().unwrap();
    let written: u64 = seen.words.values().sum();
    let distinct: std::collections::BTreeSet<_> = seen.lineages.iter().collect();
    assert_eq!(distinct.len(), 5, "a replayed tuple has its old lineage");
    assert_eq!(written - 5, seen.effects_of_failed + seen.late_effects);
    assert_eq!(written, 8);
}

#[test]
fn a_line_of_200_000_words_is_one_tree() {
    let long: &'static str = Box::leak("w ".repeat(200_000).into_boxed_str());
    let lines: &'static [&'static str] = vec![long].leak();
    let seen = Shared::default();
    assert_eq!(run(&counting(lines, &seen), &options(2)), Ending::Exhausted);
    assert_eq!(seen.lock().unwrap().words["w"], 200_000);
}
