//! A topology with stores: where it begins, whether it may, and partitions that come and go.

use std::time::Duration;

use super::{
    bench::{Bench, texts},
    rebalance::broker,
};
use crate::{
    kafka::{
        KafkaSpoutOptions,
        client::{CommitOutcome, Committed, NextOffset, SourceEvent},
        fake::{FakeBroker, tp},
        source::{Start, commit_metadata::CommitMetadata},
    },
    state::{CommittedStart, OffsetRanges, SourcePosition, SourceStart},
    topology::{CommitNumber, CommitState, ComponentError, Spout as _},
};

/// A spout of a topology with stores that knows where it begins.
fn begun(broker: &FakeBroker, options: KafkaSpoutOptions) -> Bench {
    let mut bench = Bench::new(broker, KafkaSpoutOptions { keyed: true, ..options });
    while bench.spout.begins_at(bench.now).unwrap().is_none() {
        let _step = bench.poller.step(bench.now, Duration::ZERO).unwrap();
    }
    bench
}

/// The answer to whether it may go on, or why not.
fn confirmed(bench: &mut Bench) -> Result<bool, ComponentError> {
    for _ in 0..5 {
        if bench.spout.confirms(bench.now)? {
            return Ok(true);
        }
        let _step = bench.poller.step(bench.now, Duration::ZERO)?;
    }
    Ok(false)
}

#[test]
fn what_is_committed_is_known_before_anything_is_emitted() {
    let broker = FakeBroker::with_lines(5);
    broker.produce(1, Some(b"other"));
    let mut bench = Bench::new(&broker, KafkaSpoutOptions::default());
    assert_eq!(bench.spout.begins_at(bench.now).unwrap(), None);
    let outs = bench.drain();
    [0, 2].iter().for_each(|at| bench.ack(&outs[*at]));
    assert_eq!(bench.commit_now(), CommitState::Done);
    broker.get().committed.remove(&tp(1));

    let mut bench = Bench::new(&broker, KafkaSpoutOptions::default());
    let mut starts = None;
    for _ in 0..3 {
        let _step = bench.poller.step(bench.now, Duration::ZERO).unwrap();
        starts = bench.spout.begins_at(bench.now).unwrap();
    }
    let mut done = OffsetRanges::new();
    done.push(2, 3);
    let committed = Some(CommittedStart { next: 1, done: done.clone(), commit: Some(1) });
    let start =
        |partition, committed| SourceStart { source: "lines".into(), topic: "lines".into(), partition, committed };
    assert_eq!(starts, Some(vec![start(0, committed), start(1, None)]));

    let outs = bench.drain();
    bench.ack(&outs[0]);
    bench.freeze();
    let position = |partition, next, done: &OffsetRanges, started, committed| SourcePosition {
        source: "lines".into(),
        topic: "lines".into(),
        partition,
        next,
        done: done.clone(),
        started,
        committed,
    };
    let frozen = [position(0, 3, &OffsetRanges::new(), 5, Some(1)), position(1, 0, &OffsetRanges::new(), 1, None)];
    assert_eq!(bench.spout.frozen().unwrap(), frozen);
}

#[test]
fn a_topology_with_stores_starts_again_when_a_partition_leaves() {
    for (event, what) in [
        (SourceEvent::Revoked(vec![tp(0)]), "lines-0 is asked back"),
        (SourceEvent::Lost(vec![tp(0)]), "lines-0 was lost"),
    ] {
        let broker = broker(3);
        let mut bench = Bench::new(&broker, KafkaSpoutOptions { keyed: true, ..KafkaSpoutOptions::default() });
        bench.drain();
        broker.says(event);
        let error = (0..3).find_map(|_| bench.try_step().err()).unwrap();
        assert!(error.is_retriable() && error.to_string().contains(what), "{error}");
    }
}

#[test]
fn no_flush_forgets_a_partition_that_was_lost() {
    let broker = broker(3);
    let mut bench = begun(&broker, KafkaSpoutOptions::default());
    for out in bench.drain() {
        bench.ack(&out);
    }
    bench.freeze();
    assert_eq!(bench.spout.frozen().unwrap().len(), 2);
    // While a drain has the spout emit nothing, only the next commit hears of it.
    broker.says(SourceEvent::Lost(vec![tp(0)]));
    let _step = bench.poller.step(bench.now, Duration::ZERO).unwrap();
    bench.freeze();
    let error = bench.spout.frozen().unwrap_err();
    assert!(error.is_retriable() && error.to_string().contains("lines-0 was lost"), "{error}");
}

