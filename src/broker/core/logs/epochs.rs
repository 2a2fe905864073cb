//! Leader epochs (KIP-101, KIP-320): how a client that has read a tail which was lost finds out.

use kafka_protocol::{
    error::ResponseError,
    messages::{
        OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse, TopicName,
        offset_for_leader_epoch_request::OffsetForLeaderPartition,
        offset_for_leader_epoch_response::{EpochEndOffset, OffsetForLeaderTopicResult},
    },
};

use super::{Logs, partition::Partition};

/// Compares the leader epoch that a client goes by with the partition's; -1: it goes by none.
pub(super) fn check_epoch(partition: &Partition, epoch: i32) -> Result<(), ResponseError> {
    match epoch {
        ..0 => Ok(()),
        epoch if epoch < partition.leader_epoch() => Err(ResponseError::FencedLeaderEpoch),
        epoch if epoch > partition.leader_epoch() => Err(ResponseError::UnknownLeaderEpoch),
        _ => Ok(()),
    }
}

impl Partition {
    /// The largest epoch up to `epoch`, and the offset after its last record; -1 and -1 if that epoch is yet to come.
    pub(super) fn end_of_epoch(&self, epoch: i32) -> (i32, i64) {
        if epoch == self.leader_epoch() {
            return (epoch, self.end);
        }
        let after = self.epochs.partition_point(|(known, _)| *known <= epoch);
        let Some((_, end)) = self.epochs.get(after).filter(|_| epoch >= 0) else { return (-1, -1) };
        // Older than all that is known: it ended where the first known begins.
        let known = after.checked_sub(1).map_or(epoch, |at| self.epochs[at].0);
        (known, *end)
    }

    /// The epoch in which the record at an offset was written.
    pub(super) fn epoch_at(&self, offset: i64) -> i32 {
        let after = self.epochs.partition_point(|(_, first)| *first <= offset);
        after.checked_sub(1).map_or(-1, |at| self.epochs[at].0)
    }
}

impl Logs {
    /// Answers OffsetForLeaderEpoch.
    pub(in crate::broker::core) fn offset_for_leader_epoch(
        &self,
        request: &OffsetForLeaderEpochRequest,
    ) -> OffsetForLeaderEpochResponse {
        let topics = request.topics.iter().map(|topic| {
            let partitions = topic.partitions.iter().map(|asked| {
                let answer = EpochEndOffset::default().with_partition(asked.partition);
                match self.end_of_epoch(&topic.topic, asked) {
                    Ok((epoch, end)) => answer.with_leader_epoch(epoch).with_end_offset(end),
                    Err(error) => answer.with_error_code(error.code()).with_leader_epoch(-1).with_end_offset(-1),
                }
            });
            let result = OffsetForLeaderTopicResult::default().with_topic(topic.topic.clone());
            result.with_partitions(partitions.collect())
        });
        OffsetForLeaderEpochResponse::default().with_topics(topics.collect())
    }

    fn end_of_epoch(&self, topic: &TopicName, asked: &OffsetForLeaderPartition) -> Result<(i32, i64), ResponseError> {
        let partition = self.partition(topic, asked.partition).ok_or(ResponseError::UnknownTopicOrPartition)?;
        check_epoch(partition, asked.current_leader_epoch)?;
        Ok(partition.end_of_epoch(asked.leader_epoch))
    }
}
