//! The response to a request that says nothing but an error.

use kafka_protocol::{
    messages::{
        AddOffsetsToTxnResponse, AddPartitionsToTxnResponse, ApiVersionsResponse, EndTxnResponse,
        FindCoordinatorResponse, HeartbeatResponse, InitProducerIdResponse, JoinGroupResponse, LeaveGroupResponse,
        OffsetCommitRequest, OffsetCommitResponse, OffsetFetchRequest, OffsetFetchResponse, ProduceRequest,
        ProduceResponse, RequestKind, ResponseKind, SyncGroupResponse, TopicName, TxnOffsetCommitRequest,
        TxnOffsetCommitResponse,
        add_partitions_to_txn_response::{
            AddPartitionsToTxnPartitionResult, AddPartitionsToTxnResult, AddPartitionsToTxnTopicResult,
        },
        fetch_request::FetchRequest,
        fetch_response::{FetchResponse, FetchableTopicResponse, PartitionData},
        find_coordinator_response::Coordinator,
        list_offsets_request::ListOffsetsRequest,
        list_offsets_response::{ListOffsetsPartitionResponse, ListOffsetsResponse, ListOffsetsTopicResponse},
        metadata_request::MetadataRequest,
        metadata_response::{MetadataResponse, MetadataResponseTopic},
        offset_commit_response::{OffsetCommitResponsePartition, OffsetCommitResponseTopic},
        offset_fetch_response::OffsetFetchResponseGroup,
        produce_response::{PartitionProduceResponse, TopicProduceResponse},
        txn_offset_commit_response::{TxnOffsetCommitResponsePartition, TxnOffsetCommitResponseTopic},
    },
    protocol::StrBytes,
};

/// Whether a request names a partition of a topic.
pub(super) fn names(request: &RequestKind, topic: &StrBytes, partition: i32) -> bool {
    let is_it = |name: &TopicName| name.0 == *topic;
    match request {
        RequestKind::Produce(r) => {
            r.topic_data.iter().any(|t| is_it(&t.name) && t.partition_data.iter().any(|p| p.index == partition))
        }
        RequestKind::Fetch(r) => {
            r.topics.iter().any(|t| is_it(&t.topic) && t.partitions.iter().any(|p| p.partition == partition))
        }
        RequestKind::ListOffsets(r) => {
            r.topics.iter().any(|t| is_it(&t.name) && t.partitions.iter().any(|p| p.partition_index == partition))
        }
        RequestKind::OffsetCommit(r) => {
            r.topics.iter().any(|t| is_it(&t.name) && t.partitions.iter().any(|p| p.partition_index == partition))
        }
        RequestKind::TxnOffsetCommit(r) => {
            r.topics.iter().any(|t| is_it(&t.name) && t.partitions.iter().any(|p| p.partition_index == partition))
        }
        RequestKind::AddPartitionsToTxn(r) => {
            let topics = r.v3_and_below_topics.iter().chain(r.transactions.iter().flat_map(|t| &t.topics));
            topics.into_iter().any(|t| is_it(&t.name) && t.partitions.contains(&partition))
        }
        _ => false,
    }
}

/// The response to `request` in which everything failed with `code`; `None` if its response has no place for an error.
pub(super) fn refusal(request: &RequestKind, version: i16, code: i16) -> Option<ResponseKind> {
    Some(match request {
        RequestKind::ApiVersions(_) => ApiVersionsResponse::default().with_error_code(code).into(),
        RequestKind::Metadata(r) => metadata(r, code).into(),
        RequestKind::Produce(r) => produce(r, code).into(),
        RequestKind::Fetch(r) => fetch(r, code).into(),
        RequestKind::ListOffsets(r) => list_offsets(r, code).into(),
        RequestKind::FindCoordinator(r) => {
            let failed = |key: &StrBytes| Coordinator::default().with_key(key.clone()).with_error_code(code);
            let each = r.coordinator_keys.iter().map(failed).collect();
            FindCoordinatorResponse::default().with_error_code(code).with_coordinators(each).into()
        }
        RequestKind::JoinGroup(r) => {
            let generation = JoinGroupResponse::default().with_generation_id(-1);
            generation.with_member_id(r.member_id.clone()).with_error_code(code).into()
        }
        RequestKind::SyncGroup(_) => SyncGroupResponse::default().with_error_code(code).into(),
        RequestKind::Heartbeat(_) => HeartbeatResponse::default().with_error_code(code).into(),
        RequestKind::LeaveGroup(_) => LeaveGroupResponse::default().with_error_code(code).into(),
        RequestKind::OffsetCommit(r) => offset_commit(r, code).into(),
        RequestKind::OffsetFetch(r) => offset_fetch(r, version, code).into(),
        RequestKind::InitProducerId(_) => {
            InitProducerIdResponse::default().with_producer_id((-1).into()).with_error_code(code).into()
        }
        RequestKind::AddPartitionsToTxn(_) => add_partitions(request, code)?,
        RequestKind::AddOffsetsToTxn(_) => AddOffsetsToTxnResponse::default().with_error_code(code).into(),
        RequestKind::TxnOffsetCommit(r) => txn_offset_commit(r, code).into(),
        RequestKind::EndTxn(_) => EndTxnResponse::default().with_error_code(code).into(),
        _ => return None,
    })
}

fn metadata(request: &MetadataRequest, code: i16) -> MetadataResponse {
    let topics = request.topics.iter().flatten();
    let failed = topics.map(|t| MetadataResponseTopic::default().with_name(t.name.clone()).with_error_code(code));
    MetadataResponse::default().with_topics(failed.collect())
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
    /// The first version that asks for several groups at once.
    const GROUPS: i16 = 8;
    if version < GROUPS {
        return OffsetFetchResponse::default().with_error_code(code);
    }
    let groups = request
        .groups
        .iter()
        .map(|group| OffsetFetchResponseGroup::default().with_group_id(group.group_id.clone()).with_error_code(code));
    OffsetFetchResponse::default().with_groups(groups.collect())
}

fn add_partitions(request: &RequestKind, code: i16) -> Option<ResponseKind> {
    let RequestKind::AddPartitionsToTxn(request) = request else { return None };
    let failed = |topics: &[kafka_protocol::messages::add_partitions_to_txn_request::AddPartitionsToTxnTopic]| {
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
    Some(response.with_results_by_topic_v3_and_below(failed(&request.v3_and_below_topics)).into())
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
