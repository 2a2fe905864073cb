//! Components for the tests: a source that remembers everything, and bolts that fail on demand.

use std::{
    collections::{BTreeMap, VecDeque},
    num::NonZeroUsize,
    sync::{Arc, Mutex},
};

use crate::{
    clock::Instant,
    metrics::Metrics,
    runtime::EngineOptions,
    topology::{
        Bolt, CommitNumber, ComponentError, ComponentResult, Failure, InFlight, MessageId, Next, Output, Sink, Spout,
        SpoutOutput,
    },
    tuple::{Tuple, Value},
};

/// What the outside has seen of a run.
#[derive(Debug, Default)]
pub(super) struct Seen {
    pub(super) acked: Vec<u64>,
    pub(super) failed: Vec<(u64, String)>,
    pub(super) effects_of_failed: u64,
    pub(super) late_effects: u64,
    /// Ids done at each freeze, and the numbers committed.
    pub(super) frozen: BTreeMap<CommitNumber, usize>,
    pub(super) committed: Vec<usize>,
    /// Words that a sink has taken, with how often.
    pub(super) words: BTreeMap<String, u64>,
    pub(super) lineages: Vec<u64>,
    pub(super) outstanding: usize,
}

pub(super) type Shared = Arc<Mutex<Seen>>;

/// Emits lines; a failed one comes again.
pub(super) struct Lines {
    pub(super) waiting: VecDeque<(u64, String)>,
    pub(super) open: BTreeMap<u64, String>,
    pub(super) bounded: bool,
    pub(super) replay: bool,
    pub(super) seen: Shared,
}

impl Lines {
    pub(super) fn new(lines: &[&str], seen: &Shared) -> Self {
        let waiting = (0..).zip(lines).map(|(id, line)| (id, (*line).to_owned())).collect();
        Self { waiting, open: BTreeMap::new(), bounded: true, replay: true, seen: Arc::clone(seen) }
    }
}

impl Spout for Lines {
    fn next(&mut self, _: Instant, budget: usize, out: &mut SpoutOutput<'_>) -> ComponentResult<Next> {
        for _ in 0..budget {
            let Some((id, line)) = self.waiting.pop_front() else {
                let done = self.bounded && self.open.is_empty();
                return Ok(if done { Next::Exhausted } else { Next::Idle { until: None } });
            };
            out.emit(MessageId(id), id, &[Value::Str(&line)]);
            if out.is_tracked() {
                self.open.insert(id, line);
            }
        }
        Ok(Next::Emitted)
    }

    fn ack(&mut self, id: MessageId) {
        assert!(self.open.remove(&id.0).is_some(), "{id:?} acked twice");
        self.seen.lock().unwrap().acked.push(id.0);
    }

    fn fail(&mut self, _: Instant, id: MessageId, failure: Failure<'_>, effects: u64) {
        let line = self.open.remove(&id.0).expect("a failed tree was open");
        let mut seen = self.seen.lock().unwrap();
        let why = match failure {
            Failure::Failed { component, error, .. } => format!("{component}: {error}"),
            Failure::TimedOut => "timed out".to_owned(),
        };
        seen.failed.push((id.0, why));
        seen.effects_of_failed += effects;
        if self.replay {
            self.waiting.push_back((id.0, line));
        }
    }

    fn late_effects(&mut self, _: MessageId, effects: u64) {
        self.seen.lock().unwrap().late_effects += effects;
    }

    fn freeze(&mut self, number: CommitNumber) {
        let mut seen = self.seen.lock().unwrap();
        let done = seen.acked.len();
        seen.frozen.insert(number, done);
    }

    fn commit(&mut self, number: CommitNumber) -> ComponentResult {
        let mut seen = self.seen.lock().unwrap();
        let done = seen.frozen.get(&number).copied();
        seen.committed.extend(done);
        Ok(())
    }
}

/// Splits lines into words. A word `fail:n` fails its first n times, `panic:n` panics.
#[derive(Default)]
pub(super) struct Split {
    pub(super) trouble: Arc<Mutex<BTreeMap<String, u32>>>,
}

impl Split {
    /// True if the word is to make trouble once more.
    fn troubles(&self, kind: &str, word: &str) -> bool {
        let Some(times) = word.strip_prefix(kind).and_then(|n| n.parse::<u32>().ok()) else {
            return false;
        };
        let mut trouble = self.trouble.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let so_far = trouble.entry(word.to_owned()).or_default();
        *so_far += 1;
        *so_far <= times
    }
}

impl Bolt for Split {
    fn execute(&mut self, input: &Tuple<'_>, out: &mut Output) -> ComponentResult {
        for word in input.str(0).unwrap_or_default().split_whitespace() {
            out.emit(&[Value::Str(word)]);
            if self.troubles("fail:", word) {
                return Err(ComponentError::new(format!("does not like {word}")));
            }
            assert!(!self.troubles("panic:", word), "{word} is too much");
        }
        Ok(())
    }
}

/// Counts words in its own memory and shows the counts when it is flushed.
pub(super) struct Count {
    pub(super) counts: BTreeMap<String, u64>,
    pub(super) dirty: BTreeMap<String, u64>,
}

impl Bolt for Count {
    fn execute(&mut self, input: &Tuple<'_>, _: &mut Output) -> ComponentResult {
        let word = input.str(0).unwrap_or_default();
        if word == "bad" {
            return Err(ComponentError::new("a bad word"));
        }
        let count = self.counts.entry(word.to_owned()).or_default();
        *count += 1;
        self.dirty.insert(word.to_owned(), *count);
        Ok(())
    }

    fn flush(&mut self, out: &mut Output) -> ComponentResult {
        for (word, count) in std::mem::take(&mut self.dirty) {
            out.emit(&[Value::Str(&word), Value::Int(count.cast_signed())]);
        }
        Ok(())
    }
}

/// Takes words (with a count: the count; without: one each).
pub(super) struct Collect {
    pub(super) seen: Shared,
    /// Polls that a flush takes until the outside has acknowledged.
    pub(super) slow: u32,
    pub(super) left: u32,
}

impl Collect {
    pub(super) fn new(seen: &Shared) -> Self {
        Self { seen: Arc::clone(seen), slow: 0, left: 0 }
    }
}

impl Sink for Collect {
    fn write(&mut self, input: &Tuple<'_>) -> ComponentResult {
        let word = input.str(0).unwrap_or_default().to_owned();
        let mut seen = self.seen.lock().unwrap();
        match input.get(1).as_int() {
            Some(count) => drop(seen.words.insert(word, count.unsigned_abs())),
            None => *seen.words.entry(word).or_default() += 1,
        }
        seen.lineages.push(input.lineage());
        seen.outstanding += 1;
        Ok(())
    }

    fn flush(&mut self, _: Instant) -> ComponentResult {
        self.left = self.slow;
        Ok(())
    }

    fn poll(&mut self, _: Instant) -> ComponentResult<InFlight> {
        let mut seen = self.seen.lock().unwrap();
        if self.left > 0 {
            self.left -= 1;
            return Ok(InFlight { records: seen.outstanding.max(1) });
        }
        seen.outstanding = 0;
        Ok(InFlight { records: 0 })
    }
}

pub(super) fn options(executors: usize) -> EngineOptions {
    let executors = NonZeroUsize::new(executors).unwrap();
    EngineOptions { executors, ..EngineOptions::default() }
}

pub(super) fn metrics() -> Metrics {
    Metrics::new("none").unwrap()
}
