use bytes::BytesMut;
use kafka_protocol::{
    messages::{
        add_partitions_to_txn_request::AddPartitionsToTxnTopic,
        alter_configs_request,
        create_partitions_request::CreatePartitionsTopic,
        create_topics_request::CreatableTopic,
        delete_records_request::{DeleteRecordsPartition, DeleteRecordsTopic},
        delete_topics_request::DeleteTopicState,
        describe_configs_request::DescribeConfigsResource,
        fetch_request::{FetchPartition, FetchTopic},
        incremental_alter_configs_request,
        list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic},
        metadata_request::MetadataRequestTopic,
        offset_commit_request::{OffsetCommitRequestPartition, OffsetCommitRequestTopic},
        offset_fetch_request::{OffsetFetchRequestGroup, OffsetFetchRequestTopic},
        offset_for_leader_epoch_request::{OffsetForLeaderPartition, OffsetForLeaderTopic},
        produce_request::{PartitionProduceData, TopicProduceData},
        txn_offset_commit_request::{TxnOffsetCommitRequestPartition, TxnOffsetCommitRequestTopic},
        *,
    },
    protocol::StrBytes,
};

use super::{apis, refusals::refusal};

/// Of no error, so that nothing else in an answer is the same.
const CODE: i16 = 12_321;

fn topic() -> TopicName {
    TopicName(StrBytes::from_static_str("t"))
}

/// A request that names one of everything.
fn of_one(api: ApiKey) -> RequestKind {
    request_for_records(api)
        .or_else(|| request_of_a_group(api))
        .or_else(|| request_of_a_transaction(api))
        .or_else(|| request_of_an_admin(api))
        .unwrap_or_else(|| panic!("{api:?} is served: say here what a request for one thing is"))
}

#[expect(clippy::wildcard_enum_match_arm, reason = "the other APIs are in the other lists")]
fn request_for_records(api: ApiKey) -> Option<RequestKind> {
    Some(match api {
        ApiKey::ApiVersions => ApiVersionsRequest::default().into(),
        ApiKey::Metadata => {
            let one = MetadataRequestTopic::default().with_name(Some(topic()));
            MetadataRequest::default().with_topics(Some(vec![one])).into()
        }
        ApiKey::Produce => {
            let one = TopicProduceData::default().with_name(topic());
            let one = one.with_partition_data(vec![PartitionProduceData::default()]);
            ProduceRequest::default().with_acks(-1).with_topic_data(vec![one]).into()
        }
        ApiKey::Fetch => {
            let one = FetchTopic::default().with_topic(topic()).with_partitions(vec![FetchPartition::default()]);
            FetchRequest::default().with_topics(vec![one]).into()
        }
        ApiKey::ListOffsets => {
            let one = ListOffsetsTopic::default().with_name(topic());
            let one = one.with_partitions(vec![ListOffsetsPartition::default()]);
            ListOffsetsRequest::default().with_topics(vec![one]).into()
        }
        ApiKey::OffsetForLeaderEpoch => {
            let one = OffsetForLeaderTopic::default().with_topic(topic());
            let one = one.with_partitions(vec![OffsetForLeaderPartition::default()]);
            OffsetForLeaderEpochRequest::default().with_topics(vec![one]).into()
        }
        _ => return None,
    })
}

#[expect(clippy::wildcard_enum_match_arm, reason = "the other APIs are in the other lists")]
fn request_of_a_group(api: ApiKey) -> Option<RequestKind> {
    let group = GroupId(StrBytes::from_static_str("g"));
    Some(match api {
        ApiKey::FindCoordinator => FindCoordinatorRequest::default().with_coordinator_keys(vec![group.0]).into(),
        ApiKey::JoinGroup => JoinGroupRequest::default().into(),
        ApiKey::SyncGroup => SyncGroupRequest::default().into(),
        ApiKey::Heartbeat => HeartbeatRequest::default().into(),
        ApiKey::LeaveGroup => LeaveGroupRequest::default().into(),
        ApiKey::OffsetCommit => {
            let one = OffsetCommitRequestTopic::default().with_name(topic());
            let one = one.with_partitions(vec![OffsetCommitRequestPartition::default()]);
            OffsetCommitRequest::default().with_topics(vec![one]).into()
        }
        ApiKey::OffsetFetch => {
            let one = OffsetFetchRequestTopic::default().with_name(topic()).with_partition_indexes(vec![0]);
            let request = OffsetFetchRequest::default().with_topics(Some(vec![one]));
            request.with_groups(vec![OffsetFetchRequestGroup::default().with_group_id(group)]).into()
        }
        ApiKey::OffsetDelete => OffsetDeleteRequest::default().into(),
        ApiKey::DescribeGroups => DescribeGroupsRequest::default().with_groups(vec![group]).into(),
        ApiKey::ListGroups => ListGroupsRequest::default().into(),
        ApiKey::DeleteGroups => DeleteGroupsRequest::default().with_groups_names(vec![group]).into(),
        _ => return None,
    })
}

