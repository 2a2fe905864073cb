//! What is produced, fetched and looked for, through requests.

use bytes::Bytes;
use kafka_protocol::{
    error::ResponseError,
    messages::{ListOffsetsRequest, ProduceRequest, ResponseKind, list_offsets_request as list},
    records::{Compression, TimestampType},
};
use std::time::Duration;

use super::bench::{Anyone, Bench, EPOCH_MS, Sample, decode, values};
use super::{LogOptions, batch};

fn code(error: ResponseError) -> i16 {
    error.code()
}

/// A batch with some of its bytes changed, and the checksum right again where `sealed`.
fn tampered(sample: &Sample, at: usize, bytes: &[u8], sealed: bool) -> Bytes {
    let mut sent = sample.encode().to_vec();
    sent[at..at + bytes.len()].copy_from_slice(bytes);
    if sealed {
        let crc = crc32c::crc32c(&sent[21..]);
        sent[17..21].copy_from_slice(&crc.to_be_bytes());
    }
    sent.into()
}

#[test]
fn batches_of_every_codec_come_back_as_they_were_sent() {
    let mut bench = Bench::new(&[]);
    let codecs = [Compression::None, Compression::Gzip, Compression::Snappy, Compression::Lz4, Compression::Zstd];
    for codec in codecs {
        let sent = Sample::values(&["a", "bb", ""]).packed(codec).encode();
        let base = bench.produce(&sent).base_offset;
        let got = bench.fetch(base, 0).records.unwrap();
        assert_eq!(got[21..], sent[21..], "{codec:?}");
        assert_eq!(decode(&got)[2].offset, base + 2);
    }
    assert_eq!(values(&bench.fetch(0, 0).records.unwrap()).len(), 15);
}

#[test]
fn wrong_checksums_and_sizes_are_corrupt_and_other_formats_invalid() {
    let mut bench = Bench::new(&[]);
    let sample = Sample::values(&["value"]);
    let sent = sample.encode();
    assert_eq!(bench.refused(&tampered(&sample, 65, b"x", false)), code(ResponseError::CorruptMessage));
    assert_eq!(bench.refused(&tampered(&sample, 8, &13_i32.to_be_bytes(), true)), code(ResponseError::CorruptMessage));
    assert_eq!(
        bench.refused(&tampered(&sample, 8, &(-1_i32).to_be_bytes(), true)),
        code(ResponseError::CorruptMessage)
    );
    assert_eq!(bench.refused(&tampered(&sample, 16, &[3], true)), code(ResponseError::CorruptMessage));
    assert_eq!(bench.refused(&tampered(&sample, 16, &[1], true)), code(ResponseError::InvalidRecord));
    assert_eq!(bench.refused(&sent.slice(..sent.len() - 1)), code(ResponseError::InvalidRecord));
    assert_eq!(bench.refused(&[&sent[..], &sent].concat().into()), code(ResponseError::InvalidRecord));
    assert_eq!(bench.refused(&Bytes::new()), code(ResponseError::InvalidRecord));
    assert_eq!(bench.refused(&[&sent[..], &[0; 20]].concat().into()), code(ResponseError::CorruptMessage));
    assert_eq!(bench.fetch(0, 0).high_watermark, 0);
    assert_eq!(bench.produce(&[&sent[..], &[0; 5]].concat().into()).error_code, 0, "too short for another");
    assert_eq!(bench.fetch(0, 0).records.unwrap().len(), sent.len());
}

