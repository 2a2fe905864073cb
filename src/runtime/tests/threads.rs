//! The same engine on threads: what virtual time cannot show.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc,
    },
    time::Duration,
};

use super::parts::{Collect, Lines, Shared, Split, metrics, options};
use crate::{
    clock::{Clock, Instant},
    metrics::Metrics,
    runtime::{Ending, EngineError, EngineOptions, StopHandle, run},
    topology::{Bolt, ComponentError, ComponentResult, Grouping, InFlight, Output, Plan, Sink, TopologyBuilder},
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
    /// Hangs up when every instance is gone.
    _lives: mpsc::SyncSender<()>,
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

/// The receiver is told when every instance of the bolt is gone.
fn hanging(always: bool, seen: &Shared, release: &Arc<AtomicBool>) -> (Plan, mpsc::Receiver<()>) {
    let (lives, gone) = mpsc::sync_channel(0);
    let mut t = TopologyBuilder::new("hanging");
    let (from, into) = (Arc::clone(seen), Arc::clone(seen));
    let (hung, release) = (Arc::new(AtomicBool::new(false)), Arc::clone(release));
    t.spout("lines", move || Lines::new(&["a", "b"], &from)).fields(["line"]);
    let hang = move || Hang { hung: Arc::clone(&hung), release: Arc::clone(&release), always, _lives: lives.clone() };
    t.bolt("hang", hang).reads("lines", Grouping::Shuffle).fields(["word"]);
    t.sink("words", move || Collect::new(&into)).reads("hang", Grouping::Shuffle);
    (t.build().unwrap(), gone)
}

fn ready() -> Metrics {
    let metrics = metrics();
    metrics.readiness().set_brokers_reachable();
    metrics.readiness().set_assigned(true);
    metrics
}

fn impatient() -> EngineOptions {
    EngineOptions { hang_timeout: Duration::from_millis(300), restart_backoff: Duration::from_millis(1), ..options(1) }
}

#[test]
fn a_hung_bolt_costs_its_thread_and_the_next_generation_goes_on() {
    let (seen, release) = (Shared::default(), Arc::new(AtomicBool::new(false)));
    let (plan, gone) = hanging(false, &seen, &release);
    let report = run(&plan, &impatient(), &ready(), &Clock::system(), &StopHandle::default()).unwrap();
    assert_eq!((report.ending, report.restarts), (Ending::Exhausted, 1));
    let words = |seen: &Shared| seen.lock().unwrap().words.values().copied().collect::<Vec<_>>();
    assert_eq!(words(&seen), [1, 1]);
    release.store(true, Ordering::Release);
    drop(plan);
    gone.recv_timeout(Duration::from_secs(10)).expect_err("the thread that hung comes back and ends");
    assert_eq!(words(&seen), [1, 1], "what was given up reaches no sink, however late it comes back");
}

/// Loses the outside as soon as a stop is asked for.
struct LostAtTheEnd(StopHandle);

impl Sink for LostAtTheEnd {
    fn write(&mut self, _: &Tuple<'_>) -> ComponentResult {
        Ok(())
    }

    fn flush(&mut self, _: Instant) -> ComponentResult {
        if self.0.is_asked() { Err(ComponentError::new("the outside is gone")) } else { Ok(()) }
    }

    fn poll(&mut self, _: Instant) -> ComponentResult<InFlight> {
        Ok(InFlight { records: 0 })
    }
}

#[test]
fn a_drain_that_loses_a_part_is_no_good_end() {
    let (seen, stop) = (Shared::default(), StopHandle::default());
    let (from, asked) = (Arc::clone(&seen), stop.clone());
    let mut t = TopologyBuilder::new("lost");
    t.spout("lines", move || Lines { bounded: false, ..Lines::new(&["a"], &from) }).fields(["line"]);
    t.bolt("split", move || StopsIt(asked.clone())).reads("lines", Grouping::Shuffle).fields(["word"]);
    let at_the_end = stop.clone();
    t.sink("words", move || LostAtTheEnd(at_the_end.clone())).reads("split", Grouping::Shuffle);
    let report = run(&t.build().unwrap(), &impatient(), &ready(), &Clock::system(), &stop).unwrap();
    assert!(matches!(report.ending, Ending::CutShort { .. }), "{report:?}");
    assert_eq!(report.restarts, 0);
}

/// Asks for a stop at its first tuple.
struct StopsIt(StopHandle);

impl Bolt for StopsIt {
    fn execute(&mut self, input: &Tuple<'_>, out: &mut Output) -> ComponentResult {
        self.0.drain();
        out.emit(&[input.get(0)]);
        Ok(())
    }
}

#[test]
fn a_second_hang_ends_the_run_and_names_the_bolt() {
    let (seen, release) = (Shared::default(), Arc::new(AtomicBool::new(false)));
    let (plan, _gone) = hanging(true, &seen, &release);
    let error = run(&plan, &impatient(), &ready(), &Clock::system(), &StopHandle::default());
    release.store(true, Ordering::Release);
    match error {
        Err(EngineError::Hung { component, .. }) => assert_eq!(component, "hang"),
        other => panic!("{other:?}"),
    }
}
