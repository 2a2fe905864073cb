//! Which faults could be noticed: a fault that is drawn and never bites is a check that cannot fail.

use std::collections::BTreeMap;

/// How often something has gone wrong, by the name of what it was.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Bites(BTreeMap<String, u64>);

impl Bites {
    /// It has gone wrong once more, if it did.
    pub(super) fn note(&mut self, what: impl Into<String>, did: bool) {
        if did {
            *self.0.entry(what.into()).or_default() += 1;
        }
    }

    /// Adds those of others.
    pub fn add(&mut self, others: &Self) {
        for (what, times) in &others.0 {
            *self.0.entry(what.clone()).or_default() += times;
        }
    }

    /// How often this went wrong.
    #[must_use]
    pub fn times(&self, what: &str) -> u64 {
        self.0.get(what).copied().unwrap_or(0)
    }
}
