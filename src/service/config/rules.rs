//! Rules over several settings at once. None is ever mended in silence.

use std::path::PathBuf;

use super::{
    brokers,
    layers::{Layers, Origin},
    problem::Problem,
    raw::Raw,
    validate::Env,
};
use crate::{
    topologies::{TopologyError, check},
    topology::Delivery,
};

/// The consumer group: the one that is set, or one for this topology and output. So a new output starts from the
/// beginning, and two topologies never share offsets by accident.
pub(crate) fn group(raw: &Raw) -> String {
    if raw.kafka.group.is_empty() {
        format!("stormglass-{}-{}", raw.topology, raw.sink.topic)
    } else {
        raw.kafka.group.clone()
    }
}

/// The folder for what stays on this host: the one that is set, or the one that the system names for such things
/// (systemd, the XDG base directory specification).
pub(crate) fn state_dir(raw: &Raw, env: Env<'_>) -> PathBuf {
    let named = |variable: &str| env(variable).filter(|folder| !folder.is_empty()).map(PathBuf::from);
    let set = (!raw.state_dir.is_empty()).then(|| PathBuf::from(&raw.state_dir));
    set.or_else(|| named("STATE_DIRECTORY"))
        .or_else(|| named("XDG_STATE_HOME").map(|state| state.join("stormglass")))
        .or_else(|| named("HOME").map(|home| home.join(".local/state/stormglass")))
        .unwrap_or_else(|| PathBuf::from("/var/lib/stormglass"))
}

/// The dead-letter topic: the one that is set, or the output's name with an ending.
pub(crate) fn dead_letter_topic(raw: &Raw) -> String {
    if raw.source.dead_letter_topic.is_empty() {
        format!("{}-dead-letters", raw.sink.topic)
    } else {
        raw.source.dead_letter_topic.clone()
    }
}

/// The consumer group, which must be set or follow from what is set.
pub(super) fn known_group(raw: &Raw, found: &mut Vec<Problem>) -> String {
    if raw.kafka.group.is_empty() && raw.sink.topic.is_empty() {
        let message =
            "is not set: name it, as in --group g, or the output after which it is named, as in --output counts";
        found.push(Problem::new("kafka.group", message));
    }
    group(raw)
}

/// The dead-letter topic, for a command that needs no other topic.
pub(super) fn known_dead_letter_topic(raw: &Raw, found: &mut Vec<Problem>) -> String {
    const PATH: &str = "source.dead_letter_topic";
    let topic = dead_letter_topic(raw);
    if raw.source.dead_letter_topic.is_empty() && raw.sink.topic.is_empty() {
        let message =
            "is not set: name it, as in --dead-letters counts-dead-letters, or its output, as in --output counts";
        found.push(Problem::new(PATH, message));
    } else if !legal_topic(&topic) {
        found.push(illegal(PATH, &topic));
    }
    topic
}

/// What has no default.
pub(super) fn required(raw: &Raw, found: &mut Vec<Problem>) {
    brokers(raw, found);
    if raw.source.topics.is_empty() {
        not_set("source.topics", "is not set: name what to read, as in --input lines", found);
    }
    if raw.sink.topic.is_empty() {
        not_set("sink.topic", "is not set: name where to write, as in --output counts", found);
    }
}

/// The brokers: at least one, and addresses.
pub(super) fn brokers(raw: &Raw, found: &mut Vec<Problem>) {
    if raw.kafka.brokers.is_empty() {
        not_set("kafka.brokers", "is not set: name a broker, as in --brokers localhost:9092", found);
    }
    brokers::check(&raw.kafka.brokers, found);
}

/// What could not be read was set all the same, and is said already.
fn not_set(path: &str, message: &str, found: &mut Vec<Problem>) {
    if !found.iter().any(|problem| problem.path == path) {
        found.push(Problem::new(path, message));
    }
}

/// The topology and its options. The ends that it is to have do not matter.
pub(super) fn topology(raw: &Raw, found: &mut Vec<Problem>) {
    match check(&raw.topology, &raw.topology_options) {
        Ok(()) => {}
        Err(error @ TopologyError::Unknown { .. }) => found.push(Problem::new("topology", error.to_string())),
        Err(TopologyError::Options { mistakes, .. }) => {
            found.extend(mistakes.into_iter().map(|mistake| Problem::new("topology_options", mistake)));
        }
    }
}

