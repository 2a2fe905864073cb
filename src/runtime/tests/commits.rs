//! What is committed was frozen before the flush that covers it.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use super::parts::{Collect, Count, Lines, Shared, Split, metrics, options};
use crate::{
    clock::Instant,
    runtime::{Ending, stepper::Stepper},
    topology::{
        ComponentError, ComponentResult, Failure, Grouping, InFlight, MessageId, Next, Sink, Spout, SpoutOutput,
        TopologyBuilder,
    },
    tuple::{Tuple, Value},
};

const TICK: Duration = Duration::from_millis(1);

#[test]
fn trees_that_finish_between_freeze_and_commit_are_not_committed() {
    let seen = Shared::default();
    let mut t = TopologyBuilder::new("slow-sink");
    let (from, into) = (Arc::clone(&seen), Arc::clone(&seen));
    let lines: &'static [&'static str] = vec!["storm glass"; 4_000].leak();
    t.spout("lines", move || Lines::new(lines, &from)).fields(["line"]);
    t.bolt("split", Split::default).reads("lines", Grouping::Shuffle).fields(["word"]);
    t.bolt("count", || Count { counts: BTreeMap::new(), dirty: BTreeMap::new() })
        .tasks(2)
        .reads("split", Grouping::Fields(vec!["word".into()]))
        .fields(["word", "count"])
        .stateful();
    // The outside needs 30 polls, in which further lines are done.
    t.sink("counts", move || Collect { slow: 30, ..Collect::new(&into) }).reads("count", Grouping::Global);
    let plan = t.build().unwrap();
    let slow =
        crate::runtime::EngineOptions { spout_batch: 8, commit_interval: Duration::from_millis(10), ..options(2) };
    let mut stepper = Stepper::new(&plan, &slow, &metrics()).unwrap();
    let mut newer_than_frozen = 0;
    loop {
        let commits = seen.lock().unwrap().committed.len();
        let ending = stepper.step().unwrap();
        let now = seen.lock().unwrap();
        if now.committed.len() > commits && ending.is_none() {
            let (committed, done) = (*now.committed.last().unwrap(), now.acked.len());
            assert!(committed <= done);
            newer_than_frozen += usize::from(committed < done);
        }
        drop(now);
        if ending.is_some() {
            assert_eq!(ending, Some(Ending::Exhausted));
            break;
        }
        stepper.advance(TICK);
    }
    let seen = seen.lock().unwrap();
    assert!(newer_than_frozen > 3, "the test must see commits with newer trees: {newer_than_frozen}");
    assert_eq!(seen.committed.last(), Some(&4_000));
    assert_eq!(seen.words["storm"], 4_000);
    let frozen: Vec<_> = seen.frozen.values().copied().take(seen.committed.len()).collect();
    assert_eq!(seen.committed, frozen, "exactly what was frozen");
}

/// Emits one tuple, and counts how often it is polled.
struct Polled {
    emitted: bool,
    polls: Arc<AtomicU64>,
}

impl Spout for Polled {
    fn next(&mut self, _: Instant, _: usize, out: &mut SpoutOutput<'_>) -> ComponentResult<Next> {
        if !std::mem::replace(&mut self.emitted, true) {
            out.emit(MessageId(0), 0, &[Value::Int(1)]);
        }
        Ok(Next::Idle { until: None })
    }

    fn poll(&mut self, _: Instant) -> ComponentResult {
        self.polls.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    fn ack(&mut self, _: MessageId) {}

    fn fail(&mut self, _: Instant, _: MessageId, _: Failure<'_>, _: u64) {}
}

/// Takes nothing.
struct Full;

impl Sink for Full {
    fn ready(&mut self) -> bool {
        false
    }

    fn write(&mut self, _: &Tuple<'_>) -> ComponentResult {
        Err(ComponentError::new("it was not ready"))
    }

    fn flush(&mut self, _: Instant) -> ComponentResult {
        Ok(())
    }

    fn poll(&mut self, _: Instant) -> ComponentResult<InFlight> {
        Ok(InFlight { records: 1 })
    }
}

#[test]
fn a_spout_hears_the_outside_while_the_sink_takes_nothing_and_while_it_drains() {
    let polls = Arc::<AtomicU64>::default();
    let of_spout = Arc::clone(&polls);
    let mut t = TopologyBuilder::new("full");
    t.spout("numbers", move || Polled { emitted: false, polls: Arc::clone(&of_spout) }).fields(["n"]);
    t.sink("full", || Full).reads("numbers", Grouping::Shuffle);
    let mut stepper = Stepper::new(&t.build().unwrap(), &options(1), &metrics()).unwrap();
    let polls_in_a_second = |stepper: &mut Stepper| {
        let before = polls.load(Ordering::Relaxed);
        assert_eq!(stepper.run(TICK, Duration::from_secs(1)).unwrap(), None);
        polls.load(Ordering::Relaxed) - before
    };
    polls_in_a_second(&mut stepper);
    assert_eq!(stepper.open_trees(), 1, "its tuple waits before the sink");
    assert!(polls_in_a_second(&mut stepper) >= 100);
    stepper.drain();
    assert!(polls_in_a_second(&mut stepper) >= 100);
}

#[test]
fn a_drain_finishes_what_is_in_flight_and_commits_it() {
    let seen = Shared::default();
    let mut t = TopologyBuilder::new("drain");
    let (from, into) = (Arc::clone(&seen), Arc::clone(&seen));
    let lines: &'static [&'static str] = vec!["storm glass"; 100_000].leak();
    t.spout("lines", move || Lines::new(lines, &from)).fields(["line"]);
    t.bolt("split", Split::default).tasks(2).reads("lines", Grouping::Shuffle).fields(["word"]);
    t.sink("words", move || Collect::new(&into)).tasks(2).reads("split", Grouping::Shuffle);
    let plan = t.build().unwrap();
    let mut stepper = Stepper::new(&plan, &options(3), &metrics()).unwrap();
    for _ in 0..50 {
        assert_eq!(stepper.step().unwrap(), None);
        stepper.advance(TICK);
    }
    assert!(stepper.open_trees() > 0, "the drain must find open trees");
    stepper.drain();
    assert_eq!(stepper.run(TICK, Duration::from_secs(5)).unwrap(), Some(Ending::Drained));
    let seen = seen.lock().unwrap();
    let done = seen.acked.len();
    assert!(done > 0 && done < 100_000, "{done}");
    assert_eq!(seen.committed.last(), Some(&done), "surplus 0: what was done is committed");
    assert_eq!(seen.words["storm"], done as u64, "missing 0: what was committed was done");
}
