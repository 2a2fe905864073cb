//! What a group has committed: when it is seen, and by whom.

use std::time::Duration;

use libtest_mimic::Trial;
use rdkafka::{
    Offset, TopicPartitionList,
    consumer::{CommitMode, Consumer},
    producer::Producer,
    types::RDKafkaErrorCode,
};

use super::{
    PATIENCE, both, consumer,
    groups::{Member, settle},
    transactional,
};
use crate::broker::Broker;

pub fn trials() -> Vec<Trial> {
    both!(
        offsets_in_a_transaction_are_seen_after_its_commit_only,
        offsets_come_back_with_their_metadata,
        metadata_that_is_too_long_is_refused,
        a_group_with_members_is_not_deleted_and_one_without_is,
        offsets_of_a_topic_that_is_deleted_are_gone,
    )
}

fn list(topic: &str, offsets: &[(i32, i64)]) -> TopicPartitionList {
    let mut list = TopicPartitionList::new();
    for (partition, offset) in offsets {
        list.add_partition_offset(topic, *partition, Offset::Offset(*offset)).unwrap();
    }
    list
}

fn offsets_in_a_transaction_are_seen_after_its_commit_only(broker: &Broker) {
    let topic = broker.topic("in-transaction", 2, &[]);
    let group = broker.unique("group");
    let writer = transactional(broker, &broker.unique("writer"), &[]);
    let reader = consumer(broker, &group, &[("isolation.level", "read_uncommitted")]);
    // Who reads committed records waits for what is pending.
    let stable = consumer(broker, &group, &[("isolation.level", "read_committed")]);
    let committed = |patience: Duration| stable.committed_offsets(list(&topic, &[(0, 0)]), patience);
    reader.commit(&list(&topic, &[(0, 1), (1, 1)]), CommitMode::Sync).unwrap();
    for (offset, commits, expected) in [(5, false, 1), (6, true, 6), (7, false, 6)] {
        let before = broker.committed(&group, &topic);
        writer.begin_transaction().unwrap();
        let member = reader.group_metadata().unwrap();
        writer.send_offsets_to_transaction(&list(&topic, &[(0, offset)]), &member, PATIENCE).unwrap();
        let now = reader.committed_offsets(list(&topic, &[(0, 0), (1, 0)]), PATIENCE).unwrap();
        let now: Vec<_> = now.elements().iter().map(|element| element.offset().to_raw()).collect();
        assert_eq!(now, before, "pending offsets are not seen");
        let waits = committed(Duration::from_millis(500)).unwrap_err().rdkafka_error_code();
        assert!(
            matches!(waits, Some(RDKafkaErrorCode::OperationTimedOut | RDKafkaErrorCode::UnstableOffsetCommit)),
            "{waits:?}"
        );
        let ended = if commits { writer.commit_transaction(PATIENCE) } else { writer.abort_transaction(PATIENCE) };
        ended.unwrap();
        // It waits until nothing is pending any more.
        assert_eq!(committed(PATIENCE).unwrap().elements()[0].offset(), Offset::Offset(expected));
        assert_eq!(broker.committed(&group, &topic), [Some(expected), Some(1)]);
    }
}

fn offsets_come_back_with_their_metadata(broker: &Broker) {
    let topic = broker.topic("metadata", 3, &[]);
    let group = broker.unique("group");
    let member = consumer(broker, &group, &[]);
    let offsets = list(&topic, &[(0, 3), (2, 5)]);
    offsets.find_partition(&topic, 0).unwrap().set_metadata("what a processor has to say");
    member.commit(&offsets, CommitMode::Sync).unwrap();
    let other = consumer(broker, &group, &[]);
    let came = other.committed_offsets(list(&topic, &[(0, 0), (1, 0), (2, 0)]), PATIENCE).unwrap();
    let came: Vec<_> =
        came.elements().iter().map(|element| (element.offset(), element.metadata().to_owned())).collect();
    let expected = [
        (Offset::Offset(3), "what a processor has to say".to_owned()),
        (Offset::Invalid, String::new()),
        (Offset::Offset(5), String::new()),
    ];
    assert_eq!(came, expected);
    // A later commit replaces the metadata, too.
    member.commit(&list(&topic, &[(0, 4)]), CommitMode::Sync).unwrap();
    let came = other.committed_offsets(list(&topic, &[(0, 0)]), PATIENCE).unwrap();
    let [element] = came.elements().try_into().unwrap_or_else(|_| panic!("one partition"));
    assert_eq!((element.offset(), element.metadata()), (Offset::Offset(4), ""));
    assert_eq!(broker.committed(&broker.unique("another"), &topic), [None, None, None]);
}

fn metadata_that_is_too_long_is_refused(broker: &Broker) {
    let topic = broker.topic("long-metadata", 1, &[]);
    let group = broker.unique("group");
    let member = consumer(broker, &group, &[]);
    for (length, refused) in [(4_096, false), (4_097, true)] {
        let offsets = list(&topic, &[(0, length)]);
        offsets.find_partition(&topic, 0).unwrap().set_metadata("m".repeat(length.try_into().unwrap()));
        let outcome = member.commit(&offsets, CommitMode::Sync);
        let code = outcome.err().and_then(|error| error.rdkafka_error_code());
        assert_eq!(code, refused.then_some(RDKafkaErrorCode::OffsetMetadataTooLarge), "{length}");
    }
    assert_eq!(broker.committed(&group, &topic), [Some(4_096)]);
}

fn a_group_with_members_is_not_deleted_and_one_without_is(broker: &Broker) {
    let topic = broker.topic("deleted-group", 1, &[]);
    let group = broker.unique("group");
    let member = Member::join(broker, &group, &topic, &[]);
    settle(&[&member], "it has the partition", || member.owns().len() == 1);
    member.consumer.commit(&list(&topic, &[(0, 1)]), CommitMode::Sync).unwrap();
    let delete = || {
        let results = broker.administer(async |admin, options| admin.delete_groups(&[&group], options).await);
        results.into_iter().next().unwrap().map(|_| ()).map_err(|(_, code)| code)
    };
    assert_eq!(delete(), Err(RDKafkaErrorCode::NonEmptyGroup));
    member.leave();
    assert_eq!(broker.committed(&group, &topic), [Some(1)]);
    assert_eq!(delete(), Ok(()));
    assert_eq!(broker.committed(&group, &topic), [None]);
    assert_eq!(delete(), Err(RDKafkaErrorCode::GroupIdNotFound));
}

fn offsets_of_a_topic_that_is_deleted_are_gone(broker: &Broker) {
    let topic = broker.topic("deleted-topic", 1, &[]);
    let group = broker.unique("group");
    consumer(broker, &group, &[]).commit(&list(&topic, &[(0, 1)]), CommitMode::Sync).unwrap();
    broker.delete_topic(&topic);
    broker.make_topic(&topic, 1, &[]);
    crate::broker::eventually("its offsets are gone", || broker.committed(&group, &topic) == [None]);
}
