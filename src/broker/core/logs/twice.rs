//! What a request names more than once: Kafka does nothing with it, for nobody knows which of the times is meant.

use std::collections::BTreeSet;

/// What stands in `named` more than once.
pub(super) fn named_twice<T: Ord + Copy>(named: impl Iterator<Item = T>) -> BTreeSet<T> {
    let mut seen = BTreeSet::new();
    named.filter(|one| !seen.insert(*one)).collect()
}
