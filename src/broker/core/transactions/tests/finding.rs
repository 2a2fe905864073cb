//! Coordinators as they are found, and transactions as tools see them.

use std::time::Duration;

use kafka_protocol::{
    error::ResponseError,
    messages::{
        DescribeTransactionsRequest, FindCoordinatorRequest, GroupId, HeartbeatRequest, ListTransactionsRequest,
        ProducerId, ResponseKind, describe_transactions_response::TransactionState,
    },
};

use super::{
    super::coordinator::offsets_partition,
    cluster::{Cluster, group, id, text},
};
use crate::broker::core::Coordinates;

fn find(c: &mut Cluster, key_type: i8) -> (i16, i32) {
    let request =
        FindCoordinatorRequest::default().with_key_type(key_type).with_coordinator_keys(vec![text("a"), text("b")]);
    let ResponseKind::FindCoordinator(response) = c.ask(4, request) else { panic!() };
    assert_eq!(response.coordinators.len(), 2);
    (response.coordinators[1].error_code, response.coordinators[1].node_id.0)
}

fn describe(c: &mut Cluster, name: &str) -> TransactionState {
    let request = DescribeTransactionsRequest::default().with_transactional_ids(vec![id(name)]);
    let ResponseKind::DescribeTransactions(mut response) = c.ask(0, request) else { panic!() };
    response.transaction_states.remove(0)
}

#[test]
fn coordinator_is_this_broker() {
    let mut c = Cluster::new();
    assert_eq!((find(&mut c, 0), find(&mut c, 1)), ((0, 1), (0, 1)));
    assert_eq!(find(&mut c, 9), (ResponseError::InvalidRequest.code(), -1));
    let ResponseKind::FindCoordinator(old) = c.ask(2, FindCoordinatorRequest::default().with_key(text("g"))) else {
        panic!()
    };
    assert_eq!((old.error_code, old.port), (0, 9092));
}

#[test]
fn coordinator_that_moves_is_not_there_and_then_is() {
    let mut c = Cluster::new();
    let producer = c.init("a", None).unwrap();
    c.add("a", producer, 0);
    c.write("a", producer, 0, (0, "x"));
    let until = c.now + Duration::from_secs(5);
    let mut effects = Vec::new();
    for what in [Coordinates::Groups, Coordinates::Transactions] {
        c.broker.move_coordinator(what, until, c.now, &mut effects);
    }
    let gone = ResponseError::NotCoordinator.code();
    assert_eq!(find(&mut c, 0), (ResponseError::CoordinatorNotAvailable.code(), -1));
    let heartbeat = HeartbeatRequest::default().with_group_id(group());
    let ResponseKind::Heartbeat(response) = c.ask(4, heartbeat) else { panic!() };
    assert_eq!(response.error_code, gone);
    assert_eq!(c.end("a", producer, true), gone);
    assert_eq!(c.init("a", None), Err(gone));
    c.pass(Duration::from_secs(5));
    assert_eq!(find(&mut c, 1), (0, 1));
    assert_eq!(c.end("a", producer, true), 0, "a transaction is written down");
    assert_eq!(c.committed(0), ["x"]);
}

#[test]
fn transaction_is_described_while_it_goes_on_and_after() {
    let mut c = Cluster::new();
    assert_eq!(describe(&mut c, "a").error_code, ResponseError::TransactionalIdNotFound.code());
    let producer = c.init("a", None).unwrap();
    assert_eq!(describe(&mut c, "a").transaction_state.as_str(), "Empty");
    c.pass(Duration::from_millis(7));
    c.add("a", producer, 1);
    c.add_group("a", producer);
    let open = describe(&mut c, "a");
    assert_eq!((open.transaction_state.as_str(), open.transaction_start_time_ms), ("Ongoing", 7));
    assert_eq!((open.producer_id.0, open.producer_epoch, open.transaction_timeout_ms), (producer.0, 0, 60_000));
    let topics: Vec<_> = open.topics.iter().map(|t| (t.topic.0.as_str(), t.partitions.clone())).collect();
    assert_eq!(topics, [("__consumer_offsets", vec![offsets_partition(&group())]), ("t", vec![1])]);
    c.end("a", producer, false);
    assert_eq!(describe(&mut c, "a").transaction_state.as_str(), "CompleteAbort");
}

/// As Java computes `Utils.abs(name.hashCode()) % 50`.
#[test]
fn group_is_in_the_partition_in_which_kafka_keeps_it() {
    for (name, partition) in [("g", 3), ("", 0), ("word-count", 0), ("my-group", 12), ("console-consumer-1", 24)] {
        assert_eq!(offsets_partition(&GroupId(text(name))), partition, "{name}");
    }
}

#[test]
fn transactions_are_listed_by_state_producer_and_age() {
    let mut c = Cluster::new();
    let a = c.init("a", None).unwrap();
    c.init("b", None).unwrap();
    c.add("a", a, 0);
    c.pass(Duration::from_secs(9));
    let mut listed = |states: &[&str], producers: &[i64], duration: i64| {
        let request = ListTransactionsRequest::default()
            .with_state_filters(states.iter().map(|state| text(state)).collect())
            .with_producer_id_filters(producers.iter().map(|id| ProducerId(*id)).collect())
            .with_duration_filter(duration);
        let ResponseKind::ListTransactions(response) = c.ask(1, request) else { panic!() };
        let names: Vec<String> = response.transaction_states.iter().map(|t| t.transactional_id.0.to_string()).collect();
        (names.concat(), response.unknown_state_filters.len())
    };
    assert_eq!(listed(&[], &[], -1), ("ab".to_owned(), 0));
    assert_eq!(listed(&["Ongoing", "Sleeping"], &[], -1), ("a".to_owned(), 1));
    assert_eq!(listed(&["PrepareCommit"], &[], -1), (String::new(), 0));
    assert_eq!(listed(&[], &[a.0], -1), ("a".to_owned(), 0));
    assert_eq!(listed(&["Ongoing"], &[], 9_000), (String::new(), 0));
    assert_eq!(listed(&["Ongoing"], &[], 8_999), ("a".to_owned(), 0));
}
