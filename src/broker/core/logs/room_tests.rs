//! What partitions remember of producers has a bound, and who is in a transaction does not notice it.

use kafka_protocol::{
    error::ResponseError,
    messages::{CreatePartitionsRequest, DeleteTopicsRequest, create_partitions_request::CreatePartitionsTopic},
};
use proptest::prelude::*;

use super::{
    LogOptions, Marker, Partition,
    bench::{Bench, Sample},
    producers::Producers,
    room::Remembered,
};

const OUT_OF_ORDER: i16 = ResponseError::OutOfOrderSequenceNumber.code();
const FULL: i16 = ResponseError::KafkaStorageError.code();

/// With room for so many producers in one partition.
fn bench(producers: usize) -> Bench {
    let options = LogOptions { max_producer_bytes: Producers::size(producers), ..LogOptions::default() };
    Bench::with(options, &[])
}

fn data(producer: i64, sequence: i32) -> Sample {
    Sample::values(&["x"]).by(producer, 0, sequence)
}

fn partitions(bench: &Bench) -> impl Iterator<Item = &Partition> {
    bench.logs.topics().flat_map(|(_, topic)| &topic.partitions)
}

/// How many producers each partition knows.
fn known(bench: &Bench) -> Vec<usize> {
    partitions(bench).map(|partition| partition.producers.count().all).collect()
}

/// What is remembered in all, by asking every partition.
fn remembered(bench: &Bench) -> Remembered {
    let mut remembered = Remembered::default();
    for (_, topic) in bench.logs.topics() {
        for (index, partition) in topic.partitions.iter().enumerate() {
            remembered.note((topic.id, index), Default::default(), partition.producers.count());
        }
    }
    remembered
}

#[test]
fn producer_that_was_idle_longest_is_forgotten_and_goes_on_with_any_sequence() {
    let mut bench = bench(3);
    for producer in 1..=3 {
        bench.append(&data(producer, 0));
    }
    bench.append(&data(1, 1));
    bench.append(&data(4, 0));
    assert_eq!(bench.refused(&data(3, 7).encode()), OUT_OF_ORDER);
    assert_eq!(bench.refused(&data(1, 7).encode()), OUT_OF_ORDER);
    // In the place of the third.
    assert_eq!(bench.append(&data(2, 7)), 5);
    assert_eq!(bench.refused(&data(2, 9).encode()), OUT_OF_ORDER);
    assert_eq!(bench.append(&data(3, 7)), 6);
    assert_eq!(known(&bench), [3]);
}

#[test]
fn what_is_refused_forgets_nobody() {
    let options = LogOptions { max_bytes: 1_000, max_producer_bytes: Producers::size(1), ..LogOptions::default() };
    let mut bench = Bench::with(options, &[]);
    bench.append(&data(1, 0));
    let large = Sample::values(&[&"x".repeat(1_000)]).by(2, 0, 0);
    assert_eq!(bench.refused(&large.encode()), FULL);
    assert_eq!(bench.refused(&data(1, 7).encode()), OUT_OF_ORDER);
}

#[test]
fn producer_with_an_open_transaction_is_never_forgotten() {
    let mut bench = bench(3);
    bench.append(&data(1, 0).transactional());
    for producer in 2..100 {
        bench.append(&data(producer, 0));
    }
    assert_eq!(bench.refused(&data(1, 7).transactional().encode()), OUT_OF_ORDER);
    assert_eq!((known(&bench), bench.fetch(0, 1).last_stable_offset), (vec![3], 0));
    bench.end(1, 0, true);
    // It was the last to write.
    bench.append(&data(100, 0));
    assert_eq!(bench.refused(&data(1, 7).transactional().encode()), OUT_OF_ORDER);
    bench.append(&data(101, 0));
    bench.append(&data(102, 0));
    bench.append(&data(1, 7).transactional());
}