#[test]
fn headers_that_do_not_fit_their_records_are_invalid() {
    let mut bench = Bench::new(&[]);
    let sample = Sample::values(&["a", "b"]);
    let two = 2_i32.to_be_bytes();
    let count = |n: i32| [&n.to_be_bytes()[..]].concat();
    let invalid = code(ResponseError::InvalidRecord);
    assert_eq!(bench.refused(&tampered(&sample, 0, &7_i64.to_be_bytes(), true)), invalid, "base offset");
    assert_eq!(bench.refused(&tampered(&sample, 23, &two, true)), invalid, "offset delta");
    assert_eq!(bench.refused(&tampered(&sample, 57, &count(0), true)), invalid, "count");
    assert_eq!(bench.refused(&tampered(&sample, 57, &count(-1), true)), invalid, "count");
    assert_eq!(bench.refused(&tampered(&sample, 21, &[0, 0x20], true)), invalid, "control batch");
    assert_eq!(bench.refused(&tampered(&sample, 61, &[99], true)), invalid, "length of a record");
    // Three records are said to be there in both places, and two are.
    let mut sent = tampered(&sample, 23, &two, true).to_vec();
    sent[57..61].copy_from_slice(&count(3));
    let crc = crc32c::crc32c(&sent[21..]).to_be_bytes();
    sent[17..21].copy_from_slice(&crc);
    assert_eq!(bench.refused(&sent.into()), invalid, "records that are missing");
}

#[test]
fn what_no_codec_reads_is_an_error_without_a_name() {
    let mut bench = Bench::new(&[]);
    for codec in [1, 2, 3, 4, 5, 7] {
        let sent = tampered(&Sample::values(&["a", "b"]), 21, &[0, codec], true);
        assert_eq!(bench.refused(&sent), code(ResponseError::UnknownServerError), "{codec}");
    }
}

#[test]
fn refusal_by_the_log_tells_where_it_starts() {
    let mut bench = Bench::new(&[]);
    let sample = Sample::values(&["a"]);
    assert_eq!(bench.produce(&tampered(&sample, 0, &[0, 0, 0, 0, 0, 0, 0, 7], true)).log_start_offset, 0);
    assert_eq!(bench.produce(&tampered(&sample, 65, b"x", false)).log_start_offset, -1);
    assert_eq!(bench.produce(&Bytes::new()).log_start_offset, -1);
}

#[test]
fn producer_that_claims_the_logs_time_is_believed_where_it_dates_records() {
    let sent = tampered(&Sample::values(&["a"]), 21, &[0, 8], true);
    let mut bench = Bench::new(&[]);
    assert_eq!(bench.produce(&sent).error_code, 0);
    let got = decode(&bench.fetch(0, 0).records.unwrap());
    assert_eq!((got[0].timestamp_type, got[0].timestamp), (TimestampType::Creation, EPOCH_MS));
    let mut bench = Bench::new(&[("message.timestamp.type", "LogAppendTime")]);
    assert_eq!(bench.refused(&sent), code(ResponseError::InvalidTimestamp));
}

#[test]
fn batches_over_the_topics_limit_are_too_large() {
    let mut bench = Bench::new(&[("max.message.bytes", "100")]);
    assert_eq!(bench.refused(&Sample::values(&[&"x".repeat(100)]).encode()), code(ResponseError::MessageTooLarge));
    assert_eq!(bench.append(&Sample::values(&["x"])), 0);
}

#[test]
fn batch_that_unpacks_to_more_than_a_bound_is_invalid() {
    let options = LogOptions { max_unpacked_batch: 1 << 16, ..LogOptions::default() };
    let of_the_broker = Bench::with(options, &[]);
    let of_the_topic = Bench::new(&[("max.decompressed.message.bytes", "65536")]);
    for mut bench in [of_the_broker, of_the_topic] {
        for codec in [Compression::Gzip, Compression::Snappy, Compression::Lz4, Compression::Zstd] {
            let bomb = Sample::values(&[&"0".repeat(1 << 16)]).packed(codec).encode();
            assert_eq!(bench.refused(&bomb), code(ResponseError::InvalidRecord), "{codec:?}");
        }
    }
}

#[test]
fn full_memory_is_a_storage_error_and_nothing_acknowledged_is_dropped() {
    let options = LogOptions { max_bytes: 10_000, ..LogOptions::default() };
    let mut bench = Bench::with(options, &[]);
    let sent = Sample::values(&[&"x".repeat(1000)]).encode();
    let taken = (0..20).take_while(|_| bench.produce(&sent).error_code == 0).count();
    assert!((5..10).contains(&taken), "{taken}");
    assert_eq!(bench.refused(&sent), code(ResponseError::KafkaStorageError));
    assert_eq!(values(&bench.fetch(0, 0).records.unwrap()).len(), taken);
}

