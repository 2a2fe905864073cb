//! DeleteTopics and DeleteRecords.

use std::collections::BTreeSet;

use kafka_protocol::{
    error::ResponseError,
    messages::{
        DeleteRecordsRequest, DeleteRecordsResponse, DeleteTopicsRequest, DeleteTopicsResponse, TopicName,
        delete_records_response::{DeleteRecordsPartitionResult, DeleteRecordsTopicResult},
        delete_topics_response::DeletableTopicResult,
    },
};
use uuid::Uuid;

use super::{Logs, twice::named_twice};

impl Logs {
    /// Answers DeleteTopics, by name or by id.
    pub(in crate::broker::core) fn delete_topics(&mut self, request: &DeleteTopicsRequest) -> DeleteTopicsResponse {
        let by_name = request.topic_names.iter().map(|name| (Some(name), Uuid::nil()));
        let asked = by_name.chain(request.topics.iter().map(|topic| (topic.name.as_ref(), topic.topic_id)));
        let (mut seen, twice) = (BTreeSet::new(), named_twice(asked.clone()));
        let responses = asked.filter(|topic| seen.insert(*topic)).map(|(name, id)| {
            let result = DeletableTopicResult::default().with_error_message(None);
            let is_twice = twice.contains(&(name, id));
            match if is_twice { Err(ResponseError::InvalidRequest) } else { self.delete_topic(name, id) } {
                Ok((name, id)) => result.with_name(Some(name)).with_topic_id(id),
                Err(error) => {
                    let message = Some(error.to_string().into());
                    let result = result.with_name(name.cloned()).with_topic_id(id);
                    result.with_error_code(error.code()).with_error_message(message)
                }
            }
        });
        DeleteTopicsResponse::default().with_responses(responses.collect())
    }

    fn delete_topic(&mut self, name: Option<&TopicName>, id: Uuid) -> Result<(TopicName, Uuid), ResponseError> {
        let name = match (name, id) {
            (Some(name), id) if id == Uuid::nil() => name.clone(),
            (None, id) if id != Uuid::nil() => self.name_of(id).ok_or(ResponseError::UnknownTopicId)?.clone(),
            _ => return Err(ResponseError::InvalidRequest),
        };
        let topic = self.delete(&name).ok_or(ResponseError::UnknownTopicOrPartition)?;
        Ok((name, topic.id))
    }

    /// Answers DeleteRecords: moves the first offset of partitions.
    pub(in crate::broker::core) fn delete_records(&mut self, request: &DeleteRecordsRequest) -> DeleteRecordsResponse {
        let topics = request.topics.iter().map(|topic| {
            let partitions = topic.partitions.iter().map(|asked| {
                let result = DeleteRecordsPartitionResult::default().with_partition_index(asked.partition_index);
                match self.delete_before(&topic.name, asked.partition_index, asked.offset) {
                    Ok(start) => result.with_low_watermark(start),
                    Err(error) => result.with_error_code(error.code()).with_low_watermark(-1),
                }
            });
            let result = DeleteRecordsTopicResult::default().with_name(topic.name.clone());
            result.with_partitions(partitions.collect())
        });
        DeleteRecordsResponse::default().with_topics(topics.collect())
    }

    fn delete_before(&mut self, topic: &TopicName, partition: i32, offset: i64) -> Result<i64, ResponseError> {
        // Everything that there is.
        const END: i64 = -1;
        let deleted = self.change(topic, partition, |log, settings| {
            if !settings.delete {
                return Err(ResponseError::PolicyViolation);
            }
            let before = if offset == END { log.end() } else { offset };
            if !(0..=log.end()).contains(&before) {
                return Err(ResponseError::OffsetOutOfRange);
            }
            log.delete_before(before);
            Ok(log.start())
        });
        deleted.unwrap_or(Err(ResponseError::UnknownTopicOrPartition))
    }
}
