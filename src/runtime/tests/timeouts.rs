//! Trees that make no progress, and those that only wait their turn.

use std::{sync::Arc, time::Duration};

use super::parts::{Collect, Lines, Shared, metrics, options};
use crate::{
    runtime::{Ending, EngineOptions, stepper::Stepper},
    topology::{AckingBolt, ComponentResult, Grouping, Handled, Held, Input, OutStream, Output, TopologyBuilder},
};

/// Drops the first input that it gets, holds the others until three are there, then joins them into one tuple.
#[derive(Default)]
struct Join {
    loses: bool,
    held: Vec<Held>,
}

impl AckingBolt for Join {
    fn execute<'a>(&mut self, input: Input<'a>, out: &mut Output) -> ComponentResult<Handled<'a>> {
        let (handled, held) = input.hold(out);
        if std::mem::take(&mut self.loses) {
            drop(held);
            return Ok(handled);
        }
        self.held.push(held);
        if self.held.len() == 3 {
            let joined: Vec<_> = self.held.iter().map(|h| h.tuple().str(0).unwrap_or_default()).collect();
            let joined = joined.join("+");
            let anchors: Vec<_> = self.held.iter().collect();
            out.emit_anchored(OutStream::DEFAULT, &anchors, &[joined.as_str().into()]);
            for held in self.held.drain(..) {
                out.ack(held);
            }
        }
        Ok(handled)
    }
}

fn joining(lines: &'static [&'static str], loses: bool, seen: &Shared) -> crate::topology::Plan {
    let mut t = TopologyBuilder::new("joining");
    let (from, into) = (Arc::clone(seen), Arc::clone(seen));
    t.spout("lines", move || Lines::new(lines, &from)).fields(["line"]);
    t.acking_bolt("join", move || Join { loses, held: Vec::new() }).reads("lines", Grouping::Global).fields(["joined"]);
    t.sink("out", move || Collect::new(&into)).reads("join", Grouping::Shuffle);
    t.build().unwrap()
}

#[test]
fn a_joined_tuple_belongs_to_the_trees_of_all_its_anchors() {
    let seen = Shared::default();
    let plan = joining(&["a", "b", "c", "d", "e", "f"], false, &seen);
    let mut stepper = Stepper::new(&plan, &options(2), &metrics()).unwrap();
    let ending = stepper.run(Duration::from_millis(1), Duration::from_secs(5)).unwrap();
    assert_eq!(ending, Some(Ending::Exhausted));
    let seen = seen.lock().unwrap();
    assert_eq!(seen.words.keys().collect::<Vec<_>>(), ["a+b+c", "d+e+f"]);
    assert_eq!(seen.acked.len(), 6);
}

#[test]
fn a_tuple_that_a_bolt_loses_times_out_and_is_replayed() {
    let seen = Shared::default();
    let plan = joining(&["lost", "b", "c"], true, &seen);
    let options = EngineOptions { tree_timeout: Duration::from_secs(3), ..options(1) };
    let mut stepper = Stepper::new(&plan, &options, &metrics()).unwrap();
    // b and c wait for a third; all three time out (progress of a tree is its own) and come again.
    let ending = stepper.run(Duration::from_millis(10), Duration::from_secs(60)).unwrap();
    assert_eq!(ending, Some(Ending::Exhausted));
    let seen = seen.lock().unwrap();
    assert!(seen.failed.iter().any(|f| *f == (0, "timed out".to_owned())));
    assert_eq!(seen.acked.len(), 3);
}

#[test]
fn timeouts_count_work_not_a_stopped_process() {
    let seen = Shared::default();
    let plan = joining(&["a", "b"], false, &seen);
    let options = EngineOptions { tree_timeout: Duration::from_secs(30), ..options(1) };
    let mut stepper = Stepper::new(&plan, &options, &metrics()).unwrap();
    stepper.run(Duration::from_millis(10), Duration::from_secs(1)).unwrap();
    // SIGSTOP for an hour.
    stepper.advance(Duration::from_secs(3_600));
    stepper.run(Duration::from_millis(10), Duration::from_secs(1)).unwrap();
    assert_eq!(seen.lock().unwrap().failed, []);
    stepper.run(Duration::from_millis(100), Duration::from_secs(60)).unwrap();
    assert!(!seen.lock().unwrap().failed.is_empty());
}
