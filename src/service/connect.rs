//! From settings to what the clients of `kafka/` take.

use std::collections::BTreeMap;

use super::config::{ClientSettings, Property};
use crate::kafka::Connection;

/// A connection for whoever reads.
pub(crate) fn consumer(settings: &ClientSettings) -> Connection {
    connection(settings, settings.consumer())
}

/// A connection for whoever writes.
pub(crate) fn producer(settings: &ClientSettings) -> Connection {
    connection(settings, settings.producer())
}

/// A connection for whoever only asks.
pub(crate) fn admin(settings: &ClientSettings) -> Connection {
    connection(settings, settings.properties.iter().map(|(name, value)| (name.as_str(), Property::expose(value))))
}

fn connection<'a>(settings: &ClientSettings, properties: impl Iterator<Item = (&'a str, &'a str)>) -> Connection {
    // A later pair of the same name replaces an earlier one.
    let overrides: BTreeMap<_, _> = properties.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    Connection { brokers: settings.brokers.join(","), client_id: Some(settings.client_id.clone()), overrides }
}
