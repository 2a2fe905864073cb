//! What the spout emits, holds, repeats, gives up and commits.

use std::time::Duration;

use super::bench::{Bench, texts};
use crate::{
    kafka::{
        KafkaSpoutOptions, OutOfRange,
        client::{CommitOutcome, Committed, NextOffset, SourceEvent},
        fake::{FakeBroker, tp},
        source::format::{Decoder, Format},
    },
    metrics::{DeadLetterReason, ReplayReason},
    topology::{CommitState, ComponentError, Delivery, Next, Spout as _},
};

fn retriable() -> ComponentError {
    ComponentError::new("not now")
}

#[test]
fn failed_tuple_holds_the_offset_and_comes_again_from_memory() {
    let broker = FakeBroker::with_lines(5);
    let mut bench = Bench::new(&broker, KafkaSpoutOptions::default());
    let outs = bench.drain();
    assert_eq!(texts(&outs), ["line 0", "line 1", "line 2", "line 3", "line 4"]);
    outs.iter().filter(|out| out.text != "line 2").for_each(|out| bench.ack(out));
    bench.fail(&outs[2], &retriable());
    assert_eq!(bench.commit_now(), CommitState::Done);
    assert_eq!(bench.committed(0), Some(2));
    // The record is gone from the broker: the retry comes from memory.
    broker.get().topics.clear();
    assert_eq!(bench.drain(), []);
    let again = bench.after(Duration::from_secs(1));
    assert_eq!(texts(&again), ["line 2"]);
    assert_eq!(again[0].lineage, outs[2].lineage);
    assert_eq!((bench.replayed(), bench.duplicates(), broker.get().recycled), (1, 2, 0));
    bench.ack(&again[0]);
    assert_eq!(bench.commit_now(), CommitState::Done);
    assert_eq!(bench.committed(0), Some(5));
    bench.drain();
    assert_eq!(broker.get().recycled, 1);
}

#[test]
fn holes_and_trailing_control_records_are_crossed() {
    let broker = FakeBroker::with_lines(1);
    broker.hole(0);
    broker.hole(0);
    broker.produce(0, Some(b"after"));
    broker.hole(0);
    let mut bench = Bench::new(&broker, KafkaSpoutOptions::default());
    let outs = bench.drain();
    assert_eq!(outs.len(), 2);
    outs.iter().for_each(|out| bench.ack(out));
    assert_eq!(bench.commit_now(), CommitState::Done);
    assert_eq!(bench.committed(0), Some(5));
    // Nothing new: nothing is sent.
    assert_eq!(bench.commit_now(), CommitState::Done);
    assert_eq!(broker.get().commits.len(), 1);
}

#[test]
fn k_retries_then_the_dead_letter_holds_the_offset_until_it_is_stored() {
    let broker = FakeBroker::with_lines(1);
    let mut bench = Bench::new(&broker, KafkaSpoutOptions::default());
    bench.letters.get().hold = true;
    let mut deliveries = 0;
    loop {
        let outs = bench.after(Duration::from_secs(20));
        let [out] = &outs[..] else { break };
        deliveries += 1;
        bench.fail(out, &retriable());
    }
    assert_eq!(deliveries, 4);
    // Effects of the attempts that were repeated, and none of the last.
    assert_eq!(bench.duplicates(), 6);
    let _state = bench.commit_now();
    assert_eq!(bench.committed(0), Some(0));
    bench.letters.get().hold = false;
    bench.drain();
    let _state = bench.commit_now();
    assert_eq!(bench.committed(0), Some(1));
    let letter = bench.letters.get().sent[0].clone();
    assert_eq!(letter.value.as_deref(), Some("line 0"));
    let headers = [
        "source-topic",
        "source-partition",
        "source-offset",
        "source-timestamp",
        "error",
        "component",
        "attempts",
        "reason",
    ];
    let values = headers.map(|name| letter.header(&format!("stormglass-{name}")).unwrap_or("-").to_owned());
    assert_eq!(values, ["lines", "0", "0", "7", "not now", "split", "4", "retries_exhausted"]);
    assert_eq!(bench.dead(DeadLetterReason::RetriesExhausted), 1);
}

