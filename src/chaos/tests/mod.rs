//! The simulation as a whole.

mod bugs;

use super::{Bites, RunOptions, plan::Fault, run, shrink, substitutes::Substitutes};

#[test]
fn a_run_in_which_nothing_goes_wrong_delivers_everything_once() {
    for seed in 0..6 {
        let verdict = run(&RunOptions { faults: 0, records: 300, ..RunOptions::new(seed) });
        assert_eq!(verdict.failure, None, "seed {seed}");
        assert_eq!(verdict.duplicates, (0, 600), "seed {seed}");
    }
}

#[test]
fn whatever_goes_wrong_nothing_is_lost() {
    for seed in 0..40 {
        let verdict = run(&RunOptions::new(seed));
        assert_eq!(verdict.failure, None, "seed {seed}: stormglass sim --seed {seed}");
    }
}

/// What was wrong with each of them is in `docs/simulation.md`.
#[test]
fn seeds_that_failed_once_fail_no_more() {
    for seed in [2208, 2360, 5084, 5239, 14226, 23516, 27718, 28020, 29901, 57421, 58847, 61607, 85963, 204577] {
        assert_eq!(run(&RunOptions::new(seed)).failure, None, "stormglass sim --seed {seed}");
    }
}

#[test]
fn processes_that_live_to_the_end_count_their_repeats_themselves() {
    let of = |seed| run(&RunOptions { stores: Some(true), ..RunOptions::new(seed) });
    let counted: Vec<_> = (0..100).filter_map(|seed| of(seed).counted).filter(|repeats| *repeats > 0).collect();
    assert!(counted.len() >= 2, "{counted:?}");
}

#[test]
fn every_kind_of_fault_is_noticed() {
    let mut bites = Bites::default();
    (0..200).for_each(|seed| bites.add(&run(&RunOptions::new(seed)).bites));
    let faults = [
        "Kill",
        "Stop",
        "Pause",
        "Replace",
        "Hang",
        "Bolts",
        "Cut Up",
        "Cut Down",
        "PauseBroker",
        "CrashBroker",
        "CrashBroker, unflushed",
        "MoveCoordinator Groups",
        "MoveCoordinator Transactions",
        "TimeOutTransactions",
        "Compact",
        "DeleteRecords",
        "DeleteRecords, unread",
        "MakeAnew",
        "Expel",
        "Grow",
    ];
    let mishaps = ["Refuse", "Deny", "LoseRequest", "LoseResponse", "Delay", "Double", "Close"];
    let apis = [
        "Produce",
        "Fetch",
        "OffsetCommit",
        "OffsetFetch",
        "JoinGroup",
        "SyncGroup",
        "Heartbeat",
        "FindCoordinator",
        "Metadata",
        "ListOffsets",
        "InitProducerId",
        "LeaveGroup",
        "AddPartitionsToTxn",
        "EndTxn",
        "CreateTopics",
        "DescribeConfigs",
    ];
    for what in faults.into_iter().chain(mishaps).chain(apis) {
        assert!(bites.times(what) > 0, "{what} was never noticed: {bites:?}");
    }
}

#[test]
fn the_same_seed_is_the_same_run_byte_for_byte() {
    for (seed, stores) in [(3, false), (5, true)] {
        let options = RunOptions { trace: true, stores: Some(stores), ..RunOptions::new(seed) };
        let (once, again) = (run(&options), run(&options));
        assert!(once.log.lines().count() > 100, "{}", once.log.lines().count());
        assert!(once.log == again.log, "the logs of seed {seed} differ");
        assert_eq!(once.plan, again.plan);
        let untold = RunOptions { trace: false, ..options };
        assert_eq!(run(&untold).fingerprint, run(&untold).fingerprint);
    }
    assert_ne!(run(&RunOptions::new(1)).fingerprint, run(&RunOptions::new(2)).fingerprint);
}

#[test]
fn a_plan_is_shrunk_to_what_is_needed() {
    // A changelog without fencing fails only where a process is ousted or killed.
    let substitutes = Substitutes { unfenced: true, ..Substitutes::default() };
    let failing = (0..200).find_map(|seed| {
        let options = RunOptions { substitutes: substitutes.clone(), stores: Some(true), ..RunOptions::new(seed) };
        let verdict = run(&options);
        verdict.failure.is_some().then_some((options, verdict))
    });
    let (options, verdict) = failing.expect("the bug is found");
    let long = verdict.plan.len();
    let short = shrink(&options, verdict);
    assert!(short.failure.is_some() && short.plan.len() < long / 2, "{:?}", short.plan);
    let ends = |fault: &Fault| matches!(fault, Fault::Kill { .. } | Fault::Replace { .. } | Fault::Pause { .. });
    assert!(short.plan.iter().any(|planned| ends(&planned.fault)), "{:?}", short.plan);
}
