//! Stores that outlive their process: killed at any step, a topology goes on from its counts, and nothing is lost.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex},
    time::Duration,
};

use proptest::prelude::*;

use super::parts::{metrics, options};
use crate::{
    clock::Instant,
    runtime::{Ending, EngineError, EngineOptions, RestoreReport, RunReport, SteppedRun, Stepper},
    state::{CommittedStart, OffsetRanges, SourcePosition, SourceStart, StateKey, StateValue},
    topology::{
        Bolt, CommitNumber, CommitState, ComponentError, ComponentResult, Failure, Grouping, InFlight, MessageId, Next,
        Output, Plan, Sink, Spout, SpoutOutput, StoreHandle, TaskContext, TopologyBuilder, changelog::StoreId,
        testkit::MemoryChangelog,
    },
    tuple::{Tuple, Value},
};

const TICK: Duration = Duration::from_millis(1);

/// One partition and what a group has committed of it: what outlives a process.
#[derive(Debug, Default)]
struct Journal {
    records: Vec<String>,
    committed: Option<CommittedStart>,
    /// Another process has taken this one's place.
    taken: bool,
}

type Shared = Arc<Mutex<Journal>>;

/// Reads the journal as the Kafka source reads a partition.
struct Reader {
    journal: Shared,
    /// Emitted once, up to here.
    started: usize,
    done: BTreeSet<usize>,
    again: Vec<usize>,
    known: Option<i64>,
    frozen: Option<CommittedStart>,
    /// Polls that a commit takes.
    patience: u32,
    asked: Option<(CommittedStart, u32)>,
}

impl Reader {
    fn new(journal: &Shared) -> Self {
        Self {
            journal: Arc::clone(journal),
            started: 0,
            done: BTreeSet::new(),
            again: Vec::new(),
            known: None,
            frozen: None,
            patience: 3,
            asked: None,
        }
    }

    fn frontier(&self) -> usize {
        (0..).find(|offset| !self.done.contains(offset)).unwrap_or(0)
    }

    fn stands(&self, commit: u64) -> CommittedStart {
        let frontier = self.frontier();
        let mut done = OffsetRanges::new();
        for &offset in self.done.range(frontier..) {
            done.push(offset as i64, offset as i64 + 1);
        }
        CommittedStart { next: frontier as i64, done, commit: Some(commit) }
    }
}

impl Spout for Reader {
    fn begins_at(&mut self, _: Instant) -> ComponentResult<Option<Vec<SourceStart>>> {
        let committed = self.journal.lock().unwrap().committed.clone();
        if let Some(found) = &committed {
            self.done = (0..found.next as usize).collect();
            self.done.extend(found.done.iter().flat_map(|(from, to)| from as usize..to as usize));
            self.started = found.next as usize;
            self.known = Some(found.next);
        }
        let start = SourceStart { source: "lines".into(), topic: "journal".into(), partition: 0, committed };
        Ok(Some(vec![start]))
    }

    fn confirms(&mut self, _: Instant) -> ComponentResult<bool> {
        let mut journal = self.journal.lock().unwrap();
        if journal.taken {
            return Err(ComponentError::new("its place was taken"));
        }
        let began = CommittedStart { next: 0, done: OffsetRanges::new(), commit: Some(0) };
        self.known = Some(journal.committed.get_or_insert(began).next);
        Ok(true)
    }

    fn next(&mut self, _: Instant, budget: usize, out: &mut SpoutOutput<'_>) -> ComponentResult<Next> {
        let journal = self.journal.lock().unwrap();
        for _ in 0..budget.min(3) {
            let offset = match self.again.pop() {
                Some(offset) => offset,
                None if self.started < journal.records.len() => {
                    self.started += 1;
                    self.started - 1
                }
                None if self.done.len() == journal.records.len() => return Ok(Next::Exhausted),
                None => return Ok(Next::Idle { until: None }),
            };
            if !self.done.contains(&offset) {
                out.emit(MessageId(offset as u64), offset as u64, &[Value::Str(&journal.records[offset])]);
            }
        }
        Ok(Next::Emitted)
    }

    fn ack(&mut self, id: MessageId) {
        self.done.insert(id.0 as usize);
    }

    fn fail(&mut self, _: Instant, id: MessageId, _: Failure<'_>, _: u64) {
        self.again.push(id.0 as usize);
    }

    fn freeze(&mut self, number: CommitNumber) {
        self.frozen = Some(self.stands(number.0));
    }

