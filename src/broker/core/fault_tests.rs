use kafka_protocol::{
    error::ResponseError,
    messages::{
        ApiKey, ApiVersionsRequest, CreateTopicsRequest, FetchRequest, GroupId, HeartbeatRequest, ListOffsetsRequest,
        MetadataRequest, OffsetCommitRequest, OffsetFetchRequest, ProduceRequest, RequestKind, ResponseKind, TopicName,
        create_topics_request::CreatableTopic,
        fetch_request::{FetchPartition, FetchTopic},
        list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic},
        offset_commit_request::{OffsetCommitRequestPartition, OffsetCommitRequestTopic},
        offset_fetch_request::OffsetFetchRequestTopic,
        produce_request::{PartitionProduceData, TopicProduceData},
    },
    protocol::StrBytes,
};

use super::{
    broker::{Broker, BrokerOptions},
    faults::{FaultyBroker, Mishap, Rule},
    request::{ConnectionId, Effect, Request, Response},
    sample::Sample,
};
use crate::clock::Instant;

const fn at(nanos: u64) -> Instant {
    Instant::from_nanos(nanos)
}

fn ask(correlation: i32, api: ApiKey, body: RequestKind) -> Request {
    Request { connection: ConnectionId(7), correlation, api, version: 0, client_id: None, body }
}

fn broker(mishap: Mishap) -> FaultyBroker {
    let mut broker = FaultyBroker::new(Broker::new(BrokerOptions::default()));
    broker.add(Rule { api: None, partition: None, from: at(10), until: at(20), times: 1, mishap });
    broker
}

/// The numbers of the requests that are answered.
fn answered(effects: &[Effect]) -> Vec<i32> {
    let of = |effect: &Effect| match effect {
        Effect::Respond(response) => response.correlation,
        Effect::Close(_) => -1,
    };
    effects.iter().map(of).collect()
}

fn versions(correlation: i32) -> Request {
    ask(correlation, ApiKey::ApiVersions, ApiVersionsRequest::default().into())
}

#[test]
fn a_rule_meets_as_many_requests_as_it_says_within_its_time() {
    let mut broker = broker(Mishap::LoseResponse);
    let mut effects = Vec::new();
    for (n, now) in [(0, 9), (1, 10), (2, 11)] {
        broker.handle(versions(n), at(now), &mut effects);
    }
    assert_eq!(answered(&effects), [0, 2]);
}

#[test]
fn each_mishap_does_to_a_response_what_it_says() {
    let cases = [
        (Mishap::Double, vec![3, 3]),
        (Mishap::Close, vec![-1]),
        (Mishap::LoseRequest, vec![]),
        (Mishap::Delay(5), vec![]),
        (Mishap::Refuse(1), vec![3]),
    ];
    for (mishap, expected) in cases {
        let (mut broker, mut effects) = (broker(mishap), Vec::new());
        broker.handle(versions(3), at(10), &mut effects);
        assert_eq!(answered(&effects), expected, "{mishap:?}");
    }
}

#[test]
fn a_late_response_is_due_when_its_time_has_come() {
    let (mut broker, mut effects) = (broker(Mishap::Delay(5)), Vec::new());
    broker.handle(versions(3), at(10), &mut effects);
    assert_eq!(broker.due(), at(15));
    broker.tick(at(14), &mut effects);
    assert!(effects.is_empty());
    broker.tick(at(15), &mut effects);
    assert_eq!(answered(&effects), [3]);
}

#[test]
fn a_refusal_holds_the_code() {
    let code = ResponseError::NotCoordinator.code();
    let (mut broker, mut effects) = (broker(Mishap::Refuse(code)), Vec::new());
    broker.handle(ask(3, ApiKey::Heartbeat, HeartbeatRequest::default().into()), at(10), &mut effects);
    let [Effect::Respond(Response { body: ResponseKind::Heartbeat(answer), .. })] = &effects[..] else {
        panic!("{effects:?}")
    };
    assert_eq!(answer.error_code, code);
}

/// An error that a rule gives.
const CODE: i16 = ResponseError::NotLeaderOrFollower.code();

const TOPIC: StrBytes = StrBytes::from_static_str("t");

/// The answer to a request of two partitions at most, which comes at once.
fn told(broker: &mut FaultyBroker, (api, version): (ApiKey, i16), body: impl Into<RequestKind>) -> ResponseKind {
    let mut effects = Vec::new();
    broker.handle(Request { version, ..ask(0, api, body.into()) }, at(10), &mut effects);
    match effects.pop() {
        Some(Effect::Respond(response)) if effects.is_empty() => response.body,
        other => panic!("{api:?}: {other:?} after {effects:?}"),
    }
}

