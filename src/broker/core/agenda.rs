//! Things by their names, with something due at some of them: what is due first, and how many bytes all of them take, is
//! known without asking them all, which every request would pay for.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::{Deref, DerefMut},
};

use crate::clock::Instant;

/// What may be kept under a name.
pub(super) trait Kept<K> {
    /// When something is due at it; [`Instant::FAR_FUTURE`]: never, as things are. It follows from the thing alone.
    fn due(&self) -> Instant;

    /// The bytes that it takes, its name and its place among the others with it. They follow from both alone.
    fn bytes(&self, name: &K) -> usize;
}

/// What is known of something without asking it.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
struct Note {
    due: Instant,
    bytes: usize,
}

/// Of what is not there.
const NOTHING: Note = Note { due: Instant::FAR_FUTURE, bytes: 0 };

#[derive(Debug)]
struct Entry<V> {
    value: V,
    /// What was noted last.
    noted: Note,
}

/// What is noted of all of them together.
#[derive(Debug)]
struct Notes<K> {
    /// Those at which something is due at some time.
    due: BTreeSet<(Instant, K)>,
    bytes: usize,
}

/// Things by their names. Who changes one does it through a [`Changing`], which sees to what is noted.
#[derive(Debug)]
pub(super) struct Agenda<K, V> {
    entries: BTreeMap<K, Entry<V>>,
    notes: Notes<K>,
}

impl<K: Ord + Clone, V: Kept<K>> Agenda<K, V> {
    pub(super) const fn new() -> Self {
        Self { entries: BTreeMap::new(), notes: Notes { due: BTreeSet::new(), bytes: 0 } }
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
        Some(Changing { key, entry, notes: &mut self.notes })
    }

    /// One to be changed that is made if it is not there.
    pub(super) fn change_or_insert<'a>(&'a mut self, key: &'a K, make: impl FnOnce() -> V) -> Changing<'a, K, V> {
        let vacant = || Entry { value: make(), noted: NOTHING };
        let entry = self.entries.entry(key.clone()).or_insert_with(vacant);
        Changing { key, entry, notes: &mut self.notes }
    }

    pub(super) fn remove(&mut self, key: &K) {
        if let Some(mut entry) = self.entries.remove(key) {
            self.notes.note(key, &mut entry.noted, NOTHING);
        }
    }

    /// Changes each, in the order of their names, and keeps those of which `keep` says so.
    pub(super) fn retain(&mut self, mut keep: impl FnMut(&mut V) -> bool) {
        self.entries.retain(|key, entry| {
            let kept = keep(&mut entry.value);
            let note = if kept { of(key, &entry.value) } else { NOTHING };
            self.notes.note(key, &mut entry.noted, note);
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
        self.notes.due.first().map_or(Instant::FAR_FUTURE, |(due, _)| *due)
    }

    /// The names of those that are due at some time up to `until`, in the order of their names.
    pub(super) fn due_until(&self, until: Instant) -> BTreeSet<K> {
        self.notes.due.iter().take_while(|(due, _)| *due <= until).map(|(_, key)| key.clone()).collect()
    }

    /// The bytes that one of them may take more, of which all together may take `max`; `None`: it is not there, and there is
    /// no room for what is made under its name.
    pub(super) fn room(&self, key: &K, max: usize, make: impl FnOnce() -> V) -> Option<usize> {
        let room = max.saturating_sub(self.notes.bytes);
        if self.contains_key(key) { Some(room) } else { room.checked_sub(make().bytes(key)) }
    }

    #[cfg(test)]
    pub(super) const fn bytes(&self) -> usize {
        self.notes.bytes
    }
}

/// Something that is being changed; when it is let go, what is known of it is noted.
#[derive(Debug)]
pub(super) struct Changing<'a, K: Ord + Clone, V: Kept<K>> {
    key: &'a K,
    entry: &'a mut Entry<V>,
    notes: &'a mut Notes<K>,
}

impl<K: Ord + Clone, V: Kept<K>> Deref for Changing<'_, K, V> {
    type Target = V;

    fn deref(&self) -> &V {
        &self.entry.value
    }
}

impl<K: Ord + Clone, V: Kept<K>> DerefMut for Changing<'_, K, V> {
    fn deref_mut(&mut self) -> &mut V {
        &mut self.entry.value
    }
}

