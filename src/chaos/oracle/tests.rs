//! Each check of the oracle, shown to fail: against a broker that holds what a wrong process would have written.

use super::*;
use crate::{
    broker::core::BrokerOptions,
    chaos::{
        clients::{Author, Row, encode},
        dice::Dice,
        log::Log,
        view::{append, create_topic},
        words::push_line,
    },
    clock::Clock,
    kafka::client::record::push_header,
    state::OffsetRanges,
};

/// An oracle of a broker with the topics of a run, to which `records` were fed, all in partition 0.
fn oracle(stores: bool, records: u32) -> Oracle {
    let (clock, log) = (Clock::manual(), Log::new(false));
    let network = Network::new(BrokerOptions::default(), clock, Dice::new(0, 3), log);
    let mut oracle = Oracle::new(network, records, stores, false);
    let topics = [LINES, WORDS, &oracle.seen_topic.topic, &oracle.counts_topic.topic];
    topics.iter().for_each(|topic| create_topic(&oracle.network, topic, 1));
    for record in 0..records {
        let mut line = Vec::new();
        push_line(record, &mut line);
        write(&oracle, LINES, None, &line, b"");
        oracle.fed(0, record);
    }
    oracle
}

fn write(oracle: &Oracle, topic: &str, key: Option<&[u8]>, value: &[u8], headers: &[u8]) {
    let author = Author { producer_id: -1, epoch: -1, sequence: -1, transactional: false };
    let row = Row { key, value: Some(value), headers };
    assert!(append(&oracle.network, topic, 0, encode(author, 0, std::iter::once(row))), "{topic} takes records");
}

/// A word arrives with a lineage.
fn arrives(oracle: &Oracle, word: &str, lineage: u64) {
    let mut headers = Vec::new();
    push_header(LINEAGE_HEADER.as_bytes(), Some(format!("{lineage:016x}").as_bytes()), &mut headers);
    write(oracle, WORDS, None, word.as_bytes(), &headers);
}

/// The words of the first records arrive, each record with a lineage of its own.
fn all_arrive(oracle: &Oracle, records: u64) {
    for record in 0..records {
        arrives(oracle, &format!("c{record}"), record);
        arrives(oracle, &format!("u{record}"), record);
    }
}

/// The changelog has an entry or a position.
fn is_written(oracle: &Oracle, key: RecordKey<'_>, value: &[u8]) {
    let mut bytes = Vec::new();
    key.encode(&mut bytes);
    write(oracle, &oracle.counts_topic.topic, Some(&bytes), value, b"");
}

fn is_counted(oracle: &Oracle, word: &str, count: u64) {
    let mut value = Vec::new();
    <u64 as StateValue>::encode(&count, &mut value);
    is_written(oracle, RecordKey::Entry(word.as_bytes()), &value);
}

fn position(commit: u64, next: i64, committed: Option<i64>) -> Position {
    let (source, topic) = ("lines".to_owned(), LINES.to_owned());
    let done = OffsetRanges::new();
    Position {
        commit,
        sources: vec![SourcePosition { source, topic, partition: 0, next, done, started: next, committed }],
    }
}

