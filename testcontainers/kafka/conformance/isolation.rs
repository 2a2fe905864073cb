//! What a reader of committed records sees of transactions, and when.

use std::time::Duration;

use libtest_mimic::Trial;
use rdkafka::{
    Offset, TopicPartitionList,
    consumer::Consumer,
    error::KafkaError,
    producer::{BaseProducer, BaseRecord, Producer},
};

use super::{PATIENCE, both, come, consumer, ends_at, next, refused, seen, send, transactional, values, wire::Wire};
use crate::broker::{Broker, Isolation, eventually};

pub fn trials() -> Vec<Trial> {
    both!(
        a_transaction_that_times_out_is_aborted,
        committed_aborted_open_and_plain_records_interleave,
        a_reader_of_committed_records_may_start_within_an_aborted_transaction,
        a_transaction_over_partitions_is_seen_whole_or_not_at_all,
        a_transaction_without_records_ends,
        an_aborted_transaction_of_many_batches_is_unseen,
        an_aborted_transaction_is_told_with_the_records_it_spans,
    )
}

fn producers(broker: &Broker) -> [BaseProducer; 3] {
    [(); 3].map(|()| transactional(broker, &broker.unique("writer"), &[]))
}

fn committed_aborted_open_and_plain_records_interleave(broker: &Broker) {
    let topic = broker.topic("interleaved", 1, &[]);
    let plain: BaseProducer = broker.client().set("linger.ms", "0").create().unwrap();
    let [commits, aborts, stays_open] = producers(broker);
    send(&plain, &topic, "p1");
    commits.begin_transaction().unwrap();
    send(&commits, &topic, "c1");
    aborts.begin_transaction().unwrap();
    send(&aborts, &topic, "a1");
    send(&plain, &topic, "p2");
    // The first that is open hides all that follows.
    assert_eq!(values(broker, &topic, Isolation::ReadCommitted), ["p1"]);
    send(&commits, &topic, "c2");
    commits.commit_transaction(PATIENCE).unwrap();
    // Another is open from here.
    come(broker, &topic, &["p1", "c1"]);
    send(&aborts, &topic, "a2");
    aborts.abort_transaction(PATIENCE).unwrap();
    ends_at(broker, &topic, 8);
    send(&plain, &topic, "p3");
    stays_open.begin_transaction().unwrap();
    send(&stays_open, &topic, "o1");
    send(&plain, &topic, "p4");

    let at = |offset: i64, value: &str| (offset, value.to_owned());
    // Markers take the offsets 5 and 7.
    let visible = vec![at(0, "p1"), at(1, "c1"), at(3, "p2"), at(4, "c2"), at(8, "p3")];
    assert_eq!(seen(broker, &topic, Isolation::ReadCommitted), visible);
    let all = values(broker, &topic, Isolation::ReadUncommitted);
    assert_eq!(all, ["p1", "c1", "a1", "p2", "c2", "a2", "p3", "o1", "p4"]);

    stays_open.commit_transaction(PATIENCE).unwrap();
    ends_at(broker, &topic, 12);
    let visible = [visible, vec![at(9, "o1"), at(10, "p4")]].concat();
    assert_eq!(seen(broker, &topic, Isolation::ReadCommitted), visible);
}

fn a_reader_of_committed_records_may_start_within_an_aborted_transaction(broker: &Broker) {
    let topic = broker.topic("within", 1, &[]);
    let plain: BaseProducer = broker.client().set("linger.ms", "0").create().unwrap();
    let [aborts, ..] = producers(broker);
    aborts.begin_transaction().unwrap();
    for value in ["a0", "a1", "a2"] {
        send(&aborts, &topic, value);
    }
    aborts.abort_transaction(PATIENCE).unwrap();
    ends_at(broker, &topic, 4);
    send(&plain, &topic, "p");
    for start in 0..5 {
        let reader = consumer(broker, "within", &[("isolation.level", "read_committed")]);
        let mut list = TopicPartitionList::new();
        list.add_partition_offset(&topic, 0, Offset::Offset(start)).unwrap();
        reader.assign(&list).unwrap();
        assert_eq!(next(&reader).unwrap(), "p", "from {start}");
        assert!(matches!(next(&reader), Err(KafkaError::PartitionEOF(0))), "from {start}");
    }
}

fn a_transaction_over_partitions_is_seen_whole_or_not_at_all(broker: &Broker) {
    let topics = [broker.topic("one", 2, &[]), broker.topic("other", 1, &[])];
    let writer = transactional(broker, &broker.unique("writer"), &[]);
    let everything = |isolation| topics.iter().map(|topic| broker.read(topic, isolation).len()).sum::<usize>();
    for (round, commits) in [(1, true), (1, false), (2, true)] {
        let before = everything(Isolation::ReadCommitted);
        writer.begin_transaction().unwrap();
        for (topic, partition) in [(&topics[0], 0), (&topics[0], 1), (&topics[1], 0)] {
            writer.send(BaseRecord::<(), str>::to(topic).partition(partition).payload("x")).unwrap();
        }
        writer.flush(PATIENCE).unwrap();
        assert_eq!(everything(Isolation::ReadCommitted), before, "nothing of an open transaction is seen");
        let ended = if commits { writer.commit_transaction(PATIENCE) } else { writer.abort_transaction(PATIENCE) };
        ended.unwrap();
        eventually("it is seen if it was committed", || everything(Isolation::ReadCommitted) == 3 * round);
    }
    assert_eq!(everything(Isolation::ReadUncommitted), 9);
}

