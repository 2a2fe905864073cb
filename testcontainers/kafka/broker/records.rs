//! Records that tests write and read.

use std::{
    collections::HashSet,
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use rdkafka::{
    ClientContext, Message, Offset, TopicPartitionList,
    consumer::Consumer as _,
    error::KafkaError,
    message::{DeliveryResult, Header, Headers, OwnedHeaders},
    producer::{BaseProducer, BaseRecord, Producer as _, ProducerContext},
    types::RDKafkaErrorCode,
};

use super::{Broker, PATIENCE, text};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Isolation {
    ReadCommitted,
    ReadUncommitted,
}

/// A record to write, or one that was read (then partition, offset and timestamp are there).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Record {
    pub key: Option<Vec<u8>>,
    pub value: Option<Vec<u8>>,
    pub headers: Vec<(String, Option<Vec<u8>>)>,
    pub partition: Option<i32>,
    pub timestamp: Option<i64>,
    pub offset: Option<i64>,
}

impl Record {
    fn from_message(message: &impl Message) -> Self {
        let headers = message.headers().into_iter().flat_map(Headers::iter);
        Self {
            key: message.key().map(<[u8]>::to_vec),
            value: message.payload().map(<[u8]>::to_vec),
            headers: headers.map(|h| (h.key.to_owned(), h.value.map(<[u8]>::to_vec))).collect(),
            partition: Some(message.partition()),
            timestamp: message.timestamp().to_millis(),
            offset: Some(message.offset()),
        }
    }

    /// Key and value as text, for assertions; null is "".
    pub fn text(&self) -> (String, String) {
        (text(self.key.as_deref().unwrap_or_default()), text(self.value.as_deref().unwrap_or_default()))
    }
}

impl From<&str> for Record {
    fn from(value: &str) -> Self {
        Self { value: Some(value.into()), ..Self::default() }
    }
}

impl From<(&str, &str)> for Record {
    fn from((key, value): (&str, &str)) -> Self {
        Self { key: Some(key.into()), ..Self::from(value) }
    }
}

impl Broker {
    /// Writes records, in order, and returns when the broker has acknowledged all. A `&str` is a record with only a
    /// value, `(key, value)` one with both.
    pub fn produce<R: Into<Record>>(&self, topic: &str, records: impl IntoIterator<Item = R>) {
        let producer: BaseProducer<Refusals> = self
            .client()
            .set("enable.idempotence", "true")
            .set("linger.ms", "2")
            // Java's partitioner, so that keys lie where other clients would put them.
            .set("partitioner", "murmur2_random")
            .create_with_context(Refusals::default())
            .expect("a producer");
        for record in records.into_iter().map(Into::into) {
            let headers = record.headers.iter().fold(OwnedHeaders::new(), |headers, (key, value)| {
                headers.insert(Header { key, value: value.as_deref() })
            });
            let mut next = BaseRecord::<[u8], [u8]>::to(topic).headers(headers);
            next.key = record.key.as_deref();
            next.payload = record.value.as_deref();
            next.partition = record.partition;
            next.timestamp = record.timestamp;
            while let Err((error, refused)) = producer.send(next) {
                assert_eq!(error.rdkafka_error_code(), Some(RDKafkaErrorCode::QueueFull), "{error}");
                producer.poll(Duration::from_millis(10));
                next = refused;
            }
            producer.poll(Duration::ZERO);
        }
        producer.flush(PATIENCE).expect("all records are acknowledged");
        let refusals = producer.context().0.lock().unwrap_or_else(PoisonError::into_inner);
        assert!(refusals.is_empty(), "refused by the broker: {refusals:?}");
    }

    /// All records that a reader of this isolation sees now, in the order of offsets within each partition.
    pub fn read(&self, topic: &str, isolation: Isolation) -> Vec<Record> {
        let consumer = self.consumer(isolation);
        let partitions = self.partitions(topic).unwrap_or_else(|| panic!("no topic {topic}"));
        let mut start = TopicPartitionList::new();
        for partition in 0..partitions {
            start.add_partition_offset(topic, partition, Offset::Beginning).expect("a valid offset");
        }
        consumer.assign(&start).expect("an assignment");

        let deadline = Instant::now() + PATIENCE;
        let mut open: HashSet<i32> = (0..partitions).collect();
        let mut records = Vec::new();
        while !open.is_empty() {
            assert!(Instant::now() < deadline, "the end of {topic}, partitions {open:?}, was not reached");
            match consumer.poll(Duration::from_millis(100)) {
                None => {}
                Some(Ok(message)) => records.push(Record::from_message(&message)),
                Some(Err(KafkaError::PartitionEOF(partition))) => drop(open.remove(&partition)),
                Some(Err(error)) => panic!("reading {topic}: {error}"),
            }
        }
        records
    }
}

/// What the broker did not take: `flush` alone does not tell.
#[derive(Default)]
struct Refusals(Mutex<Vec<KafkaError>>);

impl ClientContext for Refusals {}

impl ProducerContext for Refusals {
    type DeliveryOpaque = ();

    fn delivery(&self, result: &DeliveryResult<'_>, (): ()) {
        if let Err((error, _)) = result {
            self.0.lock().unwrap_or_else(PoisonError::into_inner).push(error.clone());
        }
    }
}
