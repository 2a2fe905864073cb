//! OffsetCommit and TxnOffsetCommit: who may commit what.

use kafka_protocol::{
    error::ResponseError,
    messages::{
        GroupId, OffsetCommitRequest, OffsetCommitResponse, TopicName, TxnOffsetCommitRequest, TxnOffsetCommitResponse,
        offset_commit_request::OffsetCommitRequestTopic,
        offset_commit_response::{OffsetCommitResponsePartition, OffsetCommitResponseTopic},
        txn_offset_commit_request::TxnOffsetCommitRequestTopic,
        txn_offset_commit_response::{TxnOffsetCommitResponsePartition, TxnOffsetCommitResponseTopic},
    },
    protocol::StrBytes,
};

use super::{
    coordinator::Groups,
    group::{Group, State},
    offsets::Committed,
};
use crate::{broker::core::agenda::Changing, clock::Instant};

/// From this version of OffsetCommit on a member of a group that is not there is told so (KIP-848).
const TELLS_MISSING_GROUP: i16 = 9;

/// Whether there is such a partition.
pub(in crate::broker::core) type Exists<'a> = &'a dyn Fn(&TopicName, i32) -> bool;

/// Who commits, and for which group.
#[derive(Copy, Clone)]
struct Committer<'a> {
    group: &'a GroupId,
    generation: i32,
    member: &'a StrBytes,
    instance: Option<&'a StrBytes>,
    /// The producer whose transaction it is.
    producer: Option<i64>,
    now: Instant,
}

/// Something of each partition, by topic.
type ByTopic<T> = Vec<(TopicName, Vec<(i32, T)>)>;

/// Both requests say the same of partitions, and are told the same, each in types of its own.
macro_rules! by_topic {
    ($offered:ident($offer:ident), $told:ident -> $topic:ident, $partition:ident) => {
        fn $offered(topics: &[$offer], at: Instant) -> ByTopic<Committed> {
            let topics = topics.iter().map(|topic| {
                let partitions = topic.partitions.iter().map(|partition| {
                    let (offset, leader_epoch) = (partition.committed_offset, partition.committed_leader_epoch);
                    let metadata = partition.committed_metadata.clone().unwrap_or_default();
                    (partition.partition_index, Committed { offset, leader_epoch, metadata, at })
                });
                (topic.name.clone(), partitions.collect())
            });
            topics.collect()
        }

        fn $told(outcomes: ByTopic<i16>) -> Vec<$topic> {
            let topics = outcomes.into_iter().map(|(name, partitions)| {
                let partitions = partitions
                    .into_iter()
                    .map(|(index, error)| $partition::default().with_partition_index(index).with_error_code(error));
                $topic::default().with_name(name).with_partitions(partitions.collect())
            });
            topics.collect()
        }
    };
}

by_topic!(offered(OffsetCommitRequestTopic), told -> OffsetCommitResponseTopic, OffsetCommitResponsePartition);
by_topic!(
    offered_in_transaction(TxnOffsetCommitRequestTopic),
    told_in_transaction -> TxnOffsetCommitResponseTopic, TxnOffsetCommitResponsePartition
);

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
            group: &request.group_id,
            generation: request.generation_id_or_member_epoch,
            member: &request.member_id,
            instance: request.group_instance_id.as_ref(),
            producer: None,
            now,
        };
        let missing = if version >= TELLS_MISSING_GROUP {
            ResponseError::GroupIdNotFound
        } else {
            ResponseError::IllegalGeneration
        };
        let outcomes = self.write(committer, Ok(missing), offered(&request.topics, now), exists);
        OffsetCommitResponse::default().with_topics(told(outcomes))
    }

    /// TxnOffsetCommit: counts when the producer's transaction commits. `verified`: the group is part of it (KIP-890).
    pub(in crate::broker::core) fn commit_in_transaction(
        &mut self,
        request: &TxnOffsetCommitRequest,
        verified: Result<(), ResponseError>,
        exists: Exists<'_>,
        now: Instant,
    ) -> TxnOffsetCommitResponse {
        let committer = Committer {
            group: &request.group_id,
            generation: request.generation_id,
            member: &request.member_id,
            instance: request.group_instance_id.as_ref(),
            producer: Some(request.producer_id.0),
            now,
        };
        let known = if request.group_id.is_empty() { Err(ResponseError::InvalidGroupId) } else { verified };
        let missing = known.map(|()| ResponseError::IllegalGeneration);
        let outcomes = self.write(committer, missing, offered_in_transaction(&request.topics, now), exists);
        TxnOffsetCommitResponse::default().with_topics(told_in_transaction(outcomes))
    }

    /// Writes what is offered; each partition's error code. `missing`: what is said of a group that is not there, or why
    /// nothing may be written at all.
    fn write(
        &mut self,
        committer: Committer<'_>,
        missing: Result<ResponseError, ResponseError>,
        offered: ByTopic<Committed>,
        exists: Exists<'_>,
    ) -> ByTopic<i16> {
        let max_metadata = self.options.max_offset_metadata;
        let any = offered.iter().any(|(topic, partitions)| partitions.iter().any(|(index, _)| exists(topic, *index)));
        let mut group =
            missing.and_then(|missing| if any { self.committer_group(committer, missing) } else { Err(missing) });
        if let (Ok((group, _)), None) = (&mut group, committer.producer) {
            group.touch(committer.member, committer.now);
        }
        let mut write = |topic: &TopicName, index, committed: Committed| {
            if !exists(topic, index) {
                return Err(ResponseError::UnknownTopicOrPartition);
            }
            let (group, room) = group.as_mut().map_err(|error| *error)?;
            // Kafka counts Java's characters, though the option speaks of bytes.
            if committed.metadata.encode_utf16().count() > max_metadata {
                return Err(ResponseError::OffsetMetadataTooLarge);
            }
            let partition = (topic.clone(), index);
            let growth = group.offsets.growth(committer.producer, &partition, &committed);
            *room = room.checked_sub(growth).ok_or(ResponseError::InvalidCommitOffsetSize)?;
            match committer.producer {
                None => group.offsets.commit(partition, committed),
                Some(producer) => group.offsets.commit_with(producer, partition, committed),
            }
            Ok(())
        };
        let topics = offered.into_iter().map(|(topic, partitions)| {
            let partitions = partitions.into_iter().map(|(index, committed)| {
                let outcome = write(&topic, index, committed);
                (index, outcome.err().map_or(0, |error| error.code()))
            });
            let partitions = partitions.collect();
            (topic, partitions)
        });
        topics.collect()
    }

    /// The group that is committed for, if the committer may, and the bytes that it may take more. Who is in no generation
    /// makes the group by committing.
    fn committer_group<'a>(
        &'a mut self,
        committer: Committer<'a>,
        missing: ResponseError,
    ) -> Result<(Changing<'a, GroupId, Group>, usize), ResponseError> {
        if !self.groups.contains_key(committer.group) && committer.generation >= 0 {
            return Err(missing);
        }
        let room = self.room(committer.group).ok_or(ResponseError::InvalidCommitOffsetSize)?;
        let group = self.groups.change_or_insert(committer.group, Group::default);
        group.may_commit(committer)?;
        Ok((group, room))
    }
}

impl Group {
    fn may_commit(&self, committer: Committer<'_>) -> Result<(), ResponseError> {
        let Committer { generation, member, instance, producer, .. } = committer;
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
