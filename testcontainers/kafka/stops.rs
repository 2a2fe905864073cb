//! What stops the program, and what it makes of it: signals, brokers that are not there, are gone, or are none.

use std::time::{Duration, Instant};

use libtest_mimic::Trial;
use nix::sys::signal::Signal;

use crate::{
    broker::{Broker, eventually},
    process::{Finished, Job, Process, free_address, get, load, metric, web_server},
    trials,
};

/// A stop that has nothing to wait for.
const PROMPT: Duration = Duration::from_secs(5);
const CONSUMED: &str = "stormglass_kafka_records_consumed_total";
const ACKED_TREES: &str = "stormglass_trees_completed_total{component=\"lines\",outcome=\"acked\"}";

pub fn trials() -> Vec<Trial> {
    let mut trials = trials!(shared:
        ten_stops_under_load_lose_and_repeat_nothing,
        two_signals_under_load_lose_nothing,
        a_broker_that_never_comes_is_waited_for_until_a_signal,
        a_part_of_the_input_is_never_taken_for_the_whole,
        a_command_says_that_it_waits_for_a_broker_and_then_gives_up,
    );
    trials.extend(trials!(alone:
        a_second_signal_does_not_wait_for_a_broker_that_is_gone,
        a_run_that_is_not_done_within_the_drain_timeout_ends_with_75,
        a_broker_that_is_absent_at_start_is_waited_for,
    ));
    trials
}

/// Sends SIGTERM and says how long the end took.
fn stopped(run: Process) -> (Finished, Duration) {
    let asked = Instant::now();
    run.signal(Signal::SIGTERM);
    (run.wait(), asked.elapsed())
}

fn ten_stops_under_load_lose_and_repeat_nothing(broker: &Broker) {
    let input = load(broker, &["--lines", "400000", "--words", "5", "--unique-ids"]);
    // A small window, so that a run gets not far before it is stopped; and work on two threads, so that trees stay open
    // from step to step.
    let flags = [
        ["--topology", "split-words"],
        ["--emit", "every"],
        ["--executors", "2"],
        ["--set", "topology_options.split_tasks=4"],
        ["--set", "engine.max_pending_records=2000"],
    ]
    .concat();
    let job = Job::new(broker, &input, &flags);
    ten_stops(&job, |run| assert_eq!(run.number("failed") + run.number("timed_out"), 0, "{run:#?}"));
    let audit = job.is_exact(&["--kind", "records"]);
    assert_eq!(audit.number("expected"), 400_000 * 5);
}

/// Stops a job ten times with SIGTERM while trees are open, and then lets it come to its end. `check` looks at each stop.
pub fn ten_stops(job: &Job, check: impl Fn(&Finished)) {
    let mut open = Vec::new();
    // A stop that finds nothing in flight proves nothing: it does not count as one of the ten.
    let mut stops = 0;
    while open.len() < 10 {
        stops += 1;
        assert!(stops <= 40, "trees were open at {} of {stops} stops only", open.len());
        let address = free_address();
        let mut run = job.start(&["--http", &address]);
        eventually("trees are done", || {
            assert!(run.is_running(), "{}", run.stderr());
            metric(&address, ACKED_TREES) >= 100.0
        });
        run.signal(Signal::SIGTERM);
        let run = run.wait().succeeded();
        assert_eq!(run.number("restarts"), 0, "{run:#?}");
        check(&run);
        open.extend(Some(run.number("open_at_stop")).filter(|&trees| trees > 0));
    }
    let last = job.to_the_end().succeeded();
    assert!(last.number("records") > 0, "all was done before the last stop");
    eprintln!("trees open at ten stops: {open:?}");
}

fn two_signals_under_load_lose_nothing(broker: &Broker) {
    let input = load(broker, &["--lines", "100000", "--words", "5", "--unique-ids"]);
    let job = Job::new(broker, &input, &["--topology", "split-words", "--emit", "every"]);
    let address = free_address();
    let run = job.start(&["--http", &address]);
    eventually("records come", || metric(&address, CONSUMED) > 0.0);
    run.signal(Signal::SIGINT);
    let (run, took) = stopped(run);
    run.succeeded();
    assert!(took < PROMPT, "{took:?}");
    job.to_the_end().succeeded();
    // What was open may come twice, but nothing is missing.
    assert_eq!(job.audit(&["--kind", "records"]).number("missing"), 0);
}

fn a_broker_that_never_comes_is_waited_for_until_a_signal(broker: &Broker) {
    let (address, http) = (free_address(), free_address());
    let job = Job { brokers: address.clone(), ..Job::new(broker, "lines", &[]) };
    let mut run = job.start(&["--http", &http]);
    run.says("waiting for Kafka");
    assert!(run.stderr().contains(&address), "{}", run.stderr());
    assert_eq!(get(&http, "/livez").map(|(status, _)| status), Some(200));
    assert_eq!(get(&http, "/readyz").map(|(status, _)| status), Some(503));
    let (run, took) = stopped(run);
    let run = run.succeeded();
    assert!(took < PROMPT, "{took:?}");
    assert_eq!(run.stderr.matches("waiting for Kafka").count(), 1, "{run:#?}");
}

