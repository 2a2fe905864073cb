//! The response to a request that says nothing but an error, of each thing that was asked for where Kafka's says it of each.

use kafka_protocol::{
    messages::{
        AddOffsetsToTxnResponse, AddPartitionsToTxnRequest, AddPartitionsToTxnResponse, AlterConfigsRequest,
        AlterConfigsResponse, ApiVersionsResponse, CreatePartitionsRequest, CreatePartitionsResponse,
        CreateTopicsRequest, CreateTopicsResponse, DeleteGroupsRequest, DeleteGroupsResponse, DeleteRecordsRequest,
        DeleteRecordsResponse, DeleteTopicsRequest, DeleteTopicsResponse, DescribeClusterResponse,
        DescribeConfigsRequest, DescribeConfigsResponse, DescribeGroupsRequest, DescribeGroupsResponse,
        DescribeTransactionsRequest, DescribeTransactionsResponse, EndTxnResponse, FetchRequest, FetchResponse,
        FindCoordinatorRequest, FindCoordinatorResponse, HeartbeatResponse, IncrementalAlterConfigsRequest,
        IncrementalAlterConfigsResponse, InitProducerIdResponse, JoinGroupResponse, LeaveGroupResponse,
        ListGroupsResponse, ListOffsetsRequest, ListOffsetsResponse, ListTransactionsResponse, MetadataRequest,
        MetadataResponse, OffsetCommitRequest, OffsetCommitResponse, OffsetDeleteResponse, OffsetFetchRequest,
        OffsetFetchResponse, OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse, ProduceRequest,
        ProduceResponse, RequestKind, ResponseKind, SyncGroupResponse, TxnOffsetCommitRequest, TxnOffsetCommitResponse,
        add_partitions_to_txn_request::AddPartitionsToTxnTopic,
        add_partitions_to_txn_response::{
            AddPartitionsToTxnPartitionResult, AddPartitionsToTxnResult, AddPartitionsToTxnTopicResult,
        },
        alter_configs_response,
        create_partitions_response::CreatePartitionsTopicResult,
        create_topics_response::CreatableTopicResult,
        delete_groups_response::DeletableGroupResult,
        delete_records_response::{DeleteRecordsPartitionResult, DeleteRecordsTopicResult},
        delete_topics_response::DeletableTopicResult,
        describe_configs_response::DescribeConfigsResult,
        describe_groups_response::DescribedGroup,
        describe_transactions_response::TransactionState,
        fetch_response::{FetchableTopicResponse, PartitionData},
        find_coordinator_response::Coordinator,
        incremental_alter_configs_response,
        list_offsets_response::{ListOffsetsPartitionResponse, ListOffsetsTopicResponse},
        metadata_response::MetadataResponseTopic,
        offset_commit_response::{OffsetCommitResponsePartition, OffsetCommitResponseTopic},
        offset_fetch_response::{OffsetFetchResponseGroup, OffsetFetchResponsePartition, OffsetFetchResponseTopic},
        offset_for_leader_epoch_response::{EpochEndOffset, OffsetForLeaderTopicResult},
        produce_response::{PartitionProduceResponse, TopicProduceResponse},
        txn_offset_commit_response::{TxnOffsetCommitResponsePartition, TxnOffsetCommitResponseTopic},
    },
    protocol::StrBytes,
};

