//! The binary against the embedded broker: what it says, and how it ends.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    process::{Command, Output, Stdio},
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use serde_json::Value;

use super::{binary::stormglass, broker};

/// A broker with a topic of two partitions, and a folder for what a run leaves.
struct Bench {
    _broker: broker::Started,
    brokers: String,
    folder: tempfile::TempDir,
}

fn bench() -> Bench {
    let (broker, address) = broker::start(&["--listen", "127.0.0.1:0", "--topic", "lines:2"]);
    Bench { _broker: broker, brokers: address.to_string(), folder: tempfile::tempdir().unwrap() }
}

impl Bench {
    fn command(&self, args: &[&str]) -> Command {
        let mut command = stormglass(args);
        command.args(["--brokers", &self.brokers]).env("STATE_DIRECTORY", self.folder.path());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// A run to the end of the topic, with more flags.
    fn run(&self, more: &[&str]) -> Output {
        let args = [&["run", "-i", "lines", "-o", "counts", "--until-end"], more].concat();
        self.command(&args).output().unwrap()
    }
}

fn said(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

#[test]
fn the_summary_is_a_message_of_level_info() {
    let bench = bench();
    for (flags, is_said) in [(&["--no-http"][..], true), (&["--no-http", "-q"], false), (&["--no-http", "-qqq"], false)]
    {
        let output = bench.run(flags);
        assert_eq!(output.status.code(), Some(0), "{}", said(&output));
        assert_eq!(said(&output).contains("0 records, 0 tuples executed"), is_said, "{flags:?}: {}", said(&output));
    }
}

#[test]
fn every_message_of_a_run_is_an_object_if_it_is_to_be_so() {
    let bench = bench();
    let objects = |output: &Output| -> Vec<Value> {
        said(output).lines().map(|line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}"))).collect()
    };
    let messages = objects(&bench.run(&["--log-format", "json", "--http", "127.0.0.1:0"]));
    let is_summary = |object: &&Value| {
        object["fields"]["message"].as_str().is_some_and(|message| message.contains("tuples executed"))
    };
    assert_eq!(messages.iter().find(is_summary).unwrap()["level"], "INFO");
    let serves = |object: &&Value| object["fields"]["message"] == "metrics and health are served";
    let address = messages.iter().find(serves).unwrap()["fields"]["address"].as_str().unwrap();
    assert!(address.starts_with("127.0.0.1:") && !address.ends_with(":0"), "{address}");

    let failed = bench.run(&["--log-format", "json", "--no-http", "--input", "missing"]);
    assert_eq!(failed.status.code(), Some(66));
    let last = objects(&failed).pop().unwrap();
    assert_eq!(last["level"], "ERROR");
    assert!(last["fields"]["message"].as_str().unwrap().contains("topic \"missing\" does not exist"), "{last}");
}

#[test]
fn more_copies_than_brokers_are_the_configurations_fault() {
    let output = bench().run(&["--no-http", "--set", "kafka.replication_factor=3"]);
    assert_eq!(output.status.code(), Some(78), "{}", said(&output));
    assert!(
        said(&output).contains("making topic \"counts\" with 2 partitions: the brokers refuse it"),
        "{}",
        said(&output)
    );
    assert!(said(&output).contains("lower `kafka.replication_factor`"), "{}", said(&output));
}

#[test]
fn what_librdkafka_refuses_is_refused_before_a_topic_is_made() {
    let bench = bench();
    let output = bench.run(&["--no-http", "-X", "retries=0"]);
    assert_eq!(output.status.code(), Some(78), "{}", said(&output));
    let loaded = bench.command(&["load", "-t", "new", "-n", "1", "-X", "retries=0"]).output().unwrap();
    assert_eq!(loaded.status.code(), Some(78), "{}", said(&loaded));
    for topic in ["counts", "new"] {
        let audit = bench.command(&["audit", "-i", "lines", "-o", topic]).output().unwrap();
        assert_eq!(audit.status.code(), Some(66), "{topic} is there: {}", said(&audit));
    }
}

#[test]
fn a_hangup_drains() {
    let bench = bench();
    let mut run = bench.command(&["run", "-i", "lines", "-o", "counts", "--json", "--no-http"]).spawn().unwrap();
    let mut lines = BufReader::new(run.stderr.take().unwrap()).lines();
    assert!(lines.by_ref().map_while(Result::ok).any(|line| line.contains("partitions assigned")), "it ended");
    kill(Pid::from_raw(run.id().try_into().unwrap()), Signal::SIGHUP).unwrap();
    // Somebody reads what it says.
    lines.map_while(Result::ok).for_each(drop);
    let output = run.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    let summary: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(summary["open_at_stop"], 0, "{summary}");
}

#[test]
fn lines_are_loaded_from_the_standard_input() {
    let bench = bench();
    let args = ["load", "--topic", "lines", "--file", "-", "--json"];
    let mut load = bench.command(&args).stdin(Stdio::piped()).spawn().unwrap();
    load.stdin.take().unwrap().write_all(b"one two\n\nthree").unwrap();
    let output = load.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&report["lines"], &report["partitions"]), (&Value::from(3), &Value::from(2)), "{report}");
}

#[test]
fn partitions_that_a_topic_does_not_get_are_said() {
    let bench = bench();
    let load = |more: &[&str]| {
        let output = bench.command(&[&["load", "--topic", "lines", "-n", "1"], more].concat()).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", said(&output));
        said(&output).contains("the topic exists, and keeps its number of partitions")
    };
    assert_eq!([load(&["-p", "9"]), load(&["-p", "2"]), load(&[])], [true, false, false]);
}
