//! ListOffsets: the first, the last, and the one at a time.

use std::collections::BTreeSet;

use kafka_protocol::{
    error::ResponseError,
    messages::{
        ListOffsetsRequest, ListOffsetsResponse, TopicName,
        list_offsets_request::ListOffsetsPartition,
        list_offsets_response::{ListOffsetsPartitionResponse, ListOffsetsTopicResponse},
    },
};

use super::{
    Logs,
    batch::Batch,
    codec::unpack,
    epochs::check_epoch,
    partition::{Isolation, Partition},
    records::Records,
    twice::named_twice,
};

/// What can be asked for in place of a time.
mod special {
    pub(super) const LATEST: i64 = -1;
    pub(super) const EARLIEST: i64 = -2;
    /// The record with the largest time (KIP-734).
    pub(super) const MAX_TIMESTAMP: i64 = -3;
    /// The first that is on this machine (KIP-405): they all are.
    pub(super) const EARLIEST_LOCAL: i64 = -4;
    /// The last that is in remote storage (KIP-1005): none is.
    pub(super) const LATEST_TIERED: i64 = -5;
}

/// The version of requests from which something can be asked for; `None`: it cannot.
const fn since(asked: i64) -> Option<i16> {
    match asked {
        special::MAX_TIMESTAMP => Some(7),
        special::EARLIEST_LOCAL => Some(8),
        special::LATEST_TIERED => Some(9),
        special::EARLIEST.. => Some(0),
        _ => None,
    }
}

/// An offset with its time, -1 if that was not asked for.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(super) struct Found {
    pub(super) timestamp: i64,
    pub(super) offset: i64,
}

impl Batch {
    /// The first record for which `wanted` says yes to its time and offset.
    fn first_record(&self, bound: usize, wanted: impl Fn(Found) -> bool) -> Option<Found> {
        let header = &self.header;
        let unpacked = unpack(header.compression()?, self.payload(), bound).ok()?;
        let mut found = Records::new(&unpacked).filter_map(Result::ok).map(|record| {
            let created = header.base_timestamp.saturating_add(record.timestamp_delta);
            let timestamp = if header.is_log_append_time() { header.max_timestamp } else { created };
            Found { timestamp, offset: header.base_offset + i64::from(record.offset_delta) }
        });
        found.find(|found| wanted(*found))
    }
}

impl Partition {
    /// The first record that is dated `timestamp` or later.
    pub(super) fn offset_at(&self, timestamp: i64, bound: usize) -> Option<Found> {
        let mut dated = self.batches.iter().filter(|batch| batch.header.max_timestamp >= timestamp);
        let wanted = |found: Found| found.timestamp >= timestamp && found.offset >= self.start;
        dated.find_map(|batch| batch.first_record(bound, wanted))
    }

    /// The first of the records with the latest time.
    pub(super) fn latest_dated(&self, bound: usize) -> Option<Found> {
        let latest = self.batches.iter().map(|batch| batch.header.max_timestamp).max()?;
        let batch = self.batches.iter().find(|batch| batch.header.max_timestamp == latest)?;
        batch.first_record(bound, |found| found.timestamp == latest)
    }

    fn find_offset(&self, asked: i64, isolation: Isolation, bound: usize) -> Option<Found> {
        let end = self.visible_end(isolation);
        let undated = |offset| Some(Found { timestamp: -1, offset });
        match asked {
            special::LATEST => undated(end),
            special::EARLIEST | special::EARLIEST_LOCAL => undated(self.start),
            special::LATEST_TIERED => None,
            special::MAX_TIMESTAMP => self.latest_dated(bound).filter(|found| found.offset < end),
            timestamp => self.offset_at(timestamp, bound).filter(|found| found.offset < end),
        }
    }
}

impl Logs {
    /// Answers ListOffsets.
    pub(in crate::broker::core) fn list_offsets(
        &self,
        request: &ListOffsetsRequest,
        version: i16,
    ) -> ListOffsetsResponse {
        let named = request.topics.iter();
        let named = named.flat_map(|topic| topic.partitions.iter().map(move |p| (&topic.name, p.partition_index)));
        let (mut seen, twice) = (BTreeSet::new(), named_twice(named));
        let topics = request.topics.iter().map(|topic| {
            let once = topic.partitions.iter().filter(|asked| seen.insert((&topic.name, asked.partition_index)));
            let partitions = once.map(|asked| {
                let answer = ListOffsetsPartitionResponse::default().with_partition_index(asked.partition_index);
                let found = if twice.contains(&(&topic.name, asked.partition_index)) {
                    Err(ResponseError::InvalidRequest)
                } else {
                    self.find_offset(&topic.name, asked, (request.isolation_level, version))
                };
                match found {
                    Ok((Some(Found { timestamp, offset }), epoch)) => {
                        answer.with_timestamp(timestamp).with_offset(offset).with_leader_epoch(epoch)
                    }
                    // Nothing is so late.
                    Ok((None, _)) => answer.with_timestamp(-1).with_offset(-1),
                    Err(error) => answer.with_error_code(error.code()).with_timestamp(-1).with_offset(-1),
                }
            });
            let response = ListOffsetsTopicResponse::default().with_name(topic.name.clone());
            response.with_partitions(partitions.collect())
        });
        let topics = topics.filter(|topic| !topic.partitions.is_empty());
        ListOffsetsResponse::default().with_topics(topics.collect())
    }

    fn find_offset(
        &self,
        topic: &TopicName,
        asked: &ListOffsetsPartition,
        (isolation, version): (i8, i16),
    ) -> Result<(Option<Found>, i32), ResponseError> {
        Isolation::check(isolation)?;
        let partition = self.partition(topic, asked.partition_index).ok_or(ResponseError::UnknownTopicOrPartition)?;
        check_epoch(partition, asked.current_leader_epoch)?;
        if since(asked.timestamp).is_none_or(|since| version < since) {
            return Err(ResponseError::UnsupportedVersion);
        }
        let found = partition.find_offset(asked.timestamp, isolation.into(), self.options.max_unpacked_batch);
        let epoch = found.map_or(-1, |found| partition.epoch_at(found.offset));
        Ok((found, epoch))
    }
}
