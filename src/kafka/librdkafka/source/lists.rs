//! Between our values and the wrapper's.

use rdkafka::{
    TopicPartitionList,
    error::KafkaError,
    message::{BorrowedMessage, Headers as _, Message as _},
    topic_partition_list::Offset as Place,
};

use crate::kafka::{
    client::{
        ClientError, Commit, ErrorKind, NextOffset, Offset, Position, RecordBlock, SourceEvent, TopicPartition,
        record::{NO_TIMESTAMP, push_header},
    },
    librdkafka::intake::Intake,
};

pub(super) fn misuse(what: &str) -> ClientError {
    ClientError::new(ErrorKind::Other, format!("a mistake in Stormglass: {what}"))
}

/// Whether an event shows that a partition is being read.
pub(super) fn is_about(event: &SourceEvent, partition: &TopicPartition) -> bool {
    match event {
        SourceEvent::Records(block) => block.partition == *partition,
        SourceEvent::EndOfPartition { partition: p, .. } | SourceEvent::OutOfRange { partition: p, .. } => {
            p == partition
        }
        SourceEvent::Assigned { .. }
        | SourceEvent::Revoked(_)
        | SourceEvent::Lost(_)
        | SourceEvent::Committed { .. }
        | SourceEvent::Trouble(_)
        | SourceEvent::Recovered => false,
    }
}

pub(super) const fn place(position: Position) -> Place {
    match position {
        Position::Beginning => Place::Beginning,
        Position::End => Place::End,
        Position::At(NextOffset(next)) => Place::Offset(next),
    }
}

pub(super) fn commit_list(values: &[Commit]) -> Result<TopicPartitionList, KafkaError> {
    let mut list = TopicPartitionList::new();
    for Commit { partition, next, metadata, .. } in values {
        let mut element = list.add_partition(&partition.topic, partition.partition);
        element.set_offset(Place::Offset(next.0))?;
        if !metadata.is_empty() {
            element.set_metadata(metadata);
        }
    }
    Ok(list)
}

/// A record that came through the consumer's own queue, as a block of one.
pub(super) fn stray(intake: &mut Intake, message: &BorrowedMessage<'_>) -> Option<RecordBlock> {
    let topic = intake.name(message.topic());
    let partition = TopicPartition { topic, partition: message.partition() };
    let epoch = intake.epoch(&partition)?;
    let mut headers = Vec::new();
    for header in message.headers().into_iter().flat_map(|headers| headers.iter()) {
        push_header(header.key.as_bytes(), header.value, &mut headers);
    }
    let mut block = RecordBlock::new(partition, epoch);
    let timestamp = message.timestamp().to_millis().unwrap_or(NO_TIMESTAMP);
    block.push(Offset(message.offset()), timestamp, message.key(), message.payload(), &headers);
    Some(block)
}