#[test]
fn where_all_are_in_transactions_another_producer_waits_until_one_ends() {
    let mut bench = bench(2);
    bench.append(&data(1, 0).transactional());
    bench.append(&data(2, 0).transactional());
    assert_eq!(bench.refused(&data(3, 0).encode()), FULL);
    assert_eq!(bench.refused(&data(3, 0).transactional().encode()), FULL);
    // Those who are there go on, whoever has no producer too, and transactions end.
    bench.append(&data(1, 1).transactional());
    bench.append(&Sample::values(&["x"]));
    bench.end(1, 0, true);
    assert_eq!(bench.append(&data(3, 0).transactional()), 5);
    assert_eq!((known(&bench), bench.fetch(0, 1).last_stable_offset), (vec![2], 1));
}

#[test]
fn marker_of_a_producer_for_whom_there_is_no_room_is_written() {
    let mut bench = bench(1);
    bench.append(&data(1, 0).transactional());
    bench.end(2, 0, false);
    assert_eq!((known(&bench), bench.fetch(0, 0).high_watermark), (vec![1], 2));
    bench.append(&data(1, 1).transactional());
}

#[test]
fn partition_that_knows_most_forgets_for_all() {
    let mut bench = bench(10);
    let topic = CreatePartitionsTopic::default().with_name(Bench::topic()).with_count(2).with_assignments(None);
    bench.ask(CreatePartitionsRequest::default().with_topics(vec![topic]), 3).unwrap();
    let mark = |bench: &mut Bench, producer_id, partition| {
        let marker = Marker { producer_id, producer_epoch: 0, coordinator_epoch: 0, commit: true };
        bench.logs.write_marker(&Bench::topic(), partition, marker, bench.now).unwrap();
    };
    mark(&mut bench, 1, 1);
    for producer in 100..200 {
        mark(&mut bench, producer, 0);
    }
    let left = known(&bench);
    assert!(left[0] > 1 && left[1] == 1, "{left:?}");
    bench.ask(DeleteTopicsRequest::default().with_topic_names(vec![Bench::topic()]), 3).unwrap();
    assert_eq!(bench.logs.remembered, Remembered::default());
}

#[derive(Copy, Clone, Debug)]
enum Op {
    Append(i64),
    Transact(i64),
    End(i64),
    Lose(i64),
    Later,
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        4 => (0..9_i64).prop_map(Op::Append),
        4 => (10..19_i64).prop_map(Op::Transact),
        4 => (0..19_i64).prop_map(Op::End),
        1 => (0..50_i64).prop_map(Op::Lose),
        1 => Just(Op::Later),
    ]
}

/// A batch with the sequence that its producer has reached.
fn write(bench: &mut Bench, producer: i64, transactional: bool) {
    let log = bench.logs.partition(&Bench::topic(), 0).unwrap();
    let sample = Sample { transactional, ..data(producer, log.producers.next_sequence(producer)) };
    let open = log.producers.count().all - log.producers.count().idle;
    let code = bench.produce(&sample.encode()).error_code;
    assert!(code == 0 || (code == FULL && open >= 4), "{code}, {open} transactions");
}

fn apply(bench: &mut Bench, op: Op) {
    match op {
        Op::Append(producer) => write(bench, producer, false),
        Op::Transact(producer) => write(bench, producer, true),
        Op::End(producer) => bench.end(producer, 0, true),
        Op::Lose(from) => assert!(bench.logs.lose_tail(&Bench::topic(), 0, from)),
        Op::Later => {
            bench.now = bench.now + std::time::Duration::from_hours(25);
            bench.answers();
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn bound_holds_and_what_is_noted_is_what_counting_finds(ops in prop::collection::vec(op(), 1..80)) {
        let mut bench = bench(4);
        for op in ops {
            apply(&mut bench, op);
            prop_assert_eq!(&bench.logs.remembered, &remembered(&bench));
            let count = partitions(&bench).next().unwrap().producers.count();
            prop_assert!(count.all <= 4.max(count.all - count.idle), "{:?}", count);
        }
    }
}