fn a_part_of_the_input_is_never_taken_for_the_whole(broker: &Broker) {
    let input = load(broker, &["--lines", "400000", "--words", "5", "--unique-ids"]);
    let job = Job::new(broker, &input, &["--topology", "split-words", "--set", "engine.max_pending_records=2000"]);
    let address = free_address();
    let run = job.start(&["--until-end", "--http", &address]);
    eventually("records come", || metric(&address, CONSUMED) > 0.0);
    let (run, _) = stopped(run);
    assert_eq!(run.code, Some(75), "{run:#?}");
    assert!(run.stderr.contains("stopped before the end of the input"), "{run:#?}");
    assert!(run.number("acked") < 400_000, "{run:#?}");
    job.to_the_end().succeeded();
    assert_eq!(job.audit(&["--kind", "records"]).number("missing"), 0);

    let nowhere = Job { brokers: free_address(), ..job };
    let mut waiting = nowhere.start(&["--until-end"]);
    waiting.says("waiting for Kafka");
    let (waiting, _) = stopped(waiting);
    assert_eq!(waiting.code, Some(75), "{waiting:#?}");
}

fn a_command_says_that_it_waits_for_a_broker_and_then_gives_up(broker: &Broker) {
    let job = Job { brokers: free_address(), ..Job::new(broker, "lines", &[]) };
    let audit = job.audit(&[]);
    assert_eq!(audit.code, Some(69), "{audit:#?}");
    assert_eq!(audit.stderr.matches("waiting for Kafka").count(), 1, "{audit:#?}");
    assert_eq!(audit.stderr.matches("no broker answers at").count(), 2, "{audit:#?}");
    let elsewhere = Job { brokers: web_server(), ..job }.audit(&[]);
    assert_eq!(elsewhere.code, Some(78), "{elsewhere:#?}");
    assert!(!elsewhere.stderr.contains("waiting for Kafka"), "{elsewhere:#?}");
}

fn a_second_signal_does_not_wait_for_a_broker_that_is_gone(broker: &mut Broker) {
    let input = load(broker, &["--lines", "200000", "--words", "5", "--unique-ids"]);
    let job = Job::new(broker, &input, &["--topology", "split-words"]);
    let address = free_address();
    let mut run = job.start(&["--http", &address]);
    eventually("records come", || metric(&address, CONSUMED) > 0.0);
    broker.stop();
    run.signal(Signal::SIGTERM);
    eventually("it drains", || get(&address, "/readyz").is_some_and(|(_, why)| why.starts_with("draining")));
    assert!(run.is_running(), "{}", run.stderr());
    let (run, took) = stopped(run);
    let run = run.succeeded();
    assert!(took < PROMPT, "{took:?}");
    assert!(run.stderr.contains("what is not committed comes again with the next run"), "{run:#?}");
    broker.start();
    job.to_the_end().succeeded();
    assert_eq!(job.audit(&["--kind", "records"]).number("missing"), 0);
}

fn a_run_that_is_not_done_within_the_drain_timeout_ends_with_75(broker: &mut Broker) {
    let input = load(broker, &["--lines", "400000", "--words", "5", "--unique-ids"]);
    let timeouts = ["--set", "engine.drain_timeout_ms=1000", "--set", "kafka.session_timeout_ms=6000"];
    let flags = [&["--topology", "split-words"][..], &timeouts].concat();
    let job = Job::new(broker, &input, &flags);
    let address = free_address();
    let run = job.start(&["--until-end", "--http", &address, "--set", "engine.max_pending_records=2000"]);
    eventually("records come", || metric(&address, CONSUMED) > 0.0);
    broker.stop();
    let (run, _) = stopped(run);
    assert_eq!(run.code, Some(75), "{run:#?}");
    assert!(run.stderr.contains("the drain timeout passed"), "{run:#?}");
    broker.start();
    job.to_the_end().succeeded();
    assert_eq!(job.audit(&["--kind", "records"]).number("missing"), 0);
}

fn a_broker_that_is_absent_at_start_is_waited_for(broker: &mut Broker) {
    let job = Job::new(broker, &load(broker, &["--lines", "1000"]), &[]);
    broker.stop();
    let mut run = job.start(&["--until-end"]);
    run.says("waiting for Kafka");
    broker.start();
    let run = run.wait().succeeded();
    assert_eq!(run.number("records"), 1000);
    assert_eq!(run.stderr.matches("waiting for Kafka").count(), 1, "{run:#?}");
    job.is_exact(&[]);
}
