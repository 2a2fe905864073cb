//! Records go in and come back as they were.

use std::time::{Duration, Instant};

use libtest_mimic::Trial;
use rdkafka::{
    Message, Offset, Timestamp, TopicPartitionList,
    consumer::Consumer,
    producer::{BaseProducer, BaseRecord, DefaultProducerContext, Producer, ThreadedProducer},
    types::RDKafkaErrorCode,
};

use super::{PATIENCE, both, consumer, next, values};
use crate::broker::{Broker, Isolation, Record};

pub fn trials() -> Vec<Trial> {
    both!(
        records_of_every_codec_come_back_whole,
        null_and_empty_keys_values_and_headers_come_back_as_they_were,
        log_append_time_is_the_brokers,
        offsets_are_found_by_time,
        a_record_larger_than_the_topic_allows_is_refused_and_others_are_not,
        a_record_larger_than_a_fetch_is_fetched,
        a_fetch_at_the_end_waits_for_the_next_record,
        records_without_acknowledgement_arrive,
        the_order_of_each_partition_is_the_order_of_sending,
    )
}

fn records_of_every_codec_come_back_whole(broker: &Broker) {
    for codec in ["none", "gzip", "snappy", "lz4", "zstd"] {
        let topic = broker.topic(codec, 1, &[]);
        let producer: ThreadedProducer<DefaultProducerContext> =
            broker.client().set("compression.codec", codec).set("linger.ms", "50").create().unwrap();
        let sent: Vec<_> = (0..500).map(|n| format!("{n}: {}", "the same again and again ".repeat(n % 20))).collect();
        for (n, value) in sent.iter().enumerate() {
            producer.send(BaseRecord::to(&topic).key(&n.to_string()).payload(value)).unwrap();
        }
        producer.flush(PATIENCE).unwrap();
        let came = broker.read(&topic, Isolation::ReadCommitted);
        let texts: Vec<_> = came.iter().map(Record::text).collect();
        let expected: Vec<_> = sent.into_iter().enumerate().map(|(n, value)| (n.to_string(), value)).collect();
        assert_eq!(texts, expected, "{codec}");
        assert!(came.iter().zip(0..).all(|(record, offset)| record.offset == Some(offset)), "{codec}");
    }
}

fn null_and_empty_keys_values_and_headers_come_back_as_they_were(broker: &Broker) {
    // Old timestamps are no reason to delete records.
    let topic = broker.topic("kinds", 1, &[("retention.ms", "-1")]);
    let some = |text: &str| Some(text.as_bytes().to_vec());
    let kinds = [
        (None, None, vec![]),
        (some(""), some(""), vec![]),
        (some("key"), None, vec![("h".to_owned(), None)]),
        (None, some("value"), vec![("h".to_owned(), some("")), ("h".to_owned(), some("again"))]),
        (some("\0\u{ff}"), some("\u{10ffff}"), vec![(String::new(), some("an empty name"))]),
    ];
    let sent = kinds.into_iter().zip(0..).map(|((key, value, headers), n)| Record {
        key,
        value,
        headers,
        partition: Some(0),
        timestamp: Some(1_600_000_000_000 + n),
        offset: Some(n),
    });
    let sent: Vec<_> = sent.collect();
    broker.produce(&topic, sent.clone());
    assert_eq!(broker.read(&topic, Isolation::ReadCommitted), sent);
}

fn log_append_time_is_the_brokers(broker: &Broker) {
    let topic = broker.topic("append-time", 1, &[("message.timestamp.type", "LogAppendTime")]);
    broker.produce(&topic, [Record { timestamp: Some(1_600_000_000_000), ..Record::from("x") }]);
    let reader = consumer(broker, "append-time", &[]);
    assign(&reader, &topic, Offset::Beginning);
    let deadline = Instant::now() + PATIENCE;
    let timestamp = loop {
        assert!(Instant::now() < deadline, "no record");
        if let Some(message) = reader.poll(Duration::from_millis(100)) {
            break message.unwrap().timestamp();
        }
    };
    let Timestamp::LogAppendTime(at) = timestamp else { panic!("{timestamp:?}") };
    let now = Timestamp::now().to_millis().unwrap();
    assert!((now - 120_000..=now).contains(&at), "{at} is not now, {now}");
}

