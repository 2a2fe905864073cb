//! OffsetCommit and TxnOffsetCommit: who may commit what.

use kafka_protocol::{
    error::ResponseError,
    messages::{
        GroupId, OffsetCommitRequest, OffsetCommitResponse, TopicName, TxnOffsetCommitRequest, TxnOffsetCommitResponse,
        offset_commit_response::{OffsetCommitResponsePartition, OffsetCommitResponseTopic},
        txn_offset_commit_response::{TxnOffsetCommitResponsePartition, TxnOffsetCommitResponseTopic},
    },
    protocol::StrBytes,
};

use super::{
    coordinator::Groups,
    group::{Group, State},
    offsets::Committed,
};
use crate::clock::Instant;

/// From this version of OffsetCommit on a member of a group that is not there is told so (KIP-848).
const TELLS_MISSING_GROUP: i16 = 9;

/// Whether there is such a partition.
pub(in crate::broker::core) type Exists<'a> = &'a dyn Fn(&TopicName, i32) -> bool;

/// Who commits.
#[derive(Copy, Clone)]
struct Committer<'a> {
    generation: i32,
    member: &'a StrBytes,
    instance: Option<&'a StrBytes>,
    /// The producer whose transaction it is.
    producer: Option<i64>,
}

impl Groups {
    /// OffsetCommit.
    pub(in crate::broker::core) fn commit(
        &mut self,
        version: i16,
        request: &OffsetCommitRequest,
        exists: Exists<'_>,
        now: Instant,
    ) -> OffsetCommitResponse {
        let committer = Committer {
            generation: request.generation_id_or_member_epoch,
            member: &request.member_id,
            instance: request.group_instance_id.as_ref(),
            producer: None,
        };
        let missing = if version >= TELLS_MISSING_GROUP {
            ResponseError::GroupIdNotFound
        } else {
            ResponseError::IllegalGeneration
        };
        let any = request.topics.iter().any(|t| t.partitions.iter().any(|p| exists(&t.name, p.partition_index)));
        let max_metadata = self.options().max_offset_metadata;
        let mut group = if any { self.committer_group(&request.group_id, committer, missing) } else { Err(missing) };
        if let Ok(group) = &mut group {
            group.touch(&request.member_id, now);
        }
        let mut write = Writer { group, producer: None, exists, max_metadata };
        let topics = request.topics.iter().map(|topic| {
            let partitions = topic.partitions.iter().map(|partition| {
                let index = partition.partition_index;
                let committed = Committed {
                    offset: partition.committed_offset,
                    leader_epoch: partition.committed_leader_epoch,
                    metadata: partition.committed_metadata.clone().unwrap_or_default(),
                };
                let error = write.write(&topic.name, index, committed);
                OffsetCommitResponsePartition::default().with_partition_index(index).with_error_code(error)
            });
            OffsetCommitResponseTopic::default().with_name(topic.name.clone()).with_partitions(partitions.collect())
        });
        OffsetCommitResponse::default().with_topics(topics.collect())
    }

    /// TxnOffsetCommit: counts when the producer's transaction commits. `verified`: the group is part of it (KIP-890).
    pub(in crate::broker::core) fn commit_in_transaction(
        &mut self,
        request: &TxnOffsetCommitRequest,
        verified: Result<(), ResponseError>,
        exists: Exists<'_>,
    ) -> TxnOffsetCommitResponse {
        let producer = Some(request.producer_id.0);
        let committer = Committer {
            generation: request.generation_id,
            member: &request.member_id,
            instance: request.group_instance_id.as_ref(),
            producer,
        };
        let any = request.topics.iter().any(|t| t.partitions.iter().any(|p| exists(&t.name, p.partition_index)));
        let max_metadata = self.options().max_offset_metadata;
        let missing = ResponseError::IllegalGeneration;
        let known = if request.group_id.is_empty() { Err(ResponseError::InvalidGroupId) } else { verified };
        let group = match known {
            Ok(()) if any => self.committer_group(&request.group_id, committer, missing),
            Ok(()) => Err(missing),
            Err(error) => Err(error),
        };
        let mut write = Writer { group, producer, exists, max_metadata };
        let topics = request.topics.iter().map(|topic| {
            let partitions = topic.partitions.iter().map(|partition| {
                let index = partition.partition_index;
                let committed = Committed {
                    offset: partition.committed_offset,
                    leader_epoch: partition.committed_leader_epoch,
                    metadata: partition.committed_metadata.clone().unwrap_or_default(),
                };
                let error = write.write(&topic.name, index, committed);
                TxnOffsetCommitResponsePartition::default().with_partition_index(index).with_error_code(error)
            });
            TxnOffsetCommitResponseTopic::default().with_name(topic.name.clone()).with_partitions(partitions.collect())
        });
        TxnOffsetCommitResponse::default().with_topics(topics.collect())
    }

    /// The group that is committed for, if the committer may. Who is in no generation makes the group by committing.
    fn committer_group(
        &mut self,
        id: &GroupId,
        committer: Committer<'_>,
        missing: ResponseError,
    ) -> Result<&mut Group, ResponseError> {
        if !self.groups.contains_key(id) && committer.generation >= 0 {
            return Err(missing);
        }
        let group = self.groups.entry(id.clone()).or_default();
        group.may_commit(committer)?;
        Ok(group)
    }
}

impl Group {
    fn may_commit(&self, committer: Committer<'_>) -> Result<(), ResponseError> {
        let Committer { generation, member, instance, producer } = committer;
        let plain = producer.is_none();
        if generation < 0 && self.state == State::Empty {
            return Ok(());
        }
        if generation >= 0 || !member.is_empty() || instance.is_some() {
            self.validate(member, instance)?;
            if generation != self.generation {
                return Err(ResponseError::IllegalGeneration);
            }
        } else if plain {
            // An admin may only while nobody is in the group. Old producers do not say who they are, so they may always.
            return Err(ResponseError::UnknownMemberId);
        }
        // The assignment is being made: whoever commits now may commit for another's partition.
        if plain && self.state == State::CompletingRebalance {
            return Err(ResponseError::RebalanceInProgress);
        }
        Ok(())
    }
}

/// Writes the offsets of one request.
struct Writer<'a> {
    group: Result<&'a mut Group, ResponseError>,
    producer: Option<i64>,
    exists: Exists<'a>,
    max_metadata: usize,
}

impl Writer<'_> {
    /// Writes one offset; the partition's error code.
    fn write(&mut self, topic: &TopicName, partition: i32, committed: Committed) -> i16 {
        if !(self.exists)(topic, partition) {
            return ResponseError::UnknownTopicOrPartition.code();
        }
        let group = match &mut self.group {
            Ok(group) => group,
            Err(error) => return error.code(),
        };
        // Kafka counts Java's characters, though the option speaks of bytes.
        if committed.metadata.encode_utf16().count() > self.max_metadata {
            return ResponseError::OffsetMetadataTooLarge.code();
        }
        let partition = (topic.clone(), partition);
        match self.producer {
            None => group.offsets.commit(partition, committed),
            Some(producer) => group.offsets.commit_with(producer, partition, committed),
        }
        0
    }
}
