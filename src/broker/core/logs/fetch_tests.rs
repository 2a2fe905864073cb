//! Fetches that wait, bounds of fetches, and clients that go by what is no more.

use std::time::Duration;

use kafka_protocol::{
    error::ResponseError,
    messages::{
        DeleteRecordsRequest, DeleteTopicsRequest, FetchRequest, OffsetForLeaderEpochRequest, ResponseKind,
        delete_records_request::{DeleteRecordsPartition, DeleteRecordsTopic},
        fetch_response::PartitionData,
        offset_for_leader_epoch_request::{OffsetForLeaderPartition, OffsetForLeaderTopic},
    },
};

use super::{
    bench::{Bench, Sample, decode, values},
    topics::named,
};
use crate::{
    broker::core::request::{Reply, Ticket},
    clock::Instant,
};

/// A fetch that is answered later.
fn wait(bench: &mut Bench, request: &FetchRequest) -> Ticket {
    let ticket = bench.ticket();
    let reply = bench.logs.fetch(ticket, request, 12, bench.now);
    assert!(matches!(reply, Reply::Later), "{reply:?}");
    ticket
}

fn read(answers: Vec<(Ticket, ResponseKind)>, ticket: Ticket) -> PartitionData {
    let [(to, ResponseKind::Fetch(response))] = &answers[..] else { panic!("{answers:?}") };
    assert_eq!(*to, ticket);
    response.responses[0].partitions[0].clone()
}

fn patient(isolation: i8) -> FetchRequest {
    Bench::fetch_request(0, isolation).with_max_wait_ms(500).with_min_bytes(1)
}

#[test]
fn fetch_waits_for_an_append_and_no_longer() {
    let mut bench = Bench::new(&[]);
    let ticket = wait(&mut bench, &patient(0));
    assert_eq!(bench.answers(), []);
    bench.append(&Sample::values(&["x"]));
    let data = read(bench.answers(), ticket);
    assert_eq!(values(&data.records.unwrap()), [(0, "x".to_owned())]);
    assert_eq!(bench.answers(), []);
}

#[test]
fn fetch_waits_for_its_minimum_of_bytes() {
    let mut bench = Bench::new(&[]);
    let size = i32::try_from(Sample::values(&["x"]).encode().len()).unwrap();
    let ticket = wait(&mut bench, &patient(0).with_min_bytes(2 * size));
    bench.append(&Sample::values(&["x"]));
    assert_eq!(bench.answers(), []);
    bench.append(&Sample::values(&["x"]));
    assert_eq!(values(&read(bench.answers(), ticket).records.unwrap()).len(), 2);
}

#[test]
fn patience_of_a_fetch_ends_at_its_time() {
    let mut bench = Bench::new(&[]);
    let ticket = wait(&mut bench, &patient(0));
    assert_eq!(bench.logs.due(), Instant::ZERO + Duration::from_millis(500));
    bench.now = bench.now + Duration::from_millis(499);
    assert_eq!(bench.answers(), []);
    bench.now = bench.now + Duration::from_millis(1);
    assert_eq!(read(bench.answers(), ticket).records.unwrap().len(), 0);
    assert_eq!(bench.logs.due(), Instant::FAR_FUTURE);
}

#[test]
fn committed_reader_waits_for_the_marker() {
    let mut bench = Bench::new(&[]);
    let ticket = wait(&mut bench, &patient(1));
    bench.append(&Sample::values(&["x"]).by(1, 0, 0).transactional());
    assert_eq!(bench.answers(), []);
    bench.end(1, 0, true);
    assert_eq!(values(&read(bench.answers(), ticket).records.unwrap()).len(), 1);
}

#[test]
fn fetch_of_a_topic_that_is_deleted_meanwhile_is_answered() {
    let mut bench = Bench::new(&[]);
    let ticket = wait(&mut bench, &patient(0));
    bench.ask(DeleteTopicsRequest::default().with_topic_names(vec![Bench::topic()]), 5);
    assert_eq!(read(bench.answers(), ticket).error_code, ResponseError::UnknownTopicOrPartition.code());
}

#[test]
fn fetch_whose_client_is_gone_is_forgotten() {
    let mut bench = Bench::new(&[]);
    let ticket = wait(&mut bench, &patient(0));
    bench.logs.forget(ticket);
    bench.append(&Sample::values(&["x"]));
    assert_eq!(bench.answers(), []);
    bench.now = bench.now + Duration::from_secs(1);
    assert_eq!(bench.answers(), []);
}

#[test]
fn first_batch_comes_whatever_its_size_and_no_second_over_the_bounds() {
    let mut bench = Bench::new(&[]);
    for _ in 0..3 {
        bench.append(&Sample::values(&["a batch"]));
    }
    let size = i32::try_from(Sample::values(&["a batch"]).encode().len()).unwrap();
    let mut count = |max_bytes, partition_max_bytes| {
        let mut request = Bench::fetch_request(0, 0).with_max_bytes(max_bytes);
        request.topics[0].partitions[0].partition_max_bytes = partition_max_bytes;
        let Some(ResponseKind::Fetch(response)) = bench.ask(request, 12) else { panic!("no response") };
        values(response.responses[0].partitions[0].records.as_ref().unwrap()).len()
    };
    assert_eq!(count(1, 1), 1);
    assert_eq!(count(2 * size, 1000), 2);
    assert_eq!(count(1000, 2 * size + 1), 2);
    assert_eq!(count(3 * size, 3 * size), 3);
    assert_eq!(count(-1, 1000), 1);
}

