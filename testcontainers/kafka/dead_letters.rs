//! Dead letters looked at and written back, each once.

use std::time::Duration;

use libtest_mimic::Trial;
use serde_json::{Value, json};
use stormglass::kafka::{
    Connection,
    admin::{
        group::{GroupAdmin, Move},
        replay::{ReplayRecord, Replayer},
    },
    client::{ErrorKind, NextOffset, TopicPartition},
};

use crate::{
    broker::{Broker, Isolation, Record},
    process::{Finished, Job, stormglass},
    trials,
};

pub fn trials() -> Vec<Trial> {
    trials!(shared:
        letters_are_listed_with_their_origin_and_filtered,
        a_letter_is_shown_whole,
        a_dry_run_writes_nothing,
        a_replay_goes_back_to_its_partition_and_is_not_repeated,
        a_letter_that_was_replayed_alone_is_not_replayed_with_all,
        a_replay_can_go_elsewhere_and_be_done_again,
        what_has_no_payload_is_skipped_and_said,
        what_could_not_be_replayed_with_the_others_is_replayed_elsewhere,
        of_two_replays_at_a_time_the_older_writes_nothing,
        a_dead_letter_topic_that_is_not_there_is_said,
    )
}

const PATIENCE: Duration = Duration::from_secs(30);

/// A job whose input has malformed JSON in two partitions, run to its end: three letters.
fn job(broker: &Broker) -> Job {
    let topic = broker.topic("malformed", 2, &[]);
    let record = |partition, value: &str, headers: &[(&str, &str)]| Record {
        key: Some(b"k".to_vec()),
        headers: headers.iter().map(|(name, value)| ((*name).to_owned(), Some(value.as_bytes().to_vec()))).collect(),
        partition: Some(partition),
        ..Record::from(value)
    };
    let good = r#"{"text":"a b"}"#;
    broker.produce(&topic, [record(0, good, &[]), record(0, "{ 1", &[("h", "1")]), record(0, "{ 2", &[])]);
    broker.produce(&topic, [record(1, "{ 3", &[])]);
    let job = Job::new(broker, &topic, &["--format", "json", "--json-pointer", "/text"]);
    assert_eq!(job.to_the_end().succeeded().number("dead_lettered"), 3);
    job
}

/// A `dead-letters` command that prints JSON.
#[track_caller]
fn letters(broker: &Broker, job: &Job, arguments: &[&str]) -> Finished {
    stormglass(broker, "dead-letters", &[&["--json", "--output", &job.output], arguments].concat())
}

/// `PARTITION:OFFSET` of the letter of a record.
#[track_caller]
fn id_of(broker: &Broker, job: &Job, partition: i64, offset: i64) -> String {
    let listed = letters(broker, job, &["list"]).succeeded().json();
    let origin = json!({ "topic": job.input, "partition": partition, "offset": offset });
    let letter = listed.as_array().unwrap().iter().find(|letter| letter["origin"] == origin).unwrap();
    format!("{}:{}", letter["partition"], letter["offset"])
}

fn values(broker: &Broker, topic: &str, partition: i32) -> Vec<String> {
    let records = broker.read(topic, Isolation::ReadCommitted);
    records.iter().filter(|record| record.partition == Some(partition)).map(|record| record.text().1).collect()
}

fn letters_are_listed_with_their_origin_and_filtered(broker: &Broker) {
    let job = job(broker);
    let listed = letters(broker, &job, &["list"]).succeeded().json();
    let mut seen: Vec<_> = listed.as_array().unwrap().iter().map(|letter| letter["origin"].clone()).collect();
    seen.sort_by_key(Value::to_string);
    let origin = |partition, offset| json!({ "topic": job.input, "partition": partition, "offset": offset });
    assert_eq!(seen, [origin(1, 0), origin(0, 1), origin(0, 2)]);
    for letter in listed.as_array().unwrap() {
        let about = [&letter["reason"], &letter["attempts"], &letter["replayed"], &letter["has_payload"]];
        assert_eq!(about, [&json!("malformed_json"), &json!(1), &json!(false), &json!(true)], "{letter}");
        assert!(letter["error"].as_str().unwrap().contains("JSON"), "{letter}");
    }
    let count = |filter: &[&str]| {
        let arguments = [&["list"], filter].concat();
        letters(broker, &job, &arguments).succeeded().json().as_array().unwrap().len()
    };
    assert_eq!((count(&["--topic", &job.input]), count(&["--topic", "other"])), (3, 0));
    assert_eq!((count(&["--since", "-1h"]), count(&["--since", "2100-01-01T00:00:00Z"])), (3, 0));
    assert_eq!(count(&["--limit", "2"]), 2);
    let table = stormglass(broker, "dead-letters", &["list", "--dead-letters", &job.dead_letters()]).succeeded().stdout;
    assert_eq!(table.lines().count(), 4, "{table}");
    assert!(table.contains(&format!("{}-1-0", job.input)), "{table}");
    let wrong = letters(broker, &job, &["list", "--since", "yesterday"]);
    assert_eq!(wrong.code, Some(64), "{wrong:#?}");
}

