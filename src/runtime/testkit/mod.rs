//! Runs one component, or a whole topology, without a broker, a thread or a clock: for tests, yours and ours. What runs
//! is the engine itself, stepped in virtual time.
//!
//! [`BoltTester`], [`SinkTester`] and [`SpoutTester`] run one component under hostile schedules (Hazelcast Jet's
//! `TestSupport`): all tuples at once and one at a time, one-slot outboxes, each tree failed and replayed once, a fresh
//! instance before each batch as after a panic. They compare the runs and check the numbered contracts of
//! [`Bolt`](crate::topology::Bolt), [`AckingBolt`](crate::topology::AckingBolt), [`Sink`](crate::topology::Sink) and
//! [`Spout`](crate::topology::Spout): what is broken comes back as a [`Violation`] with the contract's number.
//! [`complete_topology`] runs a topology with mocked sources to its end (Storm's `Testing.completeTopology`).
//!
//! Files in reading order: `testers`, `complete`, `course` (a run in virtual time), `watched` (components that are looked
//! at, and made hostile), `watch` (what was seen).

mod complete;
mod course;
mod testers;
#[cfg(test)]
mod tests;
mod watch;
mod watched;

use std::{collections::BTreeMap, fmt};

pub use crate::topology::testkit::{MockSink, MockSpout, OwnedValue, Row, row, rows};
pub use complete::{Completed, complete_topology};
pub use testers::{BoltTester, SinkTester, SpoutTester};

/// A tuple that a component emitted.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Emitted {
    /// On which stream.
    pub stream: String,
    /// Its values.
    pub values: Row,
}

impl fmt::Debug for Emitted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{:?}", self.stream, self.values)
    }
}

/// What a component did in a run.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Observed {
    /// What it emitted, sorted: a multiset.
    pub emitted: Vec<Emitted>,
    /// Of a spout: trees that completed. Of the others: inputs that were acked.
    pub acked: u64,
    /// Of a spout: trees that failed. Of the others: inputs that failed.
    pub failed: u64,
    /// Inputs that it still held at the end.
    pub held: usize,
    /// What its stores held at the end: keys and values as text, sorted.
    pub stores: BTreeMap<String, BTreeMap<String, String>>,
    /// Why trees failed at it, and what its ticks said that failed, in the order in which that was told.
    pub errors: Vec<String>,
}

impl Observed {
    /// The rows emitted on a stream, sorted.
    #[must_use]
    pub fn rows(&self, stream: &str) -> Vec<Row> {
        self.emitted.iter().filter(|e| e.stream == stream).map(|e| e.values.clone()).collect()
    }

    /// The entries of a store as text, as [`KeyType::print`](crate::state::KeyType::print) and
    /// [`ValueType::print`](crate::state::ValueType::print) print them, sorted by key.
    #[must_use]
    pub fn entries(&self, store: &str) -> Vec<(&str, &str)> {
        self.stores.get(store).into_iter().flatten().map(|(key, value)| (key.as_str(), value.as_str())).collect()
    }
}

/// A contract that a component has broken.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("contract {contract}: \"{component}\" {what}")]
pub struct Violation {
    /// The contract's trait and number, `Spout 3` for example.
    pub contract: String,
    /// Who has broken it.
    pub component: String,
    /// How.
    pub what: String,
}

fn violation(contract: &str, component: &str, what: &str) -> Violation {
    let (contract, component, what) = (contract.to_owned(), component.to_owned(), what.to_owned());
    Violation { contract, component, what }
}
