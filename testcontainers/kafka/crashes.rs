//! Processes that are killed, stopped and overtaken: a word count goes on from its counts, and nothing is lost.

use libtest_mimic::Trial;
use nix::sys::signal::Signal;
use rand::{RngExt as _, SeedableRng as _};
use rand_pcg::Pcg64Mcg;

use crate::{
    broker::{Broker, Isolation, eventually},
    process::{Finished, Job, Process, free_address, load, metric, number, stormglass},
    stops::ten_stops,
    trials,
};

const ACKED_TREES: &str = "stormglass_trees_completed_total{component=\"lines\",outcome=\"acked\"}";
const LAG: &str = "stormglass_kafka_lag_records";
const COMMITS: &str = "stormglass_kafka_commits_total{result=\"committed\"}";
/// Words of a line, the last of which is its own.
const WORDS: u64 = 5;

pub fn trials() -> Vec<Trial> {
    trials!(shared:
        a_word_count_that_is_killed_loses_nothing_and_repeats_no_more_than_it_says,
        ten_stops_of_a_word_count_lose_and_repeat_nothing,
        an_older_process_that_was_stopped_is_fenced_and_the_counts_stay_right,
        a_word_count_goes_on_from_its_counts,
        an_end_is_not_reached_while_a_dead_member_holds_a_part,
        offsets_that_are_deleted_while_state_exists_are_refused,
        a_changelog_that_is_deleted_while_offsets_exist_is_refused,
    )
}

/// A member that dies while it waits to join is given its part when the group is whole again, and holds it for a session.
fn an_end_is_not_reached_while_a_dead_member_holds_a_part(broker: &Broker) {
    let input = load(broker, &["--lines", "20000", "--words", "5", "--unique-ids"]);
    let flags = ["--topology", "split-words", "--set", "kafka.session_timeout_ms=12000"];
    let job = Job::new(broker, &input, &flags);
    let address = free_address();
    let first = job.start(&["--http", &address, "--set", "engine.max_pending_records=100"]);
    eventually("it reads", || metric(&address, ACKED_TREES) >= 100.0);
    first.signal(Signal::SIGKILL);
    first.wait();
    let mut second = job.start(&[]);
    second.says("waiting for the group to give partitions");
    second.signal(Signal::SIGKILL);
    second.wait();
    job.to_the_end().succeeded();
    assert_eq!(job.audit(&["--kind", "records"]).number("missing"), 0);
    let partitions = broker.committed(&job.group, &input);
    let committed: i64 = partitions.iter().map(|next| next.expect("each partition is read")).sum();
    assert_eq!(committed, 20_000);
}

/// The sum of what each start said about repeats.
fn announced(stderr: &str) -> u64 {
    let numbers = stderr.split("possible_repeats=").skip(1);
    numbers.filter_map(|rest| rest.split_whitespace().next()?.parse::<u64>().ok()).sum()
}

/// Several windows of work open at each kill.
fn counting(broker: &Broker, input: &str) -> Job {
    let flags = ["--executors", "2", "--set", "engine.max_pending_records=2000", "--color", "never"];
    Job::new(broker, input, &flags)
}

/// Words of the input that stand for one line each, by the counts topic: how many are missing, and how many too many.
fn ids(broker: &Broker, job: &Job, lines: u64) -> (u64, u64) {
    let mut counts = std::collections::HashMap::new();
    for record in broker.read(&job.output, Isolation::ReadCommitted) {
        let (key, value) = record.text();
        if key.contains('-') {
            counts.insert(key, value.parse::<u64>().expect("a count"));
        }
    }
    let found = counts.len() as u64;
    (lines - found, counts.values().sum::<u64>() - found)
}

fn a_word_count_that_is_killed_loses_nothing_and_repeats_no_more_than_it_says(broker: &Broker) {
    let (seed, kills) = (number("SEED", 1), number("KILLS", 6));
    let mut rng = Pcg64Mcg::seed_from_u64(seed);
    // Lines come for as long as processes are killed, at a rate that leaves some for each.
    let lines = 75_000 * kills;
    let input = load(broker, &["--lines", "1", "--words", "5"]);
    let (brokers, count) = (broker.bootstrap(), lines.to_string());
    let more = ["load", "--brokers", brokers, "--topic", &input, "--lines", &count, "--rate", "50000"];
    let loader = Process::start(&[&more[..], &["--words", "5", "--unique-ids"]].concat());
    let job = counting(broker, &input);
    let (mut repeats, mut under_load) = (0, 0);
    for _ in 0..kills {
        let address = free_address();
        let mut run = job.start(&["--http", &address]);
        let enough = f64::from(rng.random_range(1..=10_000_u32));
        eventually("it has committed, and worked on", || {
            assert!(run.is_running(), "{}", run.stderr());
            let worked = metric(&address, ACKED_TREES) >= enough;
            // On a slow machine the lines may come to their end before the kills do.
            let over = metric(&address, COMMITS) >= 1.0 && metric(&address, LAG) == 0.0;
            under_load += u64::from(worked);
            worked || over
        });
        run.signal(Signal::SIGKILL);
        let run = run.wait();
        assert_eq!(run.code, None, "{run:#?}");
        repeats += announced(&run.stderr);
    }
    assert!(2 * under_load >= kills, "only {under_load} of {kills} kills came under load");
    loader.wait().succeeded();
    let last = job.to_the_end().succeeded();
    repeats += last.number("possible_repeats");
    let (missing, surplus) = ids(broker, &job, lines);
    assert_eq!(missing, 0, "seed {seed}");
    assert!(surplus <= repeats, "seed {seed}: {surplus} ids were counted again, and {repeats} repeats were announced");
    let audit = job.audit(&[]);
    assert_eq!(audit.number("missing"), 0, "seed {seed}: {audit:#?}");
    assert!(audit.number("surplus") <= WORDS * repeats, "seed {seed}: {audit:#?}");
    eprintln!(
        "seed {seed}: {kills} kills ({under_load} under load), {lines} ids, {surplus} counted again, {repeats} possible repeats announced"
    );
}

