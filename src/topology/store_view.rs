//! A store as its bolt sees it: with the types that were declared, and for the keys of its task.

use std::{fmt, marker::PhantomData};

use super::{
    ComponentError, ComponentResult, Output, TaskContext,
    stores::{Lent, Refusal, Scratch, TaskStores},
};
use crate::{
    state::{Change, DecodeError, Key, MAX_ENTRY_BYTES, Place, StateKey, StateValue, Store, StoreError},
    tuple::KeyHash,
};

/// A declared store, found by its name when the bolt is prepared ([`TaskContext::store`]). The default is that of no
/// store: whoever asks it for something fails its call.
pub struct StoreHandle<K, V> {
    at: usize,
    types: PhantomData<fn(K) -> V>,
}

impl<K, V> Clone for StoreHandle<K, V> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<K, V> Default for StoreHandle<K, V> {
    fn default() -> Self {
        Self { at: usize::MAX, types: PhantomData }
    }
}

impl<K, V> Copy for StoreHandle<K, V> {}

impl<K, V> fmt::Debug for StoreHandle<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "store {}", self.at)
    }
}

impl TaskContext {
    /// The store that the component declares as `name`, with keys `K` and values `V`.
    ///
    /// # Errors
    /// If it declares none of that name, or one of other types.
    pub fn store<K: StateKey, V: StateValue>(&self, name: &str) -> ComponentResult<StoreHandle<K, V>> {
        let component = &self.component;
        let Some((at, store)) = self.stores.iter().enumerate().find(|(_, store)| store.store == name) else {
            return Err(ComponentError::permanent(format!(
                "\"{component}\" declares no store \"{name}\": add .store::<K, V>(\"{name}\") to it"
            )));
        };
        let (key, value) = (K::key_type().to_string(), V::TYPE.to_string());
        if (&store.key, &store.value) != (&key, &value) {
            return Err(ComponentError::permanent(format!(
                "store \"{name}\" of \"{component}\" is declared from {} to {} and asked for from {key} to {value}: use \
                 the same types",
                store.key, store.value
            )));
        }
        Ok(StoreHandle { at, types: PhantomData })
    }
}

/// A store in the present call. What is written here is undone when the call fails.
///
/// A store is reached by the hash of the tuple's grouping key (`tuple.key()`), which names the key group, and by a key:
/// that of the grouping, or a finer one. Whatever a store refuses (a hash of another task, no room) fails the call.
#[derive(Debug)]
pub struct StoreView<'a, K, V> {
    stores: &'a mut TaskStores,
    misuse: &'a mut Option<ComponentError>,
    handle: StoreHandle<K, V>,
    call: u64,
}

impl<K: StateKey, V: StateValue> StoreView<'_, K, V> {
    /// The value of a key.
    #[inline]
    pub fn get(&mut self, by: KeyHash, key: K::Ref<'_>) -> Option<V> {
        let Some(mut reached) = Reached::new::<K>(self.stores, self.handle.at, by, key) else {
            self.refuse(by);
            return None;
        };
        let found = reached.find();
        found.map(|found| found.map(|(_, value)| value)).unwrap_or_else(|refusal| {
            refusal.note(self.misuse);
            None
        })
    }

    /// Writes the value of a key.
    #[inline]
    pub fn put(&mut self, by: KeyHash, key: K::Ref<'_>, value: V) {
        let Some(mut reached) = Reached::new::<K>(self.stores, self.handle.at, by, key) else { return self.refuse(by) };
        if let Err(refusal) = reached.write(self.call, None, &value) {
            refusal.note(self.misuse);
        }
    }

    /// Deletes a key; nothing changes if it is not there.
    pub fn delete(&mut self, by: KeyHash, key: K::Ref<'_>) {
        let Some(reached) = Reached::new::<K>(self.stores, self.handle.at, by, key) else { return self.refuse(by) };
        if let Err(error) = reached.store.delete(self.call, &reached.key) {
            Refusal::from(error).note(self.misuse);
        }
    }

    /// Writes what `change` makes of the value of a key, `None` if there is none, and tells it. The key is looked up
    /// once.
    #[inline]
    pub fn update(&mut self, by: KeyHash, key: K::Ref<'_>, change: impl FnOnce(Option<V>) -> V) -> V {
        let Some(mut reached) = Reached::new::<K>(self.stores, self.handle.at, by, key) else {
            self.refuse(by);
            return change(None);
        };
        if V::TYPE.has_eight_bytes()
            && let Some(bytes) = reached.store.value_in_place(self.call, &reached.key)
            && let Ok(old) = V::decode(bytes)
        {
            let new = change(Some(old));
            bytes.copy_from_slice(new.encode(reached.scratch));
            return new;
        }
        let found = match reached.find() {
            Ok(found) => found,
            Err(refusal) => {
                refusal.note(self.misuse);
                return change(None);
            }
        };
        let (place, old) = found.unzip();
        let new = change(old);
        if let Err(refusal) = reached.write(self.call, place, &new) {
            refusal.note(self.misuse);
        }
        new
    }

    /// The call fails, for nothing was reached.
    #[cold]
    fn refuse(&mut self, by: KeyHash) {
        self.stores.refusal(self.handle.at, by).note(self.misuse);
    }
}

