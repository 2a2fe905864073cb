//! Idempotent and transactional producers, through requests.

use std::time::Duration;

use kafka_protocol::{
    error::ResponseError,
    messages::{InitProducerIdRequest, ResponseKind, TopicName},
};

use super::{
    Logs, Marker, OpenTransactions, TransactionalWrite,
    bench::{Bench, Sample, values},
};

fn data(producer: (i64, i16, i32), count: usize) -> Sample {
    let (id, epoch, sequence) = producer;
    Sample::values(&vec!["x"; count]).by(id, epoch, sequence)
}

const OUT_OF_ORDER: i16 = 45;
const OLD_EPOCH: i16 = 47;

#[test]
fn last_five_batches_are_answered_again_with_their_offsets() {
    let mut bench = Bench::new(&[]);
    for n in 0..7 {
        assert_eq!(bench.append(&data((1, 0, n * 2), 2)), i64::from(n) * 2);
    }
    for n in 2..7 {
        assert_eq!(bench.append(&data((1, 0, n * 2), 2)), i64::from(n) * 2, "batch {n}");
    }
    assert_eq!(bench.refused(&data((1, 0, 2), 2).encode()), OUT_OF_ORDER);
    assert_eq!(bench.fetch(0, 0).high_watermark, 14);
}

#[test]
fn same_first_sequence_with_another_length_is_no_duplicate() {
    let mut bench = Bench::new(&[]);
    bench.append(&data((1, 0, 0), 2));
    assert_eq!(bench.refused(&data((1, 0, 0), 3).encode()), OUT_OF_ORDER);
}

#[test]
fn gap_in_sequences_is_out_of_order() {
    let mut bench = Bench::new(&[]);
    bench.append(&data((1, 0, 0), 1));
    assert_eq!(bench.refused(&data((1, 0, 2), 1).encode()), OUT_OF_ORDER);
    assert_eq!(bench.append(&data((1, 0, 1), 1)), 1);
}

#[test]
fn producer_that_is_not_known_may_begin_with_any_sequence() {
    assert_eq!(Bench::new(&[]).append(&data((1, 3, 77), 1)), 0);
}

#[test]
fn after_the_largest_sequence_comes_zero() {
    let mut bench = Bench::new(&[]);
    bench.append(&data((1, 0, i32::MAX - 1), 1));
    // In the middle of a batch, and between two.
    bench.append(&data((1, 0, i32::MAX), 3));
    assert_eq!(bench.append(&data((1, 0, 2), 1)), 4);
    assert_eq!(bench.append(&data((1, 0, i32::MAX), 3)), 1, "a duplicate over the wrap");
    let mut between = Bench::new(&[]);
    between.append(&data((1, 0, i32::MAX), 1));
    assert_eq!(between.refused(&data((1, 0, 1), 1).encode()), OUT_OF_ORDER);
    assert_eq!(between.append(&data((1, 0, 0), 1)), 1);
}

#[test]
fn new_epoch_begins_with_zero_and_ends_the_old_one() {
    let mut bench = Bench::new(&[]);
    bench.append(&data((1, 0, 0), 1));
    assert_eq!(bench.refused(&data((1, 1, 1), 1).encode()), OUT_OF_ORDER);
    assert_eq!(bench.append(&data((1, 1, 0), 1)), 1);
    assert_eq!(bench.refused(&data((1, 0, 1), 1).encode()), OLD_EPOCH);
    assert_eq!(bench.refused(&data((1, 0, 0), 1).encode()), OLD_EPOCH, "what was in the old epoch is no duplicate");
}

#[test]
fn marker_of_a_later_epoch_fences_the_earlier_one() {
    let mut bench = Bench::new(&[]);
    bench.append(&data((1, 0, 0), 1).transactional());
    bench.end(1, 1, false);
    assert_eq!(bench.refused(&data((1, 0, 1), 1).transactional().encode()), OLD_EPOCH);
    assert_eq!(bench.append(&data((1, 1, 0), 1).transactional()), 2);
}

#[test]
fn markers_of_older_epochs_and_coordinators_are_refused() {
    let mut bench = Bench::new(&[]);
    let (topic, now) = (Bench::topic(), bench.now);
    let marker = Marker { producer_id: 1, producer_epoch: 5, coordinator_epoch: 7, commit: true };
    let mut write = |marker| bench.logs.write_marker(&topic, 0, marker, now);
    assert_eq!(write(marker), Ok(0));
    assert_eq!(write(Marker { producer_epoch: 4, ..marker }), Err(ResponseError::InvalidProducerEpoch));
    assert_eq!(write(Marker { coordinator_epoch: 6, ..marker }), Err(ResponseError::TransactionCoordinatorFenced));
    assert_eq!(write(marker), Ok(1));
    let unknown = bench.logs.write_marker(&topic, 1, marker, now);
    assert_eq!(unknown, Err(ResponseError::UnknownTopicOrPartition));
}

#[test]
fn plain_batch_inside_a_transaction_is_an_invalid_state() {
    let mut bench = Bench::new(&[]);
    bench.append(&data((1, 0, 0), 1).transactional());
    let code = bench.refused(&data((1, 0, 1), 1).encode());
    assert_eq!(code, ResponseError::InvalidTxnState.code());
}

#[test]
fn idle_producers_are_forgotten_after_their_time_unless_in_a_transaction() {
    let mut bench = Bench::new(&[("retention.ms", "-1")]);
    bench.append(&data((1, 0, 0), 1));
    bench.append(&data((2, 0, 0), 1).transactional());
    bench.now = bench.now + Duration::from_hours(25);
    bench.answers();
    assert_eq!(bench.append(&data((1, 0, 9), 1)), 2);
    assert_eq!(bench.refused(&data((2, 0, 9), 1).transactional().encode()), OUT_OF_ORDER);
}

