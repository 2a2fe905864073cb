//! What is sent arrives, or is said not to.

use std::{collections::BTreeMap, ops::ControlFlow};

use libtest_mimic::Trial;
use stormglass::{
    clock::Clock,
    kafka::{
        RdkafkaSink, SinkOptions,
        admin::reader::TopicReader,
        client::{
            Contents, DeliveryFailure, DeliveryReport, FailedRecord, FlushId, SinkClient as _,
            produce::{BY_KEY, ProduceBatch, ProduceRecord},
            record::{NO_TIMESTAMP, push_header},
        },
    },
    tuple::murmur2,
};

use super::{PATIENCE, STEP, acked, connection, deliver, sink};
use crate::{
    broker::{Broker, Isolation},
    trials,
};

pub fn trials() -> Vec<Trial> {
    trials!(shared:
        every_kind_of_record_comes_back_as_it_was_sent,
        a_key_lies_where_javas_partitioner_puts_it,
        a_full_queue_takes_a_prefix_and_nothing_is_lost_or_out_of_order,
        acknowledgements_are_counted_exactly_for_each_flush,
        a_record_that_is_too_large_fails_and_the_others_arrive,
        a_request_that_is_too_large_gives_its_records_back_whole,
    )
}

/// Key, value, headers and timestamp of a record.
type Sent<'a> = (Option<&'a [u8]>, Option<&'a [u8]>, &'a [u8], i64);

fn every_kind_of_record_comes_back_as_it_was_sent(broker: &Broker) {
    let topic = broker.topic("kinds", 1, &[]);
    let large = vec![b'x'; 900 * 1024];
    let mut thousand = Vec::new();
    for n in 0..1000 {
        let value = n.to_string();
        push_header(b"same-name", (n % 3 > 0).then_some(value.as_bytes()), &mut thousand);
    }
    let sent: [Sent<'_>; 7] = [
        (None, Some(b"null key"), b"", NO_TIMESTAMP),
        (Some(b"tombstone"), None, b"", 1_700_000_000_000),
        (Some(b""), Some(b""), b"", NO_TIMESTAMP),
        (None, None, b"", 0),
        (Some(b"headers"), Some(b"1000"), &thousand, NO_TIMESTAMP),
        (Some(b"\xff\xfe"), Some(&large), b"", NO_TIMESTAMP),
        (Some(b"last"), Some(b"\n"), b"", 1),
    ];
    let mut batch = ProduceBatch::new(topic.as_str().into());
    for (key, value, headers, timestamp) in sent {
        batch.push_to(0, timestamp, &ProduceRecord { key, value, headers, ..Default::default() });
    }
    assert_eq!(acked(&deliver(&mut sink(broker), &batch)), [(FlushId(0), 7)].into());

    let mut seen = 0;
    let mut reader = TopicReader::new(&connection(broker), PATIENCE, Clock::system()).unwrap();
    let mut check = |block: &stormglass::kafka::client::RecordBlock| {
        for (i, head) in block.records().iter().enumerate() {
            let (key, value, headers, timestamp) = sent[seen];
            assert_eq!((block.key(i), block.value(i)), (key, value), "record {seen}");
            assert_eq!(block.headers_encoded(i), headers, "record {seen}");
            assert_eq!(head.offset.0, seen as i64);
            if timestamp >= 0 {
                assert!(head.timestamp == timestamp || timestamp == 0, "{}", head.timestamp);
            } else {
                assert!(head.timestamp > 1_600_000_000_000, "the time of sending: {}", head.timestamp);
            }
            seen += 1;
        }
        ControlFlow::Continue(())
    };
    reader.read_all(&topic, &mut check).unwrap();
    assert_eq!(seen, 7);
}

fn a_key_lies_where_javas_partitioner_puts_it(broker: &Broker) {
    let topic = broker.topic("partitioner", 7, &[]);
    let keys: Vec<String> = ["", "a", "21", "foobar", "schön", "a-little-bit-long-string"]
        .map(str::to_owned)
        .into_iter()
        .chain((0..500).map(|n| format!("word{n}")))
        .collect();
    let mut batch = ProduceBatch::new(topic.as_str().into());
    for key in &keys {
        batch.push_to(
            BY_KEY,
            NO_TIMESTAMP,
            &ProduceRecord { key: Some(key.as_bytes()), value: Some(b"1"), ..Default::default() },
        );
    }
    // Half of them by the other way into the client, which carries headers.
    let mut header = Vec::new();
    push_header(b"h", Some(b"1"), &mut header);
    for key in &keys {
        batch.push(&ProduceRecord { key: Some(key.as_bytes()), value: None, headers: &header, ..Default::default() });
    }
    deliver(&mut sink(broker), &batch);
    let read = broker.read(&topic, Isolation::ReadCommitted);
    assert_eq!(read.len(), 2 * keys.len());
    for record in read {
        // The hash itself is held to Kafka's own test values in `tuple`.
        let hash = murmur2(record.key.as_deref().unwrap()) & 0x7fff_ffff;
        assert_eq!(record.partition.unwrap(), i32::try_from(hash % 7).unwrap(), "{:?}", record.text());
    }
}