/// The response to `request` in which everything failed with `code`; `None` if its response has no place for an error, as
/// that to a request of no API that is served.
pub(super) fn refusal(request: &RequestKind, version: i16, code: i16) -> Option<ResponseKind> {
    Some(match request {
        RequestKind::ApiVersions(_) => ApiVersionsResponse::default().with_error_code(code).into(),
        RequestKind::Metadata(r) => metadata(r, version, code)?.into(),
        RequestKind::Produce(r) => produce(r, code).into(),
        RequestKind::Fetch(r) => fetch(r, code).into(),
        RequestKind::ListOffsets(r) => list_offsets(r, code).into(),
        RequestKind::OffsetForLeaderEpoch(r) => offset_for_leader_epoch(r, code).into(),
        RequestKind::FindCoordinator(r) => find_coordinator(r, version, code).into(),
        RequestKind::JoinGroup(r) => {
            let generation = JoinGroupResponse::default().with_generation_id(-1);
            generation.with_member_id(r.member_id.clone()).with_error_code(code).into()
        }
        RequestKind::SyncGroup(_) => SyncGroupResponse::default().with_error_code(code).into(),
        RequestKind::Heartbeat(_) => HeartbeatResponse::default().with_error_code(code).into(),
        RequestKind::LeaveGroup(_) => LeaveGroupResponse::default().with_error_code(code).into(),
        RequestKind::OffsetCommit(r) => offset_commit(r, code).into(),
        RequestKind::OffsetFetch(r) => offset_fetch(r, version, code).into(),
        RequestKind::OffsetDelete(_) => OffsetDeleteResponse::default().with_error_code(code).into(),
        RequestKind::DescribeGroups(r) => describe_groups(r, code).into(),
        RequestKind::ListGroups(_) => ListGroupsResponse::default().with_error_code(code).into(),
        RequestKind::DeleteGroups(r) => delete_groups(r, code).into(),
        RequestKind::InitProducerId(_) => {
            InitProducerIdResponse::default().with_producer_id((-1).into()).with_error_code(code).into()
        }
        RequestKind::AddPartitionsToTxn(r) => add_partitions(r, code).into(),
        RequestKind::AddOffsetsToTxn(_) => AddOffsetsToTxnResponse::default().with_error_code(code).into(),
        RequestKind::TxnOffsetCommit(r) => txn_offset_commit(r, code).into(),
        RequestKind::EndTxn(_) => EndTxnResponse::default().with_error_code(code).into(),
        RequestKind::DescribeTransactions(r) => describe_transactions(r, code).into(),
        RequestKind::ListTransactions(_) => ListTransactionsResponse::default().with_error_code(code).into(),
        RequestKind::CreateTopics(r) => create_topics(r, code).into(),
        RequestKind::DeleteTopics(r) => delete_topics(r, code).into(),
        RequestKind::CreatePartitions(r) => create_partitions(r, code).into(),
        RequestKind::DeleteRecords(r) => delete_records(r, code).into(),
        RequestKind::DescribeConfigs(r) => describe_configs(r, code).into(),
        RequestKind::AlterConfigs(r) => alter_configs(r, code).into(),
        RequestKind::IncrementalAlterConfigs(r) => incremental_alter_configs(r, code).into(),
        RequestKind::DescribeCluster(_) => DescribeClusterResponse::default().with_error_code(code).into(),
        _ => return None,
    })
}

fn metadata(request: &MetadataRequest, version: i16, code: i16) -> Option<MetadataResponse> {
    /// The first version with an error of the whole.
    const WHOLE: i16 = 13;
    let Some(topics) = &request.topics else {
        return (version >= WHOLE).then(|| MetadataResponse::default().with_error_code(code));
    };
    let failed = topics.iter().map(|t| {
        let answer = MetadataResponseTopic::default().with_name(t.name.clone()).with_topic_id(t.topic_id);
        answer.with_error_code(code)
    });
    Some(MetadataResponse::default().with_topics(failed.collect()))
}

fn produce(request: &ProduceRequest, code: i16) -> ProduceResponse {
    let topics = request.topic_data.iter().map(|topic| {
        let failed = topic.partition_data.iter().map(|p| {
            PartitionProduceResponse::default().with_index(p.index).with_error_code(code).with_base_offset(-1)
        });
        let answer = TopicProduceResponse::default().with_name(topic.name.clone()).with_topic_id(topic.topic_id);
        answer.with_partition_responses(failed.collect())
    });
    ProduceResponse::default().with_responses(topics.collect())
}

fn fetch(request: &FetchRequest, code: i16) -> FetchResponse {
    let topics = request.topics.iter().map(|topic| {
        let failed = topic.partitions.iter().map(|p| {
            let nothing = PartitionData::default().with_high_watermark(-1).with_last_stable_offset(-1);
            nothing.with_partition_index(p.partition).with_error_code(code)
        });
        let answer = FetchableTopicResponse::default().with_topic(topic.topic.clone()).with_topic_id(topic.topic_id);
        answer.with_partitions(failed.collect())
    });
    FetchResponse::default().with_responses(topics.collect())
}

fn list_offsets(request: &ListOffsetsRequest, code: i16) -> ListOffsetsResponse {
    let topics = request.topics.iter().map(|topic| {
        let failed = topic.partitions.iter().map(|p| {
            ListOffsetsPartitionResponse::default().with_partition_index(p.partition_index).with_error_code(code)
        });
        ListOffsetsTopicResponse::default().with_name(topic.name.clone()).with_partitions(failed.collect())
    });
    ListOffsetsResponse::default().with_topics(topics.collect())
}

