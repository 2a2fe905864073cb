//! Offsets of a group moved from outside.

use libtest_mimic::Trial;
use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::{
    broker::{Broker, Isolation, Record, eventually},
    process::{Finished, Job, Process, free_address, get},
    trials,
};

pub fn trials() -> Vec<Trial> {
    trials!(shared:
        a_dry_run_says_each_move_and_moves_nothing,
        earliest_reads_everything_again,
        latest_skips_what_is_there,
        offsets_and_times_move_to_their_records,
        what_the_topic_does_not_have_is_no_target,
        a_group_with_members_is_refused_and_they_are_named,
        state_that_would_lack_what_lies_before_is_refused,
        earliest_begins_the_counts_anew,
        discarded_state_begins_with_nothing_at_the_place,
    )
}

/// A job over two partitions with 5 and 3 records, each a second after the one before; all of it done.
fn job(broker: &Broker, topology: &str) -> Job {
    let topic = broker.topic("reset", 2, &[]);
    let record = |n: i64| Record {
        partition: Some(i32::from(n >= 5)),
        timestamp: Some(1_700_000_000_000 + 1000 * n),
        ..Record::from("word")
    };
    broker.produce(&topic, (0..8).map(record));
    // A static member, as whoever has stores is one, is let go after its session timeout only.
    let session = ["--set", "kafka.session_timeout_ms=1500"];
    let job = Job::new(broker, &topic, &[&["--topology", topology, "--emit", "every"][..], &session].concat());
    assert_eq!(job.to_the_end().succeeded().number("records"), 8);
    job
}

fn reset(job: &Job, arguments: &[&str]) -> Finished {
    let whose = ["--brokers", &job.brokers, "--input", &job.input, "--output", &job.output, "--group", &job.group];
    let topology: Vec<&str> = job.flags.iter().map(String::as_str).collect();
    Process::start(&[&["reset", "--json"], &whose[..], &topology, arguments].concat()).wait()
}

/// (from, to, again, skipped) of each partition.
fn moves(told: &Finished) -> Vec<[i64; 4]> {
    let number = |step: &Value, field: &str| step[field].as_i64().unwrap_or(-1);
    let told = told.json();
    let steps = told["partitions"].as_array().unwrap().iter();
    steps.map(|step| ["from", "to", "again", "skipped"].map(|field| number(step, field))).collect()
}

fn a_dry_run_says_each_move_and_moves_nothing(broker: &Broker) {
    let job = job(broker, "split-words");
    let told = reset(&job, &["--to", "earliest"]).succeeded();
    assert_eq!((told.json()["executed"].clone(), moves(&told)), (json!(false), vec![[5, 0, 5, 0], [3, 0, 3, 0]]));
    assert_eq!(broker.committed(&job.group, &job.input), [Some(5), Some(3)]);
}

fn earliest_reads_everything_again(broker: &Broker) {
    let job = job(broker, "split-words");
    reset(&job, &["--to", "earliest", "--execute"]).succeeded();
    assert_eq!(broker.committed(&job.group, &job.input), [Some(0), Some(0)]);
    assert_eq!(job.to_the_end().succeeded().number("records"), 8);
}

fn latest_skips_what_is_there(broker: &Broker) {
    let job = job(broker, "split-words");
    broker.produce(&job.input, [Record { partition: Some(0), ..Record::from("late") }]);
    let told = reset(&job, &["--to", "latest", "--execute"]).succeeded();
    assert_eq!(moves(&told), [[5, 6, 0, 1], [3, 3, 0, 0]]);
    assert_eq!(job.to_the_end().succeeded().number("records"), 0);
}

fn offsets_and_times_move_to_their_records(broker: &Broker) {
    let job = job(broker, "split-words");
    let told = reset(&job, &["--to", &format!("{}:0:2", job.input), "--execute"]).succeeded();
    assert_eq!(moves(&told), [[5, 2, 3, 0]]);
    assert_eq!(broker.committed(&job.group, &job.input), [Some(2), Some(3)]);
    // 1,700,000,006.5 s: behind all of the first partition, between the second and the third record of the other.
    let told = reset(&job, &["--to", "2023-11-14T22:13:26.5Z", "--execute"]).succeeded();
    assert_eq!(moves(&told), [[2, 5, 0, 3], [3, 2, 1, 0]]);
    assert_eq!(job.to_the_end().succeeded().number("records"), 1);
}

fn what_the_topic_does_not_have_is_no_target(broker: &Broker) {
    let job = job(broker, "split-words");
    let target = |offset: &str| format!("{}:{offset}", job.input);
    for (to, code) in [(target("0:6"), 65), (target("2:0"), 65), ("soon".to_owned(), 64)] {
        let told = reset(&job, &["--to", &to, "--execute"]);
        assert_eq!(told.code, Some(code), "{told:#?}");
    }
    assert_eq!(broker.committed(&job.group, &job.input), [Some(5), Some(3)]);
}

fn a_group_with_members_is_refused_and_they_are_named(broker: &Broker) {
    let job = job(broker, "split-words");
    let address = free_address();
    let run = job.start(&["--http", &address, "-X", "client.rack=r"]);
    eventually("it is ready", || get(&address, "/readyz") == Some((200, "ready\n".to_owned())));
    for flags in [&["--to", "earliest", "--execute"][..], &["--to", "earliest"]] {
        let told = reset(&job, flags);
        assert_eq!(told.code, Some(75), "{told:#?}");
        assert!(told.stderr.contains("has members: stormglass on 127.0.0.1"), "{told:#?}");
    }
    run.signal(Signal::SIGTERM);
    run.wait().succeeded();
    assert_eq!(broker.committed(&job.group, &job.input), [Some(5), Some(3)]);
    reset(&job, &["--to", "earliest", "--execute"]).succeeded();
}

fn state_that_would_lack_what_lies_before_is_refused(broker: &Broker) {
    let job = job(broker, "word-count");
    let told = reset(&job, &["--to", "latest", "--execute"]);
    assert_eq!(told.code, Some(78), "{told:#?}");
    assert!(told.stderr.contains("\"count\" remembers what was read before"), "{told:#?}");
    assert_eq!(broker.committed(&job.group, &job.input), [Some(5), Some(3)]);
}

fn earliest_begins_the_counts_anew(broker: &Broker) {
    let job = job(broker, "word-count");
    eventually("its member is let go", || reset(&job, &["--to", "earliest", "--execute"]).code == Some(0));
    // Twice, as after a crash in between.
    let told = reset(&job, &["--to", "earliest", "--execute"]).succeeded();
    let topic = format!("{}-count-counts-changelog", job.group);
    assert_eq!(told.json()["discarded"], json!([{ "store": "count/counts", "topic": topic }]));
    let run = job.to_the_end().succeeded();
    assert_eq!((run.number("records"), run.number("restored_keys")), (8, 0), "{run:#?}");
    job.is_exact(&[]);
}

fn discarded_state_begins_with_nothing_at_the_place(broker: &Broker) {
    let job = job(broker, "word-count");
    let place = format!("{}:0:4", job.input);
    let reset = || reset(&job, &["--to", &place, "--discard-state", "--execute"]);
    eventually("its member is let go", || reset().code == Some(0));
    assert_eq!(broker.committed(&job.group, &job.input), [Some(4), Some(3)]);
    let run = job.to_the_end().succeeded();
    assert_eq!((run.number("records"), run.number("restored_keys")), (1, 0), "{run:#?}");
    let counted = broker.read(&job.output, Isolation::ReadCommitted).last().unwrap().text();
    assert_eq!(counted, ("word".to_owned(), "1".to_owned()));
}
