//! Several instances of one program: partitions that go from one to the other, and what is repeated.

use std::time::Duration;

use libtest_mimic::Trial;
use nix::sys::signal::Signal;

use crate::{
    broker::{Broker, eventually, pass},
    process::{Finished, Job, Process, free_address, load, metric, stormglass},
    trials,
};

const CONSUMED: &str = "stormglass_kafka_records_consumed_total";
const ACKED_TREES: &str = "stormglass_trees_completed_total{component=\"lines\",outcome=\"acked\"}";
const LOST: &str = "stormglass_kafka_rebalances_total{event=\"lost\"}";

pub fn trials() -> Vec<Trial> {
    trials!(shared:
        three_instances_that_come_and_go_lose_nothing,
        three_instances_of_an_eager_group_that_come_and_go_lose_nothing,
        an_instance_that_slept_past_its_session_joins_again_and_loses_nothing,
        partitions_go_on_in_the_survivor_of_a_killed_instance,
        a_stop_while_the_group_waits_for_a_dead_member_commits_all_and_leaves,
    )
}

/// A topology without state, which writes every word as it comes.
fn split_words(broker: &Broker, input: &str, flags: &[&str]) -> Job {
    let words = ["--topology", "split-words", "--emit", "every"];
    Job::new(broker, input, &[&words[..], flags].concat())
}

fn stop(run: Process) -> Finished {
    run.signal(Signal::SIGTERM);
    run.wait().succeeded()
}

/// While records come, the oldest of three instances leaves every two seconds and a new one comes.
fn come_and_go(broker: &Broker, assignment: &str) {
    let input = broker.topic("lines", 6, &[]);
    // Who is stopped between being given a name by the group and joining under it cannot take it back: the others wait
    // for its session to end, and a stop waits longer than that.
    let assignment = format!("source.assignment={assignment}");
    let job = split_words(broker, &input, &["--set", &assignment, "--set", "kafka.session_timeout_ms=10000"]);
    let mut runs: Vec<_> = (0..3).map(|_| job.start(&[])).collect();
    let flags = ["load", "--brokers", broker.bootstrap(), "--topic", &input, "--unique-ids"];
    let lines = Process::start(&[&flags[..], &["--lines", "60000", "--words", "5", "--rate", "3000"]].concat());
    let mut over = Vec::new();
    for _ in 0..9 {
        pass(Duration::from_secs(2));
        over.push(stop(runs.remove(0)));
        runs.push(job.start(&[]));
    }
    lines.wait().succeeded();
    over.extend(runs.into_iter().map(stop));
    over.push(job.to_the_end().succeeded());
    let (records, failed) = (sum(&over, "records"), sum(&over, "failed") + sum(&over, "timed_out"));
    assert!(records >= 60_000 && failed == 0, "{over:#?}");
    job.is_exact(&["--kind", "records"]);
}

fn sum(over: &[Finished], field: &str) -> u64 {
    over.iter().map(|run| run.number(field)).sum()
}

fn three_instances_that_come_and_go_lose_nothing(broker: &Broker) {
    come_and_go(broker, "cooperative-sticky");
}

fn three_instances_of_an_eager_group_that_come_and_go_lose_nothing(broker: &Broker) {
    come_and_go(broker, "range");
}

