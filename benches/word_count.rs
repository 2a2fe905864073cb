//! The main job against Apache Kafka: words per CPU second of our process, all its threads counted, the broker apart.
//!
//! `KAFKA_BOOTSTRAP=127.0.0.1:9092 cargo bench --bench word_count [-- LINES [ROUNDS]]`. Every run is a process of its
//! own: (a) a hand-written single-threaded loop over the same client and the same counting map, (b) the engine without
//! tracking, (c) at-most-once, (d) at-least-once with full trees. Runs are interleaved; medians are shown.
//!
//! `... --bench word_count -- memory [LINES]` runs (d) over LINES and over ten times as many, 1,000,000 and 10,000,000
//! unless said: the largest resident set of each process.

#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::disallowed_methods,
    reason = "a benchmark prints its table, and is told by the environment where the broker is"
)]

#[path = "word_count/by_hand.rs"]
mod by_hand;
#[path = "word_count/child.rs"]
mod child;
#[path = "word_count/counts.rs"]
mod counts;
#[path = "word_count/positions.rs"]
mod positions;

use std::{env, error::Error, process::ExitCode};

use child::{Measured, run};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

const WORDS_A_LINE: u64 = 12;
const STORMGLASS: &str = env!("CARGO_BIN_EXE_stormglass");

/// What is compared, and how it is called in the table.
const CONTENDERS: [(&str, &str); 4] = [
    ("by-hand", "(a) hand-written loop"),
    ("no-guarantee", "(b) engine, tracking off"),
    ("at-most-once", "(c) at-most-once"),
    ("at-least-once", "(d) at-least-once, full trees"),
];

fn main() -> ExitCode {
    let args: Vec<_> = env::args().skip(1).filter(|arg| !arg.starts_with('-')).collect();
    let outcome = match args.first().map(String::as_str) {
        Some("by-hand") => by_hand::main(args.get(1..).unwrap_or_default()),
        Some("memory") => memory(args.get(1..).unwrap_or_default()),
        _ => compare(&args),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("word_count: {error}");
            ExitCode::FAILURE
        }
    }
}

fn compare(args: &[String]) -> Result<()> {
    let Some(brokers) = brokers() else { return Ok(()) };
    let (lines, rounds) = (number(args, 0, 3_000_000), number(args, 1, 3));
    for (zipf, shape) in [("0", "uniform"), ("1.0", "Zipf 1.0")] {
        // Of this process alone: a topic that is there already would be loaded once more.
        let topic = format!("bench-lines-{}-{lines}-{}", shape.replace([' ', '.'], "-"), std::process::id());
        load(&brokers, &topic, lines, zipf)?;
        let mut measured = vec![Vec::new(); CONTENDERS.len()];
        for round in 0..rounds {
            for (results, (name, _)) in measured.iter_mut().zip(CONTENDERS) {
                results.push(run(&brokers, &topic, name, round)?);
            }
        }
        show(shape, lines, &measured);
    }
    Ok(())
}

fn brokers() -> Option<String> {
    let found = env::var("KAFKA_BOOTSTRAP").ok();
    if found.is_none() {
        println!("KAFKA_BOOTSTRAP is not set: nothing measured");
    }
    found
}

fn number(args: &[String], at: usize, otherwise: u64) -> u64 {
    args.get(at).and_then(|a| a.parse().ok()).unwrap_or(otherwise)
}

/// Ten times more input, and how much more memory.
fn memory(args: &[String]) -> Result<()> {
    let Some(brokers) = brokers() else { return Ok(()) };
    let few = number(args, 0, 1_000_000);
    println!("| lines of {WORDS_A_LINE} words | peak MB | CPU s |\n|---|---|---|");
    for lines in [few, 10 * few] {
        let topic = format!("bench-memory-{lines}-{}", std::process::id());
        load(&brokers, &topic, lines, "1.0")?;
        let measured = run(&brokers, &topic, "at-least-once", 0)?;
        println!("| {lines} | {:.0} | {:.1} |", measured.peak_bytes / 1e6, measured.cpu_seconds);
    }
    Ok(())
}

fn load(brokers: &str, topic: &str, lines: u64, zipf: &str) -> Result<()> {
    let lines = lines.to_string();
    let args = ["load", "--brokers", brokers, "--topic", topic, "--lines", &lines, "--zipf", zipf, "--seed", "1"];
    let status =
        std::process::Command::new(STORMGLASS).args(args).arg("-q").stdout(std::process::Stdio::null()).status()?;
    if status.success() { Ok(()) } else { Err(format!("load ended with {status}").into()) }
}

fn median(of: &[Measured], value: impl Fn(&Measured) -> f64) -> f64 {
    let mut values: Vec<_> = of.iter().map(value).collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

#[expect(clippy::cast_precision_loss, reason = "counts for people")]
fn show(shape: &str, lines: u64, measured: &[Vec<Measured>]) {
    let words = (lines * WORDS_A_LINE) as f64;
    let cpu: Vec<_> = measured.iter().map(|runs| median(runs, |m| m.cpu_seconds)).collect();
    println!("\n{lines} lines of {WORDS_A_LINE} words, vocabulary 10,000, {shape}, 4 partitions");
    println!("| | M words / CPU s | CPU ns / word | against (a) | peak MB | client | engine | other |");
    println!("|---|---|---|---|---|---|---|---|");
    for ((runs, (_, title)), spent) in measured.iter().zip(CONTENDERS).zip(&cpu) {
        println!(
            "| {title} | {:.1} | {:.0} | {:.2} | {:.0} | {:.0} % | {:.0} % | {:.0} % |",
            words / spent / 1e6,
            spent * 1e9 / words,
            spent / cpu.first().unwrap_or(&f64::NAN),
            median(runs, |m| m.peak_bytes) / 1e6,
            median(runs, |m| m.client * 100.0),
            median(runs, |m| m.engine * 100.0),
            median(runs, |m| (1.0 - m.client - m.engine) * 100.0),
        );
    }
    if let [_, untracked, _, tracked] = cpu.as_slice() {
        println!("cost of tracking, (d) against (b): {:+.1} %", (tracked / untracked - 1.0) * 100.0);
    }
}
