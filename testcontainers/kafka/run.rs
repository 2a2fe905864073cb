//! The program, from topic to topic: what it counts, what it commits, what it shows of itself.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    process::{Command, Stdio},
    time::Duration,
};

use libtest_mimic::Trial;
use nix::sys::signal::Signal;
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};

use crate::{
    broker::{Broker, Isolation, eventually, pass},
    process::{Job, free_address, get, load, metric, stormglass},
    trials,
};

pub fn trials() -> Vec<Trial> {
    trials!(shared:
        the_words_of_a_text_are_counted_as_unix_tools_count_them,
        a_topic_that_ends_in_a_transaction_marker_is_read_to_its_end,
        at_least_once_without_faults_is_exact,
        at_most_once_without_faults_is_exact,
        no_guarantee_without_faults_is_exact,
        a_second_run_to_the_end_has_nothing_to_do,
        health_and_metrics_are_served_while_it_runs,
        an_idle_program_uses_next_to_no_cpu,
    )
}

/// The last count of each word that Kafka's console consumer prints.
fn console_counts(broker: &Broker, topic: &str) -> BTreeMap<String, u64> {
    let records = broker.read(topic, Isolation::ReadCommitted).len().to_string();
    let from = ["--topic", topic, "--from-beginning", "--max-messages", &records];
    let formatted = ["--formatter-property", "print.key=true", "--formatter-property", "print.value=true"];
    let printed = broker.tool("kafka-console-consumer", &[&from[..], &formatted].concat());
    let pair = |line: &str| line.split_once('\t').map(|(word, count)| (word.to_owned(), count.parse().unwrap()));
    printed.lines().map(|line| pair(line).unwrap_or_else(|| panic!("{line:?} is not a word and its count"))).collect()
}

/// The counts of a file's words by `tr`, `sort` and `uniq`.
fn unix_counts(file: &std::path::Path) -> BTreeMap<String, u64> {
    let script = "tr -s '[:space:]' '\\n' | sed '/^$/d' | sort | uniq -c";
    let output = Command::new("sh")
        .args(["-c", script])
        .env("LC_ALL", "C")
        .stdin(Stdio::from(File::open(file).unwrap()))
        .output()
        .unwrap();
    assert!(output.status.success());
    let printed = String::from_utf8(output.stdout).unwrap();
    let pair = |line: &str| line.trim().split_once(' ').map(|(count, word)| (word.to_owned(), count.parse().unwrap()));
    printed.lines().map(|line| pair(line).unwrap()).collect()
}

fn the_words_of_a_text_are_counted_as_unix_tools_count_them(broker: &Broker) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("text");
    let license = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/LICENSE")).unwrap();
    fs::write(&file, license.repeat(1_000_000 / license.len() + 1)).unwrap();

    let job = Job::new(broker, &load(broker, &["--file", file.to_str().unwrap(), "--partitions", "3"]), &[]);
    let run = job.to_the_end().succeeded();
    let by_unix = unix_counts(&file);
    assert_eq!(console_counts(broker, &job.output), by_unix);
    let audit = job.is_exact(&[]);
    assert_eq!(audit.number("expected"), by_unix.values().sum::<u64>());
    assert_eq!(run.number("records"), audit.number("input_records"));
    assert_eq!(run.number("acked"), run.number("records"));
    assert!(run.number("commits") > 0);
    for field in ["failed", "timed_out", "replayed", "dead_lettered", "duplicates", "restarts"] {
        assert_eq!(run.number(field), 0, "{field}: {run:#?}");
    }
    assert_eq!(broker.lags(&job.group, &job.input), ["0", "0", "0"]);
}