#[test]
fn full_memory_lets_retention_make_room_first() {
    let options = LogOptions { max_bytes: 10_000, ..LogOptions::default() };
    let mut bench = Bench::with(options, &[("retention.bytes", "2000"), ("internal.segment.bytes", "1100")]);
    let sent = Sample::values(&[&"x".repeat(1000)]).encode();
    for offset in 0..50 {
        assert_eq!(bench.produce(&sent).base_offset, offset);
    }
    let start = bench.fetch(49, 0).log_start_offset;
    assert!((40..49).contains(&start), "{start}");
    assert_eq!(bench.fetch(0, 0).error_code, code(ResponseError::OffsetOutOfRange));
}

#[test]
fn log_append_time_dates_every_record() {
    let mut bench = Bench::new(&[("message.timestamp.type", "LogAppendTime")]);
    bench.now = bench.now + Duration::from_secs(5);
    let response = bench.produce(&Sample::values(&["a", "b"]).at(17).encode());
    assert_eq!(response.log_append_time_ms, EPOCH_MS + 5000);
    let got = bench.fetch(0, 0).records.unwrap();
    // The decoder checks the checksum.
    assert!(decode(&got).iter().all(|record| record.timestamp_type == TimestampType::LogAppend));
    let header = batch::Header::read(&got).unwrap();
    assert_eq!((header.max_timestamp, header.base_timestamp), (EPOCH_MS + 5000, 17));
}

#[test]
fn record_dated_in_the_far_future_is_refused_by_its_index() {
    let mut bench = Bench::new(&[("message.timestamp.after.max.ms", "1")]);
    let response = bench.produce(&Sample::values(&["in time", "in time", "late"]).encode());
    assert_eq!(response.error_code, code(ResponseError::InvalidTimestamp));
    assert_eq!(response.record_errors[0].batch_index, 2);
}

#[test]
fn topic_with_a_codec_packs_what_comes_in_another() {
    let mut bench = Bench::new(&[("compression.type", "zstd")]);
    bench.append(&Sample::values(&["one", "two"]).packed(Compression::Gzip));
    let got = bench.fetch(0, 0).records.unwrap();
    assert_eq!(batch::Header::read(&got).unwrap().compression(), Some(Compression::Zstd));
    assert_eq!(values(&got), [(0, "one".to_owned()), (1, "two".to_owned())]);
}

#[test]
fn request_without_acknowledgement_has_no_response_and_closes_on_failure() {
    use crate::broker::core::request::Reply;
    let mut bench = Bench::new(&[]);
    let mut ask = |topic| {
        let partition = kafka_protocol::messages::produce_request::PartitionProduceData::default();
        let partition = partition.with_records(Some(Sample::values(&["x"]).encode()));
        let data = kafka_protocol::messages::produce_request::TopicProduceData::default().with_name(topic);
        let request = ProduceRequest::default().with_acks(0);
        let request = request.with_topic_data(vec![data.with_partition_data(vec![partition])]);
        bench.logs.produce(&request, 9, &Anyone, bench.now)
    };
    assert!(matches!(ask(Bench::topic()), Reply::Nothing));
    assert!(matches!(ask(super::topics::named("unknown")), Reply::Close));
}

fn list_offset(bench: &mut Bench, timestamp: i64, isolation: i8) -> (i64, i64) {
    let partition = list::ListOffsetsPartition::default().with_timestamp(timestamp).with_current_leader_epoch(-1);
    let topic = list::ListOffsetsTopic::default().with_name(Bench::topic()).with_partitions(vec![partition]);
    let request = ListOffsetsRequest::default().with_isolation_level(isolation).with_topics(vec![topic]);
    let Some(ResponseKind::ListOffsets(mut response)) = bench.ask(request, 7) else { panic!("no response") };
    let partition = response.topics.remove(0).partitions.remove(0);
    assert_eq!(partition.error_code, 0);
    (partition.offset, partition.timestamp)
}

