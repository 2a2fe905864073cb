//! What no well-behaved client sends.

use std::io::Write as _;

use kafka_protocol::{
    messages::{
        ApiKey, ApiVersionsRequest, ApiVersionsResponse, DeleteGroupsRequest, FindCoordinatorRequest, GroupId,
        IncrementalAlterConfigsRequest, ListOffsetsRequest, MetadataRequest, OffsetCommitRequest,
        incremental_alter_configs_request::{AlterConfigsResource, AlterableConfig},
        list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic},
        metadata_request::MetadataRequestTopic,
        offset_commit_request::{OffsetCommitRequestPartition, OffsetCommitRequestTopic},
    },
    protocol::Decodable,
};
use libtest_mimic::Trial;
use rdkafka::types::RDKafkaErrorCode;

use super::{
    both, seen, send, transactional, values,
    wire::{Wire, Writer, batch, produce, text, topic_name},
};
use crate::broker::{Broker, Isolation};

pub fn trials() -> Vec<Trial> {
    both!(
        api_versions_of_the_future_is_answered_in_the_first_version,
        what_is_no_request_closes_the_connection,
        a_batch_with_a_wrong_checksum_is_refused,
        a_batch_that_is_none_is_refused,
        an_unknown_partition_is_an_error_of_its_own,
        a_batch_without_acknowledgement_has_no_response,
        offsets_are_listed_by_isolation,
        metadata_tells_of_the_topics_that_are_asked_for,
        a_coordinator_is_found,
        a_group_without_a_name_is_deleted_as_any_other,
        an_operation_on_configs_that_there_is_not_fails_all_of_its_request,
    )
}

fn api_versions_of_the_future_is_answered_in_the_first_version(broker: &Broker) {
    let mut wire = Wire::connect(broker);
    wire.send(&[0, 18, 0, 99, 0, 0, 0, 8, 0, 1, b'x', 0, 0xde, 0xad]).unwrap();
    let mut frame = wire.frame().expect("a response");
    assert_eq!(frame.split_to(4).as_ref(), [0, 0, 0, 8], "its correlation id");
    let answer = ApiVersionsResponse::decode(&mut frame, 0).expect("version 0");
    assert_eq!(answer.error_code, RDKafkaErrorCode::UnsupportedVersion as i16);
    assert!(answer.api_keys.iter().any(|versions| versions.api_key == ApiKey::ApiVersions as i16), "{answer:?}");
    let answer = wire.ask(
        3,
        &ApiVersionsRequest::default()
            .with_client_software_name(text("conformance"))
            .with_client_software_version(text("1")),
    );
    assert_eq!(answer.error_code, 0);
}