impl<K: Ord + Clone, V: Kept<K>> Drop for Changing<'_, K, V> {
    fn drop(&mut self) {
        let note = of(self.key, &self.entry.value);
        self.notes.note(self.key, &mut self.entry.noted, note);
    }
}

fn of<K, V: Kept<K>>(key: &K, value: &V) -> Note {
    Note { due: value.due(), bytes: value.bytes(key) }
}

impl<K: Ord + Clone> Notes<K> {
    fn note(&mut self, key: &K, noted: &mut Note, now: Note) {
        self.bytes = self.bytes - noted.bytes + now.bytes;
        if now.due != noted.due {
            self.due.remove(&(noted.due, key.clone()));
            if now.due < Instant::FAR_FUTURE {
                self.due.insert((now.due, key.clone()));
            }
        }
        *noted = now;
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;

    /// When it is due, and what it takes beside its name.
    type Thing = (Instant, usize);

    impl Kept<u8> for Thing {
        fn due(&self) -> Instant {
            self.0
        }

        fn bytes(&self, name: &u8) -> usize {
            self.1 + usize::from(*name)
        }
    }

    #[derive(Clone, Debug)]
    enum Op {
        Change(u8, Thing),
        ChangeOrInsert(u8, Thing),
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
        let thing = || (at(), 0..1_000_usize);
        prop_oneof![
            4 => (0..10_u8, thing()).prop_map(|(key, thing)| Op::Change(key, thing)),
            8 => (0..10_u8, thing()).prop_map(|(key, thing)| Op::ChangeOrInsert(key, thing)),
            2 => (0..10_u8).prop_map(Op::Remove),
            1 => at().prop_map(Op::RetainBefore),
            1 => at().prop_map(Op::ChangeAll),
        ]
    }

    fn apply(agenda: &mut Agenda<u8, Thing>, naive: &mut BTreeMap<u8, Thing>, op: &Op) {
        let changed = |at: Instant, there: &Thing| (at.min(there.0), there.1 / 2);
        match *op {
            Op::Change(key, thing) => {
                agenda.change(&key).into_iter().for_each(|mut there| *there = thing);
                naive.entry(key).and_modify(|there| *there = thing);
            }
            Op::ChangeOrInsert(key, thing) => {
                *agenda.change_or_insert(&key, || (Instant::ZERO, 0)) = thing;
                naive.insert(key, thing);
            }
            Op::Remove(key) => {
                agenda.remove(&key);
                naive.remove(&key);
            }
            Op::RetainBefore(at) => {
                agenda.retain(|there| there.0 < at);
                naive.retain(|_, there| there.0 < at);
            }
            Op::ChangeAll(at) => {
                agenda.change_all(|there| *there = changed(at, there));
                naive.values_mut().for_each(|there| *there = changed(at, there));
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn what_is_noted_is_what_asking_all_of_them_finds(ops in prop::collection::vec(op(), 1..60), until in 0..20_u64) {
            let (mut agenda, mut naive) = (Agenda::new(), BTreeMap::new());
            let until = Instant::ZERO + Duration::from_secs(until);
            for op in &ops {
                apply(&mut agenda, &mut naive, op);
                prop_assert!(agenda.iter().eq(&naive));
                let first = naive.values().map(|(at, _)| *at).fold(Instant::FAR_FUTURE, Instant::min);
                prop_assert_eq!(agenda.first_due(), first);
                let due = naive.iter().filter(|(_, (at, _))| *at <= until).map(|(key, _)| *key);
                prop_assert!(agenda.due_until(until).into_iter().eq(due));
                prop_assert_eq!(agenda.bytes(), naive.iter().map(|(key, thing)| thing.bytes(key)).sum::<usize>());
            }
        }
    }

    #[test]
    fn there_is_room_up_to_the_bound_and_what_is_not_there_needs_it_for_itself() {
        let mut agenda = Agenda::new();
        *agenda.change_or_insert(&1, || (Instant::ZERO, 9)) = (Instant::ZERO, 99);
        let new = || (Instant::ZERO, 8);
        assert_eq!(agenda.room(&1, 150, new), Some(50));
        assert_eq!(agenda.room(&2, 150, new), Some(40));
        assert_eq!((agenda.room(&2, 110, new), agenda.room(&2, 109, new)), (Some(0), None));
        assert_eq!(agenda.room(&1, 50, new), Some(0));
    }
}
