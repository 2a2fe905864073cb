//! `run`: a topology between two topics, until it is told to stop or its input ends.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::{Builder, JoinHandle},
    time::Duration,
};

use super::{
    cli::Run,
    config::{self, Settings},
    connect,
    dispatch::Session,
    exit::{Cause, Failure, Outcome},
    http::HttpServer,
    lock::InstanceLock,
    output, pipeline,
    progress::{Progress, grouped},
    signals::{Signals, Stop},
    summary::Summary,
};
use crate::{
    clock::Clock,
    kafka::{
        admin::Admin,
        client::{ClientError, ErrorKind, topics::TopicSpec},
        librdkafka_version,
    },
    metrics::{DeadLetterReason, DuplicateOutcome, Metrics, ReplayReason},
    runtime::{Ending, EngineError, RunReport, StopHandle, run as run_engine},
    topology::{Factory, Plan},
};

/// Runs until the end.
///
/// # Errors
/// A wrong configuration, a broker that refuses us, a generation that could not go on.
pub(crate) fn run(session: &Session<'_>, args: &Run) -> Outcome {
    let mut settings = session.settings()?;
    pipeline::settle_identity(&mut settings)?;
    pipeline::check_clients(&settings)?;
    let clock = Clock::system();
    let metrics = Metrics::new(&librdkafka_version()).map_err(|e| Failure::new(Cause::Software, e))?;
    metrics.show_process().map_err(|e| Failure::new(Cause::Software, e))?;
    let plan = pipeline::plan(&settings, args.until_end, &metrics, &clock)?;
    let _lock = match &settings.identity.instance {
        Some(instance) => Some(InstanceLock::take(&settings.identity, instance)?),
        None => None,
    };
    let stop = StopHandle::default();
    let _signals = Signals::listen({
        let stop = stop.clone();
        move |asked| match asked {
            Stop::Drain => stop.drain(),
            Stop::Now => stop.now(),
        }
    })?;
    let http = match settings.http {
        Some(address) => Some(HttpServer::start(address, metrics.clone(), &librdkafka_version())?),
        None => None,
    };
    if let Some(http) = &http {
        tracing::info!(address = %http.address(), "metrics and health are served");
    }
    if !prepare_topics(&settings, args.until_end, &stop, &clock)? {
        return stopped(args.until_end);
    }
    warn_of_what_a_crash_costs(&plan, &settings);
    let started = clock.now();
    let ticker = Ticker::start(Progress::new(session.global), &metrics, &plan, &clock);
    let report = run_engine(&plan, &pipeline::engine(&settings, &clock), &metrics, &clock, &stop);
    drop(ticker);
    let report = report.map_err(failure)?;
    let summary = summary(&metrics, &plan, &report).with_usage(clock.now() - started);
    tell(session, &summary)?;
    outcome(&report, args.until_end)
}

fn failure(error: EngineError) -> Failure {
    let cause = match &error {
        EngineError::Component { error, .. } if error.is_refusal() => Cause::Config,
        EngineError::Component { error, .. } if error.is_denied() => Cause::Permission,
        EngineError::Component { error, .. } if !error.is_retriable() => Cause::Unavailable,
        EngineError::Refused(_) | EngineError::Disagreement(_) => Cause::Config,
        EngineError::Component { .. }
        | EngineError::Hung { .. }
        | EngineError::Panicked(_)
        | EngineError::Thread(_) => Cause::Software,
    };
    Failure::new(cause, error)
}