fn what_is_no_request_closes_the_connection(broker: &Broker) {
    let cases: &[(&str, &[u8])] = &[
        ("TLS hello", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03 and so on"),
        ("HTTP", b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"),
        ("two gigabytes", b"\x7f\xff\xff\xff\x00\x12\x00\x03"),
        ("negative size", b"\xff\xff\xff\xff\x00\x12\x00\x03"),
        ("no such API", b"\x00\x00\x00\x0a\x7f\x00\x00\x00\x00\x00\x00\x01\xff\xff"),
        ("no such version", b"\x00\x00\x00\x0a\x00\x03\x00\x63\x00\x00\x00\x01\xff\xff"),
        ("two billion topics", b"\x00\x00\x00\x0e\x00\x03\x00\x01\x00\x00\x00\x01\xff\xff\x7f\xff\xff\xff"),
    ];
    for (what, bytes) in cases {
        let mut wire = Wire::connect(broker);
        // The broker may close before it has read all: then that is what is seen next.
        wire.stream.write_all(bytes).ok();
        assert!(wire.frame().is_none(), "{what}");
    }
}

fn a_batch_with_a_wrong_checksum_is_refused(broker: &Broker) {
    let topic = broker.topic("checksum", 1, &[]);
    let mut wire = Wire::connect(broker);
    let good = batch(Writer::NOBODY, &["good"]);
    let mut bad = good.to_vec();
    let last = bad.len() - 2;
    bad[last] ^= 1;
    assert_eq!(wire.produce(&topic, bad.into()).error_code, RDKafkaErrorCode::InvalidMessage as i16);
    assert_eq!(wire.produce(&topic, good).error_code, 0);
    assert_eq!(seen(broker, &topic, Isolation::ReadCommitted), [(0, "good".to_owned())]);
}

fn a_batch_that_is_none_is_refused(broker: &Broker) {
    let topic = broker.topic("garbage", 1, &[]);
    let good = batch(Writer::NOBODY, &["good"]);
    let mut negative = good.to_vec();
    // The length of the batch, after its first offset.
    negative[8..12].copy_from_slice(&(-5_i32).to_be_bytes());
    for (what, bytes) in [
        ("too short", good[..good.len() - 3].to_vec()),
        ("garbage", vec![0xa5; 200]),
        ("a length below zero", negative),
        ("half a head", good[..30].to_vec()),
    ] {
        let mut wire = Wire::connect(broker);
        wire.tell(9, &produce(&topic, -1, bytes.into())).ok();
        // An error or the end of the connection, and nothing is written.
        if let Some(frame) = wire.frame() {
            let code = i16::from_be_bytes(frame[frame.len() - 31..frame.len() - 29].try_into().unwrap());
            assert_ne!(code, 0, "{what}: {frame:?}");
        }
    }
    assert_eq!(values(broker, &topic, Isolation::ReadCommitted), [""; 0]);
}

fn an_unknown_partition_is_an_error_of_its_own(broker: &Broker) {
    let unknown = RDKafkaErrorCode::UnknownTopicOrPartition as i16;
    let mut wire = Wire::connect(broker);
    let name = broker.unique("nowhere");
    assert_eq!(wire.produce(&name, batch(Writer::NOBODY, &["x"])).error_code, unknown);
    assert_eq!(wire.fetch(&name, 0, 0).responses[0].partitions[0].error_code, unknown);
    let topic = broker.topic("somewhere", 1, &[]);
    let mut request = produce(&topic, -1, batch(Writer::NOBODY, &["x"]));
    let mut other = request.topic_data[0].partition_data[0].clone();
    other.index = 7;
    request.topic_data[0].partition_data.push(other);
    let answer = wire.ask(9, &request);
    let mut codes: Vec<_> = answer.responses[0].partition_responses.iter().map(|p| (p.index, p.error_code)).collect();
    codes.sort_unstable();
    assert_eq!(codes, [(0, 0), (7, unknown)]);
}

fn a_batch_without_acknowledgement_has_no_response(broker: &Broker) {
    let topic = broker.topic("no-response", 1, &[]);
    let mut wire = Wire::connect(broker);
    wire.tell(9, &produce(&topic, 0, batch(Writer::NOBODY, &["x"]))).unwrap();
    // The next response is that of the next request.
    let answer = wire.produce(&topic, batch(Writer::NOBODY, &["y"]));
    assert_eq!((answer.error_code, answer.base_offset), (0, 1));
}

fn offsets_are_listed_by_isolation(broker: &Broker) {
    let topic = broker.topic("listed", 1, &[]);
    broker.produce(&topic, ["a", "b"]);
    let writer = transactional(broker, &broker.unique("writer"), &[]);
    rdkafka::producer::Producer::begin_transaction(&writer).unwrap();
    send(&writer, &topic, "open");
    let mut wire = Wire::connect(broker);
    let mut listed = |time, isolation| {
        let partition =
            ListOffsetsPartition::default().with_partition_index(0).with_current_leader_epoch(-1).with_timestamp(time);
        let asked = ListOffsetsTopic::default().with_name(topic_name(&topic)).with_partitions(vec![partition]);
        let request = ListOffsetsRequest::default()
            .with_replica_id((-1).into())
            .with_isolation_level(isolation)
            .with_topics(vec![asked]);
        let partition = wire.ask(6, &request).topics[0].partitions[0].clone();
        assert_eq!(partition.error_code, 0);
        partition.offset
    };
    assert_eq!([listed(-2, 0), listed(-1, 0), listed(-1, 1)], [0, 3, 2]);
    rdkafka::producer::Producer::commit_transaction(&writer, super::PATIENCE).unwrap();
    super::ends_at(broker, &topic, 4);
    assert_eq!([listed(-2, 1), listed(-1, 0), listed(-1, 1)], [0, 4, 4]);
}

fn metadata_tells_of_the_topics_that_are_asked_for(broker: &Broker) {
    let topic = broker.topic("told", 3, &[]);
    let unknown = broker.unique("untold");
    let mut wire = Wire::connect(broker);
    let asked = [&topic, &unknown].map(|name| MetadataRequestTopic::default().with_name(Some(topic_name(name))));
    let answer = wire.ask(12, &MetadataRequest::default().with_topics(Some(asked.to_vec())));
    let found = answer.topics.iter().find(|found| found.name.as_ref().is_some_and(|n| n.as_str() == topic)).unwrap();
    assert_eq!((found.error_code, found.is_internal, found.partitions.len()), (0, false, 3));
    assert!(!found.topic_id.is_nil());
    let [only] = answer.brokers.as_slice() else { panic!("one broker: {answer:?}") };
    for partition in &found.partitions {
        assert_eq!((partition.error_code, partition.leader_id), (0, only.node_id));
        assert_eq!(
            (&partition.replica_nodes[..], &partition.isr_nodes[..]),
            (&[only.node_id][..], &[only.node_id][..])
        );
    }
    assert_eq!(format!("{}:{}", only.host, only.port), broker.bootstrap());
    let missing = answer.topics.iter().find(|t| t.name.as_ref().is_some_and(|n| n.as_str() == unknown)).unwrap();
    assert_eq!(missing.error_code, RDKafkaErrorCode::UnknownTopicOrPartition as i16);
    // None is none, null is all.
    assert!(wire.ask(12, &MetadataRequest::default().with_topics(Some(vec![]))).topics.is_empty());
    let all = wire.ask(12, &MetadataRequest::default().with_topics(None)).topics;
    assert!(all.iter().any(|found| found.name.as_ref().is_some_and(|name| name.as_str() == topic)));
    assert!(answer.cluster_id.is_some_and(|id| !id.is_empty()));
}

fn a_coordinator_is_found(broker: &Broker) {
    let mut wire = Wire::connect(broker);
    for key_type in [0, 1] {
        let keys = vec![text("one"), text("other")];
        // Kafka makes the coordinator's topic when it is asked for the first time.
        crate::broker::eventually("coordinators are there", || {
            let request = FindCoordinatorRequest::default().with_key_type(key_type).with_coordinator_keys(keys.clone());
            let found = wire.ask(4, &request).coordinators;
            found.len() == 2
                && found.iter().all(|c| c.error_code == 0 && format!("{}:{}", c.host, c.port) == broker.bootstrap())
        });
    }
}

fn a_group_without_a_name_is_deleted_as_any_other(broker: &Broker) {
    let topic = broker.topic("nameless", 1, &[]);
    let mut wire = Wire::connect(broker);
    let partition = OffsetCommitRequestPartition::default().with_committed_offset(5);
    let topic = OffsetCommitRequestTopic::default().with_name(topic_name(&topic)).with_partitions(vec![partition]);
    let commit = OffsetCommitRequest::default().with_generation_id_or_member_epoch(-1).with_topics(vec![topic]);
    // Its coordinator may be on its way.
    crate::broker::eventually("it is committed", || wire.ask(8, &commit).topics[0].partitions[0].error_code == 0);
    let request = DeleteGroupsRequest::default().with_groups_names(vec![GroupId(text(""))]);
    let codes = [(); 2].map(|()| wire.ask(2, &request).results[0].error_code);
    assert_eq!(codes, [0, RDKafkaErrorCode::GroupIdNotFound as i16]);
}

fn an_operation_on_configs_that_there_is_not_fails_all_of_its_request(broker: &Broker) {
    let topic = broker.topic("operated", 1, &[]);
    let mut wire = Wire::connect(broker);
    let resource = |name: &str, operation| {
        let config = AlterableConfig::default().with_name(text("retention.ms")).with_config_operation(operation);
        let configs = vec![config.with_value(Some(text("1000")))];
        AlterConfigsResource::default().with_resource_type(2).with_resource_name(text(name)).with_configs(configs)
    };
    let resources = vec![resource(&topic, 0), resource("nowhere", 42)];
    let answer = wire.ask(1, &IncrementalAlterConfigsRequest::default().with_resources(resources));
    for told in &answer.responses {
        assert_eq!((told.error_code, told.error_message.as_ref()), (-1, None), "{answer:?}");
    }
    assert_eq!(answer.responses.len(), 2);
}
