//! Requests and responses by the partitions that they are about: for what meets one of them and leaves the others alone.

use kafka_protocol::{
    messages::{
        RequestKind, ResponseKind, TopicName,
        fetch_request::{FetchPartition, FetchTopic},
        fetch_response::{FetchableTopicResponse, PartitionData},
        list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic},
        list_offsets_response::{ListOffsetsPartitionResponse, ListOffsetsTopicResponse},
        offset_commit_request::{OffsetCommitRequestPartition, OffsetCommitRequestTopic},
        offset_commit_response::{OffsetCommitResponsePartition, OffsetCommitResponseTopic},
        produce_request::{PartitionProduceData, TopicProduceData},
        produce_response::{PartitionProduceResponse, TopicProduceResponse},
        txn_offset_commit_request::{TxnOffsetCommitRequestPartition, TxnOffsetCommitRequestTopic},
        txn_offset_commit_response::{TxnOffsetCommitResponsePartition, TxnOffsetCommitResponseTopic},
    },
    protocol::StrBytes,
};

/// What a request or a response says of one topic.
trait OfTopic {
    /// What it says of a partition.
    type Partition;

    fn topic(&self) -> &TopicName;
    fn partitions(&self) -> &[Self::Partition];
    fn partitions_mut(&mut self) -> &mut Vec<Self::Partition>;
    fn index(partition: &Self::Partition) -> i32;
}

macro_rules! of_topic {
    ($($of_topic:ty { $topic:ident, $partitions:ident: $partition:ty { $index:ident } })+) => {$(
        impl OfTopic for $of_topic {
            type Partition = $partition;

            fn topic(&self) -> &TopicName {
                &self.$topic
            }

            fn partitions(&self) -> &[$partition] {
                &self.$partitions
            }

            fn partitions_mut(&mut self) -> &mut Vec<$partition> {
                &mut self.$partitions
            }

            fn index(partition: &$partition) -> i32 {
                partition.$index
            }
        }
    )+};
}

of_topic! {
    TopicProduceData { name, partition_data: PartitionProduceData { index } }
    TopicProduceResponse { name, partition_responses: PartitionProduceResponse { index } }
    FetchTopic { topic, partitions: FetchPartition { partition } }
    FetchableTopicResponse { topic, partitions: PartitionData { partition_index } }
    ListOffsetsTopic { name, partitions: ListOffsetsPartition { partition_index } }
    ListOffsetsTopicResponse { name, partitions: ListOffsetsPartitionResponse { partition_index } }
    OffsetCommitRequestTopic { name, partitions: OffsetCommitRequestPartition { partition_index } }
    OffsetCommitResponseTopic { name, partitions: OffsetCommitResponsePartition { partition_index } }
    TxnOffsetCommitRequestTopic { name, partitions: TxnOffsetCommitRequestPartition { partition_index } }
    TxnOffsetCommitResponseTopic { name, partitions: TxnOffsetCommitResponsePartition { partition_index } }
}

/// Whether a request names a partition of a topic.
pub(super) fn names(request: &RequestKind, topic: &StrBytes, partition: i32) -> bool {
    match request {
        RequestKind::Produce(r) => any(&r.topic_data, topic, partition),
        RequestKind::Fetch(r) => any(&r.topics, topic, partition),
        RequestKind::ListOffsets(r) => any(&r.topics, topic, partition),
        RequestKind::OffsetCommit(r) => any(&r.topics, topic, partition),
        RequestKind::TxnOffsetCommit(r) => any(&r.topics, topic, partition),
        RequestKind::AddPartitionsToTxn(r) => {
            let topics = r.v3_and_below_topics.iter().chain(r.transactions.iter().flat_map(|t| &t.topics));
            topics.into_iter().any(|t| t.name.0 == *topic && t.partitions.contains(&partition))
        }
        _ => false,
    }
}

fn any<T: OfTopic>(topics: &[T], topic: &StrBytes, partition: i32) -> bool {
    topics.iter().any(|t| t.topic().0 == *topic && t.partitions().iter().any(|p| T::index(p) == partition))
}

/// A request as two: what it asks of a partition, and what it asks of the others. `None` if there are not both, or if it is
/// of those that are done as a whole or not at all.
pub(super) fn split(request: &RequestKind, topic: &StrBytes, partition: i32) -> Option<(RequestKind, RequestKind)> {
    let is_it = |name: &TopicName, index| name.0 == *topic && index == partition;
    let mut others = keep(request, &|name, index| !is_it(name, index))?;
    if let RequestKind::Fetch(fetch) = &mut others {
        // At Kafka a fetch that fails for one of its partitions waits for none of the others.
        fetch.max_wait_ms = 0;
    }
    Some((keep(request, &is_it)?, others))
}

fn keep(request: &RequestKind, keeps: &dyn Fn(&TopicName, i32) -> bool) -> Option<RequestKind> {
    let mut kept = request.clone();
    let something = match &mut kept {
        RequestKind::Produce(r) => retain(&mut r.topic_data, keeps),
        RequestKind::Fetch(r) => retain(&mut r.topics, keeps),
        RequestKind::ListOffsets(r) => retain(&mut r.topics, keeps),
        RequestKind::OffsetCommit(r) => retain(&mut r.topics, keeps),
        RequestKind::TxnOffsetCommit(r) => retain(&mut r.topics, keeps),
        _ => false,
    };
    something.then_some(kept)
}

/// Whether something is left.
fn retain<T: OfTopic>(topics: &mut Vec<T>, keeps: &dyn Fn(&TopicName, i32) -> bool) -> bool {
    topics.retain_mut(|of_topic| {
        let topic = of_topic.topic().clone();
        of_topic.partitions_mut().retain(|partition| keeps(&topic, T::index(partition)));
        !of_topic.partitions().is_empty()
    });
    !topics.is_empty()
}

/// Puts what `part` says of its partitions into a response to the same API, in the place of what that says of them.
pub(super) fn put(response: &mut ResponseKind, part: ResponseKind) {
    match (response, part) {
        (ResponseKind::Produce(r), ResponseKind::Produce(part)) => replace(&mut r.responses, part.responses),
        (ResponseKind::Fetch(r), ResponseKind::Fetch(part)) => replace(&mut r.responses, part.responses),
        (ResponseKind::ListOffsets(r), ResponseKind::ListOffsets(part)) => replace(&mut r.topics, part.topics),
        (ResponseKind::OffsetCommit(r), ResponseKind::OffsetCommit(part)) => replace(&mut r.topics, part.topics),
        (ResponseKind::TxnOffsetCommit(r), ResponseKind::TxnOffsetCommit(part)) => replace(&mut r.topics, part.topics),
        _ => {}
    }
}

fn replace<T: OfTopic>(topics: &mut Vec<T>, parts: Vec<T>) {
    for mut part in parts {
        let Some(of_topic) = topics.iter_mut().find(|of_topic| of_topic.topic() == part.topic()) else {
            topics.push(part);
            continue;
        };
        let partitions = of_topic.partitions_mut();
        partitions.retain(|old| part.partitions().iter().all(|new| T::index(new) != T::index(old)));
        partitions.append(part.partitions_mut());
    }
}
