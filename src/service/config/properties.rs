//! Properties of librdkafka: secrets only by reference, and none that has a setting of its own.

use std::collections::BTreeMap;

use super::{
    layers::Layers,
    problem::Problem,
    secrets::{self, Reference, Secret},
    settings::{Properties, Property},
    validate::Env,
};

/// Properties that a setting of ours decides.
const OURS: &[(&str, &str)] = &[
    ("bootstrap.servers", "kafka.brokers"),
    ("metadata.broker.list", "kafka.brokers"),
    ("group.id", "kafka.group"),
    ("client.id", "kafka.client_id"),
    ("group.instance.id", "kafka.instance"),
    ("session.timeout.ms", "kafka.session_timeout_ms"),
    ("partition.assignment.strategy", "source.assignment"),
];

/// Why the promise forbids this value, if it does.
fn guarded(name: &str, value: &str) -> Option<String> {
    crate::kafka::check_overrides(&BTreeMap::from([(name.to_owned(), value.to_owned())])).pop()
}

/// Why property `name` may not be `value`, which may be shown; none if it may.
fn mistake(name: &str, value: &str) -> Option<String> {
    guarded(name, value).or_else(|| Some(crate::kafka::check_property(name, value).err()?.message))
}

/// What `reference` leads to, for property `name`. No sentence shows it, whatever the property is.
fn referred(name: &str, reference: &Reference<'_>, env: Env<'_>) -> Result<Secret, String> {
    crate::kafka::knows_property(name).map_err(|error| error.message)?;
    let secret = secrets::resolve(name, reference, env)?;
    match mistake(name, secret.expose()) {
        None => Ok(secret),
        Some(_) => Err(format!("leads to a value that property \"{name}\" may not have (not shown): mend it there")),
    }
}

/// Reads the table of properties at `path`, with the secrets that it refers to.
pub(super) fn read(
    path: &str,
    raw: &BTreeMap<String, String>,
    layers: &Layers,
    env: Env<'_>,
    found: &mut Vec<Problem>,
) -> Properties {
    let mut properties = Properties::new();
    for (name, value) in raw {
        let at = format!("{path}.{name}");
        let mut wrong = |message: String| {
            found.push(Problem { path: at.clone(), origin: Some(layers.origin(&at).to_string()), message });
        };
        let (target, reference) = secrets::reference(name, value).unzip();
        if let Some((_, setting)) = OURS.iter().find(|(ours, _)| *ours == target.unwrap_or(name)) {
            wrong(format!("is decided by {setting}: set that instead"));
        } else if secrets::is_secret(name) {
            wrong(format!(
                "is a secret and may not stand here: put it into a file and set \"{name}_file\" to its path"
            ));
        } else if let (Some(target), Some(reference)) = (target, reference) {
            match referred(target, &reference, env) {
                Ok(secret) => drop(properties.insert(target.to_owned(), Property::Secret(secret))),
                Err(message) => wrong(message),
            }
        } else if let Some(message) = mistake(name, value) {
            wrong(message);
        } else {
            properties.insert(name.clone(), Property::Plain(value.clone()));
        }
    }
    properties
}
