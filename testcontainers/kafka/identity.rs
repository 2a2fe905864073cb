//! Who a process is: one for each identity, which comes back as the one it was.

use std::time::{Duration, Instant};

use libtest_mimic::Trial;
use nix::sys::signal::Signal;
use tempfile::TempDir;

use crate::{
    broker::{Broker, eventually},
    process::{Job, free_address, load, metric},
    trials,
};

const ACKED_TREES: &str = "stormglass_trees_completed_total{component=\"lines\",outcome=\"acked\"}";
const REBALANCES: &str = "stormglass_kafka_rebalances_total";

pub fn trials() -> Vec<Trial> {
    trials!(shared:
        a_second_process_of_the_same_identity_is_refused_on_this_host,
        a_second_process_of_the_same_identity_ends_the_first_on_another_host,
        a_static_member_that_was_killed_goes_on_at_once,
        a_static_member_that_starts_again_disturbs_nobody,
    )
}

/// Folders for lock files, which stand for hosts.
struct Host(TempDir);

impl Host {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    /// Flags of a process with an identity on this host.
    fn flags(&self, instance: &str) -> Vec<String> {
        let folder = self.0.path().display();
        [
            "--topology".to_owned(),
            "split-words".to_owned(),
            "--emit".to_owned(),
            "every".to_owned(),
            "--set".to_owned(),
            format!("kafka.instance={instance}"),
            "--set".to_owned(),
            format!("state_dir={folder}"),
        ]
        .to_vec()
    }
}

/// `job` as an instance on a host.
fn on(job: &Job, host: &Host, instance: &str) -> Job {
    Job { flags: host.flags(instance), ..job.clone() }
}

fn a_second_process_of_the_same_identity_is_refused_on_this_host(broker: &Broker) {
    let host = Host::new();
    let job = Job::new(broker, &load(broker, &["--lines", "1000"]), &[]);
    let (job, other) = (on(&job, &host, "a"), on(&job, &host, "b"));
    let mut first = job.start(&[]);
    first.says("partitions assigned");
    let second = job.start(&[]).wait();
    assert_eq!(second.code, Some(75), "{second:#?}");
    let sentence = second.stderr.lines().last().unwrap_or_default();
    let pid = format!("process {} runs as instance \"a\" of group \"{}\" on this host", first.id(), job.group);
    assert!(sentence.contains(&pid) && sentence.contains("@a.lock"), "{sentence}");
    assert!(first.is_running());
    // Another identity is another process.
    let mut third = other.start(&[]);
    third.says("partitions assigned");
    for run in [first, third] {
        run.signal(Signal::SIGTERM);
        run.wait().succeeded();
    }
    assert_eq!(job.to_the_end().succeeded().number("records"), 0);
}

fn a_second_process_of_the_same_identity_ends_the_first_on_another_host(broker: &Broker) {
    let input = load(broker, &["--lines", "300000", "--words", "5", "--unique-ids"]);
    let job = Job::new(broker, &input, &[]);
    let (here, there) = (Host::new(), Host::new());
    let address = free_address();
    let first = on(&job, &here, "a").start(&["--http", &address]);
    eventually("it works", || metric(&address, ACKED_TREES) > 1000.0);
    let second = on(&job, &there, "a").start(&[]);
    let first = first.wait();
    assert_eq!(first.code, Some(69), "{first:#?}");
    let sentence = first.stderr.lines().last().unwrap_or_default();
    assert!(sentence.contains("another process with the same") && sentence.contains("instance"), "{first:#?}");
    eventually("all is done", || broker.committed(&job.group, &input).into_iter().flatten().sum::<i64>() == 300_000);
    second.signal(Signal::SIGTERM);
    second.wait().succeeded();
    assert_eq!(job.audit(&["--kind", "records"]).number("missing"), 0);
}

fn a_static_member_that_was_killed_goes_on_at_once(broker: &Broker) {
    let input = load(broker, &["--lines", "400000", "--words", "5", "--unique-ids"]);
    let host = Host::new();
    let job = on(&Job::new(broker, &input, &[]), &host, "a");
    let mut took = Vec::new();
    for _ in 0..3 {
        let address = free_address();
        let started = Instant::now();
        let run = job.start(&["--http", &address]);
        eventually("it works", || metric(&address, ACKED_TREES) > 0.0);
        took.push(started.elapsed());
        run.signal(Signal::SIGKILL);
        drop(run.wait());
    }
    // The session lasts 45 s, and nobody waits for it.
    assert!(took.iter().all(|took| *took < Duration::from_secs(15)), "{took:?}");
    eprintln!("a static member that was killed had its first tree done after {took:?}");
    job.to_the_end().succeeded();
    assert_eq!(job.audit(&["--kind", "records"]).number("missing"), 0);
}

fn a_static_member_that_starts_again_disturbs_nobody(broker: &Broker) {
    let input = load(broker, &["--lines", "10000"]);
    let (here, there) = (Host::new(), Host::new());
    let job = Job::new(broker, &input, &[]);
    let (stays, restarts) = (on(&job, &here, "a"), on(&job, &there, "b"));
    let address = free_address();
    let mut stays = stays.start(&["--http", &address]);
    stays.says("partitions assigned partitions=4 held=4");
    let mut first = restarts.start(&[]);
    first.says("held=2");
    // The second half of the rebalance gives it nothing more.
    stays.says("partitions assigned partitions=0 held=2");
    let before = metric(&address, REBALANCES);
    first.signal(Signal::SIGTERM);
    first.wait().succeeded();
    let mut again = restarts.start(&[]);
    again.says("held=2");
    for run in [again, stays] {
        let rebalances = metric(&address, REBALANCES);
        assert!(rebalances <= before, "{rebalances} rebalances, {before} before: {}", run.stderr());
        run.signal(Signal::SIGTERM);
        run.wait().succeeded();
    }
}
