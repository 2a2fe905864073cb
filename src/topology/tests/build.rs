//! What `build` refuses, and what it makes of a sound topology.

use std::time::Duration;

use insta::assert_snapshot;

use crate::{
    clock::Instant,
    topology::{
        AckingBolt, Bolt, ComponentResult, Factory, Failure, Format, Grouping, Handled, Input, MessageId, Next, Output,
        Plan, Spout, SpoutOutput, TopologyBuilder, declared::BoltKind, testkit::MockSink,
    },
    tuple::{TaskId, Tuple},
};

pub(super) struct Nothing;

impl Spout for Nothing {
    fn next(&mut self, _: Instant, _: usize, _: &mut SpoutOutput<'_>) -> ComponentResult<Next> {
        Ok(Next::Exhausted)
    }
    fn ack(&mut self, _: MessageId) {}
    fn fail(&mut self, _: Instant, _: MessageId, _: Failure<'_>, _: u64) {}
}
impl Bolt for Nothing {
    fn execute(&mut self, _: &Tuple<'_>, _: &mut Output) -> ComponentResult {
        Ok(())
    }
}
impl AckingBolt for Nothing {
    fn execute<'a>(&mut self, input: Input<'a>, _: &mut Output) -> ComponentResult<Handled<'a>> {
        Ok(input.ack())
    }
}
fn word_count() -> TopologyBuilder {
    let mut t = TopologyBuilder::new("word-count");
    t.spout("lines", || Nothing).fields(["line"]);
    t.bolt("split", || Nothing).tasks(2).reads("lines", Grouping::LocalOrShuffle).fields(["word"]);
    t.bolt("count", || Nothing)
        .tasks(4)
        .reads("split", Grouping::fields(["word"]))
        .fields(["word", "count"])
        .stateful();
    t.sink("counts", || MockSink).reads("count", Grouping::fields(["word"])).writes_lineage();
    t
}

fn errors(t: &TopologyBuilder) -> String {
    t.build().unwrap_err().to_string()
}

fn effects(plan: &Plan) -> Vec<&str> {
    plan.components.iter().filter(|c| c.effects).map(|c| &*c.name).collect()
}

#[test]
fn names_become_numbers_in_the_order_of_declaration() {
    let plan = word_count().build().unwrap();
    let places: Vec<_> = plan.components.iter().map(|c| (&*c.name, c.first_task.0, c.depth)).collect();
    assert_eq!(places, [("lines", 0, 0), ("split", 1, 1), ("count", 3, 2), ("counts", 7, 3)]);
    assert_eq!((plan.task_count(), plan.depth(), plan.key_groups), (8, 3, 16));
    assert_eq!(plan.edges[2].positions, [0]);
    assert!(plan.wants_lineage());
    let last = plan.tasks().last().unwrap();
    assert_eq!((last.task, last.index), (TaskId(7), 0));
    let streams: Vec<_> = plan.streams.iter().map(|s| (s.id.0, &*s.component)).collect();
    assert_eq!(streams, [(0, "lines"), (1, "split"), (2, "count")]);
}

#[test]
fn declaring_in_another_order_changes_no_depth() {
    let mut t = TopologyBuilder::new("t");
    t.sink("end", || MockSink).reads("far", Grouping::All).reads("spout", Grouping::Global);
    t.acking_bolt("far", || Nothing).reads("near", Grouping::Shuffle).fields(["a"]);
    t.bolt("near", || Nothing).reads("spout", Grouping::Shuffle).fields(["a"]);
    t.spout("spout", || Nothing).fields(["a"]);
    let plan = t.build().unwrap();
    assert_eq!(plan.components.iter().map(|c| c.depth).collect::<Vec<_>>(), [3, 2, 1, 0]);
}

#[test]
fn effects_are_the_stateful_bolts_else_the_sinks_else_the_bolts_at_the_end() {
    assert_eq!(effects(&word_count().build().unwrap()), ["count"]);
    let mut t = TopologyBuilder::new("t");
    t.spout("lines", || Nothing).fields(["line"]);
    t.bolt("end", || Nothing).reads("lines", Grouping::Shuffle);
    assert_eq!(effects(&t.build().unwrap()), ["end"]);
    t.sink("out", || MockSink).reads("lines", Grouping::Shuffle);
    assert_eq!(effects(&t.build().unwrap()), ["out"]);
}