#[test]
fn offsets_are_found_by_time_inside_batches() {
    let mut bench = Bench::new(&[]);
    for (second, codec) in [(0, Compression::None), (10, Compression::Lz4), (5, Compression::None)] {
        let sample = Sample::values(&["a", "b", "c"]).packed(codec).at(EPOCH_MS + second * 1000);
        bench.append(&sample);
    }
    let mut at = |ms| list_offset(&mut bench, EPOCH_MS + ms, 0);
    assert_eq!(at(0), (0, EPOCH_MS));
    assert_eq!(at(1), (1, EPOCH_MS + 1));
    assert_eq!(at(3), (3, EPOCH_MS + 10_000));
    assert_eq!(at(10_002), (5, EPOCH_MS + 10_002));
    assert_eq!(at(10_003), (-1, -1));
    assert_eq!(list_offset(&mut bench, -3, 0), (5, EPOCH_MS + 10_002));
    assert_eq!(list_offset(&mut bench, -2, 0), (0, -1));
    assert_eq!(list_offset(&mut bench, -1, 0), (9, -1));
}

#[test]
fn special_offsets_are_unknown_before_their_versions() {
    let mut bench = Bench::new(&[]);
    let mut ask = |timestamp, version| {
        let partition = list::ListOffsetsPartition::default().with_timestamp(timestamp).with_current_leader_epoch(-1);
        let topic = list::ListOffsetsTopic::default().with_name(Bench::topic()).with_partitions(vec![partition]);
        let request = ListOffsetsRequest::default().with_topics(vec![topic]);
        let Some(ResponseKind::ListOffsets(response)) = bench.ask(request, version) else { panic!("no response") };
        response.topics[0].partitions[0].error_code
    };
    for (timestamp, since) in [(-3, 7), (-4, 8), (-5, 9)] {
        assert_eq!(ask(timestamp, since - 1), code(ResponseError::UnsupportedVersion));
        assert_eq!(ask(timestamp, since), 0);
    }
    assert_eq!(ask(-6, 10), code(ResponseError::UnsupportedVersion));
}

#[test]
fn committed_readers_see_offsets_up_to_the_first_open_transaction() {
    let mut bench = Bench::new(&[]);
    bench.append(&Sample::values(&["before"]));
    bench.append(&Sample::values(&["open"]).by(1, 0, 0).transactional().at(EPOCH_MS + 50));
    bench.append(&Sample::values(&["after"]));
    assert_eq!(list_offset(&mut bench, -1, 1), (1, -1));
    assert_eq!(list_offset(&mut bench, EPOCH_MS + 50, 1), (-1, -1));
    assert_eq!(list_offset(&mut bench, EPOCH_MS + 50, 0), (1, EPOCH_MS + 50));
    bench.end(1, 0, true);
    assert_eq!(list_offset(&mut bench, -1, 1), (4, -1));
}

#[test]
fn offset_of_a_partition_that_is_asked_for_twice_is_not_told() {
    let mut bench = Bench::new(&[]);
    let partition = |index| list::ListOffsetsPartition::default().with_partition_index(index).with_timestamp(-1);
    let topic = |partitions| list::ListOffsetsTopic::default().with_name(Bench::topic()).with_partitions(partitions);
    let topics = vec![topic(vec![partition(0), partition(9), partition(0)]), topic(vec![partition(0)])];
    let request = ListOffsetsRequest::default().with_topics(topics);
    let Some(ResponseKind::ListOffsets(response)) = bench.ask(request, 7) else { panic!("no response") };
    assert_eq!(response.topics.len(), 1);
    let told = response.topics[0].partitions.iter().map(|told| (told.partition_index, told.error_code));
    let (twice, unknown) = (ResponseError::InvalidRequest.code(), ResponseError::UnknownTopicOrPartition.code());
    assert_eq!(told.collect::<Vec<_>>(), [(0, twice), (9, unknown)]);
}
