//! Topics: made, changed, compacted, cut, deleted; and what readers meet there.

use std::time::{Duration, Instant};

use bytes::Buf as _;
use libtest_mimic::Trial;
use rdkafka::{
    Message, Offset, TopicPartitionList,
    admin::{AlterConfig, ConfigSource, NewTopic, ResourceSpecifier, TopicReplication},
    consumer::Consumer,
    error::KafkaError,
    producer::{BaseProducer, BaseRecord, Producer},
    types::RDKafkaErrorCode,
};

use super::{
    PATIENCE, both, consumer,
    groups::{Member, settle},
    next, seen, values,
    wire::Wire,
};
use crate::broker::{Broker, Isolation, Record, eventually};

pub fn trials() -> Vec<Trial> {
    both!(
        compaction_leaves_holes_that_readers_pass,
        compaction_leaves_the_last_sequence_of_a_producer,
        an_offset_out_of_range_is_an_error_or_a_reset,
        deleted_records_are_out_of_range,
        partitions_that_are_added_are_found_and_read,
        a_topic_deleted_and_made_again_is_empty,
        topics_that_cannot_be_are_refused_with_the_reason,
        a_topic_that_is_only_validated_is_not_made,
        settings_are_told_and_changed,
        an_unknown_topic_is_an_error_and_not_made,
    )
}

fn reads_from(broker: &Broker, topic: &str, offset: i64, reset: &str) -> rdkafka::error::KafkaResult<String> {
    let reader = consumer(broker, "reads", &[("auto.offset.reset", reset)]);
    let mut list = TopicPartitionList::new();
    list.add_partition_offset(topic, 0, Offset::Offset(offset)).unwrap();
    reader.assign(&list).unwrap();
    next(&reader)
}

/// Settings of a topic whose segments are rolled by the next write once they are old, and compacted soon.
const COMPACTED_SOON: [(&str, &str); 4] = [
    ("cleanup.policy", "compact"),
    ("segment.ms", "100"),
    ("min.cleanable.dirty.ratio", "0.01"),
    ("delete.retention.ms", "0"),
];

fn compaction_leaves_holes_that_readers_pass(broker: &Broker) {
    let topic = broker.topic("compacted", 1, &COMPACTED_SOON);
    broker.produce(&topic, [("a", "1"), ("b", "1"), ("a", "2"), ("c", "1"), ("a", "3")]);
    broker.produce(&topic, [Record { key: Some(b"c".to_vec()), ..Record::default() }]);
    let mut written = 6;
    let mut last = 0;
    eventually("it is compacted", || {
        // Each of these makes those before it old.
        crate::broker::pass(Duration::from_millis(150));
        broker.produce(&topic, [("d", "x")]);
        last = written;
        written += 1;
        let records = broker.read(&topic, Isolation::ReadCommitted);
        let kept: Vec<_> = records.iter().map(|record| (record.offset.unwrap(), record.text())).collect();
        let of = |key: &str| kept.iter().filter(|(_, (k, _))| k == key).map(|(o, (_, v))| (*o, v.as_str())).collect();
        let (a, b): (Vec<_>, Vec<_>) = (of("a"), of("b"));
        assert_eq!(
            (a.last(), b.as_slice()),
            (Some(&(4, "3")), &[(1, "1")][..]),
            "the last of a key stays where it was"
        );
        a.len() == 1
    });
    let (low, high) = consumer(broker, "reads", &[]).fetch_watermarks(&topic, 0, PATIENCE).unwrap();
    assert_eq!((low, high), (0, written), "offsets are as they were");
    // Whoever asks for what is gone gets what comes next.
    for (asked, expected) in [(0, "1"), (2, "3"), (3, "3"), (4, "3")] {
        assert_eq!(reads_from(broker, &topic, asked, "error").unwrap(), expected, "from {asked}");
    }
    assert!(seen(broker, &topic, Isolation::ReadCommitted).contains(&(last, "x".to_owned())));
}

fn compaction_leaves_the_last_sequence_of_a_producer(broker: &Broker) {
    let topic = broker.topic("sequences", 1, &COMPACTED_SOON);
    let mut wire = Wire::connect(broker);
    // Each time another idempotent producer.
    broker.produce(&topic, [("a", "1"), ("b", "1")]);
    broker.produce(&topic, [("a", "2"), ("b", "2")]);
    eventually("the first batch is without records", || {
        // Each of these makes those before it old.
        crate::broker::pass(Duration::from_millis(150));
        broker.produce(&topic, [("d", "x")]);
        let answer = wire.fetch(&topic, 0, 0);
        let mut first = answer.responses[0].partitions[0].records.clone().expect("batches");
        let base_offset = first.get_i64();
        first.advance(15);
        let last_offset_delta = first.get_i32();
        first.advance(16);
        let (producer_id, _epoch, sequence) = (first.get_i64(), first.get_i16(), first.get_i32());
        assert_eq!((base_offset, last_offset_delta, sequence), (0, 1, 0));
        assert!(producer_id >= 0, "{producer_id}");
        first.get_i32() == 0
    });
    assert_eq!(reads_from(broker, &topic, 0, "error").unwrap(), "2");
}