#[test]
fn a_permanent_error_goes_to_the_dead_letter_topic_at_once() {
    let broker = FakeBroker::with_lines(1);
    let mut bench = Bench::new(&broker, KafkaSpoutOptions::default());
    let outs = bench.drain();
    bench.fail(&outs[0], &ComponentError::permanent("never"));
    assert_eq!(bench.after(Duration::from_secs(100)), []);
    assert_eq!((bench.dead(DeadLetterReason::Permanent), bench.duplicates()), (1, 0));
}

#[test]
fn null_empty_garbage_and_900_kb_have_their_outcomes() {
    let broker = FakeBroker::default();
    let long = "x".repeat(900 * 1024);
    for value in [None, Some(&b""[..]), Some(b"  "), Some(b"\xff\xfe"), Some(long.as_bytes())] {
        broker.produce(0, value);
    }
    let mut bench = Bench::new(&broker, KafkaSpoutOptions::default());
    let outs = bench.drain();
    assert_eq!(texts(&outs), ["", "  ", &long]);
    outs.iter().for_each(|out| bench.ack(out));
    bench.drain();
    let _state = bench.commit_now();
    assert_eq!((bench.committed(0), bench.dead(DeadLetterReason::NotUtf8)), (Some(5), 1));
}

#[test]
fn a_topic_of_nothing_but_garbage_is_worked_through_in_bounded_memory() {
    let broker = FakeBroker::with_lines(5000);
    let format = Format::Json { pointer: None };
    let options =
        KafkaSpoutOptions { decoder: Decoder { format, ..Decoder::default() }, ..KafkaSpoutOptions::default() };
    let mut bench = Bench::new(&broker, options);
    for _ in 0..200 {
        let _stepped = bench.step();
    }
    let _state = bench.commit_now();
    assert_eq!((bench.committed(0), bench.dead(DeadLetterReason::MalformedJson)), (Some(5000), 5000));
}

#[test]
fn a_commit_that_fails_for_now_is_sent_again_and_a_fenced_one_ends_the_generation() {
    let broker = FakeBroker::with_lines(2);
    let mut bench = Bench::new(&broker, KafkaSpoutOptions::default());
    let outs = bench.drain();
    bench.ack(&outs[0]);
    broker.get().outcomes.push_back(CommitOutcome::Retriable("no broker".into()));
    assert_eq!(bench.commit_now(), CommitState::Pending);
    // What is done meanwhile is not in it.
    bench.ack(&outs[1]);
    bench.after(Duration::from_secs(1));
    assert_eq!(bench.commit_state(), CommitState::Done);
    assert_eq!(broker.get().commits, [(tp(0), 1)]);
    broker.get().outcomes.push_back(CommitOutcome::Fenced("another process took over".into()));
    let frozen = bench.freeze();
    bench.spout.commit(frozen).unwrap();
    let error = (0..3).find_map(|_| bench.try_step().err()).unwrap();
    assert_eq!(error.to_string(), "another process took over");
}

#[test]
fn at_most_once_never_emits_before_its_commit_is_acknowledged() {
    let broker = FakeBroker::with_lines(10);
    broker.get().hold_commits = true;
    let mut bench = Bench::with(&broker, KafkaSpoutOptions::default(), Delivery::AtMostOnce);
    assert_eq!(bench.drain(), []);
    broker.get().hold_commits = false;
    let outs = bench.drain();
    assert_eq!((outs.len(), bench.committed(0)), (10, Some(10)));
    broker.produce(0, Some(b"more"));
    broker.get().outcomes.push_back(CommitOutcome::Retriable("no broker".into()));
    assert_eq!(bench.drain(), []);
    assert_eq!(bench.committed(0), Some(10));
    assert_eq!(texts(&bench.after(Duration::from_secs(1))), ["more"]);
    assert_eq!(bench.committed(0), Some(11));
}

#[test]
fn no_guarantee_counts_a_record_as_done_when_it_is_emitted() {
    let broker = FakeBroker::with_lines(10);
    let mut bench = Bench::with(&broker, KafkaSpoutOptions::default(), Delivery::NoGuarantee);
    assert_eq!(bench.drain().len(), 10);
    assert_eq!(bench.commit_now(), CommitState::Done);
    assert_eq!(bench.committed(0), Some(10));
}

