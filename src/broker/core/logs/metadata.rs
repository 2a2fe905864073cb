//! Metadata and DescribeCluster: which topics there are, on the one broker that there is.

use std::collections::BTreeSet;

use kafka_protocol::{
    error::ResponseError,
    messages::{
        DescribeClusterRequest, DescribeClusterResponse, MetadataRequest, MetadataResponse, TopicName,
        describe_cluster_response::DescribeClusterBroker,
        metadata_request::MetadataRequestTopic,
        metadata_response::{MetadataResponseBroker, MetadataResponsePartition, MetadataResponseTopic},
    },
    protocol::StrBytes,
};
use uuid::Uuid;

use super::{
    Logs, Topic,
    config::Overrides,
    topics::{check_name, is_internal, named},
};
use crate::broker::core::broker::NODE;

/// What everyone may do with a topic, bit by number of the operation: read, write, create, delete, alter, describe, and
/// describe and alter configs.
pub(super) const TOPIC_OPERATIONS: i32 = 0b1101_1111_1000;
/// The same for the cluster: create, alter, describe, cluster action, describe and alter configs, idempotent write.
const CLUSTER_OPERATIONS: i32 = 0b1_1111_1010_0000;
/// From this version on a topic may be asked for by its id alone.
const BY_ID_SINCE: i16 = 12;
/// Nobody asked what everyone may do.
const NOT_ASKED: i32 = i32::MIN;

const fn if_asked(asked: bool, operations: i32) -> i32 {
    if asked { operations } else { NOT_ASKED }
}

impl Logs {
    /// Answers Metadata; creates what is asked for and not there, if both sides want that.
    pub(in crate::broker::core) fn metadata(&mut self, request: &MetadataRequest, version: i16) -> MetadataResponse {
        let broker = MetadataResponseBroker::default()
            .with_node_id(NODE)
            .with_host(self.host.clone())
            .with_port(self.port)
            .with_rack(None);
        // Version 0 had no null: nothing named meant all.
        let named = request.topics.as_ref().filter(|topics| version > 0 || !topics.is_empty());
        let topics: Vec<MetadataResponseTopic> = match named {
            None => self.topics().map(|(name, topic)| described(name, topic)).collect(),
            Some(asked) => {
                let create = self.options.auto_create_topics && request.allow_auto_topic_creation;
                let mut seen = BTreeSet::new();
                let asked = asked.iter().filter(|topic| seen.insert((&topic.name, topic.topic_id)));
                asked.map(|topic| self.described_topic(topic, version, create)).collect()
            }
        };
        let operations = if_asked(request.include_topic_authorized_operations, TOPIC_OPERATIONS);
        let topics = topics.into_iter().map(|topic| topic.with_topic_authorized_operations(operations)).collect();
        MetadataResponse::default()
            .with_brokers(vec![broker])
            .with_cluster_id(Some(self.cluster_id.clone()))
            .with_controller_id(NODE)
            .with_topics(topics)
            .with_cluster_authorized_operations(if_asked(
                request.include_cluster_authorized_operations,
                CLUSTER_OPERATIONS,
            ))
    }

    fn described_topic(&mut self, asked: &MetadataRequestTopic, version: i16, create: bool) -> MetadataResponseTopic {
        let failed = |error: ResponseError| MetadataResponseTopic::default().with_error_code(error.code());
        if asked.name.is_none() && version < BY_ID_SINCE {
            return failed(ResponseError::InvalidRequest).with_name(Some(named("")));
        }
        let Some(name) = asked.name.as_ref().filter(|_| asked.topic_id == Uuid::nil()) else {
            let found = self.name_of(asked.topic_id).and_then(|name| self.topics.get_key_value(name));
            return found.map_or_else(
                || failed(ResponseError::UnknownTopicId).with_name(None).with_topic_id(asked.topic_id),
                |(name, topic)| described(name, topic),
            );
        };
        if check_name(name).is_err() {
            return failed(ResponseError::InvalidTopicException).with_name(Some(name.clone()));
        }
        if create && self.topic(name).is_none() && !is_internal(name) {
            let partitions = usize::try_from(self.options.num_partitions).unwrap_or(1);
            if let Err(error) = self.create(&named(name), partitions, Overrides::new()) {
                return failed(error).with_name(Some(name.clone()));
            }
        }
        self.topic(name).map_or_else(
            || failed(ResponseError::UnknownTopicOrPartition).with_name(Some(name.clone())),
            |topic| described(name, topic),
        )
    }

    /// Answers DescribeCluster.
    pub(in crate::broker::core) fn describe_cluster(
        &self,
        request: &DescribeClusterRequest,
    ) -> DescribeClusterResponse {
        const BROKERS: i8 = 1;
        let response = DescribeClusterResponse::default().with_endpoint_type(request.endpoint_type);
        if request.endpoint_type != BROKERS {
            let error = ResponseError::UnsupportedEndpointType;
            return response.with_error_code(error.code()).with_error_message(Some(StrBytes::from_static_str(
                "This is a broker: of controllers it knows nothing",
            )));
        }
        let broker = DescribeClusterBroker::default().with_broker_id(NODE).with_host(self.host.clone());
        let operations = if_asked(request.include_cluster_authorized_operations, CLUSTER_OPERATIONS);
        response
            .with_cluster_id(self.cluster_id.clone())
            .with_controller_id(NODE)
            .with_brokers(vec![broker.with_port(self.port).with_rack(None)])
            .with_cluster_authorized_operations(operations)
    }
}

fn described(name: &TopicName, topic: &Topic) -> MetadataResponseTopic {
    let partitions = (0..).zip(&topic.partitions).map(|(index, partition)| {
        MetadataResponsePartition::default()
            .with_partition_index(index)
            .with_leader_id(NODE)
            .with_leader_epoch(partition.leader_epoch())
            .with_replica_nodes(vec![NODE])
            .with_isr_nodes(vec![NODE])
    });
    MetadataResponseTopic::default()
        .with_name(Some(name.clone()))
        .with_topic_id(topic.id)
        .with_partitions(partitions.collect())
}