fn an_offset_out_of_range_is_an_error_or_a_reset(broker: &Broker) {
    let topic = broker.topic("range", 1, &[]);
    broker.produce(&topic, ["first", "second"]);
    let error = reads_from(broker, &topic, 100, "error").unwrap_err();
    assert_eq!(error.rdkafka_error_code(), Some(RDKafkaErrorCode::AutoOffsetReset));
    assert_eq!(reads_from(broker, &topic, 100, "earliest").unwrap(), "first");
    assert!(matches!(reads_from(broker, &topic, 100, "latest"), Err(KafkaError::PartitionEOF(0))));
    assert!(matches!(reads_from(broker, &topic, 2, "error"), Err(KafkaError::PartitionEOF(0))), "the end is in range");
}

fn deleted_records_are_out_of_range(broker: &Broker) {
    let topic = broker.topic("cut", 1, &[]);
    broker.produce(&topic, (0..10).map(|n| Record::from(n.to_string().as_str())));
    broker.delete_records(&topic, 0, 4);
    assert_eq!(consumer(broker, "reads", &[]).fetch_watermarks(&topic, 0, PATIENCE).unwrap(), (4, 10));
    let error = reads_from(broker, &topic, 3, "error").unwrap_err();
    assert_eq!(error.rdkafka_error_code(), Some(RDKafkaErrorCode::AutoOffsetReset));
    assert_eq!(reads_from(broker, &topic, 3, "earliest").unwrap(), "4");
    assert_eq!(reads_from(broker, &topic, 4, "error").unwrap(), "4");
    // All of them, and what comes then has the next offset.
    broker.delete_records(&topic, 0, 10);
    broker.produce(&topic, ["next"]);
    assert_eq!(seen(broker, &topic, Isolation::ReadCommitted), [(10, "next".to_owned())]);
}

fn partitions_that_are_added_are_found_and_read(broker: &Broker) {
    let topic = broker.topic("grows", 1, &[]);
    let member = Member::join(broker, &broker.unique("group"), &topic, &[]);
    settle(&[&member], "it has the only one", || member.owns().len() == 1);
    let grow = |partitions| broker.grow(&topic, partitions);
    assert_eq!(grow(3), Ok(()));
    assert_eq!(grow(3), Err(RDKafkaErrorCode::InvalidPartitions));
    assert_eq!(grow(2), Err(RDKafkaErrorCode::InvalidPartitions));
    settle(&[&member], "it has all three", || member.owns().len() == 3);
    broker.produce(&topic, [Record { partition: Some(2), ..Record::from("x") }]);
    let deadline = Instant::now() + PATIENCE;
    loop {
        assert!(Instant::now() < deadline, "the record of the new partition did not come");
        if let Some(Ok(message)) = member.consumer.poll(Duration::from_millis(50)) {
            assert_eq!((message.partition(), message.payload()), (2, Some(&b"x"[..])));
            return;
        }
    }
}

fn a_topic_deleted_and_made_again_is_empty(broker: &Broker) {
    let topic = broker.topic("again", 2, &[]);
    broker.produce(&topic, ["a", "b", "c"]);
    broker.delete_topic(&topic);
    broker.make_topic(&topic, 1, &[]);
    assert_eq!(values(broker, &topic, Isolation::ReadCommitted), [""; 0]);
    broker.produce(&topic, ["new"]);
    assert_eq!(seen(broker, &topic, Isolation::ReadCommitted), [(0, "new".to_owned())]);
}

fn create(broker: &Broker, topic: &NewTopic<'_>, validate_only: bool) -> Result<(), RDKafkaErrorCode> {
    let results = broker.administer(async |admin, options| {
        // The options that are handed out are not to be had by value.
        let _ = options;
        let options = rdkafka::admin::AdminOptions::new().validate_only(validate_only);
        admin.create_topics([topic], &options).await
    });
    results.into_iter().next().unwrap().map(|_| ()).map_err(|(_, code)| code)
}

