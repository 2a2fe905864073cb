//! What a request that only asks names more than once is answered once: else a request of kilobytes has an answer of
//! gigabytes. Kafka keeps maps by name there, which comes to the same.

use std::collections::BTreeSet;

use kafka_protocol::{messages::RequestKind, protocol::StrBytes};

/// Takes out what came before, and what only a broker with racks and fetch sessions has use for.
pub(in crate::broker) fn answer_once(body: &mut RequestKind) {
    match body {
        RequestKind::Fetch(fetch) => {
            fetch.rack_id = StrBytes::default();
            fetch.forgotten_topics_data = Vec::new();
            let mut seen = BTreeSet::new();
            for topic in &mut fetch.topics {
                let of = (topic.topic.clone(), topic.topic_id);
                topic.partitions.retain(|asked| seen.insert((of.clone(), asked.partition)));
            }
        }
        RequestKind::ListOffsets(list) => {
            let mut seen = BTreeSet::new();
            for topic in &mut list.topics {
                topic.partitions.retain(|asked| seen.insert((topic.name.clone(), asked.partition_index)));
            }
        }
        RequestKind::OffsetForLeaderEpoch(asked) => {
            let mut seen = BTreeSet::new();
            for topic in &mut asked.topics {
                topic.partitions.retain(|asked| seen.insert((topic.topic.clone(), asked.partition)));
            }
        }
        RequestKind::Metadata(metadata) => {
            let mut seen = BTreeSet::new();
            let topics = metadata.topics.iter_mut();
            topics.for_each(|topics| topics.retain(|asked| seen.insert((asked.topic_id, asked.name.clone()))));
        }
        RequestKind::OffsetFetch(fetch) => {
            let mut seen = BTreeSet::new();
            fetch.groups.retain(|group| seen.insert(group.group_id.clone()));
            let mut seen = BTreeSet::new();
            for topic in fetch.topics.iter_mut().flatten() {
                topic.partition_indexes.retain(|index| seen.insert((topic.name.clone(), *index)));
            }
            for group in &mut fetch.groups {
                let mut seen = BTreeSet::new();
                for topic in group.topics.iter_mut().flatten() {
                    topic.partition_indexes.retain(|index| seen.insert((topic.name.clone(), *index)));
                }
            }
        }
        RequestKind::OffsetDelete(delete) => {
            let mut seen = BTreeSet::new();
            for topic in &mut delete.topics {
                topic.partitions.retain(|asked| seen.insert((topic.name.clone(), asked.partition_index)));
            }
        }
        RequestKind::DescribeGroups(describe) => {
            let mut seen = BTreeSet::new();
            describe.groups.retain(|group| seen.insert(group.clone()));
        }
        RequestKind::DescribeConfigs(describe) => {
            let mut seen = BTreeSet::new();
            describe.resources.retain(|asked| seen.insert((asked.resource_type, asked.resource_name.clone())));
        }
        RequestKind::DescribeTransactions(describe) => {
            let mut seen = BTreeSet::new();
            describe.transactional_ids.retain(|id| seen.insert(id.clone()));
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use kafka_protocol::messages::{
        DescribeConfigsRequest, DescribeGroupsRequest, FetchRequest, GroupId, MetadataRequest, OffsetFetchRequest,
        TopicName,
        describe_configs_request::DescribeConfigsResource,
        fetch_request::{FetchPartition, FetchTopic},
        metadata_request::MetadataRequestTopic,
        offset_fetch_request::{OffsetFetchRequestGroup, OffsetFetchRequestTopics},
    };

    use super::*;

    fn text(of: &'static str) -> StrBytes {
        StrBytes::from_static_str(of)
    }

    fn once(request: impl Into<RequestKind>) -> RequestKind {
        let mut body = request.into();
        answer_once(&mut body);
        body
    }

    #[test]
    fn a_partition_is_fetched_once_however_its_topic_is_repeated() {
        let topic = |name, partitions: &[i32]| {
            let partitions = partitions.iter().map(|n| FetchPartition::default().with_partition(*n));
            FetchTopic::default().with_topic(TopicName(text(name))).with_partitions(partitions.collect())
        };
        let topics = vec![topic("a", &[0, 1, 0]), topic("b", &[0]), topic("a", &[1, 2])];
        let request = FetchRequest::default().with_topics(topics).with_rack_id(text("a rack"));
        let RequestKind::Fetch(fetch) = once(request) else { panic!() };
        let left: Vec<Vec<i32>> =
            fetch.topics.iter().map(|topic| topic.partitions.iter().map(|asked| asked.partition).collect()).collect();
        assert_eq!((left, fetch.rack_id), (vec![vec![0, 1], vec![0], vec![2]], text("")));
    }

    #[test]
    fn groups_topics_and_resources_are_described_once() {
        let groups = ["a", "b", "a"].map(|name| GroupId(text(name)));
        let RequestKind::DescribeGroups(asked) = once(DescribeGroupsRequest::default().with_groups(groups.to_vec()))
        else {
            panic!()
        };
        assert_eq!(asked.groups.len(), 2);
        let topic = |name| MetadataRequestTopic::default().with_name(Some(TopicName(text(name))));
        let topics = vec![topic("a"), topic("a"), topic("b")];
        let RequestKind::Metadata(asked) = once(MetadataRequest::default().with_topics(Some(topics))) else { panic!() };
        assert_eq!(asked.topics.map(|topics| topics.len()), Some(2));
        let resource =
            |kind, name| DescribeConfigsResource::default().with_resource_type(kind).with_resource_name(text(name));
        let resources = vec![resource(2, "a"), resource(4, "a"), resource(2, "a")];
        let RequestKind::DescribeConfigs(asked) = once(DescribeConfigsRequest::default().with_resources(resources))
        else {
            panic!()
        };
        assert_eq!(asked.resources.len(), 2);
    }

    #[test]
    fn each_group_is_asked_for_each_offset_once() {
        let topics = vec![
            OffsetFetchRequestTopics::default().with_name(TopicName(text("t"))).with_partition_indexes(vec![1, 0, 1]),
        ];
        let group = |name| {
            OffsetFetchRequestGroup::default().with_group_id(GroupId(text(name))).with_topics(Some(topics.clone()))
        };
        let request = OffsetFetchRequest::default().with_groups(vec![group("a"), group("b"), group("a")]);
        let RequestKind::OffsetFetch(fetch) = once(request) else { panic!() };
        let asked: Vec<_> = fetch.groups.iter().flat_map(|group| group.topics.iter().flatten()).collect();
        assert_eq!(asked.len(), 2);
        assert!(asked.iter().all(|topic| topic.partition_indexes == [1, 0]));
    }
}
