//! From settings to a topology between two topics, and to the engine's options.

use std::{num::NonZeroUsize, sync::Arc};

use super::{
    config::{self, Settings},
    connect,
    exit::{Cause, Failure, OrFail as _},
};
use crate::{
    clock::Clock,
    kafka::{
        self, ChangelogConnections, ChangelogOptions, DeadLetterOptions, Emit, KafkaChangelog, KafkaSink,
        KafkaSinkOptions, KafkaSpout, KafkaSpoutOptions, RdkafkaSink, RdkafkaSource, SinkFactory, SinkOptions,
        SourceFactory, SourceOptions, TransactionOptions,
        source::{
            format::{Decoder, Format, Policy},
            retry::RetryPolicy,
        },
    },
    metrics::Metrics,
    runtime::EngineOptions,
    topologies::{EmitMode, Ends, TopologyOptions, topology},
    topology::{Plan, changelog::ChangelogFactory},
};

/// The topology that the settings name, between the topics that they name.
///
/// # Errors
/// A topology that there is none of, an option that it does not have, a topology that cannot be built.
pub(crate) fn plan(settings: &Settings, until_end: bool, metrics: &Metrics, clock: &Clock) -> Result<Plan, Failure> {
    let plan = draw(settings, ends(settings, (until_end, false), metrics, clock))?;
    if plan.stores.is_empty() {
        return Ok(plan);
    }
    // Only the plan knows that the topology has stores, and the spout must: its partitions take them along.
    draw(settings, ends(settings, (until_end, true), metrics, clock))
}

fn draw(settings: &Settings, ends: Ends) -> Result<Plan, Failure> {
    let options = TopologyOptions {
        values: settings.topology_options.clone(),
        parallelism: u16::try_from(executors(settings).get()).unwrap_or(u16::MAX),
        emit: match settings.sink.emit {
            config::Emit::Every => EmitMode::Every,
            config::Emit::LatestPerKey => EmitMode::LatestPerKey,
        },
    };
    let builder = topology(&settings.topology, &options, ends).or_fail(Cause::Config)?;
    builder.build().or_fail(Cause::Config)
}

/// The topology's form: what follows from the settings alone, and whatever its ends are.
fn sketch(settings: &Settings) -> Result<Plan, Failure> {
    let metrics = Metrics::new("").or_fail(Cause::Software)?;
    let plan = draw(settings, ends(settings, (false, false), &metrics, &Clock::system()))?;
    changelogs_have_names(settings, &plan)?;
    Ok(plan)
}

/// The group's name is the beginning of the changelogs' names, so not every group can have stores.
fn changelogs_have_names(settings: &Settings, plan: &Plan) -> Result<(), Failure> {
    let options = changelog_options(settings);
    let topics = plan.stores.iter().map(|store| options.topic(&store.format.component, &store.format.store));
    let Some(topic) = topics.filter(|topic| !config::legal_topic(topic)).max_by_key(String::len) else {
        return Ok(());
    };
    let (group, ending) = (&options.app, topic.get(options.app.len()..).unwrap_or_default());
    let message = format!(
        "\"{group}\" is no name for a group with stores, whose changelog is a topic of that name with \"{ending}\" behind \
         it: at most {} of a-z, A-Z, 0-9, dot, underscore and hyphen, as in --group g",
        249_usize.saturating_sub(ending.len())
    );
    Err(config::Problems(vec![config::Problem::new("kafka.group", message)]).into())
}

/// Gives a topology with stores the identity that it must have: it is one process, and its successor must be known by
/// the same name.
///
/// # Errors
/// See [`plan`].
pub(crate) fn settle_identity(settings: &mut Settings) -> Result<(), Failure> {
    if !sketch(settings)?.stores.is_empty() {
        settings.identity.instance.get_or_insert_with(|| "0".to_owned());
    }
    Ok(())
}

/// Whether librdkafka makes the clients of a run, of settings whose identity is settled. No broker is asked.
///
/// # Errors
/// Properties that are wrong together: every sentence once.
pub(crate) fn check_clients(settings: &Settings) -> Result<(), Failure> {
    let kafka = &settings.kafka;
    let sink = SinkOptions::new(connect::producer(kafka));
    let mut checks = vec![source_options(settings).check(), sink.check(), connect::admin(kafka).check_admin()];
    if !sketch(settings)?.stores.is_empty() {
        checks.extend([connect::consumer(kafka).check_reader(), transaction_options(settings).check()]);
    }
    let mut problems = Vec::new();
    for error in checks.into_iter().filter_map(Result::err) {
        let problem = config::Problem::new("kafka.properties", error.message);
        if !problems.contains(&problem) {
            problems.push(problem);
        }
    }
    if problems.is_empty() { Ok(()) } else { Err(config::Problems(problems).into()) }
}

/// How the stores' changelog is written.
fn transaction_options(settings: &Settings) -> TransactionOptions {
    let changelog = changelog_options(settings);
    let options = TransactionOptions::new(connect::producer(&settings.kafka), changelog.transactional_id());
    TransactionOptions { timeout: changelog.transaction_timeout, ..options }
}

/// Whose the stores' changelog is.
pub(crate) fn changelog_options(settings: &Settings) -> ChangelogOptions {
    let identity = &settings.identity;
    let slot = identity.instance.clone().unwrap_or_else(|| "0".to_owned());
    let brokers = settings.kafka.brokers.join(",");
    let options = ChangelogOptions::new(brokers, identity.group.as_str(), slot, identity.session_timeout);
    ChangelogOptions { replication: settings.kafka.replication, ..options }
}

