//! What the broker holds, seen past the network: for whoever sets the scene, and for the oracle.

use std::collections::BTreeMap;

use bytes::Bytes;
use kafka_protocol::{
    messages::{
        ApiKey, BrokerId, CreatePartitionsRequest, CreateTopicsRequest, DeleteRecordsRequest, DeleteTopicsRequest,
        DescribeGroupsRequest, FetchRequest, GroupId, LeaveGroupRequest, ListOffsetsRequest, OffsetFetchRequest,
        ProduceRequest, ResponseKind, TopicName,
        create_partitions_request::CreatePartitionsTopic,
        create_topics_request::CreatableTopic,
        delete_records_request::{DeleteRecordsPartition, DeleteRecordsTopic},
        fetch_request::{FetchPartition, FetchTopic},
        leave_group_request::MemberIdentity,
        list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic},
        offset_fetch_request::OffsetFetchRequestTopic,
        produce_request::{PartitionProduceData, TopicProduceData},
    },
    protocol::StrBytes,
};

use super::{
    clients::{Reading, about, read},
    network::Network,
};

/// What a group has committed for a partition.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct Committed {
    /// Where to read on.
    pub(super) next: i64,
    /// The text beside it.
    pub(super) metadata: String,
}

fn name(topic: &str) -> TopicName {
    TopicName(StrBytes::from_string(topic.to_owned()))
}

fn group_id(group: &str) -> GroupId {
    GroupId(StrBytes::from_string(group.to_owned()))
}

/// Makes a topic.
pub(super) fn create_topic(network: &Network, topic: &str, partitions: i32) {
    let one =
        CreatableTopic::default().with_name(name(topic)).with_num_partitions(partitions).with_replication_factor(1);
    network.ask((ApiKey::CreateTopics, 5), CreateTopicsRequest::default().with_topics(vec![one]).into());
}

/// Gives a topic more partitions.
pub(super) fn grow(network: &Network, topic: &str, partitions: i32) {
    let one = CreatePartitionsTopic::default().with_name(name(topic)).with_count(partitions).with_assignments(None);
    network.ask((ApiKey::CreatePartitions, 2), CreatePartitionsRequest::default().with_topics(vec![one]).into());
}

/// Deletes what a partition holds below an offset; whether anything is missing now that was there.
pub(super) fn delete_records(network: &Network, topic: &str, partition: i32, below: i64) -> bool {
    let part = DeleteRecordsPartition::default().with_partition_index(partition).with_offset(below);
    let topic = DeleteRecordsTopic::default().with_name(name(topic)).with_partitions(vec![part]);
    let request = DeleteRecordsRequest::default().with_topics(vec![topic]).with_timeout_ms(1_000);
    let answer = network.ask((ApiKey::DeleteRecords, 2), request.into());
    let Some(ResponseKind::DeleteRecords(answer)) = answer.map(|response| response.body) else { return false };
    answer.topics.iter().flat_map(|topic| &topic.partitions).all(|part| part.error_code == 0)
}

/// Deletes a topic and makes one of its name.
pub(super) fn make_anew(network: &Network, topic: &str) {
    let count = partitions(network, topic);
    let request = DeleteTopicsRequest::default().with_topic_names(vec![name(topic)]).with_timeout_ms(1_000);
    network.ask((ApiKey::DeleteTopics, 4), request.into());
    create_topic(network, topic, count);
}

/// Where a partition ends, the open transactions included.
pub(super) fn end(network: &Network, topic: &str, partition: i32) -> i64 {
    const LATEST: i64 = -1;
    let part = ListOffsetsPartition::default().with_partition_index(partition).with_timestamp(LATEST);
    let part = part.with_current_leader_epoch(-1);
    let topic = ListOffsetsTopic::default().with_name(name(topic)).with_partitions(vec![part]);
    let request = ListOffsetsRequest::default().with_replica_id(BrokerId(-1)).with_topics(vec![topic]);
    let answer = network.ask((ApiKey::ListOffsets, 5), request.into());
    let Some(ResponseKind::ListOffsets(answer)) = answer.map(|response| response.body) else { return 0 };
    answer.topics.first().and_then(|topic| topic.partitions.first()).map_or(0, |part| part.offset)
}