    fn frozen(&mut self) -> ComponentResult<Vec<SourcePosition>> {
        let Some(frozen) = &self.frozen else { return Ok(Vec::new()) };
        Ok(vec![SourcePosition {
            source: "lines".into(),
            topic: "journal".into(),
            partition: 0,
            next: frozen.next,
            done: frozen.done.clone(),
            started: self.started as i64,
            committed: self.known,
        }])
    }

    fn commit(&mut self, _: CommitNumber) -> ComponentResult {
        self.asked = self.frozen.take().map(|values| (values, self.patience));
        Ok(())
    }

    fn commit_state(&mut self, _: Instant) -> ComponentResult<CommitState> {
        match self.asked.take() {
            Some((values, 0)) => {
                self.known = Some(values.next);
                self.journal.lock().unwrap().committed = Some(values);
                Ok(CommitState::Done)
            }
            Some((values, polls)) => {
                self.asked = Some((values, polls - 1));
                Ok(CommitState::Pending)
            }
            None => Ok(CommitState::Done),
        }
    }
}

struct Words;

impl Bolt for Words {
    fn execute(&mut self, input: &Tuple<'_>, out: &mut Output) -> ComponentResult {
        for word in input.str(0).unwrap().split_whitespace() {
            out.emit(&[Value::Str(word)]);
        }
        Ok(())
    }
}

/// Counts words, and remembers the lineage of each: two stores, of which one cannot hide a loss behind a repeat.
#[derive(Default)]
struct Remember {
    counts: Option<StoreHandle<String, u64>>,
    seen: Option<StoreHandle<(String, u64), ()>>,
    fail_every: u64,
    calls: u64,
}

impl Bolt for Remember {
    fn prepare(&mut self, context: &TaskContext) -> ComponentResult {
        self.counts = Some(context.store("counts")?);
        self.seen = Some(context.store("seen")?);
        Ok(())
    }

    fn execute(&mut self, input: &Tuple<'_>, out: &mut Output) -> ComponentResult {
        let word = input.str(0).unwrap();
        out.store(self.counts.as_ref().unwrap()).update(input.key(), word, |count| count.unwrap_or(0) + 1);
        out.store(self.seen.as_ref().unwrap()).put(input.key(), (word, input.lineage()), ());
        self.calls += 1;
        if self.fail_every > 0 && self.calls.is_multiple_of(self.fail_every) {
            return Err(ComponentError::new("fails after it has written"));
        }
        Ok(())
    }
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

fn plan(journal: &Shared, tasks: u16, fail_every: u64) -> Plan {
    let journal = Arc::clone(journal);
    let mut t = TopologyBuilder::new("remember");
    t.spout("lines", move || Reader::new(&journal)).fields(["line"]);
    t.bolt("words", || Words).tasks(2).reads("lines", Grouping::Shuffle).fields(["word"]);
    t.bolt("remember", move || Remember { fail_every, ..Remember::default() })
        .tasks(tasks)
        .reads("words", Grouping::fields(["word"]))
        .store::<String, u64>("counts")
        .store::<(String, u64), ()>("seen")
        .fields(["nothing"]);
    t.sink("nowhere", || Nowhere).reads("remember", Grouping::Global);
    t.build().unwrap()
}

/// What outlives a process, and what is expected of it.
struct World {
    journal: Shared,
    changelog: MemoryChangelog,
    options: EngineOptions,
    restored: RestoreReport,
}

impl World {
    fn new(lines: usize) -> Self {
        let records = (0..lines).map(|n| format!("w{} common w{}", n % 7, n % 3)).collect();
        let changelog = MemoryChangelog::new();
        let options = EngineOptions {
            changelog: Some(changelog.factory()),
            commit_interval: Duration::from_millis(4),
            spout_batch: 2,
            batch_rows: 2,
            ..options(3)
        };
        let journal = Arc::new(Mutex::new(Journal { records, committed: None, taken: false }));
        Self { journal, changelog, options, restored: RestoreReport::default() }
    }

    /// A process that is killed after so many steps. How it has ended, if it did so before.
    fn process(&mut self, tasks: u16, fail_every: u64, steps: u32) -> Result<Option<Ending>, EngineError> {
        let plan = plan(&self.journal, tasks, fail_every);
        let mut stepper = Stepper::new(&plan, &self.options, &metrics())?;
        let mut ended = Ok(None);
        for _ in 0..steps {
            ended = stepper.step();
            if !matches!(ended, Ok(None)) {
                break;
            }
            stepper.advance(TICK);
        }
        self.restored.add(stepper.restored());
        ended
    }

    fn expected(&self) -> BTreeMap<String, u64> {
        let mut counts = BTreeMap::new();
        let journal = self.journal.lock().unwrap();
        for word in journal.records.iter().flat_map(|line| line.split_whitespace()) {
            *counts.entry(word.to_owned()).or_insert(0) += 1;
        }
        counts
    }

