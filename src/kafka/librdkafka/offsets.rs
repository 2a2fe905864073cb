//! What any consumer may ask about offsets: what a group has committed, and where partitions begin and end.

use std::time::Duration;

use rdkafka::{
    TopicPartitionList,
    consumer::{BaseConsumer, Consumer as _},
    topic_partition_list::Offset as Place,
};

use super::{
    native::committed_metadata,
    shared::{Context, call_error},
};
use crate::kafka::client::{ClientError, Committed, NextOffset, TopicPartition, Watermarks};

/// Partitions with a place each, as the wrapper takes them.
pub(in crate::kafka) fn list_of<'a>(
    partitions: impl IntoIterator<Item = (&'a TopicPartition, Place)>,
    brokers: &str,
) -> Result<TopicPartitionList, ClientError> {
    let mut list = TopicPartitionList::new();
    for (partition, place) in partitions {
        list.add_partition_offset(&partition.topic, partition.partition, place)
            .map_err(|error| call_error(&error, &format!("partition {partition}"), brokers))?;
    }
    Ok(list)
}

/// What the consumer's group has committed for each of these partitions, in their order; `None` if nothing.
pub(in crate::kafka) fn committed(
    consumer: &BaseConsumer<Context>,
    group: &str,
    partitions: &[TopicPartition],
    max_wait: Duration,
    brokers: &str,
) -> Result<Vec<Option<Committed>>, ClientError> {
    if partitions.is_empty() {
        return Ok(Vec::new());
    }
    let what = format!("committed offsets of group {group:?}");
    let failed = |error| call_error(&error, &what, brokers);
    let list = list_of(partitions.iter().map(|partition| (partition, Place::Invalid)), brokers)?;
    let list = consumer.committed_offsets(list, max_wait).map_err(failed)?;
    let each = list.elements().into_iter().zip(committed_metadata(&list)).map(|(element, metadata)| {
        element.error().map_err(failed)?;
        Ok(match element.offset() {
            Place::Offset(next) => Some(Committed { next: NextOffset(next), metadata }),
            _ => None,
        })
    });
    each.collect()
}

/// Oldest record and end of a partition.
pub(in crate::kafka) fn watermarks(
    consumer: &BaseConsumer<Context>,
    partition: TopicPartition,
    max_wait: Duration,
    brokers: &str,
) -> Result<Watermarks, ClientError> {
    let found = consumer.fetch_watermarks(&partition.topic, partition.partition, max_wait);
    let (low, high) = found.map_err(|error| call_error(&error, &format!("ends of partition {partition}"), brokers))?;
    Ok(Watermarks { partition, low: NextOffset(low), high: NextOffset(high) })
}
