//! OffsetFetch and OffsetDelete.

use std::collections::BTreeMap;

use kafka_protocol::{
    error::ResponseError,
    messages::{
        GroupId, OffsetDeleteRequest, OffsetDeleteResponse, OffsetFetchRequest, OffsetFetchResponse, TopicName,
        offset_delete_response::{OffsetDeleteResponsePartition, OffsetDeleteResponseTopic},
        offset_fetch_response::{
            OffsetFetchResponseGroup, OffsetFetchResponsePartition, OffsetFetchResponsePartitions,
            OffsetFetchResponseTopic, OffsetFetchResponseTopics,
        },
    },
    protocol::StrBytes,
};

use super::{
    commits::Exists,
    coordinator::Groups,
    group::State,
    offsets::{Committed, Offsets},
};
use crate::clock::Instant;

/// From this version on one request asks for several groups (KIP-709).
const SEVERAL: i16 = 8;

/// Which partitions of which topics; `None`: all that have an offset.
type Asked = Option<Vec<(TopicName, Vec<i32>)>>;

/// One partition's answer: what is committed, or that it is to be asked again.
type Found = (TopicName, Vec<(i32, Result<Option<Committed>, ResponseError>)>);

impl Groups {
    /// OffsetFetch. A group that is not there has committed nothing.
    pub(in crate::broker::core) fn offsets(&self, version: i16, request: &OffsetFetchRequest) -> OffsetFetchResponse {
        let stable = request.require_stable;
        if version < SEVERAL {
            let asked = request.topics.as_ref().map(|topics| {
                topics.iter().map(|topic| (topic.name.clone(), topic.partition_indexes.clone())).collect()
            });
            let topics = self.find_offsets(&request.group_id, asked, stable).into_iter().map(single).collect();
            return OffsetFetchResponse::default().with_topics(topics);
        }
        let groups = request.groups.iter().map(|group| {
            let asked = group.topics.as_ref().map(|topics| {
                topics.iter().map(|topic| (topic.name.clone(), topic.partition_indexes.clone())).collect()
            });
            let topics = self.find_offsets(&group.group_id, asked, stable).into_iter().map(one_of_several).collect();
            OffsetFetchResponseGroup::default().with_group_id(group.group_id.clone()).with_topics(topics)
        });
        OffsetFetchResponse::default().with_groups(groups.collect())
    }

    fn find_offsets(&self, group: &GroupId, asked: Asked, stable: bool) -> Vec<Found> {
        let none = Offsets::default();
        let offsets = self.groups.get(group).map_or(&none, |group| &group.offsets);
        let asked = asked.unwrap_or_else(|| all(offsets));
        let found = asked.into_iter().map(|(topic, partitions)| {
            let found = partitions.into_iter().map(|index| {
                let partition = (topic.clone(), index);
                let unstable = stable && offsets.is_unstable(&partition);
                let outcome = if unstable {
                    Err(ResponseError::UnstableOffsetCommit)
                } else {
                    Ok(offsets.get(&partition).cloned())
                };
                (index, outcome)
            });
            let found = found.collect();
            (topic, found)
        });
        found.collect()
    }

    /// OffsetDelete.
    pub(in crate::broker::core) fn delete_offsets(
        &mut self,
        request: &OffsetDeleteRequest,
        exists: Exists<'_>,
    ) -> OffsetDeleteResponse {
        let refused = |error: ResponseError| OffsetDeleteResponse::default().with_error_code(error.code());
        if request.group_id.is_empty() {
            return refused(ResponseError::InvalidGroupId);
        }
        let Some(mut group) = self.groups.change(&request.group_id) else {
            return refused(ResponseError::GroupIdNotFound);
        };
        if group.state != State::Empty && !group.is_of_consumers() {
            return refused(ResponseError::NonEmptyGroup);
        }
        let subscribed = group.subscribed();
        let topics = request.topics.iter().map(|topic| {
            let is_read = subscribed.reads(&topic.name);
            let partitions = topic.partitions.iter().map(|partition| {
                let index = partition.partition_index;
                let outcome = match (exists(&topic.name, index), is_read) {
                    (false, _) => Err(ResponseError::UnknownTopicOrPartition),
                    (true, true) => Err(ResponseError::GroupSubscribedToTopic),
                    (true, false) => {
                        group.offsets.forget(&(topic.name.clone(), index));
                        Ok(())
                    }
                };
                OffsetDeleteResponsePartition::default()
                    .with_partition_index(index)
                    .with_error_code(outcome.err().map_or(0, |error| error.code()))
            });
            OffsetDeleteResponseTopic::default().with_name(topic.name.clone()).with_partitions(partitions.collect())
        });
        OffsetDeleteResponse::default().with_topics(topics.collect())
    }
}

fn all(offsets: &Offsets) -> Vec<(TopicName, Vec<i32>)> {
    let mut all: BTreeMap<TopicName, Vec<i32>> = BTreeMap::new();
    for (topic, partition) in offsets.partitions() {
        all.entry(topic.clone()).or_default().push(*partition);
    }
    all.into_iter().collect()
}

/// As before [`SEVERAL`].
fn single((topic, found): Found) -> OffsetFetchResponseTopic {
    let partitions = found.into_iter().map(|(index, outcome)| {
        let (committed, error) = flat(outcome);
        OffsetFetchResponsePartition::default()
            .with_partition_index(index)
            .with_committed_offset(committed.offset)
            .with_committed_leader_epoch(committed.leader_epoch)
            .with_metadata(Some(committed.metadata))
            .with_error_code(error)
    });
    OffsetFetchResponseTopic::default().with_name(topic).with_partitions(partitions.collect())
}

/// As from [`SEVERAL`] on.
fn one_of_several((topic, found): Found) -> OffsetFetchResponseTopics {
    let partitions = found.into_iter().map(|(index, outcome)| {
        let (committed, error) = flat(outcome);
        OffsetFetchResponsePartitions::default()
            .with_partition_index(index)
            .with_committed_offset(committed.offset)
            .with_committed_leader_epoch(committed.leader_epoch)
            .with_metadata(Some(committed.metadata))
            .with_error_code(error)
    });
    OffsetFetchResponseTopics::default().with_name(topic).with_partitions(partitions.collect())
}

/// On the wire, nothing is the offset -1.
fn flat(outcome: Result<Option<Committed>, ResponseError>) -> (Committed, i16) {
    let nothing = || Committed { offset: -1, leader_epoch: -1, metadata: StrBytes::new(), at: Instant::ZERO };
    match outcome {
        Ok(committed) => (committed.unwrap_or_else(nothing), 0),
        Err(error) => (nothing(), error.code()),
    }
}