#[test]
fn until_end_stops_at_the_ends_found_at_the_start() {
    for delivery in Delivery::ALL {
        let broker = FakeBroker::with_lines(3);
        broker.hole(0);
        broker.produce(1, Some(b"other"));
        broker.hole(1);
        let options = KafkaSpoutOptions { until_end: true, ..KafkaSpoutOptions::default() };
        let mut bench = Bench::with(&broker, options, delivery);
        let _step = bench.poller.step(bench.now, Duration::ZERO).unwrap();
        broker.produce(0, Some(b"too late"));
        let outs = bench.drain();
        assert_eq!(outs.len(), 4, "{delivery}");
        if delivery.is_tracked() {
            assert_ne!(bench.step().1, Next::Exhausted);
            outs.iter().for_each(|out| bench.ack(out));
        }
        assert_eq!(bench.step().1, Next::Exhausted, "{delivery}");
        let _state = bench.commit_now();
        assert_eq!((bench.committed(0), bench.committed(1)), (Some(4), Some(2)), "{delivery}");
    }
}

#[test]
fn what_an_earlier_generation_of_the_process_has_emitted_counts_as_replayed() {
    let broker = FakeBroker::with_lines(3);
    let options = KafkaSpoutOptions::default();
    let mut lost = Bench::new(&broker, options.clone());
    assert_eq!(lost.drain().len(), 3);
    drop(lost);
    broker.produce(0, Some(b"new"));
    let mut bench = Bench::new(&broker, options);
    assert_eq!(bench.drain().len(), 4);
    assert_eq!(bench.metrics.replayed(ReplayReason::Restart).get(), 3);
    let mut other_process = Bench::new(&broker, KafkaSpoutOptions::default());
    assert_eq!(other_process.drain().len(), 4);
    assert_eq!(other_process.replayed(), 0, "nothing is committed that would say so");
}

#[test]
fn an_end_is_reached_when_the_other_members_have_committed_theirs() {
    let broker = FakeBroker::with_lines(2);
    (0..3).for_each(|_| broker.produce(1, Some(b"of a member that has died")));
    broker.get().shared = true;
    let options = KafkaSpoutOptions { until_end: true, ..KafkaSpoutOptions::default() };
    let mut bench = Bench::new(&broker, options);
    broker.gives(&[tp(0)]);
    let outs = bench.drain();
    assert_eq!(outs.len(), 2);
    outs.iter().for_each(|out| bench.ack(out));
    assert_eq!(bench.commit_now(), CommitState::Done);
    bench.after(Duration::from_secs(60));
    assert_ne!(bench.step().1, Next::Exhausted, "partition 1 is not read by anybody");
    let committed = |next| Committed { next: NextOffset(next), metadata: String::new() };
    broker.get().committed.insert(tp(1), committed(2));
    bench.after(Duration::from_secs(2));
    assert_ne!(bench.step().1, Next::Exhausted);
    // Nobody else reads it any more, and it comes here.
    broker.gives(&[tp(1)]);
    let outs = bench.drain();
    assert_ne!(bench.step().1, Next::Exhausted);
    outs.iter().for_each(|out| bench.ack(out));
    assert_eq!(bench.step().1, Next::Exhausted);
    broker.says(SourceEvent::Revoked(vec![tp(1)]));
    assert_eq!(bench.commit_now(), CommitState::Done);
    bench.after(Duration::from_secs(2));
    assert_eq!(bench.step().1, Next::Exhausted, "whoever has it now finds it committed to its end");
}

#[test]
fn a_stuck_partition_is_paused_and_the_others_go_on() {
    let broker = FakeBroker::with_lines(200);
    let options = KafkaSpoutOptions { max_ahead: 50, poll_records: 10, ..KafkaSpoutOptions::default() };
    let mut bench = Bench::new(&broker, options);
    broker.produce(1, Some(b"other 0"));
    let mut stuck = None;
    let (mut of_stuck, mut others) = (0, 0);
    for round in 0..100 {
        broker.produce(1, Some(format!("other {round}").as_bytes()));
        for out in bench.drain() {
            if out.text == "line 0" {
                stuck = Some(out);
                continue;
            }
            if out.text.starts_with("other") {
                others += 1
            } else {
                of_stuck += 1
            }
            bench.ack(&out);
        }
    }
    assert_eq!((of_stuck, others), (49, 101));
    assert_eq!(broker.get().paused, [tp(0)]);
    bench.ack(&stuck.unwrap());
    let mut rest = 0;
    for _ in 0..50 {
        for out in bench.drain() {
            rest += 1;
            bench.ack(&out);
        }
    }
    assert_eq!(rest, 150);
    let _state = bench.commit_now();
    assert_eq!((bench.committed(0), bench.committed(1)), (Some(200), Some(101)));
}