#[test]
fn only_the_first_partition_with_records_may_go_over_the_bounds() {
    let mut bench = Bench::new(&[]);
    bench.append(&Sample::values(&["x"]));
    let mut request = Bench::fetch_request(0, 0).with_max_bytes(1);
    let again = request.topics[0].clone();
    request.topics.push(again);
    let Some(ResponseKind::Fetch(response)) = bench.ask(request, 12) else { panic!("no response") };
    let sizes = response.responses.iter().map(|topic| topic.partitions[0].records.as_ref().unwrap().is_empty());
    assert_eq!(sizes.collect::<Vec<_>>(), [false, true]);
}

#[test]
fn offset_inside_a_batch_brings_the_whole_batch() {
    let mut bench = Bench::new(&[]);
    bench.append(&Sample::values(&["a", "b", "c"]));
    assert_eq!(values(&bench.fetch(2, 0).records.unwrap()).len(), 3);
}

#[test]
fn offsets_outside_the_log_are_out_of_range() {
    let mut bench = Bench::new(&[]);
    bench.append(&Sample::values(&["a"]));
    assert_eq!(bench.fetch(1, 0).error_code, 0);
    for offset in [2, -1] {
        let data = bench.fetch(offset, 0);
        assert_eq!(data.error_code, ResponseError::OffsetOutOfRange.code());
        assert_eq!((data.high_watermark, data.log_start_offset), (-1, -1));
    }
}

#[test]
fn fetch_sessions_are_not_begun_and_unknown_ones_refused() {
    let mut bench = Bench::new(&[]);
    let mut ask = |id, epoch| {
        let request = Bench::fetch_request(0, 0).with_session_id(id).with_session_epoch(epoch);
        let Some(ResponseKind::Fetch(response)) = bench.ask(request, 12) else { panic!("no response") };
        (response.error_code, response.session_id)
    };
    assert_eq!(ask(0, 0), (0, 0));
    assert_eq!(ask(7, 1).0, ResponseError::FetchSessionIdNotFound.code());
    assert_eq!(ask(0, 1).0, ResponseError::FetchSessionIdNotFound.code());
    assert_eq!(ask(7, -1), (0, 0), "the end of a session comes with a whole request");
}

#[test]
fn topics_are_fetched_by_id_in_later_versions() {
    let mut bench = Bench::new(&[]);
    bench.append(&Sample::values(&["x"]));
    let id = bench.logs.topic(&Bench::topic()).unwrap().id;
    let mut ask = |id| {
        let mut request = Bench::fetch_request(0, 0);
        (request.topics[0].topic, request.topics[0].topic_id) = (named(""), id);
        let Some(ResponseKind::Fetch(response)) = bench.ask(request, 13) else { panic!("no response") };
        response.responses[0].partitions[0].error_code
    };
    assert_eq!(ask(id), 0);
    assert_eq!(ask(uuid::Uuid::from_u64_pair(1, 1)), ResponseError::UnknownTopicId.code());
}

fn delete_before(bench: &mut Bench, offset: i64) -> (i16, i64) {
    let partition = DeleteRecordsPartition::default().with_offset(offset);
    let topic = DeleteRecordsTopic::default().with_name(Bench::topic()).with_partitions(vec![partition]);
    let request = DeleteRecordsRequest::default().with_topics(vec![topic]);
    let Some(ResponseKind::DeleteRecords(response)) = bench.ask(request, 2) else { panic!("no response") };
    let partition = &response.topics[0].partitions[0];
    (partition.error_code, partition.low_watermark)
}

#[test]
fn deleted_records_move_the_first_offset_and_never_back() {
    let mut bench = Bench::new(&[]);
    bench.append(&Sample::values(&["a", "b"]));
    bench.append(&Sample::values(&["c", "d"]));
    assert_eq!(delete_before(&mut bench, 1), (0, 1));
    assert_eq!(bench.fetch(0, 0).error_code, ResponseError::OffsetOutOfRange.code());
    assert_eq!(values(&bench.fetch(1, 0).records.unwrap()).len(), 4, "what shares a batch with it comes along");
    assert_eq!(delete_before(&mut bench, 0), (0, 1));
    assert_eq!(delete_before(&mut bench, 5).0, ResponseError::OffsetOutOfRange.code());
    assert_eq!(delete_before(&mut bench, -2).0, ResponseError::OffsetOutOfRange.code());
    assert_eq!(delete_before(&mut bench, -1), (0, 4));
    assert_eq!(bench.fetch(4, 0).log_start_offset, 4);
    assert_eq!(bench.append(&Sample::values(&["e"])), 4);
}