fn a_full_queue_takes_a_prefix_and_nothing_is_lost_or_out_of_order(broker: &Broker) {
    let topic = broker.topic("full", 1, &[]);
    let mut options = SinkOptions::new(connection(broker));
    options.queue_records = 100;
    let mut sink = RdkafkaSink::new(&options, Clock::system()).unwrap();
    let mut header = Vec::new();
    push_header(b"h", None, &mut header);
    let mut batch = ProduceBatch::new(topic.as_str().into());
    for n in 0..5000_u32 {
        let text = n.to_string();
        let headers: &[u8] = if n % 50 == 7 { &header } else { b"" };
        batch.push_to(0, NO_TIMESTAMP, &ProduceRecord { value: Some(text.as_bytes()), headers, ..Default::default() });
    }
    let (mut at, mut partly, mut reports) = (0, 0, Vec::new());
    while at < batch.len() {
        let taken = sink.produce(&batch, at);
        assert!(sink.in_flight() <= 100, "{}", sink.in_flight());
        partly += usize::from(at + taken < batch.len());
        at += taken;
        sink.poll(STEP, &mut reports).unwrap();
    }
    sink.close(PATIENCE, &mut reports).unwrap();
    assert!(partly > 0, "the queue was never full");
    assert_eq!(acked(&reports), [(FlushId(0), 5000)].into());
    let read = broker.read(&topic, Isolation::ReadCommitted);
    let expected: Vec<String> = (0..5000).map(|n| n.to_string()).collect();
    assert_eq!(read.iter().map(|r| r.text().1).collect::<Vec<_>>(), expected);
}

fn acknowledgements_are_counted_exactly_for_each_flush(broker: &Broker) {
    let topic = broker.topic("flushes", 3, &[]);
    let mut batch = ProduceBatch::new(topic.as_str().into());
    let mut expected = BTreeMap::new();
    for n in 0..3000_u32 {
        let flush = FlushId(if n % 10 == 0 { u32::MAX } else { n / 1000 });
        *expected.entry(flush).or_insert(0) += 1;
        let key = n.to_string();
        batch.push(&ProduceRecord { key: Some(key.as_bytes()), flush, tag: n, ..Default::default() });
    }
    assert_eq!(acked(&deliver(&mut sink(broker), &batch)), expected);
}

fn a_record_that_is_too_large_fails_and_the_others_arrive(broker: &Broker) {
    let topic = broker.topic("large", 1, &[("max.message.bytes", "50000")]);
    let (for_broker, for_client) = (vec![b'b'; 60_000], vec![b'c'; 2_000_000]);
    let values: [&[u8]; 5] = [b"first", &for_broker, b"second", &for_client, b"third"];
    let mut batch = ProduceBatch::new(topic.as_str().into());
    for (tag, value) in (0..).zip(values) {
        batch.push(&ProduceRecord { key: Some(b"k"), value: Some(value), flush: FlushId(9), tag, headers: b"" });
    }
    let options = SinkOptions { request_records: 1, ..SinkOptions::new(connection(broker)) };
    let mut one_by_one = RdkafkaSink::new(&options, Clock::system()).unwrap();
    let reports = deliver(&mut one_by_one, &batch);
    assert_eq!(acked(&reports), [(FlushId(9), 3)].into());
    let mut failed: Vec<_> = failures(&reports).map(|f| (f.tag, f.flush, f.reason, f.value_len)).collect();
    failed.sort_by_key(|f| f.0);
    let large = |tag, len| (tag, FlushId(9), DeliveryFailure::TooLarge, len);
    assert_eq!(failed, [large(1, 60_000), large(3, 2_000_000)]);
    assert!(failures(&reports).all(|f| f.key.as_deref() == Some(b"k") && f.contents.is_none()));
    let read: Vec<_> = broker.read(&topic, Isolation::ReadCommitted).iter().map(|r| r.text().1).collect();
    assert_eq!(read, ["first", "second", "third"]);
}

fn a_request_that_is_too_large_gives_its_records_back_whole(broker: &Broker) {
    let topic = broker.topic("large-request", 1, &[("max.message.bytes", "50000")]);
    let large = vec![b'b'; 60_000];
    let mut batch = ProduceBatch::new(topic.as_str().into());
    let mut headers = Vec::new();
    push_header(b"name", Some(b"text"), &mut headers);
    batch.push(&ProduceRecord { key: Some(b"k"), value: Some(&large), flush: FlushId(9), tag: 7, headers: &headers });
    let reports = deliver(&mut sink(broker), &batch);
    let failed: Vec<_> = failures(&reports).collect();
    let [failed] = failed.as_slice() else { panic!("{reports:?}") };
    assert_eq!((failed.tag, failed.reason), (7, DeliveryFailure::RequestTooLarge));
    assert_eq!(failed.contents, Some(Contents { value: Some(large), headers }));
}

fn failures(reports: &[DeliveryReport]) -> impl Iterator<Item = &FailedRecord> {
    reports.iter().filter_map(|report| match report {
        DeliveryReport::Failed(failed) => Some(&**failed),
        _ => None,
    })
}
