//! From what the file says to what the program uses: one pass that finds every mistake.

use std::{net::SocketAddr, num::NonZeroUsize, time::Duration};

use super::{
    layers::Layers,
    load::Loaded,
    problem::{Problem, Problems},
    properties,
    raw::{Engine, Raw, Source, fields},
    rules,
    schema::{Field, Rule},
    settings::{
        ClientSettings, Emit, EngineSettings, Format, IdentitySettings, LogSettings, Policy, Settings, SinkSettings,
        SourceSettings, Start,
    },
};
use crate::{
    kafka::{Assignment, OutOfRange},
    topology::Delivery,
};

/// Looks an environment variable up, for secrets that stand there.
pub(crate) type Env<'a> = &'a dyn Fn(&str) -> Option<String>;

/// Checks everything that `run` needs.
///
/// # Errors
/// Every mistake there is.
pub(crate) fn pipeline(loaded: &Loaded, env: Env<'_>) -> Result<Settings, Problems> {
    let mut found = shape(loaded);
    let Some(raw) = &loaded.raw else { return Err(attributed(found, &loaded.layers)) };
    rules::required(raw, &mut found);
    rules::topology(raw, &mut found);
    rules::contradictions(raw, &loaded.layers, &mut found);
    rules::names(raw, &mut found);
    let http = listen_address(raw, &mut found);
    let kafka = client_settings(raw, &loaded.layers, env, &mut found);
    let identity = identity(raw, env);
    if found.is_empty() { Ok(settings(raw, kafka, identity, http)) } else { Err(attributed(found, &loaded.layers)) }
}

/// Checks only what a command needs that reads or writes topics by itself.
///
/// # Errors
/// Every mistake there is.
pub(crate) fn client(loaded: &Loaded, env: Env<'_>) -> Result<ClientSettings, Problems> {
    let mut found = shape(loaded);
    let Some(raw) = &loaded.raw else { return Err(attributed(found, &loaded.layers)) };
    rules::brokers(raw, &mut found);
    let kafka = client_settings(raw, &loaded.layers, env, &mut found);
    if found.is_empty() { Ok(kafka) } else { Err(attributed(found, &loaded.layers)) }
}

/// Checks what a command about dead letters needs: how to reach Kafka, and the topic.
///
/// # Errors
/// Every mistake there is.
pub(crate) fn dead_letters(loaded: &Loaded, env: Env<'_>) -> Result<(ClientSettings, String), Problems> {
    let mut found = shape(loaded);
    let Some(raw) = &loaded.raw else { return Err(attributed(found, &loaded.layers)) };
    rules::brokers(raw, &mut found);
    let topic = rules::known_dead_letter_topic(raw, &mut found);
    let kafka = client_settings(raw, &loaded.layers, env, &mut found);
    if found.is_empty() { Ok((kafka, topic)) } else { Err(attributed(found, &loaded.layers)) }
}

/// Checks what a command about an app's state needs: how to reach Kafka, and the app's group.
///
/// # Errors
/// Every mistake there is.
pub(crate) fn app(loaded: &Loaded, env: Env<'_>) -> Result<(ClientSettings, String), Problems> {
    let mut found = shape(loaded);
    let Some(raw) = &loaded.raw else { return Err(attributed(found, &loaded.layers)) };
    rules::brokers(raw, &mut found);
    let group = rules::known_group(raw, &mut found);
    let kafka = client_settings(raw, &loaded.layers, env, &mut found);
    if found.is_empty() { Ok((kafka, group)) } else { Err(attributed(found, &loaded.layers)) }
}

/// How messages are to be written, even if other settings are wrong.
pub(crate) fn log(loaded: &Loaded) -> LogSettings {
    let text = |path| loaded.layers.value(path).and_then(toml::Value::as_str).unwrap_or_default();
    LogSettings { level: text("log.level").parse().unwrap_or(tracing::Level::INFO), json: text("log.format") == "json" }
}

/// What single values break: their kind, their range, their list of words.
fn shape(loaded: &Loaded) -> Vec<Problem> {
    let mut found = loaded.layers.problems.clone();
    for field in fields() {
        if let Some(message) = loaded.layers.value(&field.path()).and_then(|value| broken_rule(field, value)) {
            found.push(Problem::new(field.path(), message));
        }
    }
    found
}

fn broken_rule(field: &Field, value: &toml::Value) -> Option<String> {
    match field.rule {
        Rule::Any => None,
        Rule::Range(low, high) => {
            let number = value.as_integer()?;
            let fits = u64::try_from(number).is_ok_and(|number| (low..=high).contains(&number));
            (!fits).then(|| format!("{number} is out of range: at least {low}, at most {high}"))
        }
        Rule::OneOf(words) => {
            let word = value.as_str()?;
            (!words.contains(&word)).then(|| format!("\"{word}\" is not one of {}", words.join(", ")))
        }
    }
}