    fn counts(&self) -> BTreeMap<String, u64> {
        let entry = |(key, value): &(Vec<u8>, Vec<u8>)| {
            (String::from_utf8(key.clone()).unwrap(), <u64 as StateValue>::decode(value).unwrap())
        };
        self.changelog.entries(StoreId(0)).iter().map(entry).collect()
    }

    /// The distinct (word, lineage) pairs, by word.
    fn seen(&self) -> BTreeMap<String, u64> {
        let mut seen = BTreeMap::new();
        for (key, _) in self.changelog.entries(StoreId(1)) {
            let mut scratch = Vec::new();
            let (word, _) = <(String, u64) as StateKey>::decode(&key, &mut scratch).unwrap();
            *seen.entry(word.to_owned()).or_insert(0) += 1;
        }
        seen
    }
}

#[test]
fn a_run_without_a_crash_counts_exactly() {
    let mut world = World::new(100);
    assert_eq!(world.process(3, 0, 10_000).unwrap(), Some(Ending::Exhausted));
    assert_eq!((world.counts(), world.seen()), (world.expected(), world.expected()));
    assert_eq!(world.restored.possible_repeats, 0);
    let (state, journal) = (world.changelog.position().unwrap(), world.journal.lock().unwrap());
    assert_eq!(journal.committed.as_ref().unwrap().next, 100);
    assert_eq!(state.sources[0].next, 100);
}

#[test]
fn a_failed_execute_leaves_no_trace_in_any_store() {
    let mut world = World::new(100);
    assert_eq!(world.process(3, 5, 100_000).unwrap(), Some(Ending::Exhausted));
    assert_eq!(world.seen(), world.expected(), "what fails after it has written is as if it had not");
    let (counts, expected) = (world.counts(), world.expected());
    assert!(expected.iter().all(|(word, n)| counts[word] >= *n));
}

#[test]
fn a_second_run_with_other_numbers_of_tasks_goes_on_from_the_counts() {
    let mut world = World::new(60);
    assert_eq!(world.process(1, 0, 10_000).unwrap(), Some(Ending::Exhausted));
    world.journal.lock().unwrap().records.extend((0..60).map(|n| format!("more w{}", n % 7)));
    assert_eq!(world.process(5, 0, 10_000).unwrap(), Some(Ending::Exhausted));
    assert_eq!((world.counts(), world.seen()), (world.expected(), world.expected()));
    assert_eq!(world.restored.possible_repeats, 0);
    assert!(world.restored.keys >= 8);
}

#[test]
fn offsets_that_were_moved_without_the_state_are_refused() {
    for (moved, says) in [(None, "nothing is committed"), (Some(3), "moved back"), (Some(90), "older than the")] {
        let mut world = World::new(60);
        assert_eq!(world.process(2, 0, 10_000).unwrap(), Some(Ending::Exhausted));
        let start = |next| CommittedStart { next, done: OffsetRanges::new(), commit: None };
        world.journal.lock().unwrap().committed = moved.map(start);
        let error = world.process(2, 0, 10_000).unwrap_err();
        assert!(matches!(&error, EngineError::Disagreement(sentence) if sentence.contains(says)), "{error}");
        assert_eq!(world.changelog.position().unwrap().sources[0].next, 60, "nothing was written");
    }
}

#[test]
fn offsets_that_are_deleted_after_the_very_first_commit_are_refused() {
    let mut world = World::new(1);
    assert_eq!(world.process(1, 0, 10_000).unwrap(), Some(Ending::Exhausted));
    world.journal.lock().unwrap().committed = None;
    assert!(matches!(world.process(1, 0, 10_000), Err(EngineError::Disagreement(_))));
}

/// A run with its restarts, to its end; `restarted` is called when a generation has ended and the next one rests.
fn run_to_its_end(world: &World, restarted: impl Fn()) -> Result<RunReport, EngineError> {
    let mut run = SteppedRun::new(plan(&world.journal, 2, 0), world.options.clone(), metrics());
    let mut now = Instant::ZERO;
    while run.outcome().is_none() {
        let before = run.report().restarts;
        for part in 0..run.parts() {
            run.step(part, now);
        }
        if run.report().restarts > before {
            restarted();
        }
        now = now + TICK;
    }
    run.outcome().unwrap().clone()
}

#[test]
fn a_start_whose_predecessor_committed_after_it_had_looked_looks_again() {
    let mut world = World::new(60);
    assert_eq!(world.process(2, 0, 10_000).unwrap(), Some(Ending::Exhausted));
    let committed = world.journal.lock().unwrap().committed.take();
    let report = run_to_its_end(&world, || world.journal.lock().unwrap().committed.clone_from(&committed)).unwrap();
    assert_eq!((report.ending, report.restarts), (Ending::Exhausted, 1));
    assert_eq!(world.seen(), world.expected());

    world.journal.lock().unwrap().committed = None;
    let error = run_to_its_end(&world, || ()).unwrap_err();
    assert!(matches!(error, EngineError::Disagreement(_)), "{error}");
}

#[test]
fn a_process_whose_place_was_taken_while_its_stores_were_restored_writes_no_flush() {
    let mut world = World::new(60);
    assert_eq!(world.process(2, 0, 10_000).unwrap(), Some(Ending::Exhausted));
    world.journal.lock().unwrap().records.push("one more".to_owned());
    let before = world.changelog.position();
    world.journal.lock().unwrap().taken = true;
    assert!(matches!(world.process(2, 0, 10_000), Err(EngineError::Component { .. })));
    assert_eq!(world.changelog.position(), before);
}

#[test]
fn offsets_are_not_committed_before_the_changelog_holds_the_entries() {
    let mut world = World::new(60);
    world.changelog.hold(true);
    assert_eq!(world.process(2, 0, 300).unwrap(), None, "nothing ends while no flush becomes durable");
    assert_eq!(world.journal.lock().unwrap().committed.as_ref().unwrap().commit, Some(0));
    world.changelog.hold(false);
    assert_eq!(world.process(2, 0, 10_000).unwrap(), Some(Ending::Exhausted));
    assert_eq!(world.seen(), world.expected());
}

#[test]
fn a_stop_while_the_stores_are_read_back_ends_at_once() {
    let mut world = World::new(60);
    assert_eq!(world.process(2, 0, 10_000).unwrap(), Some(Ending::Exhausted));
    let plan = plan(&world.journal, 2, 0);
    let mut stepper = Stepper::new(&plan, &world.options, &metrics()).unwrap();
    assert_eq!(stepper.step().unwrap(), None);
    stepper.drain();
    assert_eq!(stepper.step().unwrap(), Some(Ending::Stopped { open_trees: 0 }));
}

/// What happens to one process before it is gone.
#[derive(Clone, Debug)]
struct Life {
    steps: u32,
    tasks: u16,
    fail_every: u64,
    flush: u8,
}

fn lives(fail: bool) -> impl Strategy<Value = Vec<Life>> {
    let life = (1..120_u32, 1..5_u16, 0..2_u64, 0..6_u8).prop_map(move |(steps, tasks, fails, flush)| Life {
        steps,
        tasks,
        fail_every: if fail { fails * 11 } else { 0 },
        flush,
    });
    prop::collection::vec(life, 1..10)
}

fn live_through(world: &mut World, lives: &[Life]) {
    for life in lives {
        match life.flush {
            0 => world.changelog.fail_next(),
            1 => world.changelog.lose_next_answer(),
            _ => {}
        }
        match world.process(life.tasks, life.fail_every, life.steps) {
            Ok(_) => {}
            Err(error) => assert!(error.is_retriable(), "{error}"),
        }
    }
    // A fault that no flush has met yet hits one of these.
    for _ in 0..=lives.len() {
        match world.process(3, 0, 100_000) {
            Ok(ending) => return assert_eq!(ending, Some(Ending::Exhausted)),
            Err(error) => assert!(error.is_retriable(), "{error}"),
        }
    }
    panic!("more flushes failed than were told to");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, failure_persistence: None, ..ProptestConfig::default() })]

    /// Killed at any step, with flushes that fail or whose answer is lost: no count is too small, and what is too large
    /// is not more than what was announced.
    #[test]
    fn a_killed_word_count_is_never_too_small_and_too_large_only_by_what_was_announced(lives in lives(false)) {
        let mut world = World::new(150);
        live_through(&mut world, &lives);
        prop_assert_eq!(world.seen(), world.expected(), "missing is a set difference, and empty");
        let (counts, expected) = (world.counts(), world.expected());
        prop_assert!(expected.iter().all(|(word, n)| counts[word] >= *n));
        let surplus = counts.values().sum::<u64>() - expected.values().sum::<u64>();
        prop_assert!(surplus <= 3 * world.restored.possible_repeats, "{surplus} > 3 x {}", world.restored.possible_repeats);
    }

    /// The same with bolts that fail: nothing is lost.
    #[test]
    fn a_killed_topology_whose_bolts_fail_loses_nothing(lives in lives(true)) {
        let mut world = World::new(150);
        live_through(&mut world, &lives);
        prop_assert_eq!(world.seen(), world.expected());
    }
}
