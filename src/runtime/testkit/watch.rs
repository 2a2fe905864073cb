//! What is seen of a run while it goes on.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use super::{Row, Violation, violation};
use crate::{clock::Instant, tuple::StreamId};

/// What was seen so far; its clones see the same run.
#[derive(Clone, Default, Debug)]
pub(super) struct Watch(Arc<Mutex<Seen>>);

/// What was seen.
#[derive(Clone, Default, Debug)]
pub(super) struct Seen {
    /// The first contract that was broken.
    pub(super) violation: Option<Violation>,
    /// Tuples by stream, as the tap has them.
    pub(super) emitted: BTreeMap<StreamId, Vec<Row>>,
    /// Errors by component.
    pub(super) errors: BTreeMap<String, Vec<String>>,
    /// Spout tasks that said that they are exhausted, by component and number.
    pub(super) exhausted: BTreeSet<(String, usize)>,
    /// When a spout said that it has something again.
    pub(super) due: Option<Instant>,
}

impl Watch {
    pub(super) fn seen(&self) -> MutexGuard<'_, Seen> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A contract was broken; the first one is told.
    pub(super) fn broken(&self, contract: &str, component: &str, what: &str) {
        self.seen().violation.get_or_insert_with(|| violation(contract, component, what));
    }

    pub(super) fn error(&self, component: &str, error: &str) {
        self.seen().errors.entry(component.to_owned()).or_default().push(error.to_owned());
    }
}