/// The output topic is made if there is none, compacted if it holds the latest value of each key; so is the dead-letter
/// topic. Waits for a broker, and says so once. False if a stop was asked for meanwhile.
fn prepare_topics(settings: &Settings, until_end: bool, stop: &StopHandle, clock: &Clock) -> Result<bool, Failure> {
    /// Longest wait for one answer; also how soon a stop is seen while no broker answers.
    const ANSWER: Duration = Duration::from_secs(2);
    const LONGEST_PAUSE: Duration = Duration::from_secs(5);
    let admin = Admin::new(&connect::admin(&settings.kafka), ANSWER, clock.clone())?;
    let mut pause = Duration::from_millis(200);
    let mut said = false;
    loop {
        let error = match ensure(settings, until_end, &admin) {
            Ok(()) => break,
            Err(Missing::Broker(error)) => error,
            Err(Missing::Refused(failure)) => return Err(failure),
        };
        if !std::mem::replace(&mut said, true) {
            tracing::warn!(%error, "waiting for Kafka");
        }
        let until = clock.now() + pause;
        while clock.now() < until {
            if stop.is_asked() {
                return Ok(false);
            }
            std::thread::park_timeout(Duration::from_millis(50));
        }
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
    if said {
        tracing::info!("Kafka answers");
    }
    Ok(true)
}

enum Missing {
    Broker(ClientError),
    Refused(Failure),
}

impl From<Failure> for Missing {
    fn from(failure: Failure) -> Self {
        Self::Refused(failure)
    }
}

impl From<ClientError> for Missing {
    fn from(error: ClientError) -> Self {
        match error.kind {
            ErrorKind::Unavailable | ErrorKind::TimedOut => Self::Broker(error),
            _ => Self::Refused(error.into()),
        }
    }
}

fn ensure(settings: &Settings, until_end: bool, admin: &Admin) -> Result<(), Missing> {
    let mut widest = 1;
    for topic in settings.source.topics.iter().filter(|topic| !topic.starts_with('^')) {
        match admin.partitions(topic)? {
            Some(partitions) => widest = widest.max(partitions),
            None if until_end => {
                let sentence = format!(
                    "topic \"{topic}\" does not exist, so it has no end to stop at; check --input, or make it first \
                     (stormglass load --topic {topic})"
                );
                return Err(Missing::Refused(Failure::new(Cause::NoInput, sentence)));
            }
            None => tracing::warn!(topic, "the topic does not exist yet; it is read as soon as it does"),
        }
    }
    if until_end {
        matches_anything(&settings.source.topics, &admin.topics()?)?;
    }
    let compacted = settings.sink.emit == config::Emit::LatestPerKey && settings.topology == "word-count";
    let cleanup = if compacted { "compact" } else { "delete" };
    let make = |name: &str, partitions, settings_of_topic| {
        let replication = settings.kafka.replication;
        admin.ensure(&TopicSpec { name: name.into(), partitions, replication, settings: settings_of_topic })
    };
    if make(&settings.sink.topic, widest, vec![("cleanup.policy", cleanup)])? {
        tracing::info!(topic = settings.sink.topic, partitions = widest, cleanup, "made the output topic");
    }
    make(&settings.source.dead_letter_topic, 1, Vec::new())?;
    Ok(())
}

/// Refuses patterns alone that match no topic: whoever waits for an end would wait for a topic to be made first.
fn matches_anything(read: &[String], topics: &[String]) -> Outcome {
    let patterns: Vec<_> = read.iter().filter_map(|topic| regex::Regex::new(topic).ok()).collect();
    let named = read.iter().any(|topic| !topic.starts_with('^'));
    if named || patterns.iter().any(|pattern| topics.iter().any(|topic| pattern.is_match(topic))) {
        return Ok(());
    }
    let quoted: Vec<_> = read.iter().map(|pattern| format!("\"{pattern}\"")).collect();
    let sentence = format!(
        "no topic matches {}, so there is no end to stop at; check --input, or make a topic first (stormglass load \
         --topic NAME)",
        quoted.join(" or ")
    );
    Err(Failure::new(Cause::NoInput, sentence))
}

fn warn_of_what_a_crash_costs(plan: &Plan, settings: &Settings) {
    let kept = |name: &str| plan.stores.iter().any(|store| store.format.component == name);
    for component in plan.components.iter().filter(|c| c.stateful && !kept(&c.name)) {
        tracing::info!(
            component = &*component.name,
            group = settings.identity.group,
            "its state is in memory: a crash, or a second run of the group, starts it from nothing"
        );
    }
}

fn spouts(plan: &Plan) -> impl Iterator<Item = &str> {
    plan.components.iter().filter(|c| matches!(c.factory, Factory::Spout(_))).map(|c| &*c.name)
}

/// What the metrics say at the end of a run.
fn summary(metrics: &Metrics, plan: &Plan, report: &RunReport) -> Summary {
    let trees: Vec<_> = spouts(plan).map(|name| metrics.trees(name)).collect();
    let not_spouts = plan.components.iter().filter(|c| !matches!(c.factory, Factory::Spout(_)));
    Summary {
        records: metrics.total_consumed(),
        executed: not_spouts.map(|c| metrics.component(&c.name).executed.get()).sum(),
        acked: trees.iter().map(|t| t.acked.get()).sum(),
        failed: trees.iter().map(|t| t.failed.get()).sum(),
        timed_out: trees.iter().map(|t| t.timed_out.get()).sum(),
        replayed: ReplayReason::ALL.iter().map(|reason| metrics.replayed(*reason).get()).sum(),
        dead_lettered: DeadLetterReason::ALL.iter().map(|reason| metrics.dead_letters(*reason).get()).sum(),
        duplicates: metrics.duplicates(DuplicateOutcome::Visible).get(),
        commits: metrics.commits().committed.get(),
        restarts: report.restarts,
        possible_repeats: (!plan.stores.is_empty()).then_some(report.restored.possible_repeats),
        restored_keys: report.restored.keys,
        restore_seconds: report.restored.took.as_secs_f64(),
        open_at_stop: report.open_at_stop as u64,
        ..Summary::default()
    }
}

fn tell(session: &Session<'_>, summary: &Summary) -> Outcome {
    if session.global.json {
        return output::json(summary);
    }
    tracing::info!("{summary}");
    Ok(())
}

fn outcome(report: &RunReport, until_end: bool) -> Outcome {
    let comes_again = "what is not committed comes again with the next run";
    let why = match report.ending {
        Ending::Exhausted => return Ok(()),
        Ending::Drained => return stopped(until_end),
        Ending::Stopped { open_trees } => {
            let how = if open_trees == 0 { "with nothing in flight" } else { "at once" };
            tracing::warn!(open_trees, "stopped {how}: {comes_again}");
            return stopped(until_end);
        }
        Ending::CutShort { open_trees } => {
            format!("a part was lost with {open_trees} trees open while the run drained")
        }
        Ending::DrainTimedOut { open_trees: 0 } => {
            "the drain timeout passed before the brokers had acknowledged all outputs".to_owned()
        }
        Ending::DrainTimedOut { open_trees } => format!("the drain timeout passed with {open_trees} trees open"),
    };
    Err(Failure::new(Cause::Unfinished, format!("{why}: {comes_again}")))
}

/// Whoever asked for a topic to its end must not take a part of it for the whole.
fn stopped(until_end: bool) -> Outcome {
    if until_end {
        return Err(Failure::new(
            Cause::Unfinished,
            "stopped before the end of the input: the next run goes on from there",
        ));
    }
    Ok(())
}

/// Shows how far the run is, a few times a second, for as long as it lives.
struct Ticker {
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Ticker {
    fn start(progress: Progress, metrics: &Metrics, plan: &Plan, clock: &Clock) -> Self {
        const EVERY: Duration = Duration::from_millis(500);
        let over = Arc::new(AtomicBool::new(false));
        if !progress.is_shown() {
            return Self { over, thread: None };
        }
        let trees: Vec<_> = spouts(plan).map(|name| metrics.trees(name)).collect();
        let tuples: Vec<_> = plan.components.iter().map(|c| metrics.component(&c.name).executed).collect();
        let (metrics, clock, ended) = (metrics.clone(), clock.clone(), Arc::clone(&over));
        let body = move || {
            let (mut last, mut at) = (0, clock.now());
            while !ended.load(Ordering::Acquire) {
                std::thread::park_timeout(EVERY);
                let executed: u64 = tuples.iter().map(crate::metrics::Counter::get).sum();
                let now = clock.now();
                let millis = u64::try_from((now - at).as_millis()).unwrap_or(u64::MAX).max(1);
                let rate = (executed - last) * 1_000 / millis;
                (last, at) = (executed, now);
                let ended: u64 = trees.iter().map(|t| t.acked.get() + t.failed.get() + t.timed_out.get()).sum();
                let started: u64 = trees.iter().map(|t| t.started.get()).sum();
                progress.show(format!(
                    "{} records   {} tuples/s   {} in flight   lag {}",
                    grouped(metrics.total_consumed()),
                    grouped(rate),
                    grouped(started.saturating_sub(ended)),
                    metrics.total_lag().map_or_else(|| "unknown".to_owned(), grouped),
                ));
            }
        };
        let thread = Builder::new().name("progress".to_owned()).spawn(body).ok();
        Self { over, thread }
    }
}

impl Drop for Ticker {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            drop(thread.join());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_that_match_no_topic_have_no_end_to_stop_at() {
        let list = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let topics = list(&["lines.eu", "counts"]);
        for read in [&["^lines"][..], &["lines"], &["^nothing", "^lines"], &["^nothing", "lines"]] {
            assert!(matches_anything(&list(read), &topics).is_ok(), "{read:?}");
        }
        let refused = matches_anything(&list(&["^nothing", "^eu"]), &topics).unwrap_err();
        assert_eq!(refused.cause, Cause::NoInput);
        let sentence = refused.error.unwrap().to_string();
        assert!(sentence.starts_with("no topic matches \"^nothing\" or \"^eu\", so there is no end"), "{sentence}");
    }
}
