//! Expiry counts from the last progress, in time worked, and spares what may be waiting in a queue.

use std::time::Duration;

use proptest::{collection::vec, prelude::*};

use crate::{
    ack::{AckMessage, Ledger, Outcome, Tick, Timeouts, WorkedTime},
    clock::Instant,
    tuple::RootId,
};

const TIMEOUT: Duration = Duration::from_secs(16);
const TICK: Duration = Duration::from_secs(1);

fn at(millis: u64) -> Instant {
    Instant::ZERO + Duration::from_millis(millis)
}

/// A ledger and its timeouts, as an executor has them.
struct Executor {
    ledger: Ledger,
    timeouts: Timeouts,
    now: u64,
}

impl Executor {
    fn new() -> Self {
        Self { ledger: Ledger::new(0, 8), timeouts: Timeouts::new(TIMEOUT, Instant::ZERO), now: 0 }
    }

    fn tree(&mut self) -> RootId {
        let root = self.ledger.open(self.timeouts.tick()).unwrap();
        assert_eq!(self.ledger.begin(root, 42, self.timeouts.tick()), Outcome::Pending);
        root
    }

    fn touch(&mut self, root: RootId) -> Outcome {
        self.ledger.apply(&AckMessage::touch(root), self.timeouts.tick())
    }

    /// One step `millis` later; `queued` is when the oldest queued batch was begun.
    fn step(&mut self, millis: u64, queued: Option<u64>) -> Vec<RootId> {
        self.now += millis;
        let mut expired = Vec::new();
        if self.timeouts.advance(at(self.now)) {
            self.timeouts.expire(&mut self.ledger, queued.map(at), &mut expired);
        }
        expired.iter().map(|tree| tree.root).collect()
    }

    /// Steps of half a second for `seconds`; when something expired first, in ms.
    fn run(&mut self, seconds: u64, queued: Option<u64>) -> Option<u64> {
        (0..seconds * 2).find(|_| !self.step(500, queued).is_empty()).map(|_| self.now)
    }
}

#[test]
fn a_tree_without_progress_expires_after_the_timeout_and_at_most_an_eighth_more() {
    for begun in [0, 300, 999] {
        let mut executor = Executor::new();
        assert!(executor.step(begun, None).is_empty());
        let _root = executor.tree();
        let idle = executor.run(60, None).unwrap() - begun;
        assert!((16_000..=18_000).contains(&idle), "expired after {idle} ms");
        assert_eq!((executor.ledger.live(), executor.ledger.counters().expired), (0, 1));
    }
}

#[test]
fn progress_keeps_a_tree_alive_for_longer_than_ticks_can_count() {
    let mut executor = Executor::new();
    let root = executor.tree();
    for _ in 0..10_000 {
        assert_eq!(executor.run(15, None), None);
        assert_eq!(executor.touch(root), Outcome::Pending);
    }
    assert!(executor.run(20, None).is_some());
}

#[test]
fn a_batch_queued_since_the_last_progress_or_before_holds_the_tree() {
    let mut executor = Executor::new();
    assert!(executor.step(2_000, None).is_empty());
    let _root = executor.tree();
    assert_eq!(executor.run(60, Some(1_900)), None);
    // The batch is through; younger ones cannot hold a tuple of this tree.
    let recent = executor.now - 5_000;
    assert!(executor.run(3, Some(recent)).is_some());
}

#[test]
fn a_tree_held_for_longer_than_ticks_can_count_still_expires() {
    let mut executor = Executor::new();
    let _root = executor.tree();
    // One turn of the 16-bit tick and a bit: a wrapped idle time would be 5 ticks.
    assert_eq!(executor.run(65_541, Some(0)), None);
    assert!(executor.run(2, None).is_some());
}

#[test]
fn the_time_in_which_the_process_was_stopped_does_not_count() {
    let mut executor = Executor::new();
    let root = executor.tree();
    assert_eq!(executor.run(10, None), None);
    assert!(executor.step(600_000, None).is_empty());
    assert_eq!(executor.run(1, None), None);
    assert_eq!(executor.touch(root), Outcome::Pending);
    // It is no amnesty either.
    assert!(executor.run(18, None).is_some());
}

