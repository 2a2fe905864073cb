//! What outlives its frame.

use bytes::Bytes;
use kafka_protocol::{
    messages::{
        ApiKey, CreateTopicsRequest, GroupId, InitProducerIdRequest, JoinGroupRequest, OffsetCommitRequest,
        RequestKind, TopicName, TransactionalId,
        create_topics_request::{CreatableTopic, CreatableTopicConfig},
        join_group_request::JoinGroupRequestProtocol,
        offset_commit_request::{OffsetCommitRequestPartition, OffsetCommitRequestTopic},
    },
    protocol::StrBytes,
};

use super::{produced, request};
use crate::broker::{
    core::{ConnectionId, Request},
    wire::codec,
};

/// Longer than what is believed at once.
const LONG: usize = 300_000;

fn text() -> StrBytes {
    StrBytes::from_string("x".repeat(LONG))
}

/// The frame of a request, and what is read from it.
fn read(api: ApiKey, version: i16, body: &RequestKind) -> (Bytes, Request) {
    let frame = Bytes::copy_from_slice(&request(api, version, 1, body)[4..]);
    let request = codec::decode(ConnectionId(0), &frame).unwrap();
    assert_eq!(request.body, *body, "{api:?}");
    (frame, request)
}

#[test]
fn a_request_that_is_kept_does_not_keep_its_frame() {
    let protocol = JoinGroupRequestProtocol::default().with_name(text()).with_metadata(Bytes::from(vec![1; LONG]));
    let join = JoinGroupRequest::default().with_group_id(GroupId(text())).with_protocols(vec![protocol]);
    let partition = OffsetCommitRequestPartition::default().with_committed_metadata(Some(text()));
    let topic = OffsetCommitRequestTopic::default().with_name(TopicName(text())).with_partitions(vec![partition]);
    let config = CreatableTopicConfig::default().with_name(text()).with_value(Some(text()));
    let created = CreatableTopic::default().with_name(TopicName(text())).with_configs(vec![config]);
    let id = Some(TransactionalId(text()));
    let requests: [(ApiKey, i16, RequestKind); 4] = [
        (ApiKey::JoinGroup, 9, join.into()),
        (ApiKey::OffsetCommit, 9, OffsetCommitRequest::default().with_topics(vec![topic]).into()),
        (ApiKey::InitProducerId, 4, InitProducerIdRequest::default().with_transactional_id(id).into()),
        (ApiKey::CreateTopics, 7, CreateTopicsRequest::default().with_topics(vec![created]).into()),
    ];
    for (api, version, body) in requests {
        let (frame, request) = read(api, version, &body);
        assert!(frame.is_unique(), "{api:?}");
        assert!(request.client_id.is_some());
    }
}

/// A log copies them when they get their place.
#[test]
fn batches_are_not_copied_to_be_read() {
    let frame = produced(1, "value").slice(4..);
    let request = codec::decode(ConnectionId(0), &frame).unwrap();
    let RequestKind::Produce(produce) = &request.body else { panic!() };
    let records = produce.topic_data[0].partition_data[0].records.as_ref().unwrap();
    assert!(frame.as_ptr_range().contains(&records.as_ptr()));
}