fn ten_stops_of_a_word_count_lose_and_repeat_nothing(broker: &Broker) {
    let input = load(broker, &["--lines", "400000", "--words", "5", "--unique-ids"]);
    let job = counting(broker, &input);
    ten_stops(&job, |run| assert_eq!(run.number("possible_repeats"), 0, "{run:#?}"));
    job.is_exact(&[]);
}

/// The flags of a process on another host: it has another folder of locks.
fn elsewhere(folder: &tempfile::TempDir) -> [String; 2] {
    ["--set".to_owned(), format!("state_dir=\"{}\"", folder.path().display())]
}

fn an_older_process_that_was_stopped_is_fenced_and_the_counts_stay_right(broker: &Broker) {
    let input = load(broker, &["--lines", "400000", "--words", "5", "--unique-ids"]);
    let job = counting(broker, &input);
    let (one, two) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
    let (one, two) = (elsewhere(&one), elsewhere(&two));
    let address = free_address();
    let older = job.start(&[&one[0], &one[1], "--http", &address]);
    eventually("it works", || metric(&address, COMMITS) >= 1.0);
    older.signal(Signal::SIGSTOP);

    let address = free_address();
    let mut newer = job.start(&[&two[0], &two[1], "--http", &address]);
    eventually("the newer one commits", || {
        assert!(newer.is_running(), "{}", newer.stderr());
        metric(&address, COMMITS) >= 2.0
    });
    older.signal(Signal::SIGCONT);
    let older: Finished = older.wait();
    assert!(older.code.is_some_and(|code| code > 0), "{older:#?}");
    assert!(older.stderr.contains("took over") || older.stderr.contains("took its place"), "{older:#?}");

    newer.signal(Signal::SIGTERM);
    let newer = newer.wait().succeeded();
    let repeats = newer.number("possible_repeats");
    let last = job.start(&["--until-end", &one[0], &one[1]]).wait().succeeded();
    assert_eq!(last.number("possible_repeats"), 0, "{last:#?}");
    let (missing, surplus) = ids(broker, &job, 400_000);
    assert_eq!(missing, 0);
    assert!(surplus <= repeats, "{surplus} ids were counted again, and {repeats} repeats were announced");
}

fn a_word_count_goes_on_from_its_counts(broker: &Broker) {
    let input = load(broker, &["--lines", "20000"]);
    let job = counting(broker, &input);
    job.to_the_end().succeeded();
    stormglass(broker, "load", &["--topic", &input, "--lines", "20000", "--seed", "2"]).succeeded();
    let second = job.to_the_end().succeeded();
    assert_eq!((second.number("records"), second.number("possible_repeats")), (20_000, 0));
    assert!(second.number("restored_keys") > 1_000, "{second:#?}");
    job.is_exact(&[]);
}

fn offsets_that_are_deleted_while_state_exists_are_refused(broker: &Broker) {
    let mut job = counting(broker, &load(broker, &["--lines", "1000"]));
    job.flags.extend(["--set".to_owned(), "kafka.session_timeout_ms=6000".to_owned()]);
    job.to_the_end().succeeded();
    // A static member does not leave the group when it ends.
    let delete = ["--delete", "--group", &job.group];
    eventually("the group is empty, and deleted", || {
        broker.tool("kafka-consumer-groups", &delete).contains("was successful")
    });
    let refused = job.to_the_end();
    assert_eq!(refused.code, Some(78), "{refused:#?}");
    assert!(
        refused.stderr.contains("nothing is committed") && refused.stderr.contains("stormglass reset"),
        "{refused:#?}"
    );
}

fn a_changelog_that_is_deleted_while_offsets_exist_is_refused(broker: &Broker) {
    let job = counting(broker, &load(broker, &["--lines", "1000"]));
    job.to_the_end().succeeded();
    let changelog = format!("{}-count-counts-changelog", job.group);
    broker.tool("kafka-topics", &["--delete", "--topic", &changelog]);
    eventually("it is gone", || !broker.tool("kafka-topics", &["--list"]).contains(&changelog));
    let refused = job.to_the_end();
    assert_eq!(refused.code, Some(78), "{refused:#?}");
    assert!(refused.stderr.contains("there is no state"), "{refused:#?}");
}
