//! The engine alone: lines from memory, split, four counting tasks, no Kafka. CPU nanoseconds a word, all threads, with
//! full tuple trees and without; a hand-written loop over the same lines and the same counting map beside them.

#![expect(clippy::print_stdout, reason = "a benchmark prints what it found")]

use std::{
    num::NonZeroUsize,
    sync::{Arc, Mutex, OnceLock},
    time::Duration,
};

use stormglass::{
    clock::{Clock, Instant},
    metrics::{Metrics, process},
    runtime::{EngineOptions, StopHandle, run},
    topologies::{Count, EmitMode, Split},
    topology::{
        CommitNumber, ComponentResult, Delivery, Failure, Grouping, InFlight, MessageId, Next, Plan, Sink, Spout,
        SpoutOutput, TopologyBuilder,
    },
    tuple::{KeyHash, Tuple, Value},
};

#[path = "word_count/counts.rs"]
mod counts;

const WORDS_A_LINE: usize = 12;
/// Lines of one run; the second argument.
static LINES: OnceLock<usize> = OnceLock::new();

fn line_count() -> usize {
    *LINES.get_or_init(|| std::env::args().filter_map(|a| a.parse().ok()).nth(1).unwrap_or(1_000_000))
}

/// The same lines again and again.
struct Lines {
    lines: Arc<Vec<String>>,
    at: usize,
    done: usize,
}

impl Spout for Lines {
    fn next(&mut self, _: Instant, budget: usize, out: &mut SpoutOutput<'_>) -> ComponentResult<Next> {
        for _ in 0..budget.min(line_count() - self.at) {
            if let Some(line) = self.lines.get(self.at % self.lines.len()) {
                out.emit(MessageId(self.at as u64), self.at as u64, &[Value::Str(line)]);
            }
            self.at += 1;
        }
        let open = out.is_tracked() && self.done < self.at;
        Ok(match (self.at < line_count(), open) {
            (true, _) => Next::Emitted,
            (false, true) => Next::Idle { until: None },
            (false, false) => Next::Exhausted,
        })
    }

    fn ack(&mut self, _: MessageId) {
        self.done += 1;
    }

    fn fail(&mut self, _: Instant, _: MessageId, _: Failure<'_>, _: u64) {
        self.done += 1;
    }

    fn freeze(&mut self, _: CommitNumber) {}
}

/// Adds up the counts that it is shown last.
struct Total(Arc<Mutex<std::collections::HashMap<String, i64>>>);

impl Sink for Total {
    fn write(&mut self, input: &Tuple<'_>) -> ComponentResult {
        let (Some(word), Some(count)) = (input.str(0), input.get(1).as_int()) else { return Ok(()) };
        if let Ok(mut counts) = self.0.lock() {
            counts.insert(word.to_owned(), count);
        }
        Ok(())
    }

    fn flush(&mut self, _: Instant) -> ComponentResult {
        Ok(())
    }

    fn poll(&mut self, _: Instant) -> ComponentResult<InFlight> {
        Ok(InFlight { records: 0 })
    }
}

type Totals = Arc<Mutex<std::collections::HashMap<String, i64>>>;

fn plan(lines: &Arc<Vec<String>>, totals: &Totals) -> Plan {
    let (lines, totals) = (Arc::clone(lines), Arc::clone(totals));
    let mut t = TopologyBuilder::new("alone");
    t.spout("lines", move || Lines { lines: Arc::clone(&lines), at: 0, done: 0 }).fields(["line"]);
    t.bolt("split", Split::default).reads("lines", Grouping::LocalOrShuffle).fields(["word"]);
    t.bolt("count", || Count::new(EmitMode::LatestPerKey))
        .tasks(4)
        .reads("split", Grouping::fields(["word"]))
        .fields(["word", "count"])
        .store::<String, u64>(Count::STORE);
    t.sink("total", move || Total(Arc::clone(&totals))).reads("count", Grouping::Global);
    t.build().expect("the topology is sound")
}