fn offset_commit(request: &OffsetCommitRequest, code: i16) -> OffsetCommitResponse {
    let topics = request.topics.iter().map(|topic| {
        let failed = topic.partitions.iter().map(|p| {
            OffsetCommitResponsePartition::default().with_partition_index(p.partition_index).with_error_code(code)
        });
        OffsetCommitResponseTopic::default().with_name(topic.name.clone()).with_partitions(failed.collect())
    });
    OffsetCommitResponse::default().with_topics(topics.collect())
}

fn offset_fetch(request: &OffsetFetchRequest, version: i16, code: i16) -> OffsetFetchResponse {
    /// The first version with an error of the whole,
    const WHOLE: i16 = 2;
    /// and the first that asks for several groups at once.
    const GROUPS: i16 = 8;
    match version {
        ..WHOLE => offset_fetch_by_partition(request, code),
        WHOLE..GROUPS => OffsetFetchResponse::default().with_error_code(code),
        GROUPS.. => {
            let groups = request.groups.iter().map(|group| {
                OffsetFetchResponseGroup::default().with_group_id(group.group_id.clone()).with_error_code(code)
            });
            OffsetFetchResponse::default().with_groups(groups.collect())
        }
    }
}

fn offset_fetch_by_partition(request: &OffsetFetchRequest, code: i16) -> OffsetFetchResponse {
    let topics = request.topics.iter().flatten().map(|topic| {
        let failed = topic.partition_indexes.iter().map(|&p| {
            let nothing = OffsetFetchResponsePartition::default().with_committed_offset(-1);
            nothing.with_partition_index(p).with_error_code(code)
        });
        OffsetFetchResponseTopic::default().with_name(topic.name.clone()).with_partitions(failed.collect())
    });
    OffsetFetchResponse::default().with_topics(topics.collect())
}

fn find_coordinator(request: &FindCoordinatorRequest, version: i16, code: i16) -> FindCoordinatorResponse {
    /// The first version that asks for several at once.
    const SEVERAL: i16 = 4;
    if version < SEVERAL {
        return FindCoordinatorResponse::default().with_error_code(code);
    }
    let failed = |key: &StrBytes| Coordinator::default().with_key(key.clone()).with_error_code(code);
    let each = request.coordinator_keys.iter().map(failed).collect();
    FindCoordinatorResponse::default().with_coordinators(each)
}

fn offset_for_leader_epoch(request: &OffsetForLeaderEpochRequest, code: i16) -> OffsetForLeaderEpochResponse {
    let topics = request.topics.iter().map(|topic| {
        let failed = topic
            .partitions
            .iter()
            .map(|p| EpochEndOffset::default().with_partition(p.partition).with_error_code(code));
        OffsetForLeaderTopicResult::default().with_topic(topic.topic.clone()).with_partitions(failed.collect())
    });
    OffsetForLeaderEpochResponse::default().with_topics(topics.collect())
}

fn describe_groups(request: &DescribeGroupsRequest, code: i16) -> DescribeGroupsResponse {
    let failed = |id| DescribedGroup::default().with_group_id(id).with_error_code(code);
    DescribeGroupsResponse::default().with_groups(request.groups.iter().cloned().map(failed).collect())
}

fn delete_groups(request: &DeleteGroupsRequest, code: i16) -> DeleteGroupsResponse {
    let failed = |id| DeletableGroupResult::default().with_group_id(id).with_error_code(code);
    DeleteGroupsResponse::default().with_results(request.groups_names.iter().cloned().map(failed).collect())
}

fn add_partitions(request: &AddPartitionsToTxnRequest, code: i16) -> AddPartitionsToTxnResponse {
    let failed = |topics: &[AddPartitionsToTxnTopic]| {
        let each = topics.iter().map(|topic| {
            let partitions = topic.partitions.iter().map(|&p| {
                AddPartitionsToTxnPartitionResult::default().with_partition_index(p).with_partition_error_code(code)
            });
            let answer = AddPartitionsToTxnTopicResult::default().with_name(topic.name.clone());
            answer.with_results_by_partition(partitions.collect())
        });
        each.collect::<Vec<_>>()
    };
    let each = request.transactions.iter().map(|transaction| {
        let answer = AddPartitionsToTxnResult::default().with_transactional_id(transaction.transactional_id.clone());
        answer.with_topic_results(failed(&transaction.topics))
    });
    let response = AddPartitionsToTxnResponse::default().with_results_by_transaction(each.collect());
    response.with_results_by_topic_v3_and_below(failed(&request.v3_and_below_topics))
}