/// Partitions of a topic; 0 if there is none of the name.
pub(super) fn partitions(network: &Network, topic: &str) -> i32 {
    let answer = network.ask((ApiKey::Metadata, 9), about([topic]).into());
    let Some(ResponseKind::Metadata(answer)) = answer.map(|response| response.body) else { return 0 };
    answer.topics.first().map_or(0, |topic| i32::try_from(topic.partitions.len()).unwrap_or(0))
}

/// Appends a batch to a partition; whether the broker took it.
pub(super) fn append(network: &Network, topic: &str, partition: i32, batch: Bytes) -> bool {
    let data = PartitionProduceData::default().with_index(partition).with_records(Some(batch));
    let topic = TopicProduceData::default().with_name(name(topic)).with_partition_data(vec![data]);
    let request = ProduceRequest::default().with_acks(-1).with_timeout_ms(1_000).with_topic_data(vec![topic]);
    let answer = network.ask((ApiKey::Produce, 9), request.into());
    let Some(ResponseKind::Produce(answer)) = answer.map(|response| response.body) else { return false };
    answer.responses.iter().flat_map(|topic| &topic.partition_responses).all(|part| part.error_code == 0)
}

/// Reads a topic on from where each partition was read to.
pub(super) fn read_on(network: &Network, topic: &str, at: &mut [i64], each: &mut dyn FnMut(i32, &Reading<'_>)) {
    loop {
        let parts = (0..).zip(at.iter()).map(|(partition, next)| {
            let part = FetchPartition::default().with_partition(partition).with_fetch_offset(*next);
            part.with_current_leader_epoch(-1).with_partition_max_bytes(1 << 22)
        });
        let topic = FetchTopic::default().with_topic(name(topic)).with_partitions(parts.collect());
        let request = FetchRequest::default()
            .with_replica_id(BrokerId(-1))
            .with_max_bytes(1 << 24)
            .with_isolation_level(1)
            .with_session_epoch(-1)
            .with_topics(vec![topic]);
        let answer = network.ask((ApiKey::Fetch, 11), request.into());
        let Some(ResponseKind::Fetch(answer)) = answer.map(|response| response.body) else { return };
        let mut moved = false;
        for part in answer.responses.iter().flat_map(|topic| &topic.partitions) {
            let Some(next) = usize::try_from(part.partition_index).ok().and_then(|n| at.get_mut(n)) else { continue };
            let from = *next;
            *next = read(part, from, &mut |record| each(part.partition_index, record));
            moved |= *next > from;
        }
        if !moved {
            return;
        }
    }
}

/// What a group has committed for the partitions of a topic; `None` while its coordinator is found nowhere.
pub(super) fn committed(network: &Network, group: &str, topic: &str, count: i32) -> Option<BTreeMap<i32, Committed>> {
    let parts = OffsetFetchRequestTopic::default().with_name(name(topic)).with_partition_indexes((0..count).collect());
    let request = OffsetFetchRequest::default().with_group_id(group_id(group)).with_topics(Some(vec![parts]));
    let answer = network.ask((ApiKey::OffsetFetch, 7), request.into());
    let Some(ResponseKind::OffsetFetch(answer)) = answer.map(|response| response.body) else { return None };
    if answer.error_code != 0 {
        return None;
    }
    let parts = answer.topics.into_iter().flat_map(|topic| topic.partitions);
    let found = parts.filter(|part| part.error_code == 0 && part.committed_offset >= 0);
    let found = found.map(|part| {
        let metadata = part.metadata.map(|text| text.to_string()).unwrap_or_default();
        (part.partition_index, Committed { next: part.committed_offset, metadata })
    });
    Some(found.collect())
}

/// The group throws a member out; its name, if it has so many.
pub(super) fn expel(network: &Network, group: &str, member: usize) -> Option<String> {
    let request = DescribeGroupsRequest::default().with_groups(vec![group_id(group)]);
    let answer = network.ask((ApiKey::DescribeGroups, 5), request.into());
    let Some(ResponseKind::DescribeGroups(answer)) = answer.map(|response| response.body) else { return None };
    let id = answer.groups.first()?.members.get(member)?.member_id.clone();
    let identity = MemberIdentity::default().with_member_id(id.clone());
    let request = LeaveGroupRequest::default().with_group_id(group_id(group)).with_members(vec![identity]);
    network.ask((ApiKey::LeaveGroup, 4), request.into())?;
    Some(id.to_string())
}