fn an_instance_that_slept_past_its_session_joins_again_and_loses_nothing(broker: &Broker) {
    let input = load(broker, &["--lines", "200000", "--words", "5", "--unique-ids"]);
    let short = ["--set", "kafka.session_timeout_ms=2000", "--set", "engine.max_pending_records=2000"];
    let job = split_words(broker, &input, &short);
    let (address, other) = (free_address(), free_address());
    let mut sleeper = job.start(&["--http", &address]);
    eventually("it works", || metric(&address, ACKED_TREES) > 1000.0);
    sleeper.signal(Signal::SIGSTOP);
    let survivor = job.start(&["--http", &other]);
    eventually("the other has taken over", || metric(&other, ACKED_TREES) > 1000.0);
    sleeper.signal(Signal::SIGCONT);
    eventually("it has heard that its partitions are lost", || metric(&address, LOST) >= 1.0);
    stormglass(broker, "load", &["--topic", &input, "--lines", "50000", "--words", "5", "--seed", "2"]).succeeded();
    let consumed = metric(&address, CONSUMED);
    eventually("it works again", || metric(&address, CONSUMED) > consumed);
    assert!(sleeper.is_running(), "{}", sleeper.stderr());
    let over = [stop(survivor), stop(sleeper), job.to_the_end().succeeded()];
    let audit = job.audit(&["--kind", "records"]);
    assert_eq!(audit.number("missing"), 0, "{audit:#?} {over:#?}");
    eprintln!("an instance that slept: {} words came twice", audit.number("surplus"));
}

/// Storm's survivors stopped committing at their cap (STORM-3531).
fn partitions_go_on_in_the_survivor_of_a_killed_instance(broker: &Broker) {
    let input = broker.topic("lines", 4, &[]);
    let short = ["--set", "kafka.session_timeout_ms=6000", "--set", "engine.max_pending_records=500"];
    let job = split_words(broker, &input, &short);
    let (killed, survivor) = (free_address(), free_address());
    let (first, second) = (job.start(&["--http", &killed]), job.start(&["--http", &survivor]));
    let flags = ["load", "--brokers", broker.bootstrap(), "--topic", &input, "--unique-ids", "--words", "5"];
    let lines = Process::start(&[&flags[..], &["--lines", "40000", "--rate", "5000"]].concat());
    for address in [&killed, &survivor] {
        eventually("both work", || metric(address, ACKED_TREES) > 100.0);
    }
    first.signal(Signal::SIGKILL);
    let done = || broker.committed(&job.group, &input).into_iter().flatten().sum::<i64>();
    let before = done();
    assert!(before < 40_000, "there was nothing left to do");
    eventually("its own partitions go on before it has those of the other", || done() > before + 2000);
    lines.wait().succeeded();
    eventually("all is done", || done() == 40_000);
    let run = stop(second);
    let audit = job.audit(&["--kind", "records"]);
    assert_eq!(audit.number("missing"), 0, "{audit:#?} {run:#?}");
    // In flight at the kill, or done since the last commit.
    eprintln!("a killed instance: {} words came twice", audit.number("surplus"));
    drop(first);
}

/// A join holds up what its connection sends after it: the broker has one request of a connection at a time. So a commit
/// is not answered while the group waits for a member that is dead, and a stop has to wait for that.
fn a_stop_while_the_group_waits_for_a_dead_member_commits_all_and_leaves(broker: &Broker) {
    let input = broker.topic("lines", 4, &[]);
    let job = split_words(broker, &input, &["--set", "kafka.session_timeout_ms=10000"]);
    let (address, other) = (free_address(), free_address());
    let (first, dead) = (job.start(&["--http", &address]), job.start(&["--http", &other]));
    let flags = ["load", "--brokers", broker.bootstrap(), "--topic", &input, "--unique-ids", "--words", "5"];
    let lines = Process::start(&[&flags[..], &["--lines", "60000", "--rate", "3000"]].concat());
    for address in [&address, &other] {
        eventually("both work", || metric(address, ACKED_TREES) > 100.0);
    }
    dead.signal(Signal::SIGSTOP);
    let third = job.start(&[]);
    eventually("the group waits for its members", || broker.group_state(&job.group) == "PreparingRebalance");
    let first = stop(first);
    dead.signal(Signal::SIGKILL);
    lines.wait().succeeded();
    let over = [first, stop(third), job.to_the_end().succeeded()];
    let audit = job.audit(&["--kind", "records"]);
    assert_eq!(audit.number("missing"), 0, "{audit:#?} {over:#?}");
    let uncommitted = |run: &Finished| run.stderr.contains("are not committed of a partition that leaves");
    assert!(!over.iter().any(uncommitted), "{over:#?}");
}