fn a_letter_is_shown_whole(broker: &Broker) {
    let job = job(broker);
    let id = id_of(broker, &job, 0, 1);
    let shown = letters(broker, &job, &["show", &id]).succeeded().json();
    assert_eq!((&shown["key"], &shown["value"]), (&json!("k"), &json!("{ 1")));
    assert_eq!(shown["headers"][0], json!({ "name": "h", "value": "1" }));
    assert!(
        shown["headers"].as_array().unwrap().contains(&json!({ "name": "stormglass-source-offset", "value": "1" }))
    );
    let none = letters(broker, &job, &["show", "0:999"]);
    assert_eq!(none.code, Some(66), "{none:#?}");
}

fn a_dry_run_writes_nothing(broker: &Broker) {
    let job = job(broker);
    let records = || broker.read(&job.input, Isolation::ReadUncommitted).len();
    assert_eq!(records(), 4);
    let told = letters(broker, &job, &["replay", "--all"]).succeeded().json();
    assert_eq!((&told["executed"], told["replayed"].as_array().unwrap().len()), (&json!(false), 3));
    assert_eq!(records(), 4);
    assert_eq!(broker.committed(&format!("{}-replay", job.dead_letters()), &job.dead_letters()), [None]);
}

fn a_replay_goes_back_to_its_partition_and_is_not_repeated(broker: &Broker) {
    let job = job(broker);
    let id = id_of(broker, &job, 0, 1);
    let replay = || letters(broker, &job, &["replay", "--all", "--execute"]).succeeded().json();
    assert_eq!(replay()["replayed"].as_array().unwrap().len(), 3);
    assert_eq!(values(broker, &job.input, 0), [r#"{"text":"a b"}"#, "{ 1", "{ 2", "{ 1", "{ 2"]);
    assert_eq!(values(broker, &job.input, 1), ["{ 3", "{ 3"]);
    let back = broker.read(&job.input, Isolation::ReadCommitted);
    let back = back.iter().find(|r| r.partition == Some(0) && r.offset == Some(3)).unwrap();
    let mark = format!("{}:{id}", job.dead_letters());
    let headers = [("h", "1"), ("stormglass-replay-of", &mark)];
    let headers = headers.map(|(name, value)| (name.to_owned(), Some(value.as_bytes().to_vec())));
    assert_eq!((back.text().0.as_str(), back.headers.as_slice()), ("k", headers.as_slice()));

    let again = replay();
    assert_eq!((&again["replayed"], &again["already_replayed"]), (&json!([]), &json!(3)));
    assert_eq!(values(broker, &job.input, 1).len(), 2);
    let listed = letters(broker, &job, &["list"]).succeeded().json();
    assert!(listed.as_array().unwrap().iter().all(|letter| letter["replayed"] == json!(true)), "{listed}");

    // They fail once more, as letters of their own, which are the only ones that are new.
    assert_eq!(job.to_the_end().succeeded().number("dead_lettered"), 3);
    let third = replay();
    assert_eq!((third["replayed"].as_array().unwrap().len(), &third["already_replayed"]), (3, &json!(3)));
}

fn a_letter_that_was_replayed_alone_is_not_replayed_with_all(broker: &Broker) {
    let job = job(broker);
    let id = id_of(broker, &job, 0, 2);
    let told = letters(broker, &job, &["replay", "--offset", &id, "--execute"]).succeeded().json();
    assert_eq!(told["replayed"], json!([{ "letter": id, "topic": job.input, "partition": 0 }]));
    let told = letters(broker, &job, &["replay", "--all", "--execute"]).succeeded().json();
    assert_eq!((told["replayed"].as_array().unwrap().len(), &told["already_replayed"]), (2, &json!(1)));
    assert_eq!(values(broker, &job.input, 0), [r#"{"text":"a b"}"#, "{ 1", "{ 2", "{ 2", "{ 1"]);
    let missing = letters(broker, &job, &["replay", "--offset", "0:999", "--execute"]);
    assert_eq!(missing.code, Some(66), "{missing:#?}");
}

fn a_replay_can_go_elsewhere_and_be_done_again(broker: &Broker) {
    let (job, other) = (job(broker), broker.topic("other", 1, &[]));
    for (flags, expected) in [(&[][..], 3), (&[], 3), (&["--again"], 6)] {
        let arguments = [&["replay", "--all", "--execute", "--to", &other], flags].concat();
        letters(broker, &job, &arguments).succeeded();
        assert_eq!(broker.read(&other, Isolation::ReadCommitted).len(), expected);
    }
    assert_eq!(values(broker, &job.input, 1), ["{ 3"]);
    let nowhere = letters(broker, &job, &["replay", "--all", "--to", &broker.unique("nowhere")]);
    assert_eq!(nowhere.code, Some(66), "{nowhere:#?}");
}

fn what_has_no_payload_is_skipped_and_said(broker: &Broker) {
    let topic = broker.topic("long", 1, &[]);
    broker.produce(&topic, ["x".repeat(5000).as_str()]);
    let output = broker.topic("small", 1, &[("max.message.bytes", "2000")]);
    let job = Job { output, ..Job::new(broker, &topic, &["--topology", "split-words"]) };
    assert_eq!(job.to_the_end().succeeded().number("dead_lettered"), 1);
    let told = letters(broker, &job, &["replay", "--all", "--execute"]);
    assert_eq!(told.code, Some(1), "{told:#?}");
    assert_eq!(told.json()["skipped"][0]["why"], json!("its value is not here: it was too large"));
    assert_eq!(broker.read(&topic, Isolation::ReadCommitted).len(), 1);
}

fn what_could_not_be_replayed_with_the_others_is_replayed_elsewhere(broker: &Broker) {
    let job = job(broker);
    broker.produce(&job.dead_letters(), ["of nowhere"]);
    let told = letters(broker, &job, &["replay", "--all", "--execute"]);
    assert_eq!(told.code, Some(1), "{told:#?}");
    assert_eq!(told.json()["replayed"].as_array().map(Vec::len), Some(3), "{told:#?}");
    let why = "it does not say where it comes from: name a topic with --to";
    assert_eq!(told.json()["skipped"][0]["why"], json!(why));
    let elsewhere = broker.topic("elsewhere", 1, &[]);
    letters(broker, &job, &["replay", "--all", "--execute", "--to", &elsewhere]).succeeded();
    assert_eq!(values(broker, &elsewhere, 0), ["of nowhere"]);
    letters(broker, &job, &["replay", "--all", "--execute", "--to", &elsewhere]).succeeded();
    assert_eq!(values(broker, &elsewhere, 0).len(), 1, "each once");
}

fn of_two_replays_at_a_time_the_older_writes_nothing(broker: &Broker) {
    let (topic, group) = (broker.topic("twice", 1, &[]), broker.unique("replay"));
    let connection = Connection { brokers: broker.bootstrap().to_owned(), ..Connection::default() };
    let offsets = || GroupAdmin::new(&connection, &group, PATIENCE).unwrap();
    let replayer = || Replayer::new(&connection, &group, offsets(), PATIENCE).unwrap();
    let write = |replayer: &Replayer, value: &str, to| {
        let record =
            ReplayRecord { topic: &topic, partition: None, key: None, value: Some(value.as_bytes()), headers: &[] };
        let partition = TopicPartition::new(topic.as_str(), 0);
        replayer.write([record], &[Move { partition, to: NextOffset(to), metadata: format!("by {value}") }])
    };
    let older = replayer();
    let newer = replayer();
    assert_eq!(write(&older, "older", 1).unwrap_err().kind, ErrorKind::Fenced);
    write(&newer, "newer", 2).unwrap();
    assert_eq!(values(broker, &topic, 0), ["newer"]);
    let committed = offsets().committed(&[TopicPartition::new(topic.as_str(), 0)]).unwrap();
    let committed = committed[0].as_ref().map(|committed| (committed.next.0, committed.metadata.as_str()));
    assert_eq!(committed, Some((2, "by newer")));
}

fn a_dead_letter_topic_that_is_not_there_is_said(broker: &Broker) {
    let missing = broker.unique("missing");
    for action in [&["list"][..], &["show", "0"], &["replay", "--all"]] {
        let run = stormglass(broker, "dead-letters", &[action, &["--dead-letters", &missing]].concat());
        assert_eq!(run.code, Some(66), "{run:#?}");
        assert!(run.stderr.contains(&missing), "{run:#?}");
    }
}