#[test]
fn every_producer_without_transactional_id_is_a_new_one() {
    let mut bench = Bench::new(&[]);
    let mut id = || {
        let request = InitProducerIdRequest::default().with_transactional_id(None);
        let request = request.with_producer_id(5.into()).with_producer_epoch(3);
        let Some(ResponseKind::InitProducerId(response)) = bench.ask(request, 4) else { panic!("no response") };
        assert_eq!((response.error_code, response.producer_epoch), (0, 0));
        response.producer_id.0
    };
    assert_eq!([id(), id(), id()], [0, 1, 2]);
}

#[test]
fn committed_readers_are_told_of_aborted_transactions_among_what_they_read() {
    let mut bench = Bench::new(&[]);
    bench.append(&data((1, 0, 0), 1).transactional());
    bench.append(&data((2, 0, 0), 1).transactional());
    bench.append(&data((3, 0, 0), 1));
    bench.end(1, 0, false);
    let read = bench.fetch(0, 1);
    // The second transaction is open: nothing from it on is read, the abort's marker neither.
    assert_eq!((read.last_stable_offset, read.high_watermark), (1, 4));
    assert_eq!(values(read.records.as_ref().unwrap()).len(), 1);
    let told = |read: &kafka_protocol::messages::fetch_response::PartitionData| {
        let aborted = read.aborted_transactions.iter().flatten();
        aborted.map(|aborted| (aborted.producer_id.0, aborted.first_offset)).collect::<Vec<_>>()
    };
    assert_eq!(told(&read), [(1, 0)]);
    bench.end(2, 0, true);
    let read = bench.fetch(0, 1);
    assert_eq!((read.last_stable_offset, told(&read)), (5, vec![(1, 0)]));
    assert_eq!(told(&bench.fetch(4, 1)), []);
    let uncommitted = bench.fetch(0, 0);
    assert_eq!(uncommitted.aborted_transactions, None);
    assert_eq!(values(&uncommitted.records.unwrap()).len(), 3);
}

/// Nobody may write in a transaction, for this reason.
struct Refusing(ResponseError);

impl OpenTransactions for Refusing {
    fn admits(&self, _: TransactionalWrite<'_>) -> Result<(), ResponseError> {
        Err(self.0)
    }
}

fn produce(logs: &mut Logs, transactions: &Refusing, sample: &Sample, version: i16, named: bool) -> i16 {
    use crate::{broker::core::request::Reply, clock::Instant};
    use kafka_protocol::messages::{
        ProduceRequest, TransactionalId,
        produce_request::{PartitionProduceData, TopicProduceData},
    };
    let partition = PartitionProduceData::default().with_records(Some(sample.encode()));
    let topic = TopicProduceData::default().with_name(Bench::topic()).with_partition_data(vec![partition]);
    let id = named.then(|| TransactionalId("tx".into()));
    let request = ProduceRequest::default().with_acks(-1).with_transactional_id(id).with_topic_data(vec![topic]);
    match logs.produce(&request, version, transactions, Instant::ZERO) {
        Reply::Now(ResponseKind::Produce(response)) => response.responses[0].partition_responses[0].error_code,
        other => panic!("{other:?}"),
    }
}

#[test]
fn first_batch_of_a_transaction_is_taken_only_if_the_coordinator_knows_of_it() {
    let mut bench = Bench::new(&[]);
    let gate = Refusing(ResponseError::TransactionAbortable);
    let mut ask = |sample: &Sample, version| produce(&mut bench.logs, &gate, sample, version, true);
    let first = data((1, 0, 0), 1).transactional();
    assert_eq!(ask(&first, 11), ResponseError::TransactionAbortable.code());
    assert_eq!(ask(&first, 10), ResponseError::InvalidTxnState.code());
    bench.append(&first);
    // From then on it is known here.
    let mut ask = |sample: &Sample, version| produce(&mut bench.logs, &gate, sample, version, true);
    assert_eq!(ask(&data((1, 0, 1), 1).transactional(), 11), 0);
    bench.end(1, 0, true);
    let again = data((1, 0, 0), 1).transactional();
    assert_eq!(produce(&mut bench.logs, &gate, &again, 11, true), ResponseError::TransactionAbortable.code());
}

#[test]
fn transactional_batch_without_transactional_id_is_not_authorized() {
    let mut bench = Bench::new(&[]);
    let gate = Refusing(ResponseError::TransactionAbortable);
    let code = produce(&mut bench.logs, &gate, &data((1, 0, 0), 1).transactional(), 11, false);
    assert_eq!(code, ResponseError::TransactionalIdAuthorizationFailed.code());
}

#[test]
fn lost_tail_takes_sequences_and_markers_with_it() {
    let mut bench = Bench::new(&[]);
    let topic: TopicName = Bench::topic();
    bench.append(&data((1, 0, 0), 2).transactional());
    bench.append(&data((2, 0, 0), 1));
    bench.end(1, 0, false);
    bench.append(&data((1, 0, 2), 1).transactional());
    assert!(bench.logs.lose_tail(&topic, 0, 3));
    let read = bench.fetch(0, 1);
    assert_eq!((read.high_watermark, read.last_stable_offset), (3, 0), "the transaction is open again");
    assert_eq!(bench.append(&data((1, 0, 0), 2).transactional()), 0, "a duplicate of what is left");
    assert_eq!(bench.append(&data((1, 0, 2), 1).transactional()), 3);
    assert_eq!(bench.append(&data((2, 0, 1), 1)), 4);
    assert!(!bench.logs.lose_tail(&topic, 1, 0));
}
