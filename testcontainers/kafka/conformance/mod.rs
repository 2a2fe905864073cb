//! One list of trials, run on Apache Kafka and on the embedded broker: what a client sees of one it sees of the other. A
//! difference is the embedded broker's bug.
//!
//! Trials go through librdkafka, a few through Kafka's own tools (`tools`) and their Java clients (`java`), and where a client would hide what is asked
//! about, through the protocol itself (`protocol`).

mod bad_batches;
mod fencing;
mod frames;
mod groups;
mod idempotence;
mod isolation;
mod java;
mod members;
mod offsets;
mod protocol;
mod proxy;
mod records;
mod statics;
mod tools;
mod topics;
mod wire;

use std::time::{Duration, Instant};

use libtest_mimic::Trial;
use rdkafka::{
    Message,
    consumer::{BaseConsumer, Consumer},
    error::{KafkaError, KafkaResult},
    producer::{BaseProducer, BaseRecord, Producer},
    types::RDKafkaErrorCode,
};

use crate::broker::{Broker, Isolation, eventually};

/// Longer than any step takes on a busy two-core machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// Makes each test of a module two trials: `conformance::apache::NAME` and `conformance::embedded::NAME`.
macro_rules! both {
    ($($test:ident),+ $(,)?) => {
        vec![$(
            $crate::broker::shared(concat!("kafka::conformance::apache::", stringify!($test)), $test),
            $crate::broker::embedded(concat!("kafka::conformance::embedded::", stringify!($test)), $test),
        )+]
    };
}
use both;

/// [`both!`] for what Kafka's own tools do: where they cannot be had, as without Java, it is ignored.
macro_rules! both_with_java {
    ($($test:ident),+ $(,)?) => {
        vec![$(
            $crate::broker::shared(concat!("kafka::conformance::apache::", stringify!($test)), $test),
            $crate::broker::embedded_with_java(concat!("kafka::conformance::embedded::", stringify!($test)), $test),
        )+]
    };
}
use both_with_java;

pub fn trials() -> Vec<Trial> {
    [
        // The longest first.
        topics::trials(),
        statics::trials(),
        isolation::trials(),
        groups::trials(),
        members::trials(),
        java::trials(),
        tools::trials(),
        fencing::trials(),
        offsets::trials(),
        idempotence::trials(),
        records::trials(),
        protocol::trials(),
        bad_batches::trials(),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// A producer with a transactional id, which has said hello.
fn transactional(broker: &Broker, id: &str, properties: &[(&str, &str)]) -> BaseProducer {
    let mut config = broker.client();
    config.set("transactional.id", id).set("linger.ms", "0");
    for (name, value) in properties {
        config.set(*name, *value);
    }
    let producer: BaseProducer = config.create().expect("a producer");
    producer.init_transactions(PATIENCE).expect("the coordinator knows it");
    producer
}

/// Writes a value to partition 0 and waits for its acknowledgement.
fn send(producer: &BaseProducer, topic: &str, value: &str) {
    producer.send(BaseRecord::<(), str>::to(topic).partition(0).payload(value)).expect("room in the queue");
    producer.flush(PATIENCE).expect("an acknowledgement");
}

/// Offsets and values of partition 0, as a reader of this isolation sees them now.
fn seen(broker: &Broker, topic: &str, isolation: Isolation) -> Vec<(i64, String)> {
    let records = broker.read(topic, isolation).into_iter().filter(|record| record.partition == Some(0));
    records.map(|record| (record.offset.expect("an offset"), record.text().1)).collect()
}

/// The values of [`seen`].
fn values(broker: &Broker, topic: &str, isolation: Isolation) -> Vec<String> {
    seen(broker, topic, isolation).into_iter().map(|(_, value)| value).collect()
}

/// Waits until a reader of committed records sees exactly these values: a commit is answered before its markers are
/// everywhere.
fn come(broker: &Broker, topic: &str, expected: &[&str]) {
    eventually(&format!("{expected:?} are seen"), || values(broker, topic, Isolation::ReadCommitted) == expected);
}

/// Waits until partition 0 ends here, markers counted.
fn ends_at(broker: &Broker, topic: &str, end: i64) {
    let reader = consumer(broker, "watermarks", &[]);
    eventually(&format!("{topic} ends at {end}"), || {
        reader.fetch_watermarks(topic, 0, PATIENCE).is_ok_and(|(_, high)| high == end)
    });
}

/// A consumer that is in no group's membership, for offsets and assignments by hand.
fn consumer(broker: &Broker, group: &str, properties: &[(&str, &str)]) -> BaseConsumer {
    let mut config = broker.client();
    config.set("group.id", group).set("enable.auto.commit", "false").set("enable.partition.eof", "true");
    for (name, value) in properties {
        config.set(*name, *value);
    }
    config.create().expect("a consumer")
}

/// The next value, or the error that comes instead.
fn next(consumer: &BaseConsumer) -> KafkaResult<String> {
    let deadline = Instant::now() + PATIENCE;
    while Instant::now() < deadline {
        if let Some(polled) = consumer.poll(Duration::from_millis(100)) {
            return polled.map(|message| String::from_utf8_lossy(message.payload().unwrap_or_default()).into_owned());
        }
    }
    panic!("nothing came within {PATIENCE:?}");
}

/// The error of a transaction's call: its code, and whether the producer is done for.
fn refused<T: std::fmt::Debug>(outcome: KafkaResult<T>) -> (RDKafkaErrorCode, bool) {
    match outcome.expect_err("it is refused") {
        KafkaError::Transaction(error) => (error.code(), error.is_fatal()),
        other => (other.rdkafka_error_code().unwrap_or_else(|| panic!("{other}")), false),
    }
}
