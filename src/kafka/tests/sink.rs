//! What the sink writes, counts and refuses.

use std::sync::Arc;

use crate::{
    clock::Instant,
    kafka::{
        DeadLetterOptions, Emit, KafkaSink, KafkaSinkOptions,
        client::DeliveryFailure,
        fake::{FakeSink, Sent},
    },
    metrics::{DeadLetterReason, Metrics},
    topology::{Delivery, Sink, StreamInfo, TaskContext, Waker},
    tuple::{Batch, Edge, KeyHash, RootId, StreamId, TaskId, Value},
};

struct Bench {
    sink: KafkaSink,
    producer: FakeSink,
    letters: FakeSink,
    metrics: Metrics,
}

fn context() -> TaskContext {
    let stream = StreamInfo {
        id: StreamId(0),
        component: "count".into(),
        name: "default".into(),
        fields: vec!["word".into(), "count".into()],
    };
    TaskContext {
        topology: "test".into(),
        component: "counts".into(),
        index: 0,
        tasks: 1,
        delivery: Delivery::AtLeastOnce,
        inputs: Arc::from([stream]),
        outputs: Arc::from([]),
        stores: Arc::new([]),
        waker: Waker::default(),
    }
}

impl Bench {
    fn new(emit: Emit) -> Self {
        let (producer, letters, metrics) = (FakeSink::default(), FakeSink::default(), Metrics::new("").unwrap());
        let options = KafkaSinkOptions::new("counts", "count").keyed_by("word").emitting(emit);
        let (client, dead) = (producer.clone(), letters.clone());
        let mut sink = KafkaSink::new(
            options,
            Arc::new(move || Ok(Box::new(client.clone()))),
            (DeadLetterOptions::default(), Arc::new(move || Ok(Box::new(dead.clone())))),
            &metrics,
        );
        sink.open(&context()).unwrap();
        Self { sink, producer, letters, metrics }
    }

    fn write(&mut self, rows: &[(Value<'_>, Value<'_>)]) {
        let mut batch = Batch::new(StreamId(0), TaskId(0), 2, 4);
        for (index, (key, value)) in (0..).zip(rows) {
            batch.push(RootId::NONE, Edge::root(index), KeyHash(0), &[*key, *value]).unwrap();
        }
        self.sink.write_batch(&batch, &mut |result| result.unwrap());
    }

    fn flush(&mut self) {
        self.sink.flush(Instant::ZERO).unwrap();
    }

    fn open(&mut self) -> usize {
        self.sink.poll(Instant::ZERO).unwrap().records
    }

    fn sent(&self) -> Vec<Sent> {
        self.producer.get().sent.clone()
    }
}

fn pairs(sent: &[Sent]) -> Vec<(Option<&str>, Option<&str>)> {
    sent.iter().map(|s| (s.key.as_deref(), s.value.as_deref())).collect()
}

#[test]
fn every_output_carries_its_lineage_and_decimal_numbers() {
    let mut bench = Bench::new(Emit::Every);
    bench.write(&[(Value::Str("a"), Value::Int(7)), (Value::Null, Value::Null)]);
    let sent = bench.sent();
    assert_eq!(pairs(&sent), [(Some("a"), Some("7")), (None, None)]);
    let lineage = format!("{:016x}", Edge::root(0).bits());
    assert_eq!(sent[0].header("stormglass-lineage"), Some(lineage.as_str()));
}

#[test]
fn the_latest_of_each_key_is_written_at_the_flush() {
    let mut bench = Bench::new(Emit::LatestPerKey);
    let word = |word, count| (Value::Str(word), Value::Int(count));
    bench.write(&[word("a", 1), word("b", 1), word("a", 2), (Value::Null, Value::Int(9))]);
    assert_eq!(pairs(&bench.sent()), [(None, Some("9"))]);
    bench.flush();
    assert_eq!(pairs(&bench.sent())[1..], [(Some("a"), Some("2")), (Some("b"), Some("1"))]);
    bench.write(&[word("a", 100)]);
    bench.flush();
    assert_eq!(pairs(&bench.sent())[3..], [(Some("a"), Some("100"))]);
    assert_eq!(bench.sent()[1].headers, []);
}

#[test]
fn in_flight_counts_exactly_what_was_taken_before_the_flush() {
    let mut bench = Bench::new(Emit::Every);
    bench.producer.get().hold = true;
    let row = (Value::Str("a"), Value::Int(1));
    bench.write(&[row, row]);
    assert_eq!(bench.open(), 0);
    bench.flush();
    bench.write(&[row, row, row]);
    assert_eq!(bench.open(), 2);
    bench.producer.get().hold = false;
    assert_eq!(bench.open(), 0);
    bench.flush();
    assert_eq!(bench.open(), 0);
}