/// Keeps the stores of the topology in Kafka.
pub(crate) fn changelog(settings: &Settings, clock: &Clock) -> ChangelogFactory {
    let (kafka, options) = (&settings.kafka, changelog_options(settings));
    let connections = ChangelogConnections {
        admin: connect::admin(kafka),
        consumer: connect::consumer(kafka),
        producer: connect::producer(kafka),
    };
    KafkaChangelog::factory(options, connections.clients(clock.clone()), clock.clone())
}

/// The engine's options.
pub(crate) fn engine(settings: &Settings, clock: &Clock) -> EngineOptions {
    let engine = &settings.engine;
    EngineOptions {
        delivery: settings.delivery,
        executors: executors(settings),
        batch_rows: engine.batch_rows,
        spout_batch: engine.spout_batch,
        max_pending: engine.max_pending_records,
        tree_timeout: engine.tree_timeout,
        commit_interval: engine.commit_interval,
        flush_interval: engine.flush_interval,
        hang_timeout: engine.hang_timeout,
        drain_timeout: engine.drain_timeout,
        restart_backoff: engine.restart_backoff,
        changelog: Some(changelog(settings, clock)),
    }
}

fn executors(settings: &Settings) -> NonZeroUsize {
    settings.engine.executors.unwrap_or(EngineOptions::default().executors)
}

fn ends(settings: &Settings, (until_end, keyed): (bool, bool), metrics: &Metrics, clock: &Clock) -> Ends {
    let source = source_factory(settings, clock);
    let options = SinkOptions::new(connect::producer(&settings.kafka));
    let sink = sink_factory(options.clone(), clock);
    let letters = sink_factory(SinkOptions { request_records: 1, ..options }, clock);
    let spout = KafkaSpoutOptions { keyed, ..spout_options(settings, until_end) };
    let into = sink_options(settings);
    let dead_letters =
        DeadLetterOptions { topic: settings.source.dead_letter_topic.as_str().into(), ..DeadLetterOptions::default() };
    let (of_source, of_sink) = (metrics.clone(), metrics.clone());
    let (for_source, for_sink) = ((dead_letters.clone(), Arc::clone(&letters)), (dead_letters, letters));
    Ends::new(
        move || KafkaSpout::new(spout.clone(), Arc::clone(&source), for_source.clone(), of_source.clone()),
        move || KafkaSink::new(into.clone(), Arc::clone(&sink), for_sink.clone(), &of_sink),
    )
}

fn source_options(settings: &Settings) -> SourceOptions {
    let topics = settings.source.topics.clone();
    let identity = &settings.identity;
    SourceOptions {
        instance: identity.instance.clone(),
        assignment: settings.source.assignment,
        session_timeout: identity.session_timeout,
        ..SourceOptions::new(connect::consumer(&settings.kafka), identity.group.clone(), topics)
    }
}

fn source_factory(settings: &Settings, clock: &Clock) -> SourceFactory {
    let (options, clock) = (source_options(settings), clock.clone());
    Arc::new(move || Ok(Box::new(RdkafkaSource::new(options.clone(), clock.clone())?)))
}

fn sink_factory(options: SinkOptions, clock: &Clock) -> SinkFactory {
    let clock = clock.clone();
    Arc::new(move || Ok(Box::new(RdkafkaSink::new(&options, clock.clone())?)))
}

fn spout_options(settings: &Settings, until_end: bool) -> KafkaSpoutOptions {
    let source = &settings.source;
    let policy = |policy| match policy {
        config::Policy::Pass => Policy::Pass,
        config::Policy::DeadLetter => Policy::DeadLetter,
    };
    KafkaSpoutOptions {
        decoder: Decoder {
            format: match &source.format {
                config::Format::Text => Format::Text,
                config::Format::Json { pointer } => {
                    Format::Json { pointer: Some(pointer.clone()).filter(|p| !p.is_empty()) }
                }
            },
            non_utf8: policy(source.non_utf8),
            empty: policy(source.empty),
        },
        retry: RetryPolicy {
            max_retries: source.max_retries,
            backoff: source.retry_backoff,
            backoff_max: source.retry_backoff_max,
        },
        start: match source.start {
            config::Start::Earliest => kafka::Start::Earliest,
            config::Start::Latest => kafka::Start::Latest,
        },
        until_end,
        out_of_range: source.out_of_range,
        revoke_timeout: source.revoke_timeout,
        max_pending_records: settings.engine.max_pending_records,
        max_pending_bytes: settings.engine.max_pending_bytes,
        ..KafkaSpoutOptions::default()
    }
}

/// `word-count` writes word and count; a topology of one field writes it as the value, without a key.
fn sink_options(settings: &Settings) -> KafkaSinkOptions {
    let topic = settings.sink.topic.as_str();
    if settings.topology == "word-count" {
        let emit = match settings.sink.emit {
            config::Emit::Every => Emit::Every,
            config::Emit::LatestPerKey => Emit::LatestPerKey,
        };
        return KafkaSinkOptions::new(topic, "count").keyed_by("word").emitting(emit);
    }
    KafkaSinkOptions::new(topic, "word").emitting(Emit::Every)
}
