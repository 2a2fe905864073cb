//! Records that fail, in any number and order: every one comes again until it is done, and the commits reach the end.

use std::{collections::BTreeSet, time::Duration};

use proptest::prelude::*;

use super::bench::{Bench, Out, texts};
use crate::{
    kafka::{
        KafkaSpoutOptions, Start,
        fake::{FakeBroker, tp},
        source::{
            format::{Decoder, Policy},
            retry::RetryPolicy,
        },
    },
    metrics::DeadLetterReason,
    topology::{CommitState, ComponentError, Delivery, Next, Spout as _},
};

fn options(max_pending_records: usize) -> KafkaSpoutOptions {
    let retry = RetryPolicy { max_retries: u32::MAX, ..RetryPolicy::default() };
    KafkaSpoutOptions { retry, max_pending_records, ..KafkaSpoutOptions::default() }
}

/// Storm's spout stood still at its cap (STORM-2343, 2549, 2430) and its commits froze (STORM-2087).
fn whatever_fails(
    lines: usize,
    cap: usize,
    batch: usize,
    order: &[usize],
    fails: &[bool],
) -> Result<(), TestCaseError> {
    let broker = FakeBroker::with_lines(lines);
    let mut bench = Bench::new(&broker, KafkaSpoutOptions { poll_records: batch, ..options(cap) });
    let (mut open, mut done, mut turn) = (Vec::<Out>::new(), BTreeSet::new(), 0);
    while done.len() < lines {
        open.extend(bench.after(Duration::from_secs(10)));
        prop_assert!(open.len() <= cap, "{} in flight", open.len());
        prop_assert!(!open.is_empty(), "it stands still with {} of {lines} done", done.len());
        // A whole window ends before anything is emitted again, the lowest offset last.
        while !open.is_empty() {
            let at = open.len() - 1 - order[turn % order.len()] % open.len();
            let out = open.remove(at);
            if fails[turn % fails.len()] && turn < 20 * lines {
                bench.fail(&out, &ComponentError::new("again"));
            } else {
                prop_assert!(done.insert(out.text.clone()), "{} came again though it was done", out.text);
                bench.ack(&out);
            }
            turn += 1;
        }
    }
    prop_assert_eq!(bench.commit_now(), CommitState::Done);
    prop_assert_eq!(bench.committed(0), Some(i64::try_from(lines).unwrap()));
    Ok(())
}

proptest! {
    #[test]
    fn whatever_fails_in_whatever_order_comes_again_and_the_commits_reach_the_end(
        lines in 1_usize..300,
        cap in 1_usize..50,
        batch in 1_usize..70,
        order in prop::collection::vec(any::<usize>(), 1..50),
        fails in prop::collection::vec(any::<bool>(), 1..50),
    ) {
        whatever_fails(lines, cap, batch, &order, &fails)?;
    }
}

#[test]
fn a_whole_window_that_fails_at_once_with_the_lowest_offset_last_is_worked_through() {
    // Every record fails once; 7 does not divide 100.
    let fails: Vec<_> = (0..200).map(|turn| turn % 14 < 7).collect();
    whatever_fails(100, 7, 7, &[0], &fails).unwrap();
}

#[test]
fn one_percent_that_fails_is_replayed_until_it_is_done() {
    let fails: Vec<_> = (0..100).map(|turn| turn == 37).collect();
    whatever_fails(5000, 100, 64, &[0, 7, 3], &fails).unwrap();
}

#[test]
fn a_second_ack_of_a_record_changes_nothing() {
    let broker = FakeBroker::with_lines(3);
    let mut bench = Bench::new(&broker, options(10));
    let outs = bench.drain();
    for _ in 0..2 {
        bench.ack(&outs[0]);
        bench.ack(&outs[2]);
    }
    assert_eq!((bench.commit_now(), bench.committed(0)), (CommitState::Done, Some(1)));
    bench.ack(&outs[1]);
    assert_eq!((bench.commit_now(), bench.committed(0)), (CommitState::Done, Some(3)));
}

#[test]
fn the_cap_counts_records_and_not_offsets() {
    let broker = FakeBroker::default();
    for i in 0..100 {
        broker.produce(0, Some(i.to_string().as_bytes()));
        (0..1000).for_each(|_| broker.hole(0));
    }
    let mut bench = Bench::new(&broker, KafkaSpoutOptions { max_ahead: 100, ..options(100) });
    assert_eq!(bench.drain().len(), 100);
}

