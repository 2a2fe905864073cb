//! The registry, and the topologies from end to end.

use super::*;
use crate::{
    clock::Instant,
    topology::{
        ComponentResult, Failure, Format, InFlight, MessageId, Next, Sink, Spout, SpoutOutput,
    },
    tuple::Tuple,
};

struct NoLines;
impl Spout for NoLines {
    fn next(&mut self, _: Instant, _: usize, _: &mut SpoutOutput<'_>) -> ComponentResult<Next> {
        Ok(Next::Exhausted)
    }
    fn ack(&mut self, _: MessageId) {}
    fn fail(&mut self, _: Instant, _: MessageId, _: Failure<'_>, _: u64) {}
}

struct Nowhere;
impl Sink for Nowhere {
    fn write(&mut self, _: &Tuple<'_>) -> ComponentResult {
        Ok(())
    }
    fn flush(&mut self, _: Instant) -> ComponentResult {
        Ok(())
    }
    fn poll(&mut self, _: Instant) -> ComponentResult<InFlight> {
        Ok(InFlight { records: 0 })
    }
}

fn ends() -> Ends {
    Ends::new(|| NoLines, || Nowhere)
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