fn topics_that_cannot_be_are_refused_with_the_reason(broker: &Broker) {
    let there = broker.topic("there", 1, &[]);
    let long = "x".repeat(250);
    let name = broker.unique("refused");
    let one = || TopicReplication::Fixed(1);
    for (topic, code) in [
        (NewTopic::new(&there, 1, one()), RDKafkaErrorCode::TopicAlreadyExists),
        (NewTopic::new("not a name", 1, one()), RDKafkaErrorCode::InvalidTopic),
        (NewTopic::new("..", 1, one()), RDKafkaErrorCode::InvalidTopic),
        (NewTopic::new(&long, 1, one()), RDKafkaErrorCode::InvalidTopic),
        (NewTopic::new(&name, 0, one()), RDKafkaErrorCode::InvalidPartitions),
        (NewTopic::new(&name, 1, TopicReplication::Fixed(2)), RDKafkaErrorCode::InvalidReplicationFactor),
        (NewTopic::new(&name, 1, one()).set("no.such.setting", "1"), RDKafkaErrorCode::InvalidConfig),
        (NewTopic::new(&name, 1, one()).set("retention.ms", "soon"), RDKafkaErrorCode::InvalidConfig),
        (NewTopic::new(&name, 1, one()).set("cleanup.policy", "shred"), RDKafkaErrorCode::InvalidConfig),
    ] {
        assert_eq!(create(broker, &topic, false), Err(code), "{topic:?}");
    }
    let results = broker.administer(async |admin, options| admin.delete_topics(&[&name], options).await);
    let code = results.into_iter().next().unwrap().unwrap_err().1;
    assert_eq!(code, RDKafkaErrorCode::UnknownTopicOrPartition, "nothing of it was made");
}

fn a_topic_that_is_only_validated_is_not_made(broker: &Broker) {
    let name = broker.unique("validated");
    let topic = NewTopic::new(&name, 1, TopicReplication::Fixed(1));
    assert_eq!(create(broker, &topic, true), Ok(()));
    assert_eq!(create(broker, &topic, true), Ok(()));
    assert_eq!(create(broker, &topic, false), Ok(()));
    assert_eq!(create(broker, &topic, true), Err(RDKafkaErrorCode::TopicAlreadyExists));
}

fn settings_are_told_and_changed(broker: &Broker) {
    let topic = broker.topic("settings", 1, &[("retention.ms", "123000"), ("cleanup.policy", "compact")]);
    let told = |name: &str| {
        let resource = ResourceSpecifier::Topic(&topic);
        let results = broker.administer(async |admin, options| admin.describe_configs([&resource], options).await);
        let resource = results.into_iter().next().unwrap().unwrap();
        let entry = resource.get(name).unwrap_or_else(|| panic!("no {name}"));
        (entry.value.clone().unwrap_or_default(), entry.source == ConfigSource::DynamicTopic)
    };
    let is = |value: &str, set| (value.to_owned(), set);
    assert_eq!(told("retention.ms"), is("123000", true));
    assert_eq!(told("cleanup.policy"), is("compact", true));
    assert_eq!(told("max.message.bytes"), is("1048588", false));
    assert_eq!(told("message.timestamp.type"), is("CreateTime", false));
    let change = AlterConfig::new(ResourceSpecifier::Topic(&topic)).set("max.message.bytes", "2000000");
    let results = broker.administer(async |admin, options| admin.alter_configs([&change], options).await);
    results.into_iter().for_each(|result| drop(result.unwrap()));
    // What is not named falls back to its default: this call replaces all settings.
    eventually("the new settings are told", || told("max.message.bytes") == is("2000000", true));
    assert_eq!(told("retention.ms"), is("604800000", false));
}

fn an_unknown_topic_is_an_error_and_not_made(broker: &Broker) {
    let name = broker.unique("unknown");
    let producer: BaseProducer = broker.client().set("message.timeout.ms", "2000").create().unwrap();
    producer.send(BaseRecord::<(), str>::to(&name).payload("x")).unwrap();
    producer.flush(PATIENCE).unwrap();
    let reader = consumer(broker, "reads", &[]);
    let metadata = reader.fetch_metadata(Some(&name), PATIENCE).unwrap();
    let code = metadata.topics()[0].error().map(RDKafkaErrorCode::from);
    assert_eq!(code, Some(RDKafkaErrorCode::UnknownTopicOrPartition));
    reader.subscribe(&[&name]).unwrap();
    assert_eq!(next(&reader).unwrap_err().rdkafka_error_code(), Some(RDKafkaErrorCode::UnknownTopicOrPartition));
}
