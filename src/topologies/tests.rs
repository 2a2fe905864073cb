//! The registry, and the topologies from end to end.

use std::collections::BTreeMap;

use super::*;
use crate::{
    runtime::testkit::{BoltTester, MockSink, MockSpout, complete_topology, row, rows},
    topology::{Format, Grouping},
};

fn ends() -> Ends {
    Ends::new(|| MockSpout::new(Vec::new()), || MockSink)
}

fn options(values: &[(&str, &str)]) -> TopologyOptions {
    let values = values.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
    TopologyOptions { values, parallelism: 2, ..TopologyOptions::default() }
}

#[test]
fn every_known_topology_is_sound() {
    for known in &KNOWN {
        let all: Vec<_> = known.options.iter().map(|option| (*option, "3")).collect();
        let plan = topology(known.name, &options(&all), ends()).unwrap().build().unwrap();
        assert_eq!(&*plan.name, known.name);
        assert!(plan.components.iter().filter(|c| c.factory.kind() == "bolt").all(|c| c.tasks == 3));
    }
}

#[test]
fn tasks_are_as_many_as_the_options_say_else_as_the_parallelism() {
    let plan = topology("word-count", &options(&[("count_tasks", "4")]), ends()).unwrap().build().unwrap();
    insta::assert_snapshot!(plan.graph(Format::Text), @r"
    word-count
      lines  [spout, 1 task]
        -> default(line)
      split  [bolt, 2 tasks]
        <- lines.default  local-or-shuffle
        -> default(word)
      count  [bolt, 4 tasks, stateful]
        == counts: text -> uint
        <- split.default  fields(word)
        -> default(word, count)
      counts  [sink, 1 task]
        <- count.default  fields(word)
    ");
}

#[test]
fn an_unknown_name_is_answered_with_the_known_ones() {
    let error = topology("wordcount", &options(&[]), ends()).unwrap_err().to_string();
    assert_eq!(error, "there is no topology \"wordcount\"; there are: \"word-count\", \"split-words\"");
}

#[test]
fn every_wrong_option_is_told() {
    let wrong = options(&[("count_tasks", "0"), ("k", "3"), ("split_tasks", "many")]);
    insta::assert_snapshot!(topology("word-count", &wrong, ends()).unwrap_err(), @r#"topology "word-count": count_tasks = "0" is no number of tasks; use 1 to 65535; it has no option "k"; it has: split_tasks, count_tasks; split_tasks = "many" is no number of tasks; use 1 to 65535"#);
}

/// Lines of many kinds, the same at every call.
fn many_lines() -> Vec<String> {
    let word = |i: usize| format!("w{}", i * i % 97);
    let mut lines: Vec<_> = (0..200)
        .map(|i| (i..i + i % 13).map(word).collect::<Vec<_>>().join(if i % 3 == 0 { "  " } else { "\t" }))
        .collect();
    lines.extend(["", "   ", "größe\u{2003}größe", " the the\u{b}the "].map(String::from));
    lines
}

fn naive_counts(lines: &[String]) -> BTreeMap<&str, i64> {
    let mut counts = BTreeMap::new();
    lines.iter().flat_map(|line| line.split_whitespace()).for_each(|word| *counts.entry(word).or_default() += 1);
    counts
}

#[test]
fn counts_are_those_of_a_naive_count() {
    let lines = many_lines();
    let naive = naive_counts(&lines);
    let latest: Vec<_> = naive.iter().map(|(word, n)| row(&[(*word).into(), (*n).into()])).collect();
    let every: Vec<_> = naive.iter().flat_map(|(word, n)| (1..=*n).map(|n| row(&[(*word).into(), n.into()]))).collect();
    for (emit, mut expected) in [(EmitMode::LatestPerKey, latest), (EmitMode::Every, every)] {
        let options = TopologyOptions { emit, ..options(&[("count_tasks", "4")]) };
        let word_count = topology("word-count", &options, ends()).unwrap();
        let ran = complete_topology(&word_count, [("lines", rows(&lines))]).unwrap();
        expected.sort();
        assert_eq!(ran.of("count").rows("default"), expected);
        let words = naive.values().sum::<i64>().unsigned_abs();
        assert_eq!((ran.of("lines").acked, ran.of("count").acked, ran.of("split").acked), (204, words, 204));
        assert_eq!(ran.of("counts").acked, expected.len() as u64);
    }
}

#[test]
fn split_words_writes_every_word() {
    let split_words = topology("split-words", &options(&[]), ends()).unwrap();
    let ran = complete_topology(&split_words, [("lines", rows(["a b", "b"]))]).unwrap();
    assert_eq!(ran.of("split").rows("default"), rows(["a", "b", "b"]));
    assert_eq!(ran.of("words").acked, 3);
}

#[test]
fn the_bolts_stand_every_schedule_and_refuse_what_is_not_text() {
    let split = BoltTester::new(Split::default, ["line"]).emits("default", ["word"]);
    assert_eq!(split.run(&rows(["b a", ""])).unwrap().rows("default"), rows(["a", "b"]));
    assert_eq!(split.run(&[row(&[3.into()])]).unwrap().errors[0], "field \"line\" is int and not text");
    for emit in [EmitMode::Every, EmitMode::LatestPerKey] {
        let count = BoltTester::new(move || Count::new(emit), ["word"]).emits("default", ["word", "count"]);
        let count = count.grouped(Grouping::fields(["word"])).store::<String, u64>(Count::STORE);
        let observed = count.run(&rows(["a", "b", "a"])).unwrap();
        let last = [row(&["a".into(), 2.into()]), row(&["b".into(), 1.into()])];
        assert!(last.iter().all(|row| observed.rows("default").contains(row)));
        assert_eq!((observed.acked, observed.entries(Count::STORE)), (3, vec![("a", "2"), ("b", "1")]));
        assert_eq!(count.run(&[row(&[3.into()])]).unwrap().errors[0], "field \"word\" is int and not text");
    }
}
