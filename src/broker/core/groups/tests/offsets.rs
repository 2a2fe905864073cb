//! What may be committed by whom, and what is found of it.

use kafka_protocol::{
    error::ResponseError,
    messages::{
        OffsetCommitRequest, OffsetDeleteRequest, OffsetFetchRequest, ProducerId, TopicName, TxnOffsetCommitRequest,
        offset_commit_request::{OffsetCommitRequestPartition, OffsetCommitRequestTopic},
        offset_delete_request::{OffsetDeleteRequestPartition, OffsetDeleteRequestTopic},
        offset_fetch_request::{OffsetFetchRequestGroup, OffsetFetchRequestTopic, OffsetFetchRequestTopics},
        txn_offset_commit_request::{TxnOffsetCommitRequestPartition, TxnOffsetCommitRequestTopic},
    },
};

use super::history::{History, Join, group, text, topic};

/// Partitions 0 and 1 of topic `t`.
fn exists(name: &TopicName, partition: i32) -> bool {
    *name == topic("t") && (0..2).contains(&partition)
}

fn commit((member, generation): (&str, i32), partition: i32, offset: i64, note: &str) -> OffsetCommitRequest {
    let partition = OffsetCommitRequestPartition::default()
        .with_partition_index(partition)
        .with_committed_offset(offset)
        .with_committed_leader_epoch(3)
        .with_committed_metadata(Some(text(note)));
    let topic = OffsetCommitRequestTopic::default().with_name(topic("t")).with_partitions(vec![partition]);
    OffsetCommitRequest::default()
        .with_group_id(group())
        .with_member_id(text(member))
        .with_generation_id_or_member_epoch(generation)
        .with_topics(vec![topic])
}

impl History {
    /// Commits as a member of a generation.
    pub(super) fn commit(&mut self, who: (&str, i32), partition: i32, offset: i64, note: &str) -> i16 {
        self.send(9, &commit(who, partition, offset, note))
    }

    fn send(&mut self, version: i16, request: &OffsetCommitRequest) -> i16 {
        let response = self.call(|groups, now, _| groups.commit(version, request, &exists, now));
        response.topics[0].partitions[0].error_code
    }

    pub(super) fn commit_in_transaction(&mut self, producer: i64, member: &str, generation: i32, offset: i64) -> i16 {
        let partition = TxnOffsetCommitRequestPartition::default().with_committed_offset(offset);
        let request = TxnOffsetCommitRequest::default()
            .with_group_id(group())
            .with_producer_id(ProducerId(producer))
            .with_member_id(text(member))
            .with_generation_id(generation)
            .with_topics(vec![
                TxnOffsetCommitRequestTopic::default().with_name(topic("t")).with_partitions(vec![partition]),
            ]);
        let response = self.call(|groups, now, _| groups.commit_in_transaction(&request, Ok(()), &exists, now));
        response.topics[0].partitions[0].error_code
    }

    /// Offset, metadata and error of partition 0.
    fn committed(&self, require_stable: bool) -> (i64, String, i16) {
        let request =
            OffsetFetchRequest::default().with_group_id(group()).with_require_stable(require_stable).with_topics(Some(
                vec![OffsetFetchRequestTopic::default().with_name(topic("t")).with_partition_indexes(vec![0])],
            ));
        let response = self.groups.offsets(7, &request);
        let found = &response.topics[0].partitions[0];
        (found.committed_offset, found.metadata.as_deref().unwrap().to_owned(), found.error_code)
    }

    pub(super) fn offset(&self) -> i64 {
        self.committed(false).0
    }

    fn delete_offset(&mut self) -> (i16, i16) {
        let request = OffsetDeleteRequest::default().with_group_id(group()).with_topics(vec![
            OffsetDeleteRequestTopic::default()
                .with_name(topic("t"))
                .with_partitions(vec![OffsetDeleteRequestPartition::default()]),
        ]);
        let response = self.call(|groups, _, _| groups.delete_offsets(&request, &exists));
        (response.error_code, response.topics.first().map_or(0, |topic| topic.partitions[0].error_code))
    }
}

#[test]
fn member_commits_in_its_generation_and_in_no_other() {
    let mut h = History::new();
    let member = h.stable(1).remove(0);
    assert_eq!(h.commit((&member, 1), 0, 5, "note"), 0);
    assert_eq!(h.committed(true), (5, "note".to_owned(), 0));
    assert_eq!(h.commit((&member, 0), 0, 6, ""), ResponseError::IllegalGeneration.code());
    assert_eq!(h.commit(("someone", 1), 0, 6, ""), ResponseError::UnknownMemberId.code());
    assert_eq!(h.offset(), 5);
}

#[test]
fn member_commits_while_the_others_join_and_not_while_the_leader_assigns() {
    let mut h = History::new();
    let member = h.stable(1).remove(0);
    h.arrive(&Join::default());
    assert_eq!(h.commit((&member, 1), 0, 5, ""), 0);
    h.join(&member, &Join::default());
    assert_eq!(h.commit((&member, 2), 0, 6, ""), ResponseError::RebalanceInProgress.code());
    assert_eq!(h.commit_in_transaction(1, &member, 2, 7), 0, "in a transaction it may");
    assert_eq!(h.offset(), 5);
}

#[test]
fn commit_keeps_a_member_alive() {
    let mut h = History::new();
    let member = h.stable(1).remove(0);
    for _ in 0..4 {
        h.pass(super::history::SESSION / 2);
        assert_eq!(h.commit((&member, 1), 0, 5, ""), 0);
    }
}