#[test]
fn without_tracking_the_cap_stops_nothing() {
    for delivery in [Delivery::AtMostOnce, Delivery::NoGuarantee] {
        let broker = FakeBroker::with_lines(1000);
        let mut bench = Bench::with(&broker, KafkaSpoutOptions { max_ahead: 10, ..options(10) }, delivery);
        let emitted: usize = (0..20).map(|_| bench.drain().len()).sum();
        assert_eq!(emitted, 1000, "{delivery}");
        let _state = bench.commit_now();
        assert_eq!(bench.committed(0), Some(1000), "{delivery}");
    }
}

#[test]
fn at_the_cap_only_what_has_failed_is_emitted_and_an_ack_makes_room() {
    let broker = FakeBroker::with_lines(20);
    let mut bench = Bench::new(&broker, options(5));
    let outs = bench.drain();
    assert_eq!(outs.len(), 5);
    bench.fail(&outs[0], &ComponentError::new("again"));
    let again = bench.after(Duration::from_secs(1));
    assert_eq!(texts(&again).iter().filter(|text| **text == "line 0").count(), 1);
    let mut open: Vec<_> = outs[1..].iter().cloned().chain(again).collect();
    assert_eq!(bench.drain(), []);
    bench.ack(&open.remove(0));
    assert_eq!(bench.drain().len(), 1);
}

#[test]
fn a_new_partition_is_found_while_the_spout_is_at_its_cap() {
    let broker = FakeBroker::with_lines(20);
    let mut bench = Bench::new(&broker, options(5));
    let outs = bench.drain();
    broker.produce(1, Some(b"other"));
    broker.gives(&[tp(1)]);
    assert_eq!(bench.drain(), []);
    outs.iter().for_each(|out| bench.ack(out));
    assert!(texts(&bench.drain()).contains(&"other"));
}

#[test]
fn a_topic_of_nulls_alone_is_committed_to_its_end() {
    let options = KafkaSpoutOptions { until_end: true, ..options(10) };
    for (empty, dead) in [(Policy::Pass, 0), (Policy::DeadLetter, 500)] {
        let decoder = Decoder { empty, ..Default::default() };
        let broker = FakeBroker::default();
        (0..500).for_each(|_| broker.produce(0, None));
        let mut bench = Bench::new(&broker, KafkaSpoutOptions { decoder, ..options.clone() });
        for _ in 0..100 {
            bench.drain().iter().for_each(|out| bench.ack(out));
        }
        assert_eq!(bench.step().1, Next::Exhausted);
        assert_eq!((bench.commit_now(), bench.committed(0)), (CommitState::Done, Some(500)));
        assert_eq!(bench.dead(DeadLetterReason::Empty), dead);
    }
}

#[test]
fn while_it_is_paused_nothing_is_emitted_and_what_is_acked_is_committed() {
    let broker = FakeBroker::with_lines(3);
    let mut bench = Bench::new(&broker, options(10));
    let outs = bench.drain();
    bench.spout.deactivate();
    broker.produce(0, Some(b"produced while paused"));
    outs.iter().for_each(|out| bench.ack(out));
    for _ in 0..10 {
        let _step = bench.poller.step(bench.now, Duration::ZERO).unwrap();
    }
    assert_eq!((bench.commit_now(), bench.committed(0)), (CommitState::Done, Some(3)));
    bench.spout.activate();
    assert_eq!(texts(&bench.drain()), ["produced while paused"]);
}

#[test]
fn where_to_start_is_about_a_new_group_only() {
    for start in [Start::Earliest, Start::Latest] {
        let broker = FakeBroker::with_lines(3);
        let options = KafkaSpoutOptions { start, ..options(10) };
        let mut bench = Bench::new(&broker, options.clone());
        let outs = bench.drain();
        assert_eq!(outs.len(), if start == Start::Earliest { 3 } else { 0 });
        outs.iter().take(2).for_each(|out| bench.ack(out));
        assert_eq!(bench.commit_now(), CommitState::Done);
        broker.produce(0, Some(b"between two runs"));
        let again = Bench::new(&broker, options).drain();
        let expected: &[&str] =
            if start == Start::Earliest { &["line 2", "between two runs"] } else { &["between two runs"] };
        assert_eq!(texts(&again), expected);
    }
}

#[test]
fn brokers_are_asked_for_nothing_on_the_hot_path() {
    let broker = FakeBroker::with_lines(10_000);
    let mut bench = Bench::new(&broker, options(100));
    let mut polls = 0;
    for _ in 0..1000 {
        let (outs, _) = bench.step();
        bench.now = bench.now + Duration::from_millis(1);
        polls += 1;
        outs.iter().for_each(|out| bench.ack(out));
    }
    // A second of it: where the partition ends is asked for at most every two.
    assert!(polls == 1000 && broker.get().asked <= 1, "{}", broker.get().asked);
}
