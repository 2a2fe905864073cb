//! Groups as tools see them.

use kafka_protocol::{
    error::ResponseError,
    messages::{
        DeleteGroupsRequest, DescribeGroupsRequest, GroupId, ListGroupsRequest, OffsetCommitRequest,
        offset_commit_request::{OffsetCommitRequestPartition, OffsetCommitRequestTopic},
    },
};

use super::history::{History, Join, group, text, topic};

#[test]
fn group_is_described_with_its_members_and_their_parts_while_it_is_stable() {
    let mut h = History::new();
    let members = h.stable(2);
    let request = DescribeGroupsRequest::default().with_groups(vec![group()]);
    let stable = h.groups.describe(6, &request).groups.remove(0);
    assert_eq!((stable.group_state.as_str(), stable.protocol_data.as_str()), ("Stable", "range"));
    assert_eq!(stable.protocol_type.as_str(), "consumer");
    let mut parts: Vec<_> =
        stable.members.iter().map(|m| (m.member_id.to_string(), m.member_assignment.to_vec())).collect();
    let mut expected: Vec<_> = members.iter().map(|m| (m.clone(), m.as_bytes().to_vec())).collect();
    parts.sort();
    expected.sort();
    assert_eq!(parts, expected);
    h.arrive(&Join::default());
    let moving = h.groups.describe(6, &request).groups.remove(0);
    assert_eq!((moving.group_state.as_str(), moving.protocol_data.as_str()), ("PreparingRebalance", ""));
    assert!(moving.members.iter().all(|member| member.member_assignment.is_empty()));
}

#[test]
fn group_that_is_not_there_is_dead() {
    let h = History::new();
    let request = DescribeGroupsRequest::default().with_groups(vec![group()]);
    let old = h.groups.describe(5, &request).groups.remove(0);
    assert_eq!((old.group_state.as_str(), old.error_code), ("Dead", 0));
    let new = h.groups.describe(6, &request).groups.remove(0);
    assert_eq!((new.group_state.as_str(), new.error_code), ("Dead", ResponseError::GroupIdNotFound.code()));
}

#[test]
fn groups_are_listed_by_state_and_type() {
    let mut h = History::new();
    h.stable(1);
    let listed = |states: &[&str], types: &[&str]| {
        let request = ListGroupsRequest::default()
            .with_states_filter(states.iter().map(|s| text(s)).collect())
            .with_types_filter(types.iter().map(|s| text(s)).collect());
        h.groups.list(&request).groups.len()
    };
    assert_eq!(listed(&[], &[]), 1);
    assert_eq!(listed(&["stable", "Empty"], &["classic"]), 1);
    assert_eq!(listed(&["Empty"], &[]), 0);
    assert_eq!(listed(&[], &["consumer"]), 0);
}

#[test]
fn only_a_group_without_members_is_deleted() {
    let mut h = History::new();
    let member = h.stable(1).remove(0);
    let request = DeleteGroupsRequest::default().with_groups_names(vec![group(), GroupId(text("other"))]);
    let codes = |h: &mut History| h.groups.delete(&request).results.iter().map(|r| r.error_code).collect::<Vec<_>>();
    let missing = ResponseError::GroupIdNotFound.code();
    assert_eq!(codes(&mut h), [ResponseError::NonEmptyGroup.code(), missing]);
    h.leave(&[(&member, None)]);
    assert_eq!(codes(&mut h), [0, missing]);
    assert_eq!(codes(&mut h), [missing, missing]);
}

/// Nobody can join it, but whoever is in no group can commit for it.
#[test]
fn group_without_a_name_is_deleted_as_any_other() {
    let mut h = History::new();
    let none = GroupId(text(""));
    let partition = OffsetCommitRequestPartition::default();
    let topic = OffsetCommitRequestTopic::default().with_name(topic("t")).with_partitions(vec![partition]);
    let commit = OffsetCommitRequest::default()
        .with_group_id(none.clone())
        .with_generation_id_or_member_epoch(-1)
        .with_topics(vec![topic]);
    let committed = h.call(|groups, now, _| groups.commit(9, &commit, &|_, _| true, now));
    assert_eq!(committed.topics[0].partitions[0].error_code, 0);
    let request = DeleteGroupsRequest::default().with_groups_names(vec![none]);
    let mut code = || h.groups.delete(&request).results[0].error_code;
    assert_eq!([code(), code()], [0, ResponseError::GroupIdNotFound.code()]);
}

#[test]
fn group_that_is_to_be_deleted_twice_is_answered_once() {
    let mut h = History::new();
    let member = h.stable(1).remove(0);
    h.leave(&[(&member, None)]);
    let other = GroupId(text("other"));
    let request = DeleteGroupsRequest::default().with_groups_names(vec![group(), other.clone(), group(), other]);
    let results = h.groups.delete(&request).results;
    let codes: Vec<i16> = results.iter().map(|result| result.error_code).collect();
    assert_eq!(codes, [0, ResponseError::GroupIdNotFound.code()]);
}