#[test]
fn a_topology_with_stores_commits_again_what_it_found_before_it_emits() {
    let broker = broker(5);
    let text = "stormglass:1:7:4:1.oBBHA".to_owned();
    broker.get().committed.insert(tp(0), Committed { next: NextOffset(2), metadata: text.clone() });
    let mut bench = begun(&broker, KafkaSpoutOptions::default());
    assert_eq!(broker.get().commits, []);
    assert!(confirmed(&mut bench).unwrap());
    assert_eq!(broker.get().commits, [(tp(0), 2), (tp(1), 0)]);
    assert_eq!(broker.get().committed[&tp(0)].metadata, text, "what stood beside it stays");
    let began = CommitMetadata::decode(&broker.get().committed[&tp(1)].metadata).unwrap();
    assert_eq!((began.commit, began.started), (CommitNumber(0), NextOffset(0)));
    // The first flush knows both.
    bench.freeze();
    let known: Vec<_> = bench.spout.frozen().unwrap().iter().map(|position| position.committed).collect();
    assert_eq!(known, [Some(2), Some(0)]);
}

#[test]
fn a_first_start_at_the_end_commits_where_that_was() {
    let broker = broker(5);
    let mut bench = begun(&broker, KafkaSpoutOptions { start: Start::Latest, ..KafkaSpoutOptions::default() });
    broker.produce(0, Some(b"came while the stores were restored"));
    assert!(confirmed(&mut bench).unwrap());
    assert_eq!(broker.get().commits, [(tp(0), 5), (tp(1), 1)]);
    assert_eq!(texts(&bench.drain()), ["came while the stores were restored"]);
}

#[test]
fn a_process_whose_place_was_taken_hears_it_before_it_emits() {
    for (outcome, retriable) in
        [(CommitOutcome::Rebalanced, true), (CommitOutcome::Fenced("another took over".to_owned()), false)]
    {
        let broker = broker(5);
        let mut bench = begun(&broker, KafkaSpoutOptions::default());
        broker.get().outcomes.push_back(outcome);
        let error = confirmed(&mut bench).unwrap_err();
        assert_eq!(error.is_retriable(), retriable, "{error}");
    }
}

#[test]
fn a_commit_that_finds_no_broker_is_asked_for_again_until_it_is_known() {
    let broker = broker(5);
    let mut bench = begun(&broker, KafkaSpoutOptions::default());
    broker.get().outcomes.push_back(CommitOutcome::Retriable("no broker".to_owned()));
    assert!(!confirmed(&mut bench).unwrap());
    bench.now = bench.now + Duration::from_millis(200);
    assert!(confirmed(&mut bench).unwrap());
}

#[test]
fn what_was_found_is_committed_without_its_text_where_that_is_too_long_by_now() {
    let broker = broker(5);
    let found = Committed { next: NextOffset(2), metadata: "stormglass:1:7:4:1.oBBHA".to_owned() };
    broker.get().committed.insert(tp(0), found);
    broker.get().max_metadata = Some(20);
    let mut bench = begun(&broker, KafkaSpoutOptions::default());
    assert!(confirmed(&mut bench).unwrap());
    assert_eq!(broker.get().committed[&tp(0)], Committed { next: NextOffset(2), metadata: String::new() });
}

#[test]
fn a_topology_with_stores_starts_again_when_a_partition_comes_after_they_were_restored() {
    let broker = broker(3);
    broker.get().shared = true;
    let mut bench = Bench::new(&broker, KafkaSpoutOptions { keyed: true, ..KafkaSpoutOptions::default() });
    let mut starts = || {
        let _step = bench.poller.step(bench.now, Duration::ZERO).unwrap();
        bench.spout.begins_at(bench.now).map(|starts| starts.map(|starts| starts.len()))
    };
    // Without a partition there is nothing to restore to.
    broker.gives(&[]);
    assert!((0..3).all(|_| starts().unwrap().is_none()));
    broker.gives(&[tp(0)]);
    assert_eq!((0..3).find_map(|_| starts().unwrap()), Some(1));
    broker.gives(&[tp(1)]);
    let error = (0..3).find_map(|_| bench.try_step().err()).unwrap();
    assert!(error.is_retriable() && error.to_string().contains("lines-1 came when"), "{error}");
}