#[test]
fn a_full_ring_stops_the_records_and_not_the_polling() {
    let broker = FakeBroker::with_lines(100_000);
    let options = KafkaSpoutOptions { poll_records: 100, ..KafkaSpoutOptions::default() };
    let mut bench = Bench::new(&broker, options);
    for _ in 0..500 {
        let _step = bench.poller.step(bench.now, Duration::ZERO).unwrap();
    }
    assert!(broker.get().polls_without_records > 100);
    let mut all = 0;
    for _ in 0..3000 {
        let (outs, _) = bench.step();
        all += outs.len();
        outs.iter().for_each(|out| bench.ack(out));
    }
    assert_eq!(all, 100_000);
}

#[test]
fn answers_and_lost_partitions_do_not_wait_behind_records_that_nobody_wants() {
    let broker = FakeBroker::with_lines(20_000);
    let options = KafkaSpoutOptions { max_pending_records: 10, ..KafkaSpoutOptions::default() };
    let mut bench = Bench::new(&broker, options);
    let outs = bench.drain();
    assert_eq!(outs.len(), 10);
    bench.ack(&outs[0]);
    assert_eq!(bench.commit_now(), CommitState::Done);
    assert_eq!(bench.committed(0), Some(1));
    broker.says(SourceEvent::Lost(vec![tp(0)]));
    bench.drain();
    assert_eq!(broker.let_go(), [tp(0)]);
}

#[test]
fn a_partition_that_hoards_memory_behind_an_open_record_is_paused_alone() {
    let broker = FakeBroker::with_lines(0);
    let large = "x".repeat(10_000);
    (0..40).for_each(|_| broker.produce(0, Some(large.as_bytes())));
    broker.produce(1, Some(b"first"));
    let options = KafkaSpoutOptions { max_pending_bytes: 1 << 20, poll_records: 1, ..KafkaSpoutOptions::default() };
    let mut bench = Bench::new(&broker, options);
    let held: Vec<_> =
        (0..5).flat_map(|_| bench.after(Duration::from_secs(1))).filter(|out| out.text == large).collect();
    (0..100).for_each(|_| broker.produce(0, Some(large.as_bytes())));
    for round in 0..5 {
        let more: Vec<_> = bench.after(Duration::from_secs(1));
        assert!(round < 2 || more.iter().all(|out| out.text != large), "it goes on");
    }
    assert_eq!(broker.get().paused, [tp(0)]);
    broker.produce(1, Some(b"second"));
    assert_eq!(texts(&bench.after(Duration::from_secs(1))), ["second"]);
    held.iter().for_each(|out| bench.ack(out));
}

#[test]
fn every_part_of_a_record_can_be_a_field() {
    use crate::kafka::RecordField::{Key, Offset, Partition, Timestamp, Topic, Value};
    let broker = FakeBroker::with_lines(1);
    let options = KafkaSpoutOptions {
        fields: vec![Topic, Partition, Offset, Key, Timestamp, Value],
        ..KafkaSpoutOptions::default()
    };
    let mut bench = Bench::new(&broker, options);
    assert_eq!(texts(&bench.drain()), ["lines|0|0|null|7|line 0"]);
}

