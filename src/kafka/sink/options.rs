//! How a [`KafkaSink`](super::KafkaSink) writes.

use std::sync::Arc;

/// Which tuples become records.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
pub enum Emit {
    /// Every one, with its lineage in the header `stormglass-lineage`: 16 hexadecimal digits, equal when the tuple is
    /// repeated.
    #[default]
    Every,
    /// The latest of each key between two commits. Tuples without key are written one by one.
    LatestPerKey,
}

/// How a sink writes.
#[derive(Clone, Debug)]
pub struct KafkaSinkOptions {
    /// The topic; it must exist.
    pub topic: Arc<str>,
    /// Which tuples become records. Default every one.
    pub emit: Emit,
    /// The field that becomes the record's key, as text; `None`: the key is null. Default none.
    pub key: Option<String>,
    /// The field that becomes the record's value, as text: numbers in decimal, null as a null value. Default `value`.
    pub value: String,
}

impl KafkaSinkOptions {
    /// Writes field `value` to `topic`, with the defaults for the rest.
    #[must_use]
    pub fn new(topic: impl Into<Arc<str>>, value: impl Into<String>) -> Self {
        Self { topic: topic.into(), emit: Emit::default(), key: None, value: value.into() }
    }

    /// With the key from field `key`.
    #[must_use]
    pub fn keyed_by(mut self, key: impl Into<String>) -> Self {
        self.key = Some(key.into());
        self
    }

    /// With another choice of which tuples become records.
    #[must_use]
    pub const fn emitting(mut self, emit: Emit) -> Self {
        self.emit = emit;
        self
    }
}

impl Default for KafkaSinkOptions {
    fn default() -> Self {
        Self::new("", "value")
    }
}
