//! Responses are encoded in the version of the request, where some fields must not be set.

use bytes::BytesMut;
use kafka_protocol::messages::{ApiKey, GroupId, RequestKind, ResponseKind, *};

use super::cluster::{group, id, text};
use crate::{
    broker::core::{Broker, BrokerOptions, ConnectionId, Effect, Request, apis},
    clock::Instant,
};

/// A request of each API of the coordinators, with something in it.
fn requests() -> Vec<(ApiKey, RequestKind)> {
    let member = leave_group_request::MemberIdentity::default().with_member_id(text("m"));
    let committed = offset_commit_request::OffsetCommitRequestTopic::default()
        .with_partitions(vec![offset_commit_request::OffsetCommitRequestPartition::default()]);
    let transactional = txn_offset_commit_request::TxnOffsetCommitRequestTopic::default()
        .with_partitions(vec![txn_offset_commit_request::TxnOffsetCommitRequestPartition::default()]);
    let protocol = join_group_request::JoinGroupRequestProtocol::default().with_name(text("range"));
    let join = JoinGroupRequest::default()
        .with_group_id(group())
        .with_session_timeout_ms(10_000)
        .with_protocol_type(text("consumer"))
        .with_protocols(vec![protocol]);
    let groups =
        vec![offset_fetch_request::OffsetFetchRequestGroup::default().with_group_id(group()).with_topics(None)];
    let added = add_partitions_to_txn_request::AddPartitionsToTxnTopic::default().with_partitions(vec![0]);
    vec![
        (ApiKey::JoinGroup, join.clone().into()),
        (ApiKey::JoinGroup, join.with_member_id(text("m")).into()),
        (ApiKey::SyncGroup, SyncGroupRequest::default().with_group_id(group()).into()),
        (ApiKey::Heartbeat, HeartbeatRequest::default().with_group_id(group()).into()),
        (ApiKey::LeaveGroup, LeaveGroupRequest::default().with_group_id(group()).with_members(vec![member]).into()),
        (ApiKey::OffsetCommit, OffsetCommitRequest::default().with_topics(vec![committed]).into()),
        (ApiKey::OffsetFetch, OffsetFetchRequest::default().with_group_id(group()).with_groups(groups).into()),
        (ApiKey::OffsetDelete, OffsetDeleteRequest::default().with_group_id(group()).into()),
        (
            ApiKey::DescribeGroups,
            DescribeGroupsRequest::default().with_groups(vec![group(), GroupId(text("h"))]).into(),
        ),
        (ApiKey::ListGroups, ListGroupsRequest::default().into()),
        (ApiKey::DeleteGroups, DeleteGroupsRequest::default().with_groups_names(vec![group()]).into()),
        (ApiKey::FindCoordinator, FindCoordinatorRequest::default().with_coordinator_keys(vec![text("k")]).into()),
        (ApiKey::InitProducerId, InitProducerIdRequest::default().with_transactional_id(Some(id("a"))).into()),
        (ApiKey::AddPartitionsToTxn, AddPartitionsToTxnRequest::default().with_v3_and_below_topics(vec![added]).into()),
        (ApiKey::AddOffsetsToTxn, AddOffsetsToTxnRequest::default().into()),
        (ApiKey::TxnOffsetCommit, TxnOffsetCommitRequest::default().with_topics(vec![transactional]).into()),
        (ApiKey::EndTxn, EndTxnRequest::default().into()),
        (
            ApiKey::DescribeTransactions,
            DescribeTransactionsRequest::default().with_transactional_ids(vec![id("a")]).into(),
        ),
        (ApiKey::ListTransactions, ListTransactionsRequest::default().into()),
    ]
}

#[test]
fn every_response_can_be_encoded_in_every_version() {
    let mut broker = Broker::new(BrokerOptions::default());
    let mut encoded = 0;
    for (api, body) in requests() {
        let versions = apis::versions(api).unwrap();
        for version in versions.min..=versions.max {
            encoded += 1;
            let request = Request {
                connection: ConnectionId(encoded),
                correlation: 0,
                api,
                version,
                client_id: None,
                body: body.clone(),
            };
            let mut effects = Vec::new();
            broker.handle(request, Instant::ZERO, &mut effects);
            for effect in effects {
                let Effect::Respond(response) = effect else { panic!("{api:?} {version}") };
                let body: ResponseKind = response.body;
                body.encode(&mut BytesMut::new(), version).unwrap_or_else(|e| panic!("{api:?} {version}: {e}"));
            }
        }
    }
    assert!(encoded > 80);
}
