//! Compaction, through requests.

use std::time::Duration;

use kafka_protocol::{error::ResponseError, records::Compression};

use super::{
    LogOptions,
    batch::Header,
    bench::{Bench, EPOCH_MS, Sample, decode},
};

/// Every batch is a segment, and compaction is always worth it.
fn bench(configs: &[(&str, &str)]) -> Bench {
    let always =
        [("cleanup.policy", "compact"), ("internal.segment.bytes", "14"), ("min.cleanable.dirty.ratio", "0.0")];
    Bench::new(&[&always[..], configs].concat())
}

/// What is there: offset, key, value.
fn contents(bench: &mut Bench, isolation: i8) -> Vec<(i64, String, Option<String>)> {
    let text = |bytes: bytes::Bytes| String::from_utf8(bytes.into()).unwrap();
    let (mut offset, mut contents) = (0, Vec::new());
    loop {
        let records = decode(&bench.fetch(offset, isolation).records.unwrap());
        let Some(last) = records.last() else { return contents };
        offset = last.offset + 1;
        let data = records.into_iter().filter(|record| !record.control);
        contents.extend(data.map(|record| (record.offset, text(record.key.unwrap()), record.value.map(text))));
    }
}

fn put(bench: &mut Bench, pairs: &[(&str, Option<&str>)], codec: Compression) {
    let pairs: Vec<_> = pairs.iter().map(|(key, value)| (Some(*key), *value)).collect();
    bench.append(&Sample::new(&pairs).packed(codec));
}

fn later(bench: &mut Bench, seconds: u64) {
    bench.now = bench.now + Duration::from_secs(seconds);
    bench.answers();
}

fn row(offset: i64, key: &str, value: Option<&str>) -> (i64, String, Option<String>) {
    (offset, key.to_owned(), value.map(str::to_owned))
}

#[test]
fn last_record_of_a_key_stays_at_its_offset_whatever_the_codec() {
    let mut bench = bench(&[]);
    put(&mut bench, &[("a", Some("1")), ("b", Some("1")), ("c", Some("1"))], Compression::Zstd);
    put(&mut bench, &[("a", Some("2")), ("b", Some("2"))], Compression::Lz4);
    put(&mut bench, &[("b", Some("3"))], Compression::None);
    put(&mut bench, &[("a", Some("active"))], Compression::Gzip);
    later(&mut bench, 15);
    let expected =
        [row(2, "c", Some("1")), row(3, "a", Some("2")), row(5, "b", Some("3")), row(6, "a", Some("active"))];
    assert_eq!(contents(&mut bench, 0), expected);
    let kept = bench.fetch(0, 0);
    assert_eq!((kept.log_start_offset, kept.high_watermark), (0, 7));
    assert_eq!(Header::read(&kept.records.unwrap()).unwrap().compression(), Some(Compression::Zstd));
}

#[test]
fn records_without_key_are_not_taken_by_a_compacted_topic() {
    let response = bench(&[]).produce(&Sample::new(&[(Some("k"), None), (None, Some("v"))]).encode());
    assert_eq!(response.error_code, ResponseError::InvalidRecord.code());
    assert_eq!(response.record_errors[0].batch_index, 1);
}

#[test]
fn tombstones_stay_for_their_time_and_then_go() {
    let mut bench = bench(&[("delete.retention.ms", "60000")]);
    put(&mut bench, &[("a", Some("1"))], Compression::None);
    put(&mut bench, &[("a", None)], Compression::None);
    put(&mut bench, &[("b", Some("1"))], Compression::None);
    later(&mut bench, 15);
    assert_eq!(contents(&mut bench, 0), [row(1, "a", None), row(2, "b", Some("1"))]);
    put(&mut bench, &[("c", Some("1"))], Compression::None);
    later(&mut bench, 30);
    assert_eq!(contents(&mut bench, 0)[0], row(1, "a", None));
    put(&mut bench, &[("d", Some("1"))], Compression::None);
    later(&mut bench, 60);
    assert_eq!(contents(&mut bench, 0)[0], row(2, "b", Some("1")));
}

#[test]
fn open_transaction_holds_up_compaction() {
    let mut bench = bench(&[]);
    put(&mut bench, &[("a", Some("1"))], Compression::None);
    bench.append(&Sample::new(&[(Some("a"), Some("open"))]).by(1, 0, 0).transactional());
    put(&mut bench, &[("a", Some("2"))], Compression::None);
    put(&mut bench, &[("z", Some("active"))], Compression::None);
    later(&mut bench, 15);
    assert_eq!(contents(&mut bench, 0).len(), 4);
    bench.end(1, 0, false);
    later(&mut bench, 15);
    assert_eq!(contents(&mut bench, 0), [row(2, "a", Some("2")), row(3, "z", Some("active"))]);
}

#[test]
fn aborted_records_do_not_replace_what_was_committed() {
    let mut bench = bench(&[]);
    put(&mut bench, &[("a", Some("1"))], Compression::None);
    bench.append(&Sample::new(&[(Some("a"), Some("aborted"))]).by(1, 0, 0).transactional());
    bench.end(1, 0, false);
    put(&mut bench, &[("z", Some("active"))], Compression::None);
    later(&mut bench, 15);
    assert_eq!(contents(&mut bench, 0), [row(0, "a", Some("1")), row(3, "z", Some("active"))]);
    assert_eq!(contents(&mut bench, 1).len(), 2);
}