fn offsets_are_found_by_time(broker: &Broker) {
    let topic = broker.topic("by-time", 1, &[("retention.ms", "-1")]);
    let base = 1_600_000_000_000;
    // Within a batch and over batches; the third is older than the second.
    for times in [vec![0, 2_000], vec![1_000, 4_000]] {
        broker.produce(&topic, times.into_iter().map(|t| Record { timestamp: Some(base + t), ..Record::from("x") }));
    }
    let reader = consumer(broker, "by-time", &[]);
    for (time, offset) in [
        (0, Offset::Offset(0)),
        (base, Offset::Offset(0)),
        (base + 1, Offset::Offset(1)),
        (base + 2_000, Offset::Offset(1)),
        (base + 2_001, Offset::Offset(3)),
        (base + 4_000, Offset::Offset(3)),
        (base + 4_001, Offset::End),
    ] {
        let mut asked = TopicPartitionList::new();
        asked.add_partition_offset(&topic, 0, Offset::Offset(time)).unwrap();
        let found = reader.offsets_for_times(asked, PATIENCE).unwrap();
        assert_eq!(found.elements()[0].offset(), offset, "at {}", time - base);
    }
    assert_eq!(reader.fetch_watermarks(&topic, 0, PATIENCE).unwrap(), (0, 4));
}

fn a_record_larger_than_the_topic_allows_is_refused_and_others_are_not(broker: &Broker) {
    let topic = broker.topic("small", 1, &[("max.message.bytes", "10000")]);
    let producer: BaseProducer = broker.client().set("linger.ms", "0").create().unwrap();
    let mut wire = super::wire::Wire::connect(broker);
    let large = "x".repeat(20_000);
    let refused = wire.produce(&topic, super::wire::batch(super::wire::Writer::NOBODY, &[&large]));
    assert_eq!(refused.error_code, RDKafkaErrorCode::MessageSizeTooLarge as i16);
    super::send(&producer, &topic, "small");
    assert_eq!(values(broker, &topic, Isolation::ReadCommitted), ["small"]);
}

fn a_record_larger_than_a_fetch_is_fetched(broker: &Broker) {
    let topic = broker.topic("large", 1, &[]);
    let large = "x".repeat(900_000);
    broker.produce(&topic, [large.as_str(), "small"]);
    let properties = [("fetch.message.max.bytes", "1000"), ("fetch.max.bytes", "2000"), ("message.max.bytes", "2000")];
    let reader = consumer(broker, "large", &properties);
    assign(&reader, &topic, Offset::Beginning);
    assert_eq!(next(&reader).unwrap().len(), 900_000);
    assert_eq!(next(&reader).unwrap(), "small");
}

/// The broker answers when there is something, long before the time that the client would wait.
fn a_fetch_at_the_end_waits_for_the_next_record(broker: &Broker) {
    let topic = broker.topic("waiting", 1, &[]);
    let reader = consumer(broker, "waiting", &[("fetch.wait.max.ms", "50000"), ("socket.timeout.ms", "60000")]);
    assign(&reader, &topic, Offset::Beginning);
    // The end is told once the fetch was answered; from then on one waits.
    broker.produce(&topic, ["first"]);
    assert_eq!(next(&reader).unwrap(), "first");
    let start = Instant::now();
    broker.produce(&topic, ["second"]);
    let deadline = start + Duration::from_secs(40);
    loop {
        assert!(Instant::now() < deadline, "the fetch was not answered when there was something");
        if let Some(Ok(message)) = reader.poll(Duration::from_millis(100)) {
            assert_eq!(message.payload(), Some(&b"second"[..]));
            break;
        }
    }
}

fn records_without_acknowledgement_arrive(broker: &Broker) {
    for acks in ["0", "1", "all"] {
        let topic = broker.topic(&format!("acks-{acks}"), 1, &[]);
        let producer: BaseProducer = broker.client().set("acks", acks).create().unwrap();
        for n in 0..100 {
            producer.send(BaseRecord::<(), str>::to(&topic).payload(&n.to_string())).unwrap();
        }
        producer.flush(PATIENCE).unwrap();
        let expected: Vec<_> = (0..100).map(|n| n.to_string()).collect();
        crate::broker::eventually("all records are there", || {
            values(broker, &topic, Isolation::ReadCommitted) == expected
        });
    }
}

fn the_order_of_each_partition_is_the_order_of_sending(broker: &Broker) {
    let topic = broker.topic("order", 3, &[]);
    let sent = (0..3_000).map(|n| Record { partition: Some(n % 3), ..Record::from(n.to_string().as_str()) });
    broker.produce(&topic, sent);
    let came = broker.read(&topic, Isolation::ReadCommitted);
    for partition in 0..3 {
        let values = came.iter().filter(|record| record.partition == Some(partition)).map(|record| record.text().1);
        let expected: Vec<_> = (0..3_000).filter(|n| n % 3 == partition).map(|n| n.to_string()).collect();
        assert_eq!(values.collect::<Vec<_>>(), expected, "partition {partition}");
    }
}

fn assign(reader: &impl Consumer, topic: &str, offset: Offset) {
    let mut list = TopicPartitionList::new();
    list.add_partition_offset(topic, 0, offset).unwrap();
    reader.assign(&list).unwrap();
}