#[test]
fn a_restart_replays_only_what_was_in_flight() {
    let broker = FakeBroker::with_lines(10);
    let mut bench = Bench::new(&broker, KafkaSpoutOptions::default());
    let outs = bench.drain();
    [3, 4, 7].iter().for_each(|at| bench.ack(&outs[*at]));
    assert_eq!(bench.commit_now(), CommitState::Done);
    assert_eq!(bench.committed(0), Some(0));
    bench.ack(&outs[0]);
    // Only what is done above the offset has changed since: the offset is not needed for a commit to be due.
    bench.ack(&outs[8]);
    assert_eq!(bench.commit_now(), CommitState::Done);
    assert_eq!((bench.committed(0), broker.get().commits.len()), (Some(1), 2));
    bench.ack(&outs[9]);
    assert_eq!(bench.commit_now(), CommitState::Done);
    assert_eq!((bench.committed(0), broker.get().commits.len()), (Some(1), 3));

    let mut bench = Bench::new(&broker, KafkaSpoutOptions::default());
    let again = bench.drain();
    assert_eq!(texts(&again), ["line 1", "line 2", "line 5", "line 6"]);
    assert_eq!(bench.replayed(), 4);
    // Nothing is new.
    assert_eq!(bench.commit_now(), CommitState::Done);
    assert_eq!(broker.get().commits.len(), 3);
    again.iter().for_each(|out| bench.ack(out));
    assert_eq!(bench.commit_now(), CommitState::Done);
    assert_eq!(bench.committed(0), Some(10));
}

#[test]
fn metadata_that_the_broker_finds_too_large_is_cut_and_the_same_offsets_are_committed() {
    let broker = FakeBroker::with_lines(1000);
    broker.get().max_metadata = Some(100);
    let mut bench = Bench::new(&broker, KafkaSpoutOptions::default());
    let outs = bench.drain();
    outs.iter().skip(1).step_by(2).for_each(|out| bench.ack(out));
    let number = bench.freeze();
    let mut state = bench.commit(number);
    bench.ack(&outs[0]);
    for _ in 0..10 {
        state = if state == CommitState::Pending { bench.commit_state() } else { state };
    }
    assert_eq!((state, bench.committed(0)), (CommitState::Done, Some(0)));
    let metadata = broker.get().committed[&tp(0)].metadata.clone();
    assert!(metadata.len() <= 100, "{metadata}");
    let mut bench = Bench::new(&broker, KafkaSpoutOptions::default());
    let again = bench.drain();
    assert!(again.len() > 500 && again.len() < 1000, "{}", again.len());

    // None at all is taken: the offset is committed all the same.
    broker.get().max_metadata = Some(0);
    bench.ack(&again[0]);
    let number = bench.freeze();
    let mut state = bench.commit(number);
    for _ in 0..10 {
        state = if state == CommitState::Pending { bench.commit_state() } else { state };
    }
    assert_eq!((state, bench.committed(0)), (CommitState::Done, Some(2)));
    assert_eq!(broker.get().committed[&tp(0)].metadata, "");
}

#[test]
fn metadata_of_another_tool_is_no_reason_to_stop() {
    let broker = FakeBroker::with_lines(4);
    for text in ["", "NO_METADATA", "{\"topologyId\":\"t\"}", "stormglass:9:?"] {
        let committed = Committed { next: NextOffset(2), metadata: text.to_owned() };
        broker.get().committed.insert(tp(0), committed);
        let mut bench = Bench::new(&broker, KafkaSpoutOptions::default());
        assert_eq!(texts(&bench.drain()), ["line 2", "line 3"]);
    }
}

#[test]
fn at_most_once_does_not_repeat_what_at_least_once_had_done() {
    let broker = FakeBroker::with_lines(10);
    let mut bench = Bench::new(&broker, KafkaSpoutOptions::default());
    let outs = bench.drain();
    [3, 4, 7].iter().for_each(|at| bench.ack(&outs[*at]));
    assert_eq!(bench.commit_now(), CommitState::Done);
    let mut bench = Bench::with(&broker, KafkaSpoutOptions::default(), Delivery::AtMostOnce);
    assert_eq!(texts(&bench.drain()), ["line 0", "line 1", "line 2", "line 5", "line 6", "line 8", "line 9"]);
    assert_eq!((bench.commit_now(), bench.committed(0)), (CommitState::Done, Some(10)));
}

/// Retention has deleted what lies below `low`.
fn delete_below(broker: &FakeBroker, low: i64) {
    let mut broker = broker.get();
    let log = broker.topics.get_mut(&tp(0)).unwrap();
    log.low = low;
    log.records.retain(|record| record.offset >= low);
}

/// The topic is deleted, and made anew with so many records.
fn make_anew(broker: &FakeBroker, records: usize) {
    broker.get().topics.remove(&tp(0));
    (0..records).for_each(|i| broker.produce(0, Some(format!("new {i}").as_bytes())));
}

