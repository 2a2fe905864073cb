//! What a request that only asks names more than once is answered once: else a request of kilobytes has an answer of
//! gigabytes. Kafka keeps maps by name there, which comes to the same.

use std::collections::BTreeSet;

use kafka_protocol::{
    messages::{
        OffsetFetchRequest, RequestKind,
        fetch_request::FetchTopic,
        list_offsets_request::ListOffsetsTopic,
        offset_delete_request::OffsetDeleteRequestTopic,
        offset_fetch_request::{OffsetFetchRequestTopic, OffsetFetchRequestTopics},
        offset_for_leader_epoch_request::OffsetForLeaderTopic,
    },
    protocol::StrBytes,
};

/// Takes out what came before, and what only a broker with racks and fetch sessions has use for.
pub(super) fn answer_once(body: &mut RequestKind) {
    match body {
        RequestKind::Fetch(fetch) => {
            fetch.rack_id = StrBytes::default();
            fetch.forgotten_topics_data = Vec::new();
            let of = |topic: &FetchTopic| (topic.topic.clone(), topic.topic_id);
            partitions_once(&mut fetch.topics, of, |topic| &mut topic.partitions, |asked| asked.partition);
        }
        RequestKind::ListOffsets(list) => {
            let of = |topic: &ListOffsetsTopic| topic.name.clone();
            partitions_once(&mut list.topics, of, |topic| &mut topic.partitions, |asked| asked.partition_index);
        }
        RequestKind::OffsetForLeaderEpoch(epochs) => {
            let of = |topic: &OffsetForLeaderTopic| topic.topic.clone();
            partitions_once(&mut epochs.topics, of, |topic| &mut topic.partitions, |asked| asked.partition);
        }
        RequestKind::OffsetDelete(delete) => {
            let of = |topic: &OffsetDeleteRequestTopic| topic.name.clone();
            partitions_once(&mut delete.topics, of, |topic| &mut topic.partitions, |asked| asked.partition_index);
        }
        RequestKind::OffsetFetch(fetch) => offsets_once(fetch),
        RequestKind::Metadata(metadata) => {
            let topics = metadata.topics.iter_mut();
            topics.for_each(|topics| once(topics, |asked| (asked.topic_id, asked.name.clone())));
        }
        RequestKind::DescribeGroups(describe) => once(&mut describe.groups, Clone::clone),
        RequestKind::DescribeConfigs(describe) => {
            once(&mut describe.resources, |asked| (asked.resource_type, asked.resource_name.clone()));
        }
        RequestKind::DescribeTransactions(describe) => once(&mut describe.transactional_ids, Clone::clone),
        _ => {}
    }
}

fn offsets_once(fetch: &mut OffsetFetchRequest) {
    let of = |topic: &OffsetFetchRequestTopic| topic.name.clone();
    let topics = fetch.topics.as_deref_mut().unwrap_or_default();
    partitions_once(topics, of, |topic| &mut topic.partition_indexes, |index| *index);
    once(&mut fetch.groups, |group| group.group_id.clone());
    for group in &mut fetch.groups {
        let of = |topic: &OffsetFetchRequestTopics| topic.name.clone();
        let topics = group.topics.as_deref_mut().unwrap_or_default();
        partitions_once(topics, of, |topic| &mut topic.partition_indexes, |index| *index);
    }
}

fn once<T, K: Ord>(asked: &mut Vec<T>, key: impl Fn(&T) -> K) {
    let mut seen = BTreeSet::new();
    asked.retain(|one| seen.insert(key(one)));
}

/// Topics themselves may stand there several times, with different partitions.
fn partitions_once<T, P, K: Ord + Clone>(
    topics: &mut [T],
    topic_of: impl Fn(&T) -> K,
    partitions_of: impl Fn(&mut T) -> &mut Vec<P>,
    index_of: impl Fn(&P) -> i32,
) {
    let mut seen = BTreeSet::new();
    for topic in topics {
        let of = topic_of(topic);
        partitions_of(topic).retain(|asked| seen.insert((of.clone(), index_of(asked))));
    }
}

#[cfg(test)]
mod tests {
    use kafka_protocol::messages::{
        DescribeConfigsRequest, DescribeGroupsRequest, FetchRequest, GroupId, MetadataRequest, TopicName,
        describe_configs_request::DescribeConfigsResource, fetch_request::FetchPartition,
        metadata_request::MetadataRequestTopic, offset_fetch_request::OffsetFetchRequestGroup,
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
