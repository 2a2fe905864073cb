//! A broker that is away for long, or again and again.

use std::time::{Duration, Instant};

use libtest_mimic::Trial;
use nix::sys::signal::Signal;

use crate::{
    broker::{Broker, eventually, pass},
    process::{Job, free_address, get, load, metric, stormglass},
    trials,
};

const CONSUMED: &str = "stormglass_kafka_records_consumed_total";

pub fn trials() -> Vec<Trial> {
    trials!(own:
        an_outage_of_seventy_seconds_loses_nothing,
        a_broker_that_restarts_every_five_seconds_for_a_minute_loses_nothing,
    )
}

fn split_words(broker: &Broker, input: &str) -> Job {
    Job::new(broker, input, &["--topology", "split-words", "--emit", "every"])
}

/// Records that the group has committed.
fn done(broker: &Broker, job: &Job) -> i64 {
    broker.committed(&job.group, &job.input).into_iter().flatten().sum()
}

fn an_outage_of_seventy_seconds_loses_nothing(broker: &mut Broker) {
    let input = load(broker, &["--lines", "300000", "--words", "5", "--unique-ids"]);
    let job = split_words(broker, &input);
    let address = free_address();
    let mut run = job.start(&["--http", &address]);
    eventually("records come", || metric(&address, CONSUMED) > 0.0);
    broker.stop();
    let ready = || get(&address, "/readyz").map(|(status, _)| status);
    eventually("it is not ready", || ready() == Some(503));
    pass(Duration::from_secs(70));
    assert!(run.is_running(), "{}", run.stderr());
    assert_eq!(ready(), Some(503));

    broker.start();
    stormglass(broker, "load", &["--topic", &input, "--lines", "1000", "--seed", "2"]).succeeded();
    eventually("it is ready again", || ready() == Some(200));
    eventually("all is done", || done(broker, &job) == 301_000);
    run.signal(Signal::SIGTERM);
    let run = run.wait().succeeded();
    assert_eq!(job.to_the_end().succeeded().number("records"), 0, "the stop left something");
    let audit = job.audit(&["--kind", "records"]);
    assert_eq!((audit.number("missing"), run.number("restarts")), (0, 0), "{audit:#?} {run:#?}");
}

fn a_broker_that_restarts_every_five_seconds_for_a_minute_loses_nothing(broker: &mut Broker) {
    let input = load(broker, &["--lines", "300000", "--words", "5", "--unique-ids"]);
    let job = split_words(broker, &input);
    let address = free_address();
    // A member that was lost with the broker is waited for by the others for as long as its session lasts.
    let short = ["--set", "kafka.session_timeout_ms=6000", "--set", "engine.max_pending_records=200"];
    let mut run = job.start(&[&short[..], &["--http", &address]].concat());
    eventually("records come", || metric(&address, CONSUMED) > 0.0);
    let since = Instant::now();
    while since.elapsed() < Duration::from_secs(60) {
        pass(Duration::from_secs(5));
        broker.restart();
        assert!(run.is_running(), "{}", run.stderr());
    }
    eventually("all is done", || done(broker, &job) == 300_000);
    run.signal(Signal::SIGTERM);
    let run = run.wait().succeeded();
    assert_eq!(job.to_the_end().succeeded().number("records"), 0, "the stop left something");
    let audit = job.audit(&["--kind", "records"]);
    assert_eq!((audit.number("missing"), run.number("restarts")), (0, 0), "{audit:#?} {run:#?}");
}