fn txn_offset_commit(request: &TxnOffsetCommitRequest, code: i16) -> TxnOffsetCommitResponse {
    let topics = request.topics.iter().map(|topic| {
        let failed = topic.partitions.iter().map(|p| {
            TxnOffsetCommitResponsePartition::default().with_partition_index(p.partition_index).with_error_code(code)
        });
        TxnOffsetCommitResponseTopic::default().with_name(topic.name.clone()).with_partitions(failed.collect())
    });
    TxnOffsetCommitResponse::default().with_topics(topics.collect())
}

fn describe_transactions(request: &DescribeTransactionsRequest, code: i16) -> DescribeTransactionsResponse {
    let failed = |id| TransactionState::default().with_transactional_id(id).with_error_code(code);
    let each = request.transactional_ids.iter().cloned().map(failed);
    DescribeTransactionsResponse::default().with_transaction_states(each.collect())
}

fn create_topics(request: &CreateTopicsRequest, code: i16) -> CreateTopicsResponse {
    let failed = request
        .topics
        .iter()
        .map(|topic| CreatableTopicResult::default().with_name(topic.name.clone()).with_error_code(code));
    CreateTopicsResponse::default().with_topics(failed.collect())
}

fn delete_topics(request: &DeleteTopicsRequest, code: i16) -> DeleteTopicsResponse {
    // By their names; since version 6 by their names or ids.
    let named = request.topic_names.iter().map(|name| DeletableTopicResult::default().with_name(Some(name.clone())));
    let either = request
        .topics
        .iter()
        .map(|topic| DeletableTopicResult::default().with_name(topic.name.clone()).with_topic_id(topic.topic_id));
    let failed = named.chain(either).map(|topic| topic.with_error_code(code));
    DeleteTopicsResponse::default().with_responses(failed.collect())
}

fn create_partitions(request: &CreatePartitionsRequest, code: i16) -> CreatePartitionsResponse {
    let failed = request
        .topics
        .iter()
        .map(|topic| CreatePartitionsTopicResult::default().with_name(topic.name.clone()).with_error_code(code));
    CreatePartitionsResponse::default().with_results(failed.collect())
}

fn delete_records(request: &DeleteRecordsRequest, code: i16) -> DeleteRecordsResponse {
    let topics = request.topics.iter().map(|topic| {
        let failed = topic.partitions.iter().map(|p| {
            let nothing = DeleteRecordsPartitionResult::default().with_low_watermark(-1);
            nothing.with_partition_index(p.partition_index).with_error_code(code)
        });
        DeleteRecordsTopicResult::default().with_name(topic.name.clone()).with_partitions(failed.collect())
    });
    DeleteRecordsResponse::default().with_topics(topics.collect())
}

fn describe_configs(request: &DescribeConfigsRequest, code: i16) -> DescribeConfigsResponse {
    let failed = request.resources.iter().map(|resource| {
        let answer = DescribeConfigsResult::default().with_resource_type(resource.resource_type);
        answer.with_resource_name(resource.resource_name.clone()).with_error_code(code)
    });
    DescribeConfigsResponse::default().with_results(failed.collect())
}

fn alter_configs(request: &AlterConfigsRequest, code: i16) -> AlterConfigsResponse {
    let failed = request.resources.iter().map(|resource| {
        let answer = alter_configs_response::AlterConfigsResourceResponse::default();
        let answer = answer.with_resource_type(resource.resource_type);
        answer.with_resource_name(resource.resource_name.clone()).with_error_code(code)
    });
    AlterConfigsResponse::default().with_responses(failed.collect())
}

fn incremental_alter_configs(request: &IncrementalAlterConfigsRequest, code: i16) -> IncrementalAlterConfigsResponse {
    let failed = request.resources.iter().map(|resource| {
        let answer = incremental_alter_configs_response::AlterConfigsResourceResponse::default();
        let answer = answer.with_resource_type(resource.resource_type);
        answer.with_resource_name(resource.resource_name.clone()).with_error_code(code)
    });
    IncrementalAlterConfigsResponse::default().with_responses(failed.collect())
}