#[test]
fn nobody_commits_into_a_group_with_members_but_a_member() {
    let mut h = History::new();
    assert_eq!(h.commit(("", -1), 0, 5, ""), 0, "a group that is not there is made");
    h.stable(1);
    assert_eq!(h.commit(("", -1), 0, 6, ""), ResponseError::UnknownMemberId.code());
    assert_eq!(h.commit_in_transaction(1, "", -1, 7), 0, "an old producer does not say who it is");
}

#[test]
fn generation_of_a_group_that_is_not_there_is_refused_as_the_version_knows_it() {
    let mut h = History::new();
    assert_eq!(h.send(9, &commit(("m", 1), 0, 5, "")), ResponseError::GroupIdNotFound.code());
    assert_eq!(h.send(8, &commit(("m", 1), 0, 5, "")), ResponseError::IllegalGeneration.code());
    assert_eq!(h.commit_in_transaction(1, "m", 1, 5), ResponseError::IllegalGeneration.code());
}

#[test]
fn metadata_has_at_most_4096_characters() {
    let mut h = History::new();
    assert_eq!(h.commit(("", -1), 0, 5, &"x".repeat(4_096)), 0);
    assert_eq!(h.commit(("", -1), 0, 6, &"x".repeat(4_097)), ResponseError::OffsetMetadataTooLarge.code());
    assert_eq!(h.offset(), 5);
}

#[test]
fn partition_that_is_not_there_is_unknown_to_commits() {
    let mut h = History::new();
    assert_eq!(h.commit(("", -1), 2, 5, ""), ResponseError::UnknownTopicOrPartition.code());
}

#[test]
fn what_was_never_committed_is_minus_one() {
    let mut h = History::new();
    assert_eq!(h.committed(true), (-1, String::new(), 0));
    h.commit(("", -1), 1, 5, "");
    assert_eq!(h.committed(true), (-1, String::new(), 0));
}

#[test]
fn offset_in_a_transaction_is_seen_when_it_commits() {
    let mut h = History::new();
    h.commit(("", -1), 0, 5, "");
    assert_eq!(h.commit_in_transaction(1, "", -1, 9), 0);
    assert_eq!(h.offset(), 5);
    let unstable = ResponseError::UnstableOffsetCommit.code();
    assert_eq!(h.committed(true), (-1, String::new(), unstable));
    h.groups.end_transaction(&group(), 1, true);
    assert_eq!(h.committed(true).0, 9);
}

#[test]
fn offset_in_a_transaction_that_aborts_was_never_there() {
    let mut h = History::new();
    h.commit(("", -1), 0, 5, "");
    h.commit_in_transaction(1, "", -1, 9);
    h.groups.end_transaction(&group(), 1, false);
    assert_eq!(h.committed(true).0, 5);
}

#[test]
fn plain_commit_after_one_in_a_transaction_is_the_later_one() {
    let mut h = History::new();
    h.commit_in_transaction(1, "", -1, 9);
    h.commit(("", -1), 0, 7, "");
    h.groups.end_transaction(&group(), 1, true);
    assert_eq!(h.offset(), 7);
}

#[test]
fn transaction_that_ends_ends_no_other() {
    let mut h = History::new();
    h.commit_in_transaction(1, "", -1, 9);
    h.commit_in_transaction(2, "", -1, 11);
    h.groups.end_transaction(&group(), 1, true);
    assert_eq!(h.offset(), 9);
    assert_ne!(h.committed(true).2, 0);
    h.groups.end_transaction(&group(), 2, true);
    assert_eq!(h.committed(true).0, 11);
}

#[test]
fn fetch_without_topics_finds_all_and_several_groups_at_once() {
    let mut h = History::new();
    h.commit(("", -1), 0, 5, "");
    h.commit(("", -1), 1, 6, "");
    let all = h.groups.offsets(2, &OffsetFetchRequest::default().with_group_id(group()).with_topics(None));
    let found: Vec<_> = all.topics[0].partitions.iter().map(|p| (p.partition_index, p.committed_offset)).collect();
    assert_eq!((all.topics.len(), found), (1, vec![(0, 5), (1, 6)]));
    let one = OffsetFetchRequestTopics::default().with_name(topic("t")).with_partition_indexes(vec![1]);
    let groups = vec![
        OffsetFetchRequestGroup::default().with_group_id(group()).with_topics(Some(vec![one])),
        OffsetFetchRequestGroup::default()
            .with_group_id(kafka_protocol::messages::GroupId(text("other")))
            .with_topics(None),
    ];
    let several = h.groups.offsets(8, &OffsetFetchRequest::default().with_groups(groups));
    assert_eq!(several.groups[0].topics[0].partitions[0].committed_offset, 6);
    assert!(several.groups[1].topics.is_empty() && several.groups[1].error_code == 0);
}

#[test]
fn offset_that_is_deleted_is_gone_and_one_that_is_read_cannot_be() {
    let mut h = History::new();
    assert_eq!(h.delete_offset(), (ResponseError::GroupIdNotFound.code(), 0));
    h.commit(("", -1), 0, 5, "");
    assert_eq!(h.delete_offset(), (0, 0));
    assert_eq!(h.offset(), -1);
    // The metadata of these members cannot be read, so they may read the topic.
    h.stable(1);
    assert_eq!(h.delete_offset(), (0, ResponseError::GroupSubscribedToTopic.code()));
}

#[test]
fn offsets_of_a_topic_go_with_it() {
    let mut h = History::new();
    h.commit(("", -1), 0, 5, "");
    h.commit_in_transaction(1, "", -1, 9);
    h.groups.forget_deleted(|name| *name != topic("t"));
    h.groups.end_transaction(&group(), 1, true);
    assert_eq!(h.committed(true), (-1, String::new(), 0));
}
