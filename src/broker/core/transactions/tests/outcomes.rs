//! What becomes of what is done in a transaction.

use kafka_protocol::{
    error::ResponseError,
    messages::{
        DeleteTopicsRequest, JoinGroupRequest, ProducerId, ResponseKind, TxnOffsetCommitRequest,
        join_group_request::JoinGroupRequestProtocol,
        txn_offset_commit_request::{TxnOffsetCommitRequestPartition, TxnOffsetCommitRequestTopic},
    },
};

use super::cluster::{Cluster, group, id, text, topic};

const INVALID: i16 = ResponseError::InvalidTxnState.code();

/// A producer with a record in both partitions.
fn open(c: &mut Cluster) -> (i64, i16) {
    let producer = c.init("a", None).unwrap();
    assert_eq!(c.add_in(3, "a", producer, &[0, 1]), [0, 0]);
    assert_eq!(c.write("a", producer, 0, (0, "zero")), 0);
    assert_eq!(c.write("a", producer, 1, (0, "one")), 0);
    producer
}

#[test]
fn committed_transaction_is_seen_whole() {
    let mut c = Cluster::new();
    let producer = open(&mut c);
    assert!(c.committed(0).is_empty() && c.committed(1).is_empty());
    assert_eq!(c.end("a", producer, true), 0);
    assert_eq!((c.committed(0), c.committed(1)), (vec!["zero".to_owned()], vec!["one".to_owned()]));
}

#[test]
fn aborted_transaction_is_not_seen_at_all() {
    let mut c = Cluster::new();
    let producer = open(&mut c);
    assert_eq!(c.end("a", producer, false), 0);
    assert!(c.committed(0).is_empty() && c.committed(1).is_empty());
}

#[test]
fn end_that_is_repeated_succeeds_and_the_other_end_does_not() {
    let mut c = Cluster::new();
    for (commit, other) in [(true, false), (false, true)] {
        let producer = open(&mut c);
        assert_eq!(c.end("a", producer, commit), 0);
        assert_eq!(c.end("a", producer, commit), 0);
        assert_eq!(c.end("a", producer, other), INVALID);
    }
    assert_eq!(c.committed(0).len(), 1);
}

#[test]
fn nothing_ends_that_has_not_begun() {
    let mut c = Cluster::new();
    let producer = c.init("a", None).unwrap();
    assert_eq!((c.end("a", producer, true), c.end("a", producer, false)), (INVALID, INVALID));
}

#[test]
fn partition_that_is_not_in_the_transaction_is_not_written_to() {
    let mut c = Cluster::new();
    let producer = c.init("a", None).unwrap();
    assert_eq!(c.write("a", producer, 0, (0, "x")), ResponseError::TransactionAbortable.code());
    assert_eq!(c.write_in(10, ("a", producer), 0, (0, "x")), INVALID);
    c.add("a", producer, 1);
    assert_ne!(c.write("a", producer, 0, (0, "x")), 0);
    c.end("a", producer, true);
    assert_ne!(c.write("a", producer, 1, (0, "x")), 0, "the transaction is over");
}

#[test]
fn partitions_are_added_all_or_none() {
    let mut c = Cluster::new();
    let producer = c.init("a", None).unwrap();
    let (unknown, untried) = (ResponseError::UnknownTopicOrPartition, ResponseError::OperationNotAttempted);
    assert_eq!(c.add_in(3, "a", producer, &[0, 2]), [untried.code(), unknown.code()]);
    assert_ne!(c.write("a", producer, 0, (0, "x")), 0);
}

#[test]
fn offset_is_seen_when_its_transaction_commits() {
    let mut c = Cluster::new();
    let producer = c.init("a", None).unwrap();
    assert_eq!(c.add_group("a", producer), 0);
    assert_eq!(c.commit_in(4, "a", producer, 5), 0);
    assert_eq!(c.offset(false), (-1, 0));
    assert_eq!(c.offset(true), (-1, ResponseError::UnstableOffsetCommit.code()));
    assert_eq!(c.end("a", producer, true), 0);
    assert_eq!(c.offset(true), (5, 0));
    c.add_group("a", producer);
    c.commit_in(4, "a", producer, 9);
    c.end("a", producer, false);
    assert_eq!(c.offset(true), (5, 0));
}

#[test]
fn offset_of_a_group_that_is_not_in_the_transaction_is_refused() {
    let mut c = Cluster::new();
    let producer = c.init("a", None).unwrap();
    c.add("a", producer, 0);
    assert_eq!(c.commit_in(4, "a", producer, 5), ResponseError::TransactionAbortable.code());
    assert_eq!(c.commit_in(3, "a", producer, 5), INVALID);
    c.end("a", producer, true);
    assert_eq!(c.offset(true), (-1, 0));
}

#[test]
fn zombie_of_an_older_generation_commits_nothing() {
    let mut c = Cluster::new();
    let producer = c.init("a", None).unwrap();
    let join = |member: &str| {
        let protocol = JoinGroupRequestProtocol::default().with_name(text("range"));
        JoinGroupRequest::default()
            .with_group_id(group())
            .with_session_timeout_ms(10_000)
            .with_rebalance_timeout_ms(10_000)
            .with_member_id(text(member))
            .with_protocol_type(text("consumer"))
            .with_protocols(vec![protocol])
    };
    let ResponseKind::JoinGroup(first) = c.ask(3, join("")) else { panic!() };
    let mut again = join(&first.member_id);
    again.protocols[0].metadata = bytes::Bytes::from_static(b"changed");
    let ResponseKind::JoinGroup(second) = c.ask(3, again) else { panic!() };
    assert_eq!((first.generation_id, second.generation_id), (1, 2));
    c.add_group("a", producer);
    let mut commit = |generation: i32, member: &str| {
        let partition = TxnOffsetCommitRequestPartition::default().with_committed_offset(5);
        let topics = vec![TxnOffsetCommitRequestTopic::default().with_name(topic()).with_partitions(vec![partition])];
        let request = TxnOffsetCommitRequest::default()
            .with_transactional_id(id("a"))
            .with_group_id(group())
            .with_producer_id(ProducerId(producer.0))
            .with_producer_epoch(producer.1)
            .with_generation_id(generation)
            .with_member_id(text(member))
            .with_topics(topics);
        let ResponseKind::TxnOffsetCommit(response) = c.ask(3, request) else { panic!() };
        response.topics[0].partitions[0].error_code
    };
    assert_eq!(commit(1, &first.member_id), ResponseError::IllegalGeneration.code());
    assert_eq!(commit(2, "someone"), ResponseError::UnknownMemberId.code());
    assert_eq!(commit(2, &first.member_id), 0);
}

#[test]
fn transaction_whose_topic_is_gone_ends() {
    let mut c = Cluster::new();
    let producer = open(&mut c);
    c.add_group("a", producer);
    c.commit_in(4, "a", producer, 5);
    c.ask(5, DeleteTopicsRequest::default().with_topic_names(vec![topic()]));
    assert_eq!(c.end("a", producer, true), 0);
}