/// Says of each problem who set the value, unless it is the default.
fn attributed(problems: Vec<Problem>, layers: &Layers) -> Problems {
    let with_origin = |mut problem: Problem| {
        let origin = layers.origin(&problem.path);
        if problem.origin.is_none() && *origin != super::layers::Origin::Default {
            problem.origin = Some(origin.to_string());
        }
        problem
    };
    Problems(problems.into_iter().map(with_origin).collect())
}

fn listen_address(raw: &Raw, found: &mut Vec<Problem>) -> Option<SocketAddr> {
    if let Ok(address) = raw.http.listen.parse() {
        return raw.http.enabled.then_some(address);
    }
    let message = format!("\"{}\" is no address: write IP:PORT, as in 127.0.0.1:9464", raw.http.listen);
    found.push(Problem::new("http.listen", message));
    None
}

fn client_settings(raw: &Raw, layers: &Layers, env: Env<'_>, found: &mut Vec<Problem>) -> ClientSettings {
    let kafka = &raw.kafka;
    let mut read = |name: &str, map| properties::read(&format!("kafka.{name}"), map, layers, env, found);
    ClientSettings {
        brokers: kafka.brokers.clone(),
        client_id: kafka.client_id.clone(),
        replication: u16::try_from(kafka.replication_factor).ok().filter(|copies| *copies > 0),
        properties: read("properties", &kafka.properties),
        consumer_properties: read("consumer_properties", &kafka.consumer_properties),
        producer_properties: read("producer_properties", &kafka.producer_properties),
    }
}

fn identity(raw: &Raw, env: Env<'_>) -> IdentitySettings {
    let instance = &raw.kafka.instance;
    IdentitySettings {
        group: rules::group(raw),
        instance: (!instance.is_empty()).then(|| instance.clone()),
        session_timeout: millis(raw.kafka.session_timeout_ms),
        state_dir: rules::state_dir(raw, env),
    }
}

const fn millis(n: u64) -> Duration {
    Duration::from_millis(n)
}

fn size(n: u64) -> usize {
    usize::try_from(n).unwrap_or(usize::MAX)
}

fn settings(raw: &Raw, kafka: ClientSettings, identity: IdentitySettings, http: Option<SocketAddr>) -> Settings {
    let delivery: Delivery = raw.delivery.parse().unwrap_or_default();
    let emit = if raw.sink.emit == "every" { Emit::Every } else { Emit::LatestPerKey };
    Settings {
        topology: raw.topology.clone(),
        topology_options: raw.topology_options.clone(),
        delivery,
        identity,
        kafka,
        source: source(&raw.source, rules::dead_letter_topic(raw), delivery),
        sink: SinkSettings { topic: raw.sink.topic.clone(), emit },
        engine: engine(&raw.engine),
        http,
        log: LogSettings {
            level: raw.log.level.parse().unwrap_or(tracing::Level::INFO),
            json: raw.log.format == "json",
        },
    }
}

fn source(raw: &Source, dead_letter_topic: String, delivery: Delivery) -> SourceSettings {
    let policy = |word: &str| if word == "dead-letter" { Policy::DeadLetter } else { Policy::Pass };
    let retries = if delivery.is_tracked() { raw.max_retries } else { 0 };
    SourceSettings {
        topics: raw.topics.clone(),
        format: match raw.format.as_str() {
            "json" => Format::Json { pointer: raw.json_pointer.clone() },
            _ => Format::Text,
        },
        non_utf8: policy(&raw.non_utf8),
        empty: policy(&raw.empty),
        start: if raw.start == "latest" { Start::Latest } else { Start::Earliest },
        assignment: match raw.assignment.as_str() {
            "range" => Assignment::Range,
            "roundrobin" => Assignment::RoundRobin,
            _ => Assignment::CooperativeSticky,
        },
        out_of_range: if raw.out_of_range == "skip" { OutOfRange::Skip } else { OutOfRange::Fail },
        revoke_timeout: millis(raw.revoke_timeout_ms),
        max_retries: u32::try_from(retries).unwrap_or(u32::MAX),
        retry_backoff: millis(raw.retry_backoff_ms),
        retry_backoff_max: millis(raw.retry_backoff_max_ms),
        dead_letter_topic,
    }
}

fn engine(raw: &Engine) -> EngineSettings {
    EngineSettings {
        executors: NonZeroUsize::new(size(raw.executors)),
        max_pending_records: size(raw.max_pending_records),
        max_pending_bytes: size(raw.max_pending_bytes),
        tree_timeout: millis(raw.tree_timeout_ms),
        commit_interval: millis(raw.commit_interval_ms),
        flush_interval: millis(raw.flush_interval_ms),
        hang_timeout: millis(raw.hang_timeout_ms),
        drain_timeout: millis(raw.drain_timeout_ms),
        batch_rows: size(raw.batch_rows),
        spout_batch: size(raw.spout_batch),
        restart_backoff: millis(raw.restart_backoff_ms),
    }
}