#[expect(clippy::wildcard_enum_match_arm, reason = "the other APIs are in the other lists")]
fn request_of_a_transaction(api: ApiKey) -> Option<RequestKind> {
    Some(match api {
        ApiKey::InitProducerId => InitProducerIdRequest::default().into(),
        ApiKey::AddPartitionsToTxn => {
            let one = AddPartitionsToTxnTopic::default().with_name(topic()).with_partitions(vec![0]);
            AddPartitionsToTxnRequest::default().with_v3_and_below_topics(vec![one]).into()
        }
        ApiKey::AddOffsetsToTxn => AddOffsetsToTxnRequest::default().into(),
        ApiKey::TxnOffsetCommit => {
            let one = TxnOffsetCommitRequestTopic::default().with_name(topic());
            let one = one.with_partitions(vec![TxnOffsetCommitRequestPartition::default()]);
            TxnOffsetCommitRequest::default().with_topics(vec![one]).into()
        }
        ApiKey::EndTxn => EndTxnRequest::default().into(),
        ApiKey::DescribeTransactions => {
            DescribeTransactionsRequest::default().with_transactional_ids(vec![TransactionalId::default()]).into()
        }
        ApiKey::ListTransactions => ListTransactionsRequest::default().into(),
        _ => return None,
    })
}

#[expect(clippy::wildcard_enum_match_arm, reason = "the other APIs are in the other lists")]
fn request_of_an_admin(api: ApiKey) -> Option<RequestKind> {
    Some(match api {
        ApiKey::CreateTopics => {
            CreateTopicsRequest::default().with_topics(vec![CreatableTopic::default().with_name(topic())]).into()
        }
        ApiKey::DeleteTopics => {
            let one = DeleteTopicState::default().with_name(Some(topic()));
            DeleteTopicsRequest::default().with_topics(vec![one]).with_topic_names(vec![topic()]).into()
        }
        ApiKey::CreatePartitions => {
            let one = CreatePartitionsTopic::default().with_name(topic());
            CreatePartitionsRequest::default().with_topics(vec![one]).into()
        }
        ApiKey::DeleteRecords => {
            let one = DeleteRecordsTopic::default().with_name(topic());
            let one = one.with_partitions(vec![DeleteRecordsPartition::default()]);
            DeleteRecordsRequest::default().with_topics(vec![one]).into()
        }
        ApiKey::DescribeConfigs => {
            DescribeConfigsRequest::default().with_resources(vec![DescribeConfigsResource::default()]).into()
        }
        ApiKey::AlterConfigs => {
            let one = alter_configs_request::AlterConfigsResource::default();
            AlterConfigsRequest::default().with_resources(vec![one]).into()
        }
        ApiKey::IncrementalAlterConfigs => {
            let one = incremental_alter_configs_request::AlterConfigsResource::default();
            IncrementalAlterConfigsRequest::default().with_resources(vec![one]).into()
        }
        ApiKey::DescribeCluster => DescribeClusterRequest::default().into(),
        _ => return None,
    })
}

#[test]
fn every_api_that_is_served_is_refused_with_the_code_in_every_version() {
    for &(api, min, max) in apis::APIS {
        for version in min..=max {
            let refused = refusal(&of_one(api), version, CODE).unwrap_or_else(|| panic!("{api:?} has no refusal"));
            let mut encoded = BytesMut::new();
            refused.encode(&mut encoded, version).unwrap_or_else(|error| panic!("{api:?} {version}: {error}"));
            let told = ResponseKind::decode(api, &mut encoded.freeze(), version).unwrap();
            assert!(format!("{told:?}").contains(&format!("error_code: {CODE}")), "{version}: {told:?}");
        }
    }
}

#[test]
fn a_question_about_all_topics_is_refused_where_there_is_a_place_for_it() {
    let all = RequestKind::from(MetadataRequest::default().with_topics(None));
    assert_eq!(refusal(&all, 12, CODE), None);
    let refused = MetadataResponse::default().with_error_code(CODE);
    assert_eq!(refusal(&all, 13, CODE), Some(refused.into()));
}