fn committed(broker: &FakeBroker, next: i64) {
    broker.get().committed.insert(tp(0), Committed { next: NextOffset(next), metadata: String::new() });
}

#[test]
fn records_that_were_deleted_before_they_were_read_end_the_run_with_a_sentence() {
    let broker = FakeBroker::with_lines(10);
    committed(&broker, 3);
    delete_below(&broker, 7);
    let mut bench = Bench::new(&broker, KafkaSpoutOptions::default());
    let error = (0..5).find_map(|_| bench.try_step().err()).unwrap();
    assert!(
        error.is_refusal() && error.to_string().contains("4 offsets were deleted before they were read"),
        "{error}"
    );
}

#[test]
fn records_that_were_deleted_before_they_were_read_can_be_skipped_and_are_counted() {
    for keyed in [false, true] {
        let broker = FakeBroker::with_lines(10);
        committed(&broker, 3);
        delete_below(&broker, 7);
        let options = KafkaSpoutOptions { out_of_range: OutOfRange::Skip, keyed, ..KafkaSpoutOptions::default() };
        let mut bench = Bench::new(&broker, options);
        let outs = bench.drain();
        assert_eq!(texts(&outs), ["line 7", "line 8", "line 9"]);
        outs.iter().for_each(|out| bench.ack(out));
        assert_eq!((bench.commit_now(), bench.committed(0)), (CommitState::Done, Some(10)));
        assert_eq!(bench.metrics.records_lost().get(), 4);
    }
}

#[test]
fn a_topic_that_was_made_anew_is_read_from_its_beginning_if_that_is_wanted() {
    let broker = FakeBroker::with_lines(10);
    let options = KafkaSpoutOptions { out_of_range: OutOfRange::Skip, ..KafkaSpoutOptions::default() };
    let mut bench = Bench::new(&broker, options);
    let old = bench.drain();
    old.iter().take(9).for_each(|out| bench.ack(out));
    assert_eq!((bench.commit_now(), bench.committed(0)), (CommitState::Done, Some(9)));
    make_anew(&broker, 3);
    let outs = bench.drain();
    assert_eq!(texts(&outs), ["new 0", "new 1", "new 2"]);
    // An ack of the old topic's record does not meet the new one.
    bench.ack(&old[9]);
    assert_eq!(bench.metrics.late_acks().get(), 1);
    bench.ack(&outs[0]);
    assert_eq!((bench.commit_now(), bench.committed(0)), (CommitState::Done, Some(1)));
    outs[1..].iter().for_each(|out| bench.ack(out));
    assert_eq!((bench.commit_now(), bench.committed(0)), (CommitState::Done, Some(3)));
}

#[test]
fn reading_to_the_end_of_a_topic_that_was_made_anew_reads_all_of_it() {
    let broker = FakeBroker::with_lines(3);
    committed(&broker, 500);
    let options = KafkaSpoutOptions { out_of_range: OutOfRange::Skip, until_end: true, ..KafkaSpoutOptions::default() };
    let mut bench = Bench::new(&broker, options);
    let outs = bench.drain();
    assert_eq!(texts(&outs), ["line 0", "line 1", "line 2"]);
    assert_ne!(bench.step().1, Next::Exhausted);
    outs.iter().for_each(|out| bench.ack(out));
    assert_eq!(bench.step().1, Next::Exhausted);
    assert_eq!((bench.commit_now(), bench.committed(0)), (CommitState::Done, Some(3)));
}

#[test]
fn a_topic_that_was_made_anew_is_never_mixed_with_the_state_of_the_old_one() {
    for (policy, keyed) in [(OutOfRange::Fail, false), (OutOfRange::Skip, true)] {
        let broker = FakeBroker::with_lines(10);
        let options = KafkaSpoutOptions { out_of_range: policy, keyed, ..KafkaSpoutOptions::default() };
        let mut bench = Bench::new(&broker, options);
        bench.drain();
        make_anew(&broker, 3);
        let error = (0..5).find_map(|_| bench.try_step().err()).unwrap();
        assert!(error.is_refusal() && error.to_string().contains("made anew"), "{error}");
    }
}