fn a_transaction_without_records_ends(broker: &Broker) {
    let topic = broker.topic("none", 1, &[]);
    let writer = transactional(broker, &broker.unique("writer"), &[]);
    writer.begin_transaction().unwrap();
    writer.commit_transaction(PATIENCE).unwrap();
    writer.begin_transaction().unwrap();
    writer.abort_transaction(PATIENCE).unwrap();
    writer.begin_transaction().unwrap();
    send(&writer, &topic, "x");
    writer.commit_transaction(PATIENCE).unwrap();
    come(broker, &topic, &["x"]);
    assert_eq!(seen(broker, &topic, Isolation::ReadCommitted), [(0, "x".to_owned())], "no marker before it");
}

fn an_aborted_transaction_of_many_batches_is_unseen(broker: &Broker) {
    let topic = broker.topic("many", 1, &[]);
    let writer = transactional(broker, &broker.unique("writer"), &[("batch.num.messages", "10")]);
    let transaction = |name: &str| {
        writer.begin_transaction().unwrap();
        for n in 0..500 {
            writer.send(BaseRecord::<(), str>::to(&topic).partition(0).payload(&format!("{name}{n}"))).unwrap();
        }
        writer.flush(PATIENCE).unwrap();
    };
    for round in 0..3 {
        transaction(&format!("aborted{round}-"));
        writer.abort_transaction(PATIENCE).unwrap();
        transaction(&format!("kept{round}-"));
        writer.commit_transaction(PATIENCE).unwrap();
    }
    let expected: Vec<_> = (0..3).flat_map(|round| (0..500).map(move |n| format!("kept{round}-{n}"))).collect();
    let expected: Vec<_> = expected.iter().map(String::as_str).collect();
    come(broker, &topic, &expected);
    assert_eq!(values(broker, &topic, Isolation::ReadUncommitted).len(), 3_000);
}

/// What librdkafka works with: the last stable offset, and who aborted what from where.
fn an_aborted_transaction_is_told_with_the_records_it_spans(broker: &Broker) {
    let topic = broker.topic("told", 1, &[]);
    let [aborts, stays_open, _] = producers(broker);
    aborts.begin_transaction().unwrap();
    send(&aborts, &topic, "a0");
    send(&aborts, &topic, "a1");
    aborts.abort_transaction(PATIENCE).unwrap();
    ends_at(broker, &topic, 3);
    stays_open.begin_transaction().unwrap();
    send(&stays_open, &topic, "o");

    let mut wire = Wire::connect(broker);
    let told = |wire: &mut Wire, offset, isolation| {
        let answer = wire.fetch(&topic, offset, isolation);
        let partition = &answer.responses[0].partitions[0];
        let aborted = partition.aborted_transactions.clone().unwrap_or_default();
        let first: Vec<_> = aborted.iter().map(|aborted| aborted.first_offset).collect();
        (partition.high_watermark, partition.last_stable_offset, first)
    };
    assert_eq!(told(&mut wire, 0, 1), (4, 3, vec![0]));
    assert_eq!(told(&mut wire, 1, 1), (4, 3, vec![0]), "from within");
    assert_eq!(told(&mut wire, 3, 1), (4, 3, vec![]), "from behind");
    assert_eq!(told(&mut wire, 0, 0).2, Vec::<i64>::new(), "who reads everything is not told");
    stays_open.abort_transaction(PATIENCE).unwrap();
    ends_at(broker, &topic, 5);
    assert_eq!(told(&mut wire, 0, 1), (5, 5, vec![0, 3]));
}

fn a_transaction_that_times_out_is_aborted(broker: &Broker) {
    let topic = broker.topic("times-out", 1, &[]);
    let timeout = [("transaction.timeout.ms", "1000"), ("message.timeout.ms", "1000")];
    let writer = transactional(broker, &broker.unique("writer"), &timeout);
    writer.begin_transaction().unwrap();
    send(&writer, &topic, "late");
    broker.produce(&topic, ["plain"]);
    come(broker, &topic, &["plain"]);
    let (_, fatal) = refused(writer.commit_transaction(Duration::from_secs(30)));
    // An identity that was bumped by the broker can go on after an abort, or is fenced: but never commits.
    if !fatal {
        writer.abort_transaction(PATIENCE).unwrap();
    }
    assert_eq!(values(broker, &topic, Isolation::ReadCommitted), ["plain"]);
}
