//! A batch that is sent again is written once.

use kafka_protocol::messages::ApiKey;
use libtest_mimic::Trial;
use rdkafka::{
    config::ClientConfig,
    producer::{BaseProducer, BaseRecord, Producer},
    types::RDKafkaErrorCode,
};

use super::{
    PATIENCE, both,
    proxy::Proxy,
    values,
    wire::{Wire, Writer, batch},
};
use crate::broker::{Broker, Isolation};

pub fn trials() -> Vec<Trial> {
    both!(
        a_batch_that_is_sent_again_is_written_once_and_has_its_offset,
        a_gap_in_the_sequence_is_refused,
        a_new_epoch_begins_its_sequence_anew_and_the_old_one_is_refused,
        producers_without_an_id_are_told_apart,
        what_librdkafka_sends_again_after_a_lost_response_is_written_once,
        what_librdkafka_sends_again_in_a_transaction_is_written_once,
    )
}

fn a_batch_that_is_sent_again_is_written_once_and_has_its_offset(broker: &Broker) {
    let topic = broker.topic("again", 1, &[]);
    let mut wire = Wire::connect(broker);
    let (id, epoch) = wire.producer(None);
    let batches: Vec<_> = (0..5).map(|n| batch(Writer { id, epoch, sequence: 2 * n }, &["x", "y"])).collect();
    for (batch, n) in batches.iter().zip(0..) {
        assert_eq!(offset(&mut wire, &topic, batch), Ok(2 * n));
    }
    // Five may be on their way at a time, so any of the last five may be asked for again: over another connection, too.
    let mut other = Wire::connect(broker);
    for (batch, n) in batches.iter().zip(0..) {
        assert_eq!(offset(&mut other, &topic, batch), Ok(2 * n), "batch {n} again");
    }
    assert_eq!(values(broker, &topic, Isolation::ReadCommitted), ["x", "y"].repeat(5));
}

fn a_gap_in_the_sequence_is_refused(broker: &Broker) {
    let topic = broker.topic("gap", 1, &[]);
    let mut wire = Wire::connect(broker);
    let (id, epoch) = wire.producer(None);
    let mut write = |sequence| offset(&mut wire, &topic, &batch(Writer { id, epoch, sequence }, &["x"]));
    assert_eq!(write(0), Ok(0));
    assert_eq!(write(2), Err(RDKafkaErrorCode::OutOfOrderSequenceNumber as i16));
    assert_eq!(write(1), Ok(1));
    assert_eq!(write(2), Ok(2));
    // Older than what is remembered of a producer.
    for sequence in 3..8 {
        assert_eq!(write(sequence), Ok(sequence.into()));
    }
    let old = write(1);
    assert!(
        [Err(RDKafkaErrorCode::OutOfOrderSequenceNumber as i16), Err(RDKafkaErrorCode::DuplicateSequenceNumber as i16)]
            .contains(&old),
        "{old:?}"
    );
    assert_eq!(values(broker, &topic, Isolation::ReadCommitted).len(), 8);
}

fn a_new_epoch_begins_its_sequence_anew_and_the_old_one_is_refused(broker: &Broker) {
    let topic = broker.topic("epoch", 1, &[]);
    let mut wire = Wire::connect(broker);
    let (id, epoch) = wire.producer(None);
    let mut write = |epoch, sequence| offset(&mut wire, &topic, &batch(Writer { id, epoch, sequence }, &["x"]));
    assert_eq!(write(epoch, 0), Ok(0));
    assert_eq!(write(epoch, 1), Ok(1));
    assert_eq!(write(epoch + 1, 1), Err(RDKafkaErrorCode::OutOfOrderSequenceNumber as i16));
    assert_eq!(write(epoch + 1, 0), Ok(2));
    assert_eq!(write(epoch, 2), Err(RDKafkaErrorCode::InvalidProducerEpoch as i16));
}

fn producers_without_an_id_are_told_apart(broker: &Broker) {
    let topic = broker.topic("apart", 1, &[]);
    let mut wire = Wire::connect(broker);
    let ids = [wire.producer(None).0, wire.producer(None).0, wire.producer(None).0];
    assert!(ids[0] != ids[1] && ids[1] != ids[2] && ids[0] != ids[2], "{ids:?}");
    for (id, place) in ids.into_iter().zip(0..) {
        assert_eq!(offset(&mut wire, &topic, &batch(Writer { id, epoch: 0, sequence: 0 }, &["x"])), Ok(place));
    }
}

/// Every third response to a batch is lost, until ten are.
fn every_third_batch(api: ApiKey, before: usize) -> bool {
    api == ApiKey::Produce && before < 30 && before.is_multiple_of(3)
}

/// A producer behind a proxy, whose batches are small enough that many are on their way at a time.
fn behind(proxy: &Proxy, properties: &[(&str, &str)]) -> BaseProducer {
    let mut config = ClientConfig::new();
    config
        .set("bootstrap.servers", proxy.bootstrap())
        .set("enable.idempotence", "true")
        .set("batch.num.messages", "10")
        .set("reconnect.backoff.ms", "10")
        .set("retry.backoff.ms", "10")
        .set("linger.ms", "1");
    for (name, value) in properties {
        config.set(*name, *value);
    }
    config.create().expect("a producer")
}

/// Writes 600 records and waits for their acknowledgements.
fn write_all(producer: &BaseProducer, topic: &str) -> Vec<String> {
    let sent: Vec<String> = (0..600).map(|n| n.to_string()).collect();
    for value in &sent {
        producer.send(BaseRecord::<(), str>::to(topic).partition(0).payload(value)).expect("room in the queue");
    }
    producer.flush(PATIENCE).expect("all are acknowledged");
    sent
}

/// The connection breaks with the response, as it does when a broker dies: the client connects again and sends what it has
/// no response to.
fn what_librdkafka_sends_again_after_a_lost_response_is_written_once(broker: &Broker) {
    let topic = broker.topic("lost", 1, &[]);
    let proxy = Proxy::before(broker.bootstrap(), every_third_batch);
    let sent = write_all(&behind(&proxy, &[]), &topic);
    assert!(proxy.lost() >= 3, "only {} responses were lost", proxy.lost());
    assert_eq!(values(broker, &topic, Isolation::ReadCommitted), sent);
}

fn what_librdkafka_sends_again_in_a_transaction_is_written_once(broker: &Broker) {
    let topic = broker.topic("lost-transaction", 1, &[]);
    let proxy = Proxy::before(broker.bootstrap(), |api, before| {
        every_third_batch(api, before) || (matches!(api, ApiKey::EndTxn | ApiKey::AddPartitionsToTxn) && before == 0)
    });
    let producer = behind(&proxy, &[("transactional.id", &broker.unique("writer"))]);
    producer.init_transactions(PATIENCE).expect("the coordinator knows it");
    producer.begin_transaction().expect("a transaction");
    let sent = write_all(&producer, &topic);
    producer.commit_transaction(PATIENCE).expect("it is committed");
    assert!(proxy.lost() >= 5, "only {} responses were lost", proxy.lost());
    super::come(broker, &topic, &sent.iter().map(String::as_str).collect::<Vec<_>>());
}

/// Where a batch was written, or the error code.
fn offset(wire: &mut Wire, topic: &str, batch: &bytes::Bytes) -> Result<i64, i16> {
    let answer = wire.produce(topic, batch.clone());
    if answer.error_code == 0 { Ok(answer.base_offset) } else { Err(answer.error_code) }
}