#[test]
fn markers_go_after_their_records_and_their_time() {
    let mut bench = bench(&[("delete.retention.ms", "60000")]);
    bench.append(&Sample::new(&[(Some("a"), Some("1"))]).by(1, 0, 0).transactional());
    bench.end(1, 0, true);
    bench.append(&Sample::new(&[(Some("a"), Some("2"))]).by(1, 0, 1));
    let controls = |bench: &mut Bench| {
        let records = decode(&bench.fetch(0, 0).records.unwrap());
        records.iter().filter(|record| record.control).count()
    };
    for (seconds, left) in [(15, 1), (30, 1), (100, 0)] {
        put(&mut bench, &[("z", Some("dirt"))], Compression::None);
        later(&mut bench, seconds);
        assert_eq!(controls(&mut bench), left, "after {seconds} s more");
    }
}

#[test]
fn young_records_are_safe_for_the_minimum_lag() {
    let mut bench = bench(&[("min.compaction.lag.ms", "60000")]);
    put(&mut bench, &[("a", Some("1"))], Compression::None);
    put(&mut bench, &[("a", Some("2"))], Compression::None);
    put(&mut bench, &[("z", Some("active"))], Compression::None);
    later(&mut bench, 15);
    assert_eq!(contents(&mut bench, 0).len(), 3);
    later(&mut bench, 60);
    assert_eq!(contents(&mut bench, 0).len(), 2);
}

#[test]
fn compaction_gives_memory_back() {
    let options = LogOptions { max_bytes: 5_000, ..LogOptions::default() };
    let configs =
        [("cleanup.policy", "compact"), ("internal.segment.bytes", "14"), ("min.cleanable.dirty.ratio", "0.0")];
    let mut bench = Bench::with(options, &configs);
    for n in 0..200 {
        put(&mut bench, &[("a", Some(&n.to_string()))], Compression::None);
        later(&mut bench, 15);
    }
    assert_eq!(contents(&mut bench, 0).len(), 2);
}

/// The headers of the batches that are there.
fn headers(bench: &mut Bench) -> Vec<Header> {
    let (records, mut at, mut headers) = (bench.fetch(0, 0).records.unwrap(), 0, Vec::new());
    while let Some(header) = Header::read(&records[at..]) {
        at += header.size;
        headers.push(header);
    }
    headers
}

/// Offsets and number of records of each batch, and whose it is.
fn batches(bench: &mut Bench) -> Vec<(i64, i64, i32, i64)> {
    headers(bench).iter().map(|h| (h.base_offset, h.last_offset(), h.count, h.producer_id)).collect()
}

#[test]
fn last_batch_of_a_producer_stays_without_records_until_the_producer_is_forgotten() {
    let mut bench = bench(&[]);
    let pairs = [(Some("a"), Some("1")), (Some("b"), Some("1"))];
    bench.append(&Sample::new(&pairs).by(7, 0, 0));
    bench.append(&Sample::new(&pairs).by(7, 0, 2).packed(Compression::Gzip));
    put(&mut bench, &[("a", Some("2")), ("b", Some("2"))], Compression::None);
    put(&mut bench, &[("z", Some("1"))], Compression::None);
    for _ in 0..2 {
        later(&mut bench, 15);
        assert_eq!(batches(&mut bench), [(2, 3, 0, 7), (4, 5, 2, -1), (6, 6, 1, -1)]);
        bench.logs.compact_now(&Bench::topic(), bench.now);
    }
    let empty = headers(&mut bench)[0];
    assert_eq!((empty.base_sequence, empty.last_sequence(), empty.compression()), (2, 3, Some(Compression::None)));
    assert_eq!((empty.base_timestamp, empty.max_timestamp), (-1, EPOCH_MS + 1));
    assert_eq!(contents(&mut bench, 0), [row(4, "a", Some("2")), row(5, "b", Some("2")), row(6, "z", Some("1"))]);
    later(&mut bench, 25 * 3600);
    bench.logs.compact_now(&Bench::topic(), bench.now);
    assert_eq!(batches(&mut bench), [(4, 5, 2, -1), (6, 6, 1, -1)]);
}

#[test]
fn sequence_is_found_again_in_a_batch_without_records() {
    let mut bench = bench(&[]);
    let write = |sequence| Sample::new(&[(Some("a"), Some("1"))]).by(7, 0, sequence);
    bench.append(&write(0));
    put(&mut bench, &[("a", Some("2"))], Compression::None);
    put(&mut bench, &[("z", Some("1"))], Compression::None);
    later(&mut bench, 15);
    assert_eq!(batches(&mut bench)[0], (0, 0, 0, 7));
    bench.append(&write(1));
    assert!(bench.logs.lose_tail(&Bench::topic(), 0, 3));
    assert_eq!(bench.refused(&write(2).encode()), ResponseError::OutOfOrderSequenceNumber.code());
    assert_eq!((bench.append(&write(0)), bench.append(&write(1))), (0, 3));
}

#[test]
fn aborted_batch_that_was_the_last_of_its_producer_stays_without_records_and_its_marker_too() {
    let mut bench = bench(&[("delete.retention.ms", "0")]);
    bench.append(&Sample::new(&[(Some("a"), Some("1"))]).by(7, 0, 0).transactional());
    bench.end(7, 0, false);
    for _ in 0..3 {
        put(&mut bench, &[("z", Some("1"))], Compression::None);
        later(&mut bench, 15);
        assert_eq!(batches(&mut bench)[..2], [(0, 0, 0, 7), (1, 1, 1, 7)]);
        assert_eq!(bench.fetch(0, 1).aborted_transactions.unwrap().len(), 1);
    }
    bench.append(&Sample::new(&[(Some("b"), Some("1"))]).by(7, 0, 1));
    for _ in 0..3 {
        put(&mut bench, &[("z", Some("1"))], Compression::None);
        later(&mut bench, 15);
    }
    assert!(batches(&mut bench)[0].0 > 1);
    assert_eq!(bench.fetch(0, 1).aborted_transactions, Some(Vec::new()));
}
