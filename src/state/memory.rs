//! A store in memory: a table over one array of entries.

use std::ops::Range;

use hashbrown::HashTable;

use super::{
    Change, Changes,
    blobs::Blobs,
    entry::{Cell, Entry, KeyBytes, SearchKey},
    store::{Key, Place, Store, StoreError},
};
use crate::tuple::KeyHash;

/// Entries in memory. A known entry with a value of at most 8 bytes is changed without an allocation.
///
/// An entry stands under the hash of its own key, which a restored one has too. The hash that comes with a tuple is that
/// if the grouping key is the key: so it is tried first, before anything is computed.
#[derive(Debug, Default)]
pub struct MemoryStore {
    /// Indexes into `entries`.
    table: HashTable<u32>,
    entries: Vec<Entry>,
    /// Entries that are not in the table and may be used again.
    free: Vec<u32>,
    /// Long keys and large values.
    blobs: Blobs,
    /// Changed entries in the order of their first change. An entry that is in the table without a value is one of them.
    changed: Vec<u32>,
    /// The call that wrote last.
    call: u64,
    /// How many entries were changed before it.
    changed_before: usize,
    /// What it has overwritten, oldest first.
    overwritten: Vec<(u32, Cell)>,
}

impl MemoryStore {
    /// An empty store.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    #[inline]
    fn index(&self, key: &Key<'_>, search: &SearchKey<'_>) -> Option<u32> {
        self.index_by(key.hint, key.group, search).or_else(|| self.index_unhinted(key, search))
    }

    #[cold]
    fn index_unhinted(&self, key: &Key<'_>, search: &SearchKey<'_>) -> Option<u32> {
        let hash = search.hash();
        if hash == key.hint { None } else { self.index_by(hash, key.group, search) }
    }

    #[inline]
    fn index_by(&self, hash: KeyHash, group: u16, search: &SearchKey<'_>) -> Option<u32> {
        let Self { entries, blobs, .. } = self;
        let is_it = |at: &u32| entries.get(*at as usize).is_some_and(|entry| entry.is(group, search, blobs));
        self.table.find(spread(hash), is_it).copied()
    }

    /// Adds an entry without a value.
    #[cold]
    fn insert(&mut self, group: u16, key: &SearchKey<'_>) -> Result<u32, StoreError> {
        let at = self.free.last().copied().map_or_else(|| u32::try_from(self.entries.len()), Ok);
        let at = at.map_err(|_| StoreError::Full)?;
        let entry = Entry::new(group, key, &mut self.blobs).ok_or(StoreError::Full)?;
        match self.free.pop() {
            Some(_) => self.entries[at as usize] = entry,
            None => self.entries.push(entry),
        }
        let Self { table, entries, blobs, .. } = self;
        let hash_of = |at: &u32| entries.get(*at as usize).map_or(0, |entry| spread(entry.hash(blobs)));
        if table.len() == table.capacity() && table.len() < SMALL {
            table.reserve(2 * table.len() + 1, hash_of);
        }
        table.insert_unique(spread(key.hash()), at, hash_of);
        Ok(at)
    }

    /// Takes an entry without a value out of the table.
    fn remove(&mut self, at: u32) {
        let Some(entry) = self.entries.get(at as usize) else { return };
        if let Ok(found) = self.table.find_entry(spread(entry.hash(&self.blobs)), |other| *other == at) {
            found.remove();
            entry.free_key(&mut self.blobs);
            self.free.push(at);
        }
    }

    /// Readies the store for a write of `call`: if it is another than before, that one has succeeded.
    #[inline]
    fn begin(&mut self, call: u64) {
        if self.call != call {
            self.keep();
            self.call = call;
        }
    }

    /// What was written so far stays.
    #[inline]
    fn keep(&mut self) {
        for (_, cell) in &self.overwritten {
            cell.free(&mut self.blobs);
        }
        self.overwritten.clear();
        self.changed_before = self.changed.len();
    }

