//! One run in a process of its own, watched from outside.

use std::{
    collections::HashMap,
    env, fs,
    process::{Child, Command, Stdio},
    time::Duration,
};

use super::{Result, STORMGLASS, WORDS_A_LINE};

/// What a run has cost.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Measured {
    pub(crate) cpu_seconds: f64,
    pub(crate) peak_bytes: f64,
    /// Share of CPU in the client's threads.
    pub(crate) client: f64,
    /// Share of CPU in the executors.
    pub(crate) engine: f64,
}

/// Runs a contender once over the whole topic.
pub(crate) fn run(brokers: &str, topic: &str, name: &str, round: u64) -> Result<Measured> {
    let unique = format!("{topic}-{name}-{round}-{}", std::process::id());
    let mut command = if name == "by-hand" {
        let mut command = Command::new(env::current_exe()?);
        command.args(["by-hand", brokers, topic, &unique]);
        command
    } else {
        let mut command = Command::new(STORMGLASS);
        command.args(["run", "--brokers", brokers, "--input", topic, "--output", &unique, "--group", &unique]);
        command.args(["--delivery", name, "--until-end", "--json", "--no-http", "-q"]);
        command
    };
    let mut child = command.stdout(Stdio::piped()).spawn()?;
    let threads = watch(&mut child)?;
    let output = child.wait_with_output()?;
    if !output.status.success() {
        return Err(format!("{name} ended with {}", output.status).into());
    }
    let summary: serde_json::Value = serde_json::from_slice(&output.stdout)?;
    let field = |key: &str| summary.get(key).and_then(serde_json::Value::as_f64).unwrap_or(f64::NAN);
    if name == "at-least-once" {
        let (records, executed) = (field("records"), field("acked"));
        assert!((records - executed).abs() < 0.5, "every line's tree is acked: {records} {executed}");
        #[expect(clippy::cast_precision_loss, reason = "12")]
        let edges = records * (1 + WORDS_A_LINE) as f64;
        assert!(field("executed") >= edges, "one tracked tuple a word: {} of {edges}", field("executed"));
    }
    let all: f64 = threads.values().sum();
    let share = |of: fn(&str) -> bool| threads.iter().filter(|t| of(t.0)).map(|t| t.1).sum::<f64>() / all.max(1.0);
    Ok(Measured {
        cpu_seconds: field("cpu_seconds"),
        peak_bytes: field("peak_memory_bytes"),
        client: share(|name| name.starts_with("rdk:") || name == "kafka-poll"),
        engine: share(|name| name.starts_with("executor") || name == "word_count" || name.starts_with("word_count")),
    })
}

/// CPU ticks by thread name, as of the last look before the process ended.
fn watch(child: &mut Child) -> Result<HashMap<String, f64>> {
    let tasks = format!("/proc/{}/task", child.id());
    let mut ticks: HashMap<String, (String, f64)> = HashMap::new();
    while child.try_wait()?.is_none() {
        for entry in fs::read_dir(&tasks).into_iter().flatten().flatten() {
            let Ok(stat) = fs::read_to_string(entry.path().join("stat")) else { continue };
            if let Some(seen) = parse(&stat) {
                ticks.insert(entry.file_name().to_string_lossy().into_owned(), seen);
            }
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    let mut by_name: HashMap<String, f64> = HashMap::new();
    for (name, spent) in ticks.into_values() {
        *by_name.entry(name).or_default() += spent;
    }
    Ok(by_name)
}

/// `pid (name) state ...`: the name and utime + stime (fields 14 and 15).
fn parse(stat: &str) -> Option<(String, f64)> {
    let (head, tail) = stat.rsplit_once(") ")?;
    let name = head.split_once(" (")?.1.to_owned();
    let fields: Vec<_> = tail.split(' ').collect();
    let ticks = |at: usize| fields.get(at).and_then(|f| f.parse::<f64>().ok());
    Some((name, ticks(11)? + ticks(12)?))
}