/// A broker with a topic of two partitions of a record each, where this happens to one request for partition 0.
fn of_two_partitions(api: ApiKey, mishap: Mishap) -> FaultyBroker {
    let mut broker = FaultyBroker::new(Broker::new(BrokerOptions::default()));
    let topic = CreatableTopic::default().with_name(TopicName(TOPIC)).with_num_partitions(2).with_replication_factor(1);
    told(&mut broker, (ApiKey::CreateTopics, 7), CreateTopicsRequest::default().with_topics(vec![topic]));
    assert_eq!(produced(&mut broker), [(0, 0, 0), (1, 0, 0)]);
    let partition = Some((TOPIC, 0));
    broker.add(Rule { api: Some(api), partition, from: at(10), until: at(20), times: 1, mishap });
    broker
}

/// Writes a record to each partition. The partitions, their errors and offsets.
fn produced(broker: &mut FaultyBroker) -> Vec<(i32, i16, i64)> {
    let batch = Some(Sample::values(&["x"]).at(0).encode());
    let each = [0, 1].map(|index| PartitionProduceData::default().with_index(index).with_records(batch.clone()));
    let topic = TopicProduceData::default().with_name(TopicName(TOPIC)).with_partition_data(each.to_vec());
    let request = ProduceRequest::default().with_acks(-1).with_topic_data(vec![topic]);
    let ResponseKind::Produce(answer) = told(broker, (ApiKey::Produce, 11), request) else { panic!("another API") };
    let each = answer.responses.iter().flat_map(|topic| &topic.partition_responses);
    sorted(each.map(|p| (p.index, p.error_code, p.base_offset)))
}

/// The partitions, their errors and ends.
fn ends(broker: &mut FaultyBroker) -> Vec<(i32, i16, i64)> {
    let each = [0, 1].map(|p| ListOffsetsPartition::default().with_partition_index(p).with_timestamp(-1));
    let topic = ListOffsetsTopic::default().with_name(TopicName(TOPIC)).with_partitions(each.to_vec());
    let request = ListOffsetsRequest::default().with_topics(vec![topic]);
    let ResponseKind::ListOffsets(answer) = told(broker, (ApiKey::ListOffsets, 7), request) else {
        panic!("another API")
    };
    let each = answer.topics.iter().flat_map(|topic| &topic.partitions);
    sorted(each.map(|p| (p.partition_index, p.error_code, p.offset)))
}

/// Commits offset 1 of each partition. The partitions and their errors.
fn committed(broker: &mut FaultyBroker) -> Vec<(i32, i16)> {
    let each = [0, 1].map(|p| {
        let partition = OffsetCommitRequestPartition::default().with_partition_index(p).with_committed_offset(1);
        partition.with_committed_leader_epoch(-1)
    });
    let topic = OffsetCommitRequestTopic::default().with_name(TopicName(TOPIC)).with_partitions(each.to_vec());
    let request = OffsetCommitRequest::default().with_group_id(group()).with_generation_id_or_member_epoch(-1);
    let request = request.with_topics(vec![topic]);
    let ResponseKind::OffsetCommit(answer) = told(broker, (ApiKey::OffsetCommit, 7), request) else {
        panic!("another API")
    };
    let each = answer.topics.iter().flat_map(|topic| &topic.partitions);
    sorted(each.map(|p| (p.partition_index, p.error_code)))
}

/// The committed offset of each partition.
fn commits(broker: &mut FaultyBroker) -> Vec<(i32, i64)> {
    let topic = OffsetFetchRequestTopic::default().with_name(TopicName(TOPIC)).with_partition_indexes(vec![0, 1]);
    let request = OffsetFetchRequest::default().with_group_id(group()).with_topics(Some(vec![topic]));
    let ResponseKind::OffsetFetch(answer) = told(broker, (ApiKey::OffsetFetch, 5), request) else {
        panic!("another API")
    };
    let each = answer.topics.iter().flat_map(|topic| &topic.partitions);
    sorted(each.map(|p| (p.partition_index, p.committed_offset)))
}

fn group() -> GroupId {
    GroupId(StrBytes::from_static_str("g"))
}

fn sorted<T: Ord>(each: impl Iterator<Item = T>) -> Vec<T> {
    let mut each: Vec<_> = each.collect();
    each.sort();
    each
}

