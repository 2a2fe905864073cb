//! Things by their names, with something due at some of them: what is due first is known without asking them all, which
//! every request would pay for.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::{Deref, DerefMut},
};

use crate::clock::Instant;

/// What may have something due.
pub(super) trait Timed {
    /// When; [`Instant::FAR_FUTURE`]: never, as things are. It follows from the thing alone.
    fn due(&self) -> Instant;
}

#[derive(Debug)]
struct Entry<V> {
    value: V,
    /// When it is due, as it was noted last.
    noted: Instant,
}

/// Things by their names. Who changes one does it through a [`Changing`], which sees to what is noted.
#[derive(Debug)]
pub(super) struct Agenda<K, V> {
    entries: BTreeMap<K, Entry<V>>,
    /// Those at which something is due at some time.
    due: BTreeSet<(Instant, K)>,
}

impl<K: Ord + Clone, V: Timed> Agenda<K, V> {
    pub(super) const fn new() -> Self {
        Self { entries: BTreeMap::new(), due: BTreeSet::new() }
    }

    pub(super) fn contains_key(&self, key: &K) -> bool {
        self.entries.contains_key(key)
    }

    pub(super) fn get(&self, key: &K) -> Option<&V> {
        self.entries.get(key).map(|entry| &entry.value)
    }

    /// All of them, in the order of their names.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        self.entries.iter().map(|(key, entry)| (key, &entry.value))
    }

    /// One that is there, to be changed.
    pub(super) fn change<'a>(&'a mut self, key: &'a K) -> Option<Changing<'a, K, V>> {
        let entry = self.entries.get_mut(key)?;
        Some(Changing { key, entry, due: &mut self.due })
    }

    /// One to be changed that is made if it is not there.
    pub(super) fn change_or_insert<'a>(&'a mut self, key: &'a K, make: impl FnOnce() -> V) -> Changing<'a, K, V> {
        let vacant = || Entry { value: make(), noted: Instant::FAR_FUTURE };
        let entry = self.entries.entry(key.clone()).or_insert_with(vacant);
        Changing { key, entry, due: &mut self.due }
    }

    pub(super) fn remove(&mut self, key: &K) {
        if let Some(entry) = self.entries.remove(key) {
            self.due.remove(&(entry.noted, key.clone()));
        }
    }

    /// Changes each, in the order of their names, and keeps those of which `keep` says so.
    pub(super) fn retain(&mut self, mut keep: impl FnMut(&mut V) -> bool) {
        self.entries.retain(|key, entry| {
            let kept = keep(&mut entry.value);
            let due = if kept { entry.value.due() } else { Instant::FAR_FUTURE };
            note(key, entry, due, &mut self.due);
            kept
        });
    }

    /// Changes each, in the order of their names.
    pub(super) fn change_all(&mut self, mut change: impl FnMut(&mut V)) {
        self.retain(|value| {
            change(value);
            true
        });
    }

    /// When the first is due.
    pub(super) fn first_due(&self) -> Instant {
        self.due.first().map_or(Instant::FAR_FUTURE, |(due, _)| *due)
    }

    /// The names of those that are due at some time up to `until`, in the order of their names.
    pub(super) fn due_until(&self, until: Instant) -> BTreeSet<K> {
        self.due.iter().take_while(|(due, _)| *due <= until).map(|(_, key)| key.clone()).collect()
    }
}

/// Something that is being changed; when it is let go, it is noted when it is due.
#[derive(Debug)]
pub(super) struct Changing<'a, K: Ord + Clone, V: Timed> {
    key: &'a K,
    entry: &'a mut Entry<V>,
    due: &'a mut BTreeSet<(Instant, K)>,
}

impl<K: Ord + Clone, V: Timed> Deref for Changing<'_, K, V> {
    type Target = V;

    fn deref(&self) -> &V {
        &self.entry.value
    }
}

impl<K: Ord + Clone, V: Timed> DerefMut for Changing<'_, K, V> {
    fn deref_mut(&mut self) -> &mut V {
        &mut self.entry.value
    }
}

impl<K: Ord + Clone, V: Timed> Drop for Changing<'_, K, V> {
    fn drop(&mut self) {
        note(self.key, self.entry, self.entry.value.due(), self.due);
    }
}

fn note<K: Ord + Clone, V>(key: &K, entry: &mut Entry<V>, due: Instant, all: &mut BTreeSet<(Instant, K)>) {
    if due == entry.noted {
        return;
    }
    all.remove(&(entry.noted, key.clone()));
    if due < Instant::FAR_FUTURE {
        all.insert((due, key.clone()));
    }
    entry.noted = due;
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;

    impl Timed for Instant {
        fn due(&self) -> Instant {
            *self
        }
    }

    #[derive(Clone, Debug)]
    enum Op {
        Change(u8, Instant),
        ChangeOrInsert(u8, Instant),
        Remove(u8),
        RetainBefore(Instant),
        ChangeAll(Instant),
    }

    fn op() -> impl Strategy<Value = Op> {
        let at = || {
            prop_oneof![
                4 => (0..20_u64).prop_map(|s| Instant::ZERO + Duration::from_secs(s)),
                1 => Just(Instant::FAR_FUTURE),
            ]
        };
        prop_oneof![
            4 => (0..10_u8, at()).prop_map(|(key, at)| Op::Change(key, at)),
            8 => (0..10_u8, at()).prop_map(|(key, at)| Op::ChangeOrInsert(key, at)),
            2 => (0..10_u8).prop_map(Op::Remove),
            1 => at().prop_map(Op::RetainBefore),
            1 => at().prop_map(Op::ChangeAll),
        ]
    }

    fn apply(agenda: &mut Agenda<u8, Instant>, naive: &mut BTreeMap<u8, Instant>, op: &Op) {
        match *op {
            Op::Change(key, at) => {
                agenda.change(&key).into_iter().for_each(|mut there| *there = at);
                naive.entry(key).and_modify(|there| *there = at);
            }
            Op::ChangeOrInsert(key, at) => {
                *agenda.change_or_insert(&key, || Instant::ZERO) = at;
                naive.insert(key, at);
            }
            Op::Remove(key) => {
                agenda.remove(&key);
                naive.remove(&key);
            }
            Op::RetainBefore(at) => {
                agenda.retain(|there| *there < at);
                naive.retain(|_, there| *there < at);
            }
            Op::ChangeAll(at) => {
                agenda.change_all(|there| *there = at.min(*there));
                naive.values_mut().for_each(|there| *there = at.min(*there));
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn what_is_due_is_what_asking_all_of_them_finds(ops in prop::collection::vec(op(), 1..60), until in 0..20_u64) {
            let (mut agenda, mut naive) = (Agenda::new(), BTreeMap::new());
            let until = Instant::ZERO + Duration::from_secs(until);
            for op in &ops {
                apply(&mut agenda, &mut naive, op);
                prop_assert!(agenda.iter().eq(&naive));
                prop_assert_eq!(agenda.first_due(), naive.values().copied().fold(Instant::FAR_FUTURE, Instant::min));
                let due = naive.iter().filter(|(_, at)| **at <= until).map(|(key, _)| *key);
                prop_assert!(agenda.due_until(until).into_iter().eq(due));
            }
        }
    }
}
