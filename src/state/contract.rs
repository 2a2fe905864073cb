//! The contract of [`Store`] as a test: every store is held to it, against a naive model.

use std::collections::{BTreeMap, BTreeSet};

use proptest::{
    prelude::*,
    test_runner::{Config, TestRunner},
};

use super::{Change, Changes, Key as StoreKey, Store};
use crate::tuple::KeyHash;

type Key = (u16, Vec<u8>);
type Told = (Key, Option<Vec<u8>>);

/// The contract, in the simplest way.
#[derive(Clone, Default)]
struct Model {
    entries: BTreeMap<Key, Vec<u8>>,
    /// In the order of the first change.
    changed: Vec<Key>,
    /// What was told or restored with a value.
    known: BTreeSet<Key>,
    /// The call that wrote last, with everything as it was before it.
    before: Option<(u64, Box<Self>)>,
}

impl Model {
    fn write(&mut self, call: u64, key: &Key, value: Option<Vec<u8>>) {
        if self.before.as_ref().is_none_or(|(of, _)| *of != call) {
            self.before = None;
            self.before = Some((call, Box::new(self.clone())));
        }
        if !self.changed.contains(key) {
            self.changed.push(key.clone());
        }
        match value {
            Some(value) => drop(self.entries.insert(key.clone(), value)),
            None => drop(self.entries.remove(key)),
        }
    }

    fn take_back(&mut self, call: u64) {
        if let Some((_, before)) = self.before.take_if(|(of, _)| *of == call) {
            *self = *before;
        }
    }

    fn changes(&self) -> Vec<Told> {
        let told = self.changed.iter().map(|key| (key.clone(), self.entries.get(key).cloned()));
        told.filter(|(key, value)| value.is_some() || self.known.contains(key)).collect()
    }

    fn drain(&mut self) -> Vec<Told> {
        let told = self.changes();
        for (key, value) in &told {
            if value.is_some() {
                self.known.insert(key.clone())
            } else {
                self.known.remove(key)
            };
        }
        (self.before, self.changed) = (None, Vec::new());
        told
    }
}

#[derive(Clone, Debug)]
enum Step {
    Put(Key, Vec<u8>),
    Delete(Key),
    /// Reads a value and writes it with one byte more.
    Update(Key, u8),
    /// Adds one to the first byte of a value of 8, where it stands.
    WriteOver(Key),
    /// The call has succeeded, and another begins.
    NextCall,
    TakeBack,
    Drain,
    Scan(u16, u16),
}

/// Few keys of all lengths, so that they meet.
fn key() -> impl Strategy<Value = Key> {
    let long = (0..4_usize).prop_map(|n| [&[b'a'; 16][..], &[0, b'b', b'c'][..n]].concat());
    (0..3_u16, prop_oneof![3 => prop::collection::vec(0..2_u8, 0..3), 1 => long])
}

fn value() -> impl Strategy<Value = Vec<u8>> {
    let bytes = |len| prop::collection::vec(any::<u8>(), len);
    prop_oneof![bytes(0..9), bytes(8..9), bytes(9..20)]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (key(), value()).prop_map(|(key, value)| Step::Put(key, value)),
        3 => key().prop_map(Step::Delete),
        6 => (key(), any::<u8>()).prop_map(|(key, byte)| Step::Update(key, byte)),
        4 => key().prop_map(Step::WriteOver),
        4 => Just(Step::NextCall),
        2 => Just(Step::TakeBack),
        1 => Just(Step::Drain),
        1 => (0..3_u16, 0..4_u16).prop_map(|(from, to)| Step::Scan(from, to)),
    ]
}

/// The hint is right for some keys and wrong for others.
fn as_given(key: &Key) -> StoreKey<'_> {
    let right = StoreKey::new(key.0, &key.1);
    StoreKey { hint: if key.1.len() % 3 == 1 { KeyHash(7) } else { right.hint }, ..right }
}

fn told(change: Change<'_>) -> Told {
    ((change.group, change.key.to_vec()), change.value.map(<[u8]>::to_vec))
}

fn apply(store: &mut dyn Store, model: &mut Model, call: &mut u64, step: Step) -> Result<(), TestCaseError> {
    match step {
        Step::Put(key, value) => {
            store.put(*call, &as_given(&key), &value).unwrap();
            model.write(*call, &key, Some(value));
        }
        Step::Delete(key) => {
            store.delete(*call, &as_given(&key)).unwrap();
            if model.entries.contains_key(&key) {
                model.write(*call, &key, None);
            }
        }
        Step::Update(key, byte) => {
            let found = store.find(&as_given(&key)).unwrap().map(|(place, value)| (place, value.to_vec()));
            prop_assert_eq!(found.as_ref().map(|(_, value)| value), model.entries.get(&key));
            if let Some((place, mut value)) = found {
                value.push(byte);
                store.put_at(*call, place, &value).unwrap();
                model.write(*call, &key, Some(value));
            }
        }
        Step::WriteOver(key) => {
            if let Some(value) = store.value_in_place(*call, &as_given(&key)) {
                let old = value.to_vec();
                value[0] = value[0].wrapping_add(1);
                let new = value.to_vec();
                prop_assert_eq!(Some(&old), model.entries.get(&key));
                model.write(*call, &key, Some(new));
            }
        }
        Step::NextCall => *call += 1,
        Step::TakeBack => {
            store.take_back(*call);
            model.take_back(*call);
        }
        Step::Drain => {
            let (mut changes, mut shown) = (Changes::default(), Vec::new());
            store.scan_changed(&mut |change| shown.push(told(change))).unwrap();
            store.drain_changed(&mut changes).unwrap();
            let expected = model.drain();
            prop_assert_eq!(&shown, &expected);
            prop_assert_eq!(changes.iter().map(told).collect::<Vec<_>>(), expected);
        }
        Step::Scan(from, to) => {
            let mut found = Vec::new();
            store.scan(from..to, &mut |entry| found.push(told(entry))).unwrap();
            let inside = model.entries.iter().filter(|(key, _)| (from..to).contains(&key.0));
            prop_assert_eq!(found, inside.map(|(k, v)| (k.clone(), Some(v.clone()))).collect::<Vec<_>>());
        }
    }
    prop_assert_eq!((store.len(), store.is_empty()), (model.entries.len(), model.entries.is_empty()));
    Ok(())
}

/// Panics with the shortest way to break the contract, if there is one.
pub(crate) fn holds(make: impl Fn() -> Box<dyn Store>) {
    let restored = prop::collection::vec((key(), prop::option::weighted(0.8, value())), 0..20);
    let steps = prop::collection::vec(step(), 0..80);
    let config = Config { cases: 512, failure_persistence: None, ..Config::default() };
    let tried = TestRunner::new(config).run(&(restored, steps), |(restored, steps)| {
        let (mut store, mut model, mut call) = (make(), Model::default(), 1);
        for (key, value) in restored {
            store.restore(key.0, &key.1, value.as_deref()).unwrap();
            match value {
                Some(value) => drop(model.entries.insert(key, value)),
                None => drop(model.entries.remove(&key)),
            }
        }
        model.known = model.entries.keys().cloned().collect();
        for step in steps.into_iter().chain([Step::Scan(0, 3), Step::Drain, Step::Drain]) {
            apply(&mut *store, &mut model, &mut call, step)?;
        }
        Ok(())
    });
    tried.unwrap();
}
