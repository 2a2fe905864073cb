//! The same engine on threads: what virtual time cannot show.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use super::parts::{Collect, Lines, Shared, Split, metrics, options};
use crate::{
    clock::Clock,
    runtime::{Ending, EngineError, EngineOptions, StopHandle, run},
    topology::{Bolt, ComponentResult, Grouping, Output, Plan, TopologyBuilder},
    tuple::Tuple,
};

fn splitting(lines: &'static [&'static str], bounded: bool, seen: &Shared) -> Plan {
    let mut t = TopologyBuilder::new("threads");
    let (from, into) = (Arc::clone(seen), Arc::clone(seen));
    t.spout("lines", move || Lines { bounded, ..Lines::new(lines, &from) }).fields(["line"]);
    t.bolt("split", Split::default).tasks(3).reads("lines", Grouping::Shuffle).fields(["word"]);
    t.sink("words", move || Collect::new(&into)).tasks(2).reads("split", Grouping::Shuffle);
    t.build().unwrap()
}

#[test]
fn threads_lose_nothing_and_end_when_the_spout_does() {
    let seen = Shared::default();
    let lines: &'static [&'static str] = vec!["storm glass fail:7"; 20_000].leak();
    let plan = splitting(lines, true, &seen);
    let report = run(&plan, &options(3), &metrics(), &Clock::system(), &StopHandle::default()).unwrap();
    assert_eq!(report.ending, Ending::Exhausted);
    let seen = seen.lock().unwrap();
    assert_eq!(seen.acked.len(), 20_000);
    assert_eq!(seen.words["storm"], 20_000);
    assert_eq!(seen.failed.len(), 21, "each of three instances fails seven times");
}

#[test]
fn a_drain_of_an_endless_run_commits_what_was_done() {
    let seen = Shared::default();
    let plan = splitting(&["storm", "glass"], false, &seen);
    let stop = StopHandle::default();
    let watcher = std::thread::spawn({
        let (seen, stop) = (Arc::clone(&seen), stop.clone());
        move || {
            while seen.lock().unwrap().acked.len() < 2 {
                std::thread::yield_now();
            }
            stop.drain();
        }
    });
    let report = run(&plan, &options(2), &metrics(), &Clock::system(), &stop).unwrap();
    watcher.join().unwrap();
    assert_eq!(report.ending, Ending::Drained);
    assert_eq!(seen.lock().unwrap().committed.last(), Some(&2));
}

/// Hangs at its first tuple, in its first instance.
struct Hang {
    hung: Arc<AtomicBool>,
    release: Arc<AtomicBool>,
    always: bool,
}

impl Bolt for Hang {
    fn execute(&mut self, input: &Tuple<'_>, out: &mut Output) -> ComponentResult {
        if !self.hung.swap(true, Ordering::AcqRel) || self.always {
            while !self.release.load(Ordering::Acquire) {
                std::thread::park_timeout(Duration::from_millis(5));
            }
        }
        out.emit(&[input.get(0)]);
        Ok(())
    }
}

fn hanging(always: bool, seen: &Shared, release: &Arc<AtomicBool>) -> Plan {
    let mut t = TopologyBuilder::new("hanging");
    let (from, into) = (Arc::clone(seen), Arc::clone(seen));
    let (hung, release) = (Arc::new(AtomicBool::new(false)), Arc::clone(release));
    t.spout("lines", move || Lines::new(&["a", "b"], &from)).fields(["line"]);
    t.bolt("hang", move || Hang { hung: Arc::clone(&hung), release: Arc::clone(&release), always })
        .reads("lines", Grouping::Shuffle)
        .fields(["word"]);
    t.sink("words", move || Collect::new(&into)).reads("hang", Grouping::Shuffle);
    t.build().unwrap()
}

fn impatient() -> EngineOptions {
    EngineOptions { hang_timeout: Duration::from_millis(300), restart_backoff: Duration::from_millis(1), ..options(1) }
}

#[test]
fn a_hung_bolt_costs_its_thread_and_the_next_generation_goes_on() {
    let (seen, release) = (Shared::default(), Arc::new(AtomicBool::new(false)));
    let plan = hanging(false, &seen, &release);
    let metrics = metrics();
    metrics.readiness().set_brokers_reachable(true);
    metrics.readiness().set_assigned(true);
    let report = run(&plan, &impatient(), &metrics, &Clock::system(), &StopHandle::default()).unwrap();
    release.store(true, Ordering::Release);
    assert_eq!((report.ending, report.restarts), (Ending::Exhausted, 1));
    assert_eq!(seen.lock().unwrap().words.len(), 2);
}

#[test]
fn a_second_hang_ends_the_run_and_names_the_bolt() {
    let (seen, release) = (Shared::default(), Arc::new(AtomicBool::new(false)));
    let plan = hanging(true, &seen, &release);
    let metrics = metrics();
    metrics.readiness().set_brokers_reachable(true);
    metrics.readiness().set_assigned(true);
    let error = run(&plan, &impatient(), &metrics, &Clock::system(), &StopHandle::default());
    release.store(true, Ordering::Release);
    match error {
        Err(EngineError::Hung { component, .. }) => assert_eq!(component, "hang"),
        other => panic!("{other:?}"),
    }
}