    /// Writes the cell of an entry; `None` deletes.
    #[inline]
    fn write(&mut self, call: u64, at: u32, value: Option<&[u8]>) -> Result<(), StoreError> {
        self.begin(call);
        let cell = match value {
            Some(value) => Cell::new(value, &mut self.blobs).ok_or(StoreError::Full)?,
            None => Cell::ABSENT,
        };
        let Some(entry) = self.entries.get_mut(at as usize) else { return Err(StoreError::Full) };
        self.overwritten.push((at, entry.replace(cell)));
        if entry.mark_changed() {
            self.changed.push(at);
        }
        Ok(())
    }

    /// Hands an entry over; false if `into` is full.
    fn hand_over(&mut self, at: u32, into: &mut Changes) -> bool {
        let Some(entry) = self.entries.get_mut(at as usize) else { return true };
        if let Some(change) = entry.change(&mut KeyBytes::default(), &self.blobs)
            && !into.push(change.group, change.key, change.value)
        {
            return false;
        }
        entry.mark_told();
        if !entry.is_there() {
            self.remove(at);
        }
        true
    }
}

impl Store for MemoryStore {
    #[inline]
    fn find(&mut self, key: &Key<'_>) -> Result<Option<(Place, &[u8])>, StoreError> {
        let Some(at) = self.index(key, &SearchKey::new(key.bytes)) else { return Ok(None) };
        let value = self.entries.get(at as usize).and_then(|entry| entry.value(&self.blobs));
        Ok(value.map(|value| (Place(at), value)))
    }

    fn value_in_place(&mut self, call: u64, key: &Key<'_>) -> Option<&mut [u8; 8]> {
        let at = self.index(key, &SearchKey::new(key.bytes))?;
        self.begin(call);
        let (former, first, value) = self.entries.get_mut(at as usize)?.write_over()?;
        self.overwritten.push((at, former));
        if first {
            self.changed.push(at);
        }
        Some(value)
    }

    fn put_at(&mut self, call: u64, place: Place, value: &[u8]) -> Result<(), StoreError> {
        self.write(call, place.0, Some(value))
    }

    fn put(&mut self, call: u64, key: &Key<'_>, value: &[u8]) -> Result<(), StoreError> {
        let search = SearchKey::new(key.bytes);
        if let Some(at) = self.index(key, &search) {
            return self.write(call, at, Some(value));
        }
        let at = self.insert(key.group, &search)?;
        self.write(call, at, Some(value)).inspect_err(|_| self.remove(at))
    }

    fn delete(&mut self, call: u64, key: &Key<'_>) -> Result<(), StoreError> {
        match self.index(key, &SearchKey::new(key.bytes)) {
            Some(at) if self.entries.get(at as usize).is_some_and(Entry::is_there) => self.write(call, at, None),
            _ => Ok(()),
        }
    }

    fn take_back(&mut self, call: u64) {
        if self.call != call {
            return;
        }
        for (at, cell) in self.overwritten.drain(..).rev() {
            if let Some(entry) = self.entries.get_mut(at as usize) {
                entry.replace(cell).free(&mut self.blobs);
            }
        }
        for at in self.changed.split_off(self.changed_before) {
            let Some(entry) = self.entries.get_mut(at as usize) else { continue };
            entry.mark_unchanged();
            if !entry.is_there() {
                self.remove(at);
            }
        }
    }

