//! Compaction, through requests.

use std::time::Duration;

use kafka_protocol::records::Compression;

use super::{
    LogOptions,
    bench::{Bench, Sample, decode},
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
    assert_eq!(super::batch::Header::read(&kept.records.unwrap()).unwrap().compression(), Some(Compression::Zstd));
}

#[test]
fn records_without_key_are_not_taken_by_a_compacted_topic() {
    let response = bench(&[]).produce(&Sample::new(&[(Some("k"), None), (None, Some("v"))]).encode());
    assert_eq!(response.error_code, kafka_protocol::error::ResponseError::InvalidRecord.code());
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
    put(&mut bench, &[("a", Some("2"))], Compression::None);
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