/// CPU nanoseconds a word of the engine.
fn engine(lines: &Arc<Vec<String>>, delivery: Delivery, executors: usize) -> f64 {
    let totals = Totals::default();
    let plan = plan(lines, &totals);
    let executors = NonZeroUsize::new(executors).expect("not zero");
    let options =
        EngineOptions { delivery, executors, commit_interval: Duration::from_millis(100), ..EngineOptions::default() };
    let metrics = Metrics::new("none").expect("metrics");
    let before = process::usage().cpu.as_secs_f64();
    run(&plan, &options, &metrics, &Clock::system(), &StopHandle::default()).expect("runs");
    let spent = process::usage().cpu.as_secs_f64() - before;
    let counted: i64 = totals.lock().expect("no panic").values().sum();
    assert_eq!(counted, i64::try_from(line_count() * WORDS_A_LINE).expect("fits"), "every word is counted once");
    if delivery.is_tracked() {
        let acked = metrics.component("count").acked.get();
        assert_eq!(acked, (line_count() * WORDS_A_LINE) as u64, "one edge a word");
    }
    spent * 1e9 / (line_count() * WORDS_A_LINE) as f64
}

/// CPU nanoseconds a word of a loop that splits and counts.
fn by_hand(lines: &[String]) -> f64 {
    let mut counts = counts::Counts::default();
    let before = process::usage().cpu.as_secs_f64();
    for at in 0..line_count() {
        let Some(line) = lines.get(at % lines.len()) else { continue };
        for word in line.split_ascii_whitespace() {
            let _count = counts.add(KeyHash::of(&[Value::Str(word)]), word).expect("fits");
        }
    }
    (process::usage().cpu.as_secs_f64() - before) * 1e9 / (line_count() * WORDS_A_LINE) as f64
}

/// Lines over 10,000 made-up words.
fn lines() -> Vec<String> {
    let word = |n: u64| {
        let n = stormglass::tuple::mix(n) % 10_000;
        let syllables = ["ba", "ke", "lo", "mi", "nu", "ra", "se", "to", "vi", "zu"];
        let digits = [n / 1_000, n / 100 % 10, n / 10 % 10, n % 10];
        let mut word = digits.map(|d| syllables[d as usize]).concat();
        word.truncate(5 + n as usize % 4);
        word + &n.to_string()
    };
    (0..20_000_u64).map(|l| (0..12).map(|w| word(l * 12 + w)).collect::<Vec<_>>().join(" ")).collect()
}

/// One measurement: nanoseconds a word.
type Measurement = (&'static str, fn(&Arc<Vec<String>>) -> f64);

const MEASUREMENTS: [Measurement; 4] = [
    ("by-hand", |lines| by_hand(lines)),
    ("untracked", |lines| engine(lines, Delivery::NoGuarantee, 1)),
    ("tracked", |lines| engine(lines, Delivery::AtLeastOnce, 1)),
    ("tracked-on-two", |lines| engine(lines, Delivery::AtLeastOnce, 2)),
];

/// `alone [ROUNDS [LINES]] [MEASUREMENT...]`: all measurements, or those that are named (for a profiler).
fn main() {
    let lines = Arc::new(lines());
    println!("CPU ns a word, {} lines of {WORDS_A_LINE} words, 10,000 words", line_count());
    let rounds = std::env::args().filter_map(|a| a.parse().ok()).next().unwrap_or(5);
    let named: Vec<String> = std::env::args().collect();
    let mut wanted: Vec<Measurement> = MEASUREMENTS.to_vec();
    if MEASUREMENTS.iter().any(|(name, _)| named.iter().any(|n| n == name)) {
        wanted.retain(|(name, _)| named.iter().any(|n| n == name));
    }
    for _ in 0..rounds {
        let round: Vec<_> = wanted.iter().map(|(name, measure)| format!("{name} {:5.1}", measure(&lines))).collect();
        println!("{}", round.join("   "));
    }
}