/// A key that may be reached, in its store.
struct Reached<'s> {
    store: &'s mut dyn Store,
    key: Key<'s>,
    scratch: &'s mut Vec<u8>,
}

impl<'s> Reached<'s> {
    /// `None` where the task may not reach it.
    #[inline]
    fn new<'k: 's, K: StateKey>(stores: &'s mut TaskStores, at: usize, by: KeyHash, key: K::Ref<'k>) -> Option<Self> {
        let (group, store, Scratch { key: room, value: scratch }) = stores.reach(at, by)?;
        let bytes = K::encode(key, room);
        let hint = if K::IS_ITS_BYTES { by } else { KeyHash::of_bytes(bytes) };
        Some(Self { store, key: Key { group, bytes, hint }, scratch })
    }

    #[inline]
    fn find<V: StateValue>(&mut self) -> Result<Option<(Place, V)>, Refusal> {
        match self.store.find(&self.key)? {
            Some((place, value)) => Ok(Some((place, V::decode(value)?))),
            None => Ok(None),
        }
    }

    #[inline]
    fn write<V: StateValue>(&mut self, call: u64, place: Option<Place>, value: &V) -> Result<(), Refusal> {
        let value = value.encode(self.scratch);
        let bytes = self.key.bytes.len() + value.len();
        if bytes > MAX_ENTRY_BYTES {
            return Err(Refusal::TooLarge { bytes });
        }
        match place {
            Some(place) => self.store.put_at(call, place, value)?,
            None => self.store.put(call, &self.key, value)?,
        }
        Ok(())
    }
}

/// The bolt's side of its stores.
impl Output {
    /// A store, to read and to write.
    #[inline]
    pub fn store<K: StateKey, V: StateValue>(&mut self, handle: &StoreHandle<K, V>) -> StoreView<'_, K, V> {
        let call = self.execution.call();
        StoreView { stores: &mut self.stores, misuse: &mut self.misuse, handle: *handle, call }
    }

    /// Shows every entry of a store, by key group and then by key. `visit` may emit, and change other stores.
    pub fn scan<K: StateKey, V: StateValue>(
        &mut self,
        handle: &StoreHandle<K, V>,
        mut visit: impl FnMut(&mut Self, K::Ref<'_>, V),
    ) {
        let own = self.stores.own.clone();
        self.lend::<K, V>(
            handle,
            |store, show| store.scan(own.clone(), show),
            |output, key, value| {
                if let Some(value) = value {
                    visit(output, key, value);
                }
            },
        );
    }

    /// Shows every entry of a store that has changed since the last flush, in the order of the first change: what it
    /// holds now, or `None` if it was deleted. `visit` may emit, and change other stores.
    pub fn scan_changed<K: StateKey, V: StateValue>(
        &mut self,
        handle: &StoreHandle<K, V>,
        visit: impl FnMut(&mut Self, K::Ref<'_>, Option<V>),
    ) {
        self.lend::<K, V>(handle, |store, show| store.scan_changed(show), visit);
    }

    fn lend<K: StateKey, V: StateValue>(
        &mut self,
        handle: &StoreHandle<K, V>,
        scan: impl FnOnce(&mut dyn Store, &mut dyn FnMut(Change<'_>)) -> Result<(), StoreError>,
        mut visit: impl FnMut(&mut Self, K::Ref<'_>, Option<V>),
    ) {
        let mut wrong = None;
        let scanned = Lent::new(self, handle.at).and_then(|mut lent| {
            let Lent { output, store: Some(store), .. } = &mut lent else { return Ok(()) };
            let mut room = Vec::new();
            scan(&mut **store, &mut |entry| {
                let shown = show::<K, V>(entry, &mut room, |key, value| visit(output, key, value));
                wrong = wrong.take().or(shown.err());
            })?;
            Ok(())
        });
        let scanned = scanned.and_then(|()| wrong.map_or(Ok(()), |error| Err(error.into())));
        if let Err(refusal) = scanned {
            refusal.note(&mut self.misuse);
        }
    }
}

fn show<K: StateKey, V: StateValue>(
    entry: Change<'_>,
    room: &mut Vec<u8>,
    visit: impl FnOnce(K::Ref<'_>, Option<V>),
) -> Result<(), DecodeError> {
    let value = entry.value.map(V::decode).transpose()?;
    visit(K::decode(entry.key, room)?, value);
    Ok(())
}