#[test]
fn a_batch_that_was_queued_when_the_process_was_stopped_holds_its_tree() {
    let mut executor = Executor::new();
    let _root = executor.tree();
    assert_eq!(executor.run(15, Some(0)), None);
    assert!(executor.step(600_000, Some(0)).is_empty());
    assert_eq!(executor.run(30, Some(0)), None);
}

#[test]
fn ticks_wait_for_a_caller_that_does_not_scan_and_then_go_on() {
    let mut executor = Executor::new();
    let root = executor.tree();
    // One turn of the 16-bit tick and a bit.
    for _ in 0..65_541 {
        executor.now += 1_000;
        let _due = executor.timeouts.advance(at(executor.now));
    }
    assert_eq!(executor.step(1_000, None), [root]);
    let begun = executor.now;
    let _root = executor.tree();
    let idle = executor.run(60, None).unwrap() - begun;
    assert!((16_000..=18_000).contains(&idle), "expired after {idle} ms");
}

#[test]
fn a_scan_is_due_once_a_tick() {
    let mut timeouts = Timeouts::new(TIMEOUT, Instant::ZERO);
    let mut ledger = Ledger::new(0, 1);
    assert_eq!(timeouts.tick_length(), TICK);
    let mut due = 0;
    for millis in 0..=10_000 {
        if timeouts.advance(at(millis)) {
            timeouts.expire(&mut ledger, None, &mut Vec::new());
            due += 1;
        }
    }
    assert_eq!((due, timeouts.tick()), (10, Tick(10)));
}

#[test]
fn a_timeout_of_zero_is_short_and_nothing_worse() {
    let mut timeouts = Timeouts::new(Duration::ZERO, Instant::ZERO);
    assert!(timeouts.advance(Instant::from_nanos(u64::MAX)));
    assert_eq!(timeouts.tick(), Tick(4));
}

#[test]
fn worked_time_never_goes_back() {
    let mut worked = WorkedTime::new(TICK, at(5_000));
    assert_eq!(worked.advance(at(5_500)), Duration::from_millis(500));
    assert_eq!(worked.advance(at(4_000)), Duration::from_millis(500));
    assert_eq!(worked.advance(at(5_500)), Duration::from_millis(500));
    assert_eq!(worked.age(at(4_000)), Duration::from_millis(1_500));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    /// Against exact times: nothing expires before its timeout or under an older batch, nothing lives on without cause.
    #[test]
    fn expiry_is_exact_to_two_ticks(
        // (length of the step in ms, what happens, which tree, age in ms of the oldest batch)
        steps in vec((0..3_900_u64, 0..10_u8, 0..8_usize, proptest::option::of(0..40_000_u64)), 1..400),
    ) {
        let mut executor = Executor::new();
        let mut progress: Vec<(RootId, u64)> = Vec::new();
        for (length, what, which, batch_age) in steps {
            let queued = batch_age.map(|age| (executor.now + length).saturating_sub(age));
            let ticks_before = executor.timeouts.tick();
            let expired = executor.step(length, queued);
            let scanned = executor.timeouts.tick() != ticks_before;
            let free_since = queued.unwrap_or(u64::MAX);
            for &(root, last) in &progress {
                let idle = executor.now - last;
                if expired.contains(&root) {
                    prop_assert!(idle >= 16_000 && free_since > last, "{} ms, batch {:?}", idle, queued);
                } else if scanned {
                    let held = free_since <= last + 2_000;
                    prop_assert!(idle <= 18_000 || held, "{} ms, batch {:?}", idle, queued);
                }
            }
            progress.retain(|(root, _)| !expired.contains(root));
            match what {
                0..3 if progress.len() < 8 => {
                    let root = executor.tree();
                    progress.push((root, executor.now));
                }
                3..5 => if let Some(index) = which.checked_rem(progress.len()) {
                    prop_assert_eq!(executor.touch(progress[index].0), Outcome::Pending);
                    progress[index].1 = executor.now;
                },
                _ => {}
            }
            prop_assert_eq!(executor.ledger.live(), progress.len());
        }
    }
}