#[test]
fn an_empty_topology_is_refused() {
    assert_snapshot!(errors(&TopologyBuilder::new("")), @r#"
    topology "" has 2 mistakes:
      - topology "" cannot be named so: names stand in topics and metrics. Use 1 to 64 letters, digits, - and _, a letter first
      - it has no spout, so nothing would happen: declare one with .spout(name, factory)
    "#);
}

#[test]
fn every_mistake_of_a_declaration_is_told_at_once() {
    let mut t = TopologyBuilder::new("t");
    t.key_groups(2);
    t.spout("lines", || Nothing).fields(["line", "line", ""]).stream("default", ["x"]);
    t.spout("lines", || Nothing);
    t.bolt("a b", || Nothing).tasks(0).tick_every(Duration::ZERO).fields(["x"]);
    t.bolt("count", || Nothing).tasks(3).reads("lines", Grouping::fields(["line"]));
    assert_snapshot!(errors(&t), @r#"
    topology "t" has 10 mistakes:
      - "lines" is declared 2 times: give each component a name of its own
      - "lines" declares stream "default" 2 times: keep one, or name the others with .stream(name, fields)
      - stream "default" of "lines" has a field named "": use letters
      - stream "default" of "lines" has field "line" 2 times: rename or remove the others
      - spout "lines" declares no stream, so nobody can read it: add .fields([..])
      - bolt "a b" cannot be named so: names stand in topics and metrics. Use 1 to 64 letters, digits, - and _, a letter first
      - bolt "a b" has 0 tasks, so nothing would run: give it .tasks(1) or more
      - bolt "a b" is ticked every 0ns: give it an interval above zero, or no .tick_every
      - bolt "a b" reads nothing, so nobody feeds it: add .reads(component, grouping)
      - bolt "count" has 3 tasks under a fields grouping but there are 2 key groups, so some would never get a tuple: use at most 2 tasks, or key_groups(3) before the app has state
    "#);
}

#[test]
fn every_mistake_of_a_read_is_told_at_once() {
    let mut t = word_count();
    let many: Vec<_> = (0..9).map(|i| format!("f{i}")).collect();
    t.bolt("wide", || Nothing).reads("split", Grouping::Shuffle).fields(many.clone());
    t.bolt("wrong", || Nothing)
        .reads("splitt", Grouping::Shuffle)
        .reads("somewhere", Grouping::Shuffle)
        .reads_stream("split", "words", Grouping::Shuffle)
        .reads("counts", Grouping::Shuffle)
        .reads("split", Grouping::fields(["wrod"]))
        .reads("wide", Grouping::fields(many))
        .reads("count", Grouping::partial_key(["word", "word"]))
        .reads("split", Grouping::fields([""; 0]))
        .reads("lines", Grouping::Direct);
    assert_snapshot!(errors(&t), @r#"
    topology "word-count" has 10 mistakes:
      - bolt "wrong" reads "splitt", which is not declared; did you mean "split"?
      - bolt "wrong" reads "somewhere", which is not declared; what can be read: "lines", "split", "count", "wide". Fix the name or declare it
      - bolt "wrong" reads stream "words" of "split", which does not declare it; declared: "default". Fix the name or add .stream("words", [..]) to "split"
      - bolt "wrong" reads stream "default" of "counts", which does not declare it; it emits nothing. Add .fields([..]) to "counts" if it is a bolt; a sink is always an end
      - bolt "wrong" reads stream "default" of "split" grouped by field "wrod", which it does not have; its fields: "word"
      - bolt "wrong" reads stream "default" of "split" 2 times, so each of its tuples would come 2 times: keep one grouping
      - bolt "wrong" reads stream "default" of "wide" by a fields grouping over 9 fields; a key has at most 8: emit a composite field instead
      - bolt "wrong" reads stream "default" of "count" by a partial-key grouping that names a field twice: name each once
      - bolt "wrong" reads stream "default" of "split" by a fields grouping without a field: name at least one, or use Grouping::Shuffle or Grouping::Global
      - bolt "wrong" reads stream "default" of "lines" by the direct grouping, but "lines" is a spout and only bolts emit to a task: use another grouping, or a bolt between the two
    "#);
}

#[test]
fn a_cycle_is_named_the_way_round() {
    let mut t = TopologyBuilder::new("t");
    t.spout("s", || Nothing).fields(["x"]);
    t.bolt("a", || Nothing).reads("s", Grouping::All).reads("c", Grouping::All).fields(["x"]);
    t.bolt("b", || Nothing).reads("a", Grouping::All).fields(["x"]);
    t.bolt("c", || Nothing).reads("b", Grouping::All).fields(["x"]);
    t.bolt("self", || Nothing).reads("self", Grouping::All).fields(["x"]);
    assert_snapshot!(errors(&t), @r#"
    topology "t" has 2 mistakes:
      - there is a cycle: "a" -> "b" -> "c" -> "a". A tuple tree must end: cut one of these edges
      - there is a cycle: "self" -> "self". A tuple tree must end: cut one of these edges
    "#);
}

#[test]
fn a_component_from_a_factory_cannot_do_what_its_kind_cannot() {
    let mut t = TopologyBuilder::new("t");
    let (spout, sink) = (Factory::spout(|| Nothing), Factory::sink(|| MockSink));
    t.component::<BoltKind>("in", spout).fields(["x"]).reads("in", Grouping::Shuffle).stateful();
    t.component::<BoltKind>("out", sink)
        .reads("in", Grouping::Shuffle)
        .fields(["x"])
        .tick_every(Duration::from_secs(1));
    assert_snapshot!(errors(&t), @r#"
    topology "t" has 5 mistakes:
      - spout "in" reads: a spout is a beginning. Remove .reads, or make it a bolt
      - spout "in" is stateful: only bolts are. A spout's own memory is its offsets
      - sink "out" declares streams: a sink is an end. Remove them, or make it a bolt
      - sink "out" is ticked: only bolts are. Use the clock that poll() is given
      - there is a cycle: "in" -> "in". A tuple tree must end: cut one of these edges
    "#);
}

#[test]
fn a_plan_is_drawn_as_text() {
    let mut t = word_count();
    t.bolt("odd", || Nothing).reads("split", Grouping::partial_key(["word"])).stream("x", ["a", "b"]);
    t.bolt("next", || Nothing).reads_stream("odd", "x", Grouping::Global);
    assert_snapshot!(t.build().unwrap().graph(Format::Text), @r#"
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
      odd  [bolt, 1 task]
        <- split.default  partial-key(word)
        -> x(a, b)
      next  [bolt, 1 task]
        <- odd.x  global
    "#);
}

#[test]
fn a_drawing_shows_the_stores_of_a_bolt() {
    let mut t = TopologyBuilder::new("stores");
    t.spout("in", || Nothing).fields(["word"]);
    t.bolt("seen", || Nothing).reads("in", Grouping::fields(["word"])).store::<(String, i64), u64>("times");
    let plan = t.build().unwrap();
    assert_snapshot!(plan.graph(Format::Text), @r#"
    stores
      in  [spout, 1 task]
        -> default(word)
      seen  [bolt, 1 task, stateful]
        == times: (text, int) -> uint
        <- in.default  fields(word)
    "#);
    assert_snapshot!(plan.graph(Format::Mermaid), @r#"
    flowchart LR
      c0(["in<br/>spout, 1 task"])
      c1["seen<br/>bolt, 1 task, stateful<br/>times: (text, int) -#gt; uint"]
      c0 -->|"fields(word)"| c1
    "#);
}

#[test]
fn a_plan_is_drawn_for_mermaid_and_graphviz() {
    let mut t = word_count();
    t.spout("odd", || Nothing).stream("x", ["\"<a>\"&#`\\"]);
    t.bolt("next", || Nothing).reads_stream("odd", "x", Grouping::fields(["\"<a>\"&#`\\"]));
    let plan = t.build().unwrap();
    assert_snapshot!(plan.graph(Format::Mermaid), @r#"
    flowchart LR
      c0(["lines<br/>spout, 1 task"])
      c1["split<br/>bolt, 2 tasks"]
      c2["count<br/>bolt, 4 tasks, stateful"]
      c3[["counts<br/>sink, 1 task"]]
      c4(["odd<br/>spout, 1 task"])
      c5["next<br/>bolt, 1 task"]
      c0 -->|"local-or-shuffle"| c1
      c1 -->|"fields(word)"| c2
      c2 -->|"fields(word)"| c3
      c4 -->|"x: fields(#quot;#lt;a#gt;#quot;#amp;#35;#96;\)"| c5
    "#);
    assert_snapshot!(plan.graph(Format::Dot), @r#"
    digraph "word-count" {
      rankdir=LR;
      c0 [shape=invhouse, label="lines\nspout, 1 task"];
      c1 [shape=box, label="split\nbolt, 2 tasks"];
      c2 [shape=box, label="count\nbolt, 4 tasks, stateful"];
      c3 [shape=house, label="counts\nsink, 1 task"];
      c4 [shape=invhouse, label="odd\nspout, 1 task"];
      c5 [shape=box, label="next\nbolt, 1 task"];
      c0 -> c1 [label="local-or-shuffle"];
      c1 -> c2 [label="fields(word)"];
      c2 -> c3 [label="fields(word)"];
      c4 -> c5 [label="x: fields(\"<a>\"&#`\\)"];
    }
    "#);
}

#[test]
fn stores_are_numbered_in_the_order_of_declaration() {
    let mut t = TopologyBuilder::new("t");
    t.key_groups(8);
    t.spout("lines", || Nothing).fields(["x"]);
    let by_key = || Grouping::fields(["x"]);
    t.bolt("a", || Nothing).reads("lines", by_key()).store::<String, u64>("counts").store::<(String, u64), ()>("seen");
    t.bolt("b", || Nothing).tasks(3).reads("lines", by_key()).store::<Option<i64>, serde_json::Value>("counts");
    let plan = t.build().unwrap();
    let stores: Vec<_> =
        plan.stores.iter().map(|s| &s.format).map(|s| (&*s.component, &*s.store, &*s.key, &*s.value)).collect();
    let expected =
        [("a", "counts", "text", "uint"), ("a", "seen", "(text, uint)", "unit"), ("b", "counts", "int?", "json")];
    assert_eq!(stores, expected);
    assert!(plan.stores.iter().all(|store| store.format.key_groups == 8));
    let of: Vec<_> = plan.components.iter().map(|c| (c.stateful, c.stores.iter().map(|id| id.0).collect())).collect();
    assert_eq!(of, [(false, vec![]), (true, vec![0, 1]), (true, vec![2])]);
}

#[test]
fn stores_that_would_be_kept_as_one_are_told() {
    let mut t = TopologyBuilder::new("t");
    t.spout("lines", || Nothing).fields(["x"]);
    t.bolt("count", || Nothing).reads("lines", Grouping::fields(["x"])).store::<String, u64>("a-b");
    t.bolt("count-a", || Nothing).reads("lines", Grouping::fields(["x"])).store::<String, u64>("b");
    assert_snapshot!(errors(&t), @r#"
    topology "t" has 1 mistake:
      - store "b" of "count-a" and store "a-b" of "count" would both be kept as "count-a-b": rename one of them
    "#);
}

#[test]
fn a_store_that_cannot_be_is_told_with_what_to_do() {
    let mut t = TopologyBuilder::new("t");
    t.spout("lines", || Nothing).fields(["x"]).stream("more", ["x"]);
    t.bolt("count", || Nothing)
        .reads("lines", Grouping::Shuffle)
        .reads_stream("lines", "more", Grouping::partial_key(["x"]))
        .store::<String, u64>("Counts")
        .store::<String, u64>("")
        .store::<String, u64>("a")
        .store::<String, i64>("a");
    t.component::<BoltKind>("out", Factory::sink(|| MockSink))
        .reads("lines", Grouping::fields(["x"]))
        .store::<String, ()>("all");
    assert_snapshot!(errors(&t), @r#"
    topology "t" has 6 mistakes:
      - "count" declares store "a" 2 times: give each store a name of its own
      - store "Counts" of "count" cannot be named so: a topic is named after it. Use 1 to 64 letters a to z, digits and -
      - store "" of "count" cannot be named so: a topic is named after it. Use 1 to 64 letters a to z, digits and -
      - bolt "count" reads stream "default" of "lines" by shuffle grouping, but "count" has a store: the tuples of a key must all come to the task that has the key. Use Grouping::fields([..]), or keep what is remembered outside of stores
      - bolt "count" reads stream "more" of "lines" by partial-key grouping, but "count" has a store: the tuples of a key must all come to the task that has the key. Use Grouping::fields([..]), or keep what is remembered outside of stores
      - sink "out" is stateful: only bolts are. Put a bolt before it that remembers
    "#);
}