#[test]
fn a_full_client_makes_the_sink_unready_and_loses_nothing() {
    let mut bench = Bench::new(Emit::Every);
    bench.producer.get().capacity = Some(10);
    bench.producer.get().hold = true;
    let rows: Vec<_> = (0..1000).map(|i| (Value::Null, Value::Int(i))).collect();
    bench.write(&rows);
    assert!(!bench.sink.ready());
    bench.flush();
    assert_eq!(bench.open(), 1000);
    bench.producer.get().hold = false;
    for _ in 0..200 {
        bench.open();
    }
    assert!(bench.sink.ready());
    assert_eq!(bench.open(), 0);
    let values: Vec<_> = bench.sent().iter().map(|s| s.value.clone().unwrap()).collect();
    assert_eq!(values, (0..1000).map(|i| i.to_string()).collect::<Vec<_>>());
}

#[test]
fn a_failed_delivery_ends_the_generation() {
    for failure in [DeliveryFailure::GaveUp, DeliveryFailure::Fatal, DeliveryFailure::Denied] {
        let mut bench = Bench::new(Emit::Every);
        bench.producer.get().fail_next = Some(failure);
        bench.write(&[(Value::Str("a"), Value::Int(1))]);
        let error = bench.sink.flush(Instant::ZERO).unwrap_err();
        assert_eq!(error.to_string(), "it was not delivered");
        assert_eq!(error.is_denied(), failure == DeliveryFailure::Denied);
    }
}

#[test]
fn an_output_that_is_too_large_counts_as_in_flight_until_its_dead_letter_is_stored() {
    let mut bench = Bench::new(Emit::Every);
    bench.producer.get().max_part = Some(100);
    bench.letters.get().hold = true;
    let large = "x".repeat(101);
    bench.write(&[(Value::Str("k"), Value::Str(&large)), (Value::Str("k"), Value::Str("small"))]);
    bench.flush();
    assert_eq!(bench.open(), 1);
    bench.letters.get().hold = false;
    assert_eq!(bench.open(), 0);
    let letter = bench.letters.get().sent[0].clone();
    assert_eq!((letter.key.as_deref(), letter.value.as_deref()), (Some("k"), None));
    assert_eq!(letter.header("stormglass-reason"), Some("too_large"));
    assert_eq!(bench.metrics.dead_letters(DeadLetterReason::TooLarge).get(), 1);
    assert_eq!(bench.sent().len(), 1);
}

#[test]
fn the_letter_of_an_output_with_a_long_key_leaves_out_the_key_too() {
    let mut bench = Bench::new(Emit::Every);
    bench.producer.get().max_part = Some(2_000);
    bench.letters.get().max_part = Some(2_000);
    bench.write(&[(Value::Str(&"k".repeat(2_001)), Value::Int(1))]);
    bench.flush();
    while bench.open() > 0 {}
    let letter = bench.letters.get().sent[0].clone();
    assert_eq!((letter.key, letter.value), (None, None));
}

#[test]
fn a_record_whose_request_was_too_large_is_sent_again_alone_and_counts_as_in_flight() {
    let mut bench = Bench::new(Emit::Every);
    bench.producer.get().fail_next = Some(DeliveryFailure::RequestTooLarge);
    bench.letters.get().hold = true;
    bench.write(&[(Value::Str("a"), Value::Int(1)), (Value::Str("b"), Value::Int(2))]);
    bench.flush();
    assert_eq!(bench.open(), 1);
    bench.letters.get().hold = false;
    assert_eq!(bench.open(), 0);
    let again = bench.letters.get().sent[0].clone();
    assert_eq!((again.topic.as_str(), again.key.as_deref(), again.value.as_deref()), ("counts", Some("a"), Some("1")));
    assert!(again.header("stormglass-lineage").is_some(), "it is the same record");
    assert_eq!(bench.metrics.dead_letters(DeadLetterReason::TooLarge).get(), 0);
    assert_eq!(bench.sent().len(), 1, "only the other one went the usual way");
}

#[test]
fn nothing_new_goes_out_while_a_record_is_sent_again_alone() {
    let mut bench = Bench::new(Emit::Every);
    bench.producer.get().fail_next = Some(DeliveryFailure::RequestTooLarge);
    bench.letters.get().hold = true;
    bench.write(&[(Value::Str("a"), Value::Int(1))]);
    bench.flush();
    bench.write(&[(Value::Str("a"), Value::Int(2))]);
    bench.flush();
    assert_eq!((bench.open(), bench.sent().len()), (2, 0), "2 would be overtaken by 1");
    bench.letters.get().hold = false;
    assert_eq!((bench.open(), bench.open()), (1, 0));
    assert_eq!(bench.sent().len(), 1);
}
