//! Who is a transactional id's producer.

use std::time::Duration;

use kafka_protocol::{
    error::ResponseError,
    messages::{InitProducerIdRequest, ProducerId, ResponseKind},
};

use super::{
    super::{
        TransactionOptions,
        transaction::{Identity, Transaction},
    },
    cluster::{Cluster, TIMEOUT, id},
};
use crate::clock::Instant;

const FENCED: i16 = ResponseError::ProducerFenced.code();
const CONCURRENT: i16 = ResponseError::ConcurrentTransactions.code();

#[test]
fn every_producer_of_an_id_has_the_next_epoch_and_other_ids_have_other_producers() {
    let mut c = Cluster::new();
    let first = c.init("a", None).unwrap();
    assert_eq!(first.1, 0);
    assert_eq!(c.init("a", None), Ok((first.0, 1)));
    assert_ne!(c.init("b", None).unwrap().0, first.0);
}

#[test]
fn id_and_timeout_are_checked() {
    let mut c = Cluster::new();
    let mut code = |name: &str, timeout: i32, producer: i64| {
        let request = InitProducerIdRequest::default()
            .with_transactional_id(Some(id(name)))
            .with_transaction_timeout_ms(timeout)
            .with_producer_id(ProducerId(producer));
        let ResponseKind::InitProducerId(response) = c.ask(4, request) else { panic!() };
        response.error_code
    };
    assert_eq!(code("", 1_000, -1), ResponseError::InvalidRequest.code());
    assert_eq!(code("a", 1_000, 5), ResponseError::InvalidRequest.code(), "an id without an epoch");
    for timeout in [0, -1, 900_001] {
        assert_eq!(code("a", timeout, -1), ResponseError::InvalidTransactionTimeout.code());
    }
    assert_eq!(code("a", 900_000, -1), 0);
}

#[test]
fn producer_that_was_fenced_succeeds_in_nothing() {
    let mut c = Cluster::new();
    let old = c.init("a", None).unwrap();
    c.add("a", old, 0);
    assert_eq!(c.write("a", old, 0, (0, "lost")), 0);
    assert_eq!(c.init("a", None), Err(CONCURRENT), "its transaction is aborted first");
    c.init("a", None).unwrap();
    let epoch = ResponseError::InvalidProducerEpoch.code();
    assert_eq!(c.add("a", old, 0), FENCED);
    assert_eq!(c.add_in(1, "a", old, &[0]), [epoch], "as an old client knows it");
    assert_eq!(c.add_group("a", old), FENCED);
    assert_eq!(c.end("a", old, true), FENCED);
    assert_eq!(c.end_in(1, "a", old, true), epoch);
    assert_eq!(c.write("a", old, 0, (1, "late")), epoch);
    assert_eq!(c.commit_in(4, "a", old, 5), epoch);
    assert_eq!(c.init("a", Some(old)), Err(FENCED));
    assert!(c.committed(0).is_empty());
}

#[test]
fn producer_that_nobody_knows_is_not_mapped() {
    let mut c = Cluster::new();
    let known = c.init("a", None).unwrap();
    let unmapped = ResponseError::InvalidProducerIdMapping.code();
    assert_eq!(c.add("b", known, 0), unmapped);
    assert_eq!(c.add("a", (known.0 + 1, 0), 0), unmapped);
    assert_eq!(c.end("a", (known.0 + 1, 0), true), unmapped);
    assert_eq!(c.commit_in(4, "b", known, 5), unmapped);
}

#[test]
fn producer_asks_for_its_own_next_epoch_and_is_given_it_again_if_it_asks_again() {
    let mut c = Cluster::new();
    let first = c.init("a", None).unwrap();
    let second = c.init("a", Some(first)).unwrap();
    assert_eq!(second, (first.0, 1));
    assert_eq!(c.init("a", Some(first)), Ok(second), "the response was lost");
    assert_eq!(c.init("a", Some(second)), Ok((first.0, 2)));
    assert_eq!(c.init("a", Some(first)), Err(FENCED));
    assert_eq!(c.init("a", Some((first.0 + 9, 0))), Err(FENCED));
}

#[test]
fn epochs_that_are_used_up_bring_a_new_producer_id() {
    let mut transaction = Transaction::new(7, Instant::ZERO);
    for _ in 0..=i16::MAX - 1 {
        transaction.renew(None, (TIMEOUT, Instant::ZERO), || panic!("there are epochs left")).unwrap();
    }
    let last = transaction.producer;
    assert_eq!(last, Identity { id: 7, epoch: i16::MAX - 1 });
    transaction.renew(Some(last), (TIMEOUT, Instant::ZERO), || 8).unwrap();
    assert_eq!(transaction.producer, Identity { id: 8, epoch: 0 });
    assert!(transaction.knows(last), "it may have lost the response");
    transaction.renew(Some(last), (TIMEOUT, Instant::ZERO), || 9).unwrap();
    assert_eq!(transaction.producer, Identity { id: 8, epoch: 0 });
    assert!(!transaction.knows(Identity { id: 7, epoch: 3 }));
}

#[test]
fn producer_of_the_last_epoch_can_be_fenced() {
    let mut transaction = Transaction::new(7, Instant::ZERO);
    for _ in 0..=i16::MAX - 1 {
        transaction.renew(None, (TIMEOUT, Instant::ZERO), || 8).unwrap();
    }
    let last = transaction.producer;
    transaction.fence();
    assert!(transaction.validate(last).is_err());
    transaction.renew(None, (TIMEOUT, Instant::ZERO), || 8).unwrap();
    assert_eq!(transaction.producer, Identity { id: 8, epoch: 0 });
}

#[test]
fn transaction_that_lasts_too_long_is_aborted_and_its_producer_fenced() {
    let mut c = Cluster::new();
    let slow = c.init("a", None).unwrap();
    c.add("a", slow, 0);
    assert_eq!(c.write("a", slow, 0, (0, "slow")), 0);
    c.pass(TIMEOUT - Duration::from_millis(1));
    assert_eq!(c.write("a", slow, 0, (1, "slow")), 0);
    c.pass(Duration::from_millis(1));
    assert_eq!(c.end("a", slow, true), FENCED);
    assert_eq!(c.init("a", Some(slow)), Err(FENCED), "it cannot know that nothing of it was committed");
    assert!(c.committed(0).is_empty());
    assert_eq!(c.init("a", None), Ok((slow.0, 2)));
}

#[test]
fn producer_without_a_transaction_may_take_its_time() {
    let mut c = Cluster::new();
    let idle = c.init("a", None).unwrap();
    c.pass(TIMEOUT * 100);
    assert_eq!(c.add("a", idle, 0), 0);
}

#[test]
fn an_id_that_nobody_uses_is_forgotten_in_time() {
    let mut c = Cluster::new();
    let TransactionOptions { id_expiration, id_expiration_check_interval, .. } = TransactionOptions::default();
    let idle = c.init("a", None).unwrap();
    c.pass(id_expiration / 2);
    assert_eq!((c.add("a", idle, 0), c.end("a", idle, true)), (0, 0));
    c.pass(id_expiration - id_expiration_check_interval);
    assert_eq!(c.init("b", None).map(|(_, epoch)| epoch), Ok(0));
    assert_eq!((c.add("a", idle, 0), c.end("a", idle, true)), (0, 0), "it is in use");
    c.pass(id_expiration + id_expiration_check_interval);
    assert_eq!(c.add("a", idle, 0), ResponseError::InvalidProducerIdMapping.code());
    assert_eq!(c.init("b", None).map(|(_, epoch)| epoch), Ok(0), "it begins anew");
}
