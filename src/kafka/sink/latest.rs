//! The latest value of each key, until it is handed over. Pure.

use hashbrown::HashTable;

use crate::tuple::murmur2;

#[derive(Copy, Clone, Debug)]
struct Entry {
    hash: u32,
    key: (u32, u32),
    value: (u32, u32),
    null: bool,
}

/// Keys and their latest values, over one arena.
#[derive(Debug, Default)]
pub(super) struct Latest {
    table: HashTable<u32>,
    entries: Vec<Entry>,
    bytes: Vec<u8>,
}

impl Latest {
    /// Bytes after which it is to be handed over early: memory must not grow with the interval.
    const MAX_BYTES: usize = 8 << 20;

    /// Notes `value` (`None` is null) as the latest of `key`. True if the key is new.
    pub(super) fn put(&mut self, key: &[u8], value: Option<&[u8]>) -> bool {
        let hash = murmur2(key);
        let Self { table, entries, bytes } = self;
        let known = table.find(hash.into(), |at| {
            entries.get(*at as usize).is_some_and(|e| e.hash == hash && slice(bytes, e.key) == key)
        });
        if let Some(entry) = known.and_then(|at| entries.get_mut(*at as usize)) {
            let text = value.unwrap_or_default();
            entry.null = value.is_none();
            let start = entry.value.0 as usize;
            match bytes.get_mut(start..start + text.len()).filter(|_| text.len() <= entry.value.1 as usize) {
                Some(place) => {
                    place.copy_from_slice(text);
                    entry.value.1 = length(text.len());
                }
                None => entry.value = append(bytes, text),
            }
            return false;
        }
        let at = length(entries.len());
        let (key, value, null) = (append(bytes, key), append(bytes, value.unwrap_or_default()), value.is_none());
        entries.push(Entry { hash, key, value, null });
        table.insert_unique(hash.into(), at, |at| entries.get(*at as usize).map_or(0, |e| e.hash.into()));
        true
    }

    pub(super) const fn is_large(&self) -> bool {
        self.bytes.len() >= Self::MAX_BYTES
    }

    /// Keys and latest values, in the order in which the keys came.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&[u8], Option<&[u8]>)> {
        self.entries.iter().map(|e| (slice(&self.bytes, e.key), (!e.null).then(|| slice(&self.bytes, e.value))))
    }

    pub(super) fn clear(&mut self) {
        self.table.clear();
        self.entries.clear();
        self.bytes.clear();
    }
}

/// Bounded by [`Latest::MAX_BYTES`] and one more record.
fn length(len: usize) -> u32 {
    u32::try_from(len).unwrap_or(u32::MAX)
}

fn append(bytes: &mut Vec<u8>, text: &[u8]) -> (u32, u32) {
    let start = length(bytes.len());
    bytes.extend_from_slice(text);
    (start, length(text.len()))
}

fn slice(bytes: &[u8], (start, len): (u32, u32)) -> &[u8] {
    bytes.get(start as usize..start as usize + len as usize).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_holds_the_latest_value_of_each_key(puts in prop::collection::vec(("[a-d]{0,2}", prop::option::of("[0-9]{0,5}")), 0..100)) {
            let (mut latest, mut model) = (Latest::default(), BTreeMap::new());
            for (key, value) in &puts {
                let new = latest.put(key.as_bytes(), value.as_ref().map(|v| v.as_bytes()));
                prop_assert_eq!(new, model.insert(key.clone(), value.clone()).is_none());
            }
            let held: BTreeMap<_, _> = latest
                .iter()
                .map(|(k, v)| (String::from_utf8_lossy(k).into_owned(), v.map(|v| String::from_utf8_lossy(v).into_owned())))
                .collect();
            prop_assert_eq!(held, model);
            latest.clear();
            prop_assert_eq!(latest.iter().count(), 0);
        }
    }
}