#[test]
fn open_transaction_that_deletion_cuts_is_not_read_by_committed_readers() {
    let mut bench = Bench::new(&[]);
    bench.append(&Sample::values(&["a", "b"]).by(1, 0, 0).transactional());
    assert_eq!(delete_before(&mut bench, 1), (0, 1));
    let read = bench.fetch(1, 1);
    assert_eq!((read.last_stable_offset, read.records.unwrap().len()), (1, 0));
    bench.end(1, 0, true);
    assert_eq!(values(&bench.fetch(1, 1).records.unwrap()).len(), 2);
}

#[test]
fn records_of_a_compacted_topic_cannot_be_deleted() {
    let mut bench = Bench::new(&[("cleanup.policy", "compact")]);
    assert_eq!(delete_before(&mut bench, -1).0, ResponseError::PolicyViolation.code());
}

#[test]
fn segments_go_by_age_and_size() {
    let mut bench = Bench::new(&[("retention.ms", "600000"), ("internal.segment.bytes", "14")]);
    bench.append(&Sample::values(&["old"]).at(super::bench::EPOCH_MS));
    bench.append(&Sample::values(&["young"]).at(super::bench::EPOCH_MS + 500_000));
    bench.now = Instant::ZERO + Duration::from_secs(601);
    bench.answers();
    assert_eq!(bench.fetch(1, 0).log_start_offset, 1);
    bench.now = Instant::ZERO + Duration::from_secs(1200);
    bench.answers();
    assert_eq!(bench.fetch(2, 0).log_start_offset, 2, "the last segment too");
    let size = Sample::values(&["x"]).encode().len();
    let mut bench = Bench::new(&[("retention.bytes", &(2 * size).to_string()), ("internal.segment.bytes", "14")]);
    (0..5).for_each(|_| drop(bench.produce(&Sample::values(&["x"]).encode())));
    bench.now = Instant::ZERO + Duration::from_secs(300);
    bench.answers();
    assert_eq!(bench.fetch(5, 0).log_start_offset, 3);
}

#[test]
fn records_without_a_time_have_no_age() {
    let mut bench = Bench::new(&[("retention.ms", "1000")]);
    bench.append(&Sample::values(&["undated"]).at(-1));
    bench.now = bench.now + Duration::from_secs(600);
    bench.answers();
    assert_eq!(bench.fetch(0, 0).log_start_offset, 0);
}

#[test]
fn election_without_loss_begins_an_epoch_and_loses_nothing() {
    let mut bench = Bench::new(&[]);
    bench.append(&Sample::values(&["x"]));
    bench.logs.elect_leaders();
    bench.append(&Sample::values(&["y"]));
    let records = decode(&bench.fetch(0, 0).records.unwrap());
    let epochs: Vec<_> = records.iter().map(|record| (record.offset, record.partition_leader_epoch)).collect();
    assert_eq!(epochs, [(0, 0), (1, 1)]);
}

#[test]
fn leader_epochs_tell_of_a_lost_tail() {
    let mut bench = Bench::new(&[]);
    for _ in 0..4 {
        bench.append(&Sample::values(&["x"]));
    }
    let old = Bench::fetch_request(4, 0);
    bench.logs.lose_tail(&Bench::topic(), 0, 2);
    bench.append(&Sample::values(&["y"]));
    let mut epoch = |current, asked| {
        let partition = OffsetForLeaderPartition::default().with_leader_epoch(asked).with_current_leader_epoch(current);
        let topic = OffsetForLeaderTopic::default().with_topic(Bench::topic()).with_partitions(vec![partition]);
        let request = OffsetForLeaderEpochRequest::default().with_topics(vec![topic]);
        let Some(ResponseKind::OffsetForLeaderEpoch(response)) = bench.ask(request, 4) else { panic!("no response") };
        let answer = &response.topics[0].partitions[0];
        (answer.error_code, answer.leader_epoch, answer.end_offset)
    };
    assert_eq!(epoch(1, 0), (0, 0, 2));
    assert_eq!(epoch(-1, 1), (0, 1, 3));
    assert_eq!(epoch(1, 2), (0, -1, -1));
    assert_eq!(epoch(0, 0).0, ResponseError::FencedLeaderEpoch.code());
    assert_eq!(epoch(2, 0).0, ResponseError::UnknownLeaderEpoch.code());
    let mut fetch = |current, last| {
        let mut request = old.clone();
        let partition = &mut request.topics[0].partitions[0];
        (partition.current_leader_epoch, partition.last_fetched_epoch, partition.fetch_offset) = (current, last, 3);
        let Some(ResponseKind::Fetch(mut response)) = bench.ask(request, 12) else { panic!("no response") };
        response.responses.remove(0).partitions.remove(0)
    };
    assert_eq!(fetch(0, -1).error_code, ResponseError::FencedLeaderEpoch.code());
    let diverging = fetch(1, 0).diverging_epoch;
    assert_eq!((diverging.epoch, diverging.end_offset), (0, 2));
    assert_eq!(fetch(1, 1).diverging_epoch.epoch, -1);
}