#[test]
fn a_word_that_was_never_fed_is_told() {
    let mut oracle = oracle(false, 2);
    arrives(&oracle, "u2", 9);
    insta::assert_snapshot!(oracle.read_words().unwrap_err(), @r#""u2" has arrived, and was never fed"#);
}

#[test]
fn a_word_without_its_lineage_is_told() {
    let mut oracle = oracle(false, 2);
    write(&oracle, WORDS, None, b"u1", b"");
    insta::assert_snapshot!(oracle.read_words().unwrap_err(), @r#""u1" has arrived without its lineage"#);
}

#[test]
fn a_count_of_a_word_that_was_never_fed_is_told() {
    let mut oracle = oracle(true, 2);
    is_counted(&oracle, "u7", 1);
    insta::assert_snapshot!(oracle.read_changelog().unwrap_err(), @r#""u7" is counted, and was never fed"#);
}

#[test]
fn a_count_that_goes_back_is_told() {
    let mut oracle = oracle(true, 2);
    is_counted(&oracle, "u1", 2);
    is_counted(&oracle, "u1", 1);
    insta::assert_snapshot!(oracle.read_changelog().unwrap_err(), @r#"the changelog's count of "u1" went from 2 to 1"#);
}

#[test]
fn a_flush_must_follow_the_one_before() {
    let told = |last: &Position, next: &Position| went_back(last, next).unwrap_or_default();
    let last = position(7, 30, Some(20));
    assert_eq!(went_back(&last, &position(8, 30, Some(30))), None);
    assert_eq!(went_back(&last, &position(8, 25, Some(20))), None, "after a crash between flush and commit");
    insta::assert_snapshot!(told(&last, &position(7, 40, Some(20))), @"the changelog's commit number went from 7 to 7");
    insta::assert_snapshot!(told(&last, &Position { sources: Vec::new(), ..position(8, 0, None) }), @"the changelog does not know lines-0 any more");
    insta::assert_snapshot!(told(&last, &position(8, 19, Some(20))), @"the changelog is at 19 of lines-0, and 20 is committed");
}

#[test]
fn a_tree_is_done_only_with_its_last_word() {
    let mut oracle = oracle(false, 2);
    for record in 0..2 {
        oracle.passed.add(Word::common_of(record));
    }
    arrives(&oracle, "c0", 5);
    oracle.read_words().unwrap();
    insta::assert_snapshot!(all_passed(&oracle.passed, &oracle.arrived, "arrived").unwrap_err(), @r#"1 records with "c1" are below what is committed, and 0 arrived"#);
    arrives(&oracle, "c1", 6);
    oracle.read_words().unwrap();
    assert_eq!(all_passed(&oracle.passed, &oracle.arrived, "arrived"), Ok(()));
}

#[test]
fn repeats_that_were_counted_are_as_many_as_came() {
    let mut oracle = oracle(false, 2);
    all_arrive(&oracle, 2);
    arrives(&oracle, "u1", 1);
    oracle.read_words().unwrap();
    assert_eq!(oracle.told(&Told::default(), Some(1)), Ok(()));
    insta::assert_snapshot!(oracle.told(&Told::default(), Some(0)).unwrap_err(), @"0 repeats were counted by the processes, and there were 1");
    insta::assert_snapshot!(oracle.told(&Told::default(), Some(2)).unwrap_err(), @"2 repeats were counted by the processes, and there were 1");
    oracle.lost = 1;
    assert_eq!(oracle.told(&Told::default(), Some(0)), Ok(()), "an output that the broker lost may have come before");
}

#[test]
fn records_that_are_counted_twice_were_counted_or_announced() {
    let mut oracle = oracle(true, 2);
    is_counted(&oracle, "u0", 2);
    is_counted(&oracle, "u1", 3);
    oracle.read_changelog().unwrap();
    for (duplicates, possible_repeats) in [(2, 0), (0, 2), (1, 1)] {
        assert_eq!(oracle.told(&Told { duplicates, possible_repeats, ..Told::default() }, None), Ok(()));
    }
    let told = Told { duplicates: 1, ..Told::default() };
    insta::assert_snapshot!(oracle.told(&told, None).unwrap_err(), @"2 records are counted more than once: 1 repeats were counted, and 0 records announced after deaths");
}

#[test]
fn what_was_deleted_unread_was_told() {
    let mut oracle = oracle(false, 2);
    oracle.deleted.extend([0, 1]);
    assert_eq!(oracle.told(&Told { lost: 2, ..Told::default() }, None), Ok(()));
    insta::assert_snapshot!(oracle.told(&Told { lost: 1, ..Told::default() }, None).unwrap_err(), @"2 records were deleted unread, and the processes knew of 1");
}

#[test]
fn everything_arrives_and_a_calm_run_repeats_nothing() {
    let mut oracle = oracle(false, 3);
    all_arrive(&oracle, 2);
    let finish = |oracle: &mut Oracle, calm| oracle.finish(Instant::ZERO, calm, &Told::default(), None);
    insta::assert_snapshot!(finish(&mut oracle, true).unwrap_err(), @"1 of 3 records: the first that has not arrived is 2");
    arrives(&oracle, "u2", 2);
    insta::assert_snapshot!(finish(&mut oracle, true).unwrap_err(), @r#""c2" has arrived with 0 lineages of 1"#);
    arrives(&oracle, "c2", 2);
    assert_eq!(finish(&mut oracle, true), Ok(()));
    arrives(&oracle, "c2", 2);
    assert_eq!(finish(&mut oracle, false), Ok(()));
    insta::assert_snapshot!(finish(&mut oracle, true).unwrap_err(), @"1 records came twice, 0 were counted twice, and nothing went wrong");
}