    fn scan(&mut self, groups: Range<u16>, visit: &mut dyn FnMut(Change<'_>)) -> Result<(), StoreError> {
        let Self { entries, blobs, table, .. } = self;
        let all = table.iter().filter_map(|at| entries.get(*at as usize));
        let mut found: Vec<_> = all.filter(|entry| entry.is_there() && groups.contains(&entry.group())).collect();
        found.sort_unstable_by(|a, b| a.order(b, blobs));
        for entry in found {
            if let Some(entry) = entry.change(&mut KeyBytes::default(), blobs) {
                visit(entry);
            }
        }
        Ok(())
    }

    fn scan_changed(&mut self, visit: &mut dyn FnMut(Change<'_>)) -> Result<(), StoreError> {
        for entry in self.changed.iter().filter_map(|at| self.entries.get(*at as usize)) {
            if let Some(change) = entry.change(&mut KeyBytes::default(), &self.blobs) {
                visit(change);
            }
        }
        Ok(())
    }

    fn drain_changed(&mut self, into: &mut Changes) -> Result<(), StoreError> {
        self.keep();
        let mut changed = std::mem::take(&mut self.changed);
        let left = changed.iter().position(|at| !self.hand_over(*at, into));
        changed.drain(..left.unwrap_or(changed.len()));
        self.changed = changed;
        self.changed_before = self.changed.len();
        if left.is_some() { Err(StoreError::TooManyChanges) } else { Ok(()) }
    }

    fn restore(&mut self, group: u16, key: &[u8], value: Option<&[u8]>) -> Result<(), StoreError> {
        debug_assert!(self.changed.is_empty(), "restore comes before every write");
        let search = SearchKey::new(key);
        let at = match self.index_by(search.hash(), group, &search) {
            Some(at) => at,
            None if value.is_none() => return Ok(()),
            None => self.insert(group, &search)?,
        };
        let cell = match value {
            Some(value) => Cell::new(value, &mut self.blobs).ok_or(StoreError::Full)?,
            None => Cell::ABSENT,
        };
        let Some(entry) = self.entries.get_mut(at as usize) else { return Err(StoreError::Full) };
        entry.replace(cell).free(&mut self.blobs);
        entry.mark_told();
        if !entry.is_there() {
            self.remove(at);
        }
        Ok(())
    }

    fn len(&self) -> usize {
        let deleted = self.changed.iter().filter_map(|at| self.entries.get(*at as usize)).filter(|e| !e.is_there());
        self.table.len() - deleted.count()
    }
}

/// A table of fewer entries grows fourfold: each growth asks every entry for its hash again, and the room costs little.
const SMALL: usize = 1 << 14;

/// 32 bits of hash over 64: the table takes its place from the low ones and its tag from the top seven. The low bits
/// of the hash itself are alike within a task, for they name the key group.
#[inline]
const fn spread(hash: KeyHash) -> u64 {
    let wide = (hash.0 as u64 | 1 << 32).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    wide ^ (wide >> 32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::contract;

    #[test]
    fn the_store_in_memory_holds_the_contract_of_stores() {
        contract::holds(|| Box::new(MemoryStore::new()));
    }

    #[test]
    fn the_memory_of_deleted_entries_is_used_again() {
        let (mut store, mut changes) = (MemoryStore::new(), Changes::default());
        for round in 0..100_u64 {
            for n in 0..10 {
                let key = format!("a key that is too long for its entry {}", round * 10 + n);
                store.put(round, &Key::new(0, key.as_bytes()), key.as_bytes()).unwrap();
                store.put(round, &Key::new(0, key.as_bytes()), b"a second value, large as well").unwrap();
                store.delete(round + 1000, &Key::new(0, key.as_bytes())).unwrap();
            }
            store.drain_changed(&mut changes).unwrap();
        }
        assert_eq!((changes.len(), store.len()), (0, 0), "nobody knows of what came and went");
        assert!(store.entries.len() <= 10 && store.blobs.slots() <= 40, "{} slots", store.blobs.slots());
    }

    #[test]
    fn keys_of_one_head_are_told_apart() {
        let mut store = MemoryStore::new();
        let keys: Vec<Vec<u8>> = (0..40).map(|zeros| vec![0; zeros]).collect();
        for (n, key) in keys.iter().enumerate() {
            store.put(1, &Key::new(7, key), &[u8::try_from(n).unwrap()]).unwrap();
        }
        assert_eq!(store.len(), 40);
        for (n, key) in keys.iter().enumerate() {
            assert_eq!(store.find(&Key::new(7, key)).unwrap().unwrap().1, [u8::try_from(n).unwrap()]);
            assert_eq!(store.find(&Key::new(8, key)), Ok(None), "a key of another group is another key");
        }
    }
}