#[test]
fn what_is_denied_is_done_and_then_denied() {
    let mut broker = broker(Mishap::Deny(CODE));
    let topic = CreatableTopic::default().with_name(TopicName(TOPIC)).with_num_partitions(1).with_replication_factor(1);
    let request = CreateTopicsRequest::default().with_topics(vec![topic]);
    let ResponseKind::CreateTopics(answer) = told(&mut broker, (ApiKey::CreateTopics, 7), request) else {
        panic!("another API")
    };
    assert_eq!(answer.topics.iter().map(|topic| topic.error_code).collect::<Vec<_>>(), [CODE]);
    let all = MetadataRequest::default().with_topics(None);
    let ResponseKind::Metadata(there) = told(&mut broker, (ApiKey::Metadata, 9), all) else { panic!("another API") };
    assert_eq!(there.topics.iter().map(|topic| topic.name.clone()).collect::<Vec<_>>(), [Some(TopicName(TOPIC))]);
}

#[test]
fn one_partition_is_refused_and_the_other_produced_to() {
    let mut broker = of_two_partitions(ApiKey::Produce, Mishap::Refuse(CODE));
    assert_eq!(produced(&mut broker), [(0, CODE, -1), (1, 0, 1)]);
    assert_eq!(ends(&mut broker), [(0, 0, 1), (1, 0, 2)]);
}

#[test]
fn both_partitions_are_produced_to_and_one_is_denied() {
    let mut broker = of_two_partitions(ApiKey::Produce, Mishap::Deny(CODE));
    assert_eq!(produced(&mut broker), [(0, CODE, -1), (1, 0, 1)]);
    assert_eq!(ends(&mut broker), [(0, 0, 2), (1, 0, 2)]);
}

#[test]
fn one_partition_is_refused_and_the_end_of_the_other_is_told() {
    let mut broker = of_two_partitions(ApiKey::ListOffsets, Mishap::Refuse(CODE));
    assert_eq!(ends(&mut broker), [(0, CODE, -1), (1, 0, 1)]);
}

#[test]
fn one_partition_is_refused_and_the_other_committed() {
    let mut broker = of_two_partitions(ApiKey::OffsetCommit, Mishap::Refuse(CODE));
    assert_eq!(committed(&mut broker), [(0, CODE), (1, 0)]);
    assert_eq!(commits(&mut broker), [(0, -1), (1, 1)]);
}

#[test]
fn both_partitions_are_committed_and_one_is_denied() {
    let mut broker = of_two_partitions(ApiKey::OffsetCommit, Mishap::Deny(CODE));
    assert_eq!(committed(&mut broker), [(0, CODE), (1, 0)]);
    assert_eq!(commits(&mut broker), [(0, 1), (1, 1)]);
}

/// Although the request would wait for more of it.
#[test]
fn one_partition_is_refused_and_what_the_other_has_is_fetched_at_once() {
    let mut broker = of_two_partitions(ApiKey::Fetch, Mishap::Refuse(CODE));
    let each = [0, 1].map(|p| FetchPartition::default().with_partition(p).with_partition_max_bytes(1_000));
    let topic = FetchTopic::default().with_topic(TopicName(TOPIC)).with_partitions(each.to_vec());
    let request = FetchRequest::default().with_max_wait_ms(500).with_min_bytes(1_000).with_max_bytes(2_000);
    let ResponseKind::Fetch(answer) = told(&mut broker, (ApiKey::Fetch, 11), request.with_topics(vec![topic])) else {
        panic!("another API")
    };
    let each = answer.responses.iter().flat_map(|topic| &topic.partitions);
    let each = each.map(|p| (p.partition_index, p.error_code, p.records.as_ref().is_some_and(|r| !r.is_empty())));
    assert_eq!(sorted(each), [(0, CODE, false), (1, 0, true)]);
}

/// There is nothing else of it to be done.
#[test]
fn a_request_for_one_partition_is_refused_as_a_whole() {
    let mut broker = of_two_partitions(ApiKey::ListOffsets, Mishap::Refuse(CODE));
    let one = ListOffsetsPartition::default().with_timestamp(-1);
    let topic = ListOffsetsTopic::default().with_name(TopicName(TOPIC)).with_partitions(vec![one]);
    let request = ListOffsetsRequest::default().with_topics(vec![topic]);
    let ResponseKind::ListOffsets(answer) = told(&mut broker, (ApiKey::ListOffsets, 7), request) else {
        panic!("another API")
    };
    let [topic] = &answer.topics[..] else { panic!("{answer:?}") };
    assert_eq!(topic.partitions.iter().map(|p| (p.partition_index, p.error_code)).collect::<Vec<_>>(), [(0, CODE)]);
}