fn a_topic_that_ends_in_a_transaction_marker_is_read_to_its_end(broker: &Broker) {
    let topic = broker.topic("marked", 1, &[]);
    let producer: BaseProducer = broker.client().set("transactional.id", broker.unique("writer")).create().unwrap();
    let patience = Duration::from_secs(30);
    producer.init_transactions(patience).unwrap();
    for (value, commits) in [("kept kept", true), ("dropped", false)] {
        producer.begin_transaction().unwrap();
        producer.send(BaseRecord::<str, str>::to(&topic).payload(value)).unwrap();
        producer.flush(patience).unwrap();
        let ended = if commits { producer.commit_transaction(patience) } else { producer.abort_transaction(patience) };
        ended.unwrap();
    }
    let job = Job::new(broker, &topic, &[]);
    assert_eq!(job.to_the_end().succeeded().number("records"), 1);
    assert_eq!(console_counts(broker, &job.output), [("kept".to_owned(), 2)].into());
    job.is_exact(&[]);
    // Two records and two markers.
    assert_eq!(broker.committed(&job.group, &topic), [Some(4)]);
    assert_eq!(broker.lags(&job.group, &topic), ["0"]);
}

fn exact_without_faults(broker: &Broker, delivery: &str) {
    let job = Job::new(broker, &load(broker, &["--lines", "20000", "--unique-ids"]), &["--delivery", delivery]);
    let run = job.to_the_end().succeeded();
    assert_eq!(run.number("records"), 20_000);
    job.is_exact(&[]);
    assert_eq!(broker.lags(&job.group, &job.input), ["0"; 4]);
}

fn at_least_once_without_faults_is_exact(broker: &Broker) {
    exact_without_faults(broker, "at-least-once");
}

fn at_most_once_without_faults_is_exact(broker: &Broker) {
    exact_without_faults(broker, "at-most-once");
}

fn no_guarantee_without_faults_is_exact(broker: &Broker) {
    exact_without_faults(broker, "no-guarantee");
}

fn a_second_run_to_the_end_has_nothing_to_do(broker: &Broker) {
    let job = Job::new(broker, &load(broker, &["--lines", "1000"]), &["--topology", "split-words"]);
    assert_eq!(job.to_the_end().succeeded().number("records"), 1000);
    assert_eq!(job.to_the_end().succeeded().number("records"), 0);
    job.is_exact(&["--kind", "records"]);
}

fn health_and_metrics_are_served_while_it_runs(broker: &Broker) {
    let (topic, address) = (broker.unique("late"), free_address());
    let job = Job::new(broker, &topic, &[]);
    let mut run = job.start(&["--http", &address]);
    eventually("it lives", || get(&address, "/livez") == Some((200, "alive\n".to_owned())));
    run.says("the topic does not exist yet");
    // Nothing is assigned: there is no topic.
    let (status, reason) = get(&address, "/readyz").unwrap();
    assert_eq!(status, 503, "{reason}");
    let (status, version) = get(&address, "/version").unwrap();
    assert!(
        status == 200 && version.contains(env!("CARGO_PKG_VERSION")) && version.contains("librdkafka"),
        "{version}"
    );

    stormglass(broker, "load", &["--topic", &topic, "--lines", "5000"]).succeeded();
    eventually("it is ready", || get(&address, "/readyz") == Some((200, "ready\n".to_owned())));
    let acked = "stormglass_trees_completed_total{component=\"lines\",outcome=\"acked\"}";
    eventually("all is done", || metric(&address, acked) >= 5000.0);
    assert!(run.is_running());
    run.signal(Signal::SIGTERM);
    assert_eq!(run.wait().succeeded().number("records"), 5000);
    assert_eq!(get(&address, "/livez"), None);
    job.is_exact(&[]);
}

fn an_idle_program_uses_next_to_no_cpu(broker: &Broker) {
    let input = load(broker, &["--lines", "100"]);
    let job = Job::new(broker, &input, &[]);
    let run = job.start(&[]);
    let done = || broker.committed(&job.group, &input).into_iter().flatten().sum::<i64>();
    eventually("all is done", || done() == 100);
    pass(Duration::from_secs(5));
    run.signal(Signal::SIGTERM);
    let run = run.wait().succeeded();
    // Its start and its end included.
    let used = run.json()["cpu_seconds"].as_f64().unwrap();
    assert!(used < 0.75, "{used} s of CPU in 5 s in which nothing came");
    eprintln!("idle for 5 s: {used:.2} s of CPU, start and end included");
}
