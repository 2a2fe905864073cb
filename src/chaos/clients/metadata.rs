//! How many partitions topics have: the question, and what an answer tells.

use std::collections::BTreeMap;

use kafka_protocol::messages::{MetadataRequest, MetadataResponse, metadata_request::MetadataRequestTopic};

use super::topic_name;

/// Asks about these topics.
pub(in crate::chaos) fn about<T: AsRef<str>>(topics: impl IntoIterator<Item = T>) -> MetadataRequest {
    let named = |topic: T| MetadataRequestTopic::default().with_name(Some(topic_name(topic.as_ref())));
    MetadataRequest::default().with_topics(Some(topics.into_iter().map(named).collect()))
}

/// Whether the answer tells of every topic that was asked about.
pub(super) fn is_whole(answer: &MetadataResponse) -> bool {
    answer.topics.iter().all(|topic| topic.error_code == 0)
}

/// Partitions by topic, of topics that exist.
pub(super) fn counts(answer: &MetadataResponse) -> BTreeMap<String, i32> {
    let known = answer.topics.iter().filter(|topic| topic.error_code == 0);
    let count = |n: usize| i32::try_from(n).unwrap_or(i32::MAX);
    known.filter_map(|topic| Some((topic.name.as_ref()?.0.to_string(), count(topic.partitions.len())))).collect()
}