/// Settings that deny each other.
pub(super) fn contradictions(raw: &Raw, layers: &Layers, found: &mut Vec<Problem>) {
    let set = |path| *layers.origin(path) != Origin::Default;
    match raw.delivery.parse::<Delivery>() {
        Ok(delivery) if !delivery.is_tracked() && set("source.max_retries") && raw.source.max_retries > 0 => {
            let message = format!(
                "contradicts delivery = \"{delivery}\", which never emits a record twice: remove one of the two"
            );
            found.push(Problem::new("source.max_retries", message));
        }
        Ok(_) => {}
        Err(message) => found.push(Problem::new("delivery", message)),
    }
    if !raw.source.json_pointer.is_empty() && raw.source.format != "json" {
        let message = "has no meaning for text: set source.format = \"json\", or remove the pointer";
        found.push(Problem::new("source.json_pointer", message));
    }
    if !(raw.source.json_pointer.is_empty() || raw.source.json_pointer.starts_with('/')) {
        let message = format!("\"{}\" is no JSON pointer: it starts with /, as in /message", raw.source.json_pointer);
        found.push(Problem::new("source.json_pointer", message));
    }
    if raw.source.retry_backoff_ms > raw.source.retry_backoff_max_ms {
        let message = format!(
            "{} ms is longer than source.retry_backoff_max_ms = {}: raise that, or lower this",
            raw.source.retry_backoff_ms, raw.source.retry_backoff_max_ms
        );
        found.push(Problem::new("source.retry_backoff_ms", message));
    }
    let engine = &raw.engine;
    if engine.tree_timeout_ms <= engine.flush_interval_ms {
        let message = format!(
            "{} ms is not longer than engine.flush_interval_ms = {}: trees would time out while they wait for a batch",
            engine.tree_timeout_ms, engine.flush_interval_ms
        );
        found.push(Problem::new("engine.tree_timeout_ms", message));
    }
    if engine.drain_timeout_ms != 0 && engine.drain_timeout_ms < engine.commit_interval_ms {
        let message = format!(
            "{} ms is shorter than engine.commit_interval_ms = {}: a stop would end before its last commit",
            engine.drain_timeout_ms, engine.commit_interval_ms
        );
        found.push(Problem::new("engine.drain_timeout_ms", message));
    }
    if !raw.http.enabled && set("http.listen") && set("http.enabled") {
        let message = "contradicts http.enabled = false: remove one of the two";
        found.push(Problem::new("http.listen", message));
    }
}

/// Names of topics, topics that would feed themselves, and the name of this process.
pub(super) fn names(raw: &Raw, found: &mut Vec<Problem>) {
    let instance = &raw.kafka.instance;
    if !instance.is_empty() && !legal_topic(instance) {
        let message = format!(
            "\"{instance}\" is no name for an instance: at most 249 of a-z, A-Z, 0-9, dot, underscore and hyphen"
        );
        found.push(Problem::new("kafka.instance", message));
    }
    let dead_letters = dead_letter_topic(raw);
    let written = [("sink.topic", &raw.sink.topic), ("source.dead_letter_topic", &dead_letters)];
    for (path, topic) in written {
        if !topic.is_empty() && !legal_topic(topic) {
            found.push(illegal(path, topic));
        }
    }
    if raw.sink.topic == dead_letters {
        found.push(Problem::new("source.dead_letter_topic", "is also the output topic: name another one"));
    }
    for (n, input) in raw.source.topics.iter().enumerate() {
        if raw.source.topics.iter().take(n).any(|other| other == input) {
            let message = format!("\"{input}\" is there twice: a topic is read once; remove one of the two");
            found.push(Problem::new("source.topics", message));
            continue;
        }
        let pattern = input.starts_with('^').then(|| regex::Regex::new(input));
        match &pattern {
            Some(Err(_)) => {
                let message =
                    format!("\"{input}\" is no regular expression: mend it, or remove the ^ for a plain name");
                found.push(Problem::new("source.topics", message));
            }
            None if !legal_topic(input) => found.push(illegal("source.topics", input)),
            _ => {}
        }
        for (path, topic) in written.iter().filter(|(_, topic)| !topic.is_empty()) {
            let read = match &pattern {
                Some(Ok(pattern)) => pattern.is_match(topic),
                _ => input == *topic,
            };
            if read {
                let message = format!(
                    "\"{topic}\" is also read (source.topics has \"{input}\"): a topic that feeds itself never ends"
                );
                found.push(Problem::new(*path, message));
            }
        }
    }
}

fn illegal(path: &str, topic: &str) -> Problem {
    Problem::new(path, no_topic(topic))
}

/// What to say of a name that is [no legal one](legal_topic).
pub(crate) fn no_topic(name: &str) -> String {
    format!("\"{name}\" is no name for a topic: at most 249 of a-z, A-Z, 0-9, dot, underscore and hyphen")
}

/// Whether Kafka accepts `topic` as a name.
pub(crate) fn legal_topic(topic: &str) -> bool {
    !topic.is_empty()
        && topic.len() <= 249
        && topic != "."
        && topic != ".."
        && topic.bytes().all(|b| b.is_ascii_alphanumeric() || b"._-".contains(&b))
}
