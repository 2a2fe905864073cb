//! A changelog in memory that outlives generations, and fails when it is told to.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use crate::{
    state::{Changes, Position},
    topology::{
        CommitNumber, ComponentError, ComponentResult,
        changelog::{Changelog, ChangelogFactory, Flush, Restored, StoreFormat, StoreId},
    },
};

/// Key group and key.
type Place = (u16, Vec<u8>);

/// What becomes of a flush.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
enum Fate {
    Kept,
    Failed,
    KeptButSaidToHaveFailed,
}

/// What is kept, whoever writes it.
#[derive(Debug, Default)]
struct Kept {
    formats: Vec<StoreFormat>,
    stores: Vec<BTreeMap<Place, Vec<u8>>>,
    position: Option<Position>,
    flushes: u64,
    /// The writer that was opened last: the only one that may write.
    holder: u64,
    fates: Vec<Fate>,
    is_held: bool,
}

/// A changelog for tests of an engine: clones share what is kept, and each generation gets a writer of it from
/// [`MemoryChangelog::factory`].
#[derive(Clone, Debug, Default)]
pub struct MemoryChangelog(Arc<Mutex<Kept>>);

impl MemoryChangelog {
    /// One in which nothing was ever written.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    fn get(&self) -> MutexGuard<'_, Kept> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes a writer for each generation.
    #[must_use]
    pub fn factory(&self) -> ChangelogFactory {
        let kept = self.clone();
        ChangelogFactory::new(move |formats| {
            let writer = Writer {
                kept: kept.clone(),
                formats: formats.to_vec(),
                identity: 0,
                unread: Vec::new(),
                flush: None,
                is_restored: false,
            };
            Ok(Box::new(writer))
        })
    }

    /// The next flush fails, and nothing of it is kept.
    pub fn fail_next(&self) {
        self.get().fates.insert(0, Fate::Failed);
    }

    /// The next flush is kept, but its writer hears that it has failed: the answer was lost.
    pub fn lose_next_answer(&self) {
        self.get().fates.insert(0, Fate::KeptButSaidToHaveFailed);
    }

    /// Another process takes over.
    pub fn fence(&self) {
        self.get().holder += 1;
    }

    /// While it is held, no flush becomes durable.
    pub fn hold(&self, is_held: bool) {
        self.get().is_held = is_held;
    }

    /// The position of the last flush that was kept.
    #[must_use]
    pub fn position(&self) -> Option<Position> {
        self.get().position.clone()
    }

    /// How many flushes were kept.
    #[must_use]
    pub fn flushes(&self) -> u64 {
        self.get().flushes
    }

    /// The entries of a store: key and value, in the order of groups and keys.
    #[must_use]
    pub fn entries(&self, store: StoreId) -> Vec<(Vec<u8>, Vec<u8>)> {
        let kept = self.get();
        let entries = kept.stores.get(store.0).into_iter().flatten();
        entries.map(|((_, key), value)| (key.clone(), value.clone())).collect()
    }
}

/// One generation's changelog.
struct Writer {
    kept: MemoryChangelog,
    formats: Vec<StoreFormat>,
    /// 0 before it was opened.
    identity: u64,
    /// What `restore` has still to hand over; the last comes first.
    unread: Vec<(StoreId, u16, Changes)>,
    flush: Option<Flush>,
    is_restored: bool,
}

fn out_of_order() -> ComponentError {
    ComponentError::new("the changelog's calls are out of order")
}

impl Changelog for Writer {
    fn open(&mut self, _: Duration) -> ComponentResult<bool> {
        if self.identity > 0 {
            return Err(out_of_order());
        }
        let mut kept = self.kept.get();
        if kept.position.is_some() && kept.formats != self.formats {
            let sentence = format!("the changelog is of {:?}, not of {:?}", kept.formats, self.formats);
            return Err(ComponentError::refused(sentence));
        }
        kept.formats.clone_from(&self.formats);
        kept.stores.resize_with(self.formats.len(), BTreeMap::new);
        kept.holder += 1;
        self.identity = kept.holder;
        for (store, entries) in kept.stores.iter().enumerate() {
            for ((group, key), value) in entries {
                let last = self.unread.last_mut().filter(|(s, g, _)| (s.0, g) == (store, group));
                if let Some((_, _, changes)) = last {
                    changes.push(*group, key, Some(value));
                } else {
                    let mut changes = Changes::default();
                    changes.push(*group, key, Some(value));
                    self.unread.push((StoreId(store), *group, changes));
                }
            }
        }
        Ok(true)
    }

    fn restore(&mut self, _: Duration) -> ComponentResult<Restored> {
        if self.identity == 0 || self.is_restored {
            return Err(out_of_order());
        }
        if let Some((store, group, entries)) = self.unread.pop() {
            return Ok(Restored::Entries { store, group, entries });
        }
        self.is_restored = true;
        Ok(Restored::Done(self.kept.position()))
    }

    fn remaining(&self) -> Option<u64> {
        Some(self.unread.iter().map(|(_, _, entries)| entries.len() as u64).sum())
    }

    fn write(&mut self, flush: Flush) -> ComponentResult {
        if !self.is_restored || self.flush.is_some() {
            return Err(out_of_order());
        }
        self.flush = Some(flush);
        Ok(())
    }

    fn poll(&mut self, _: Duration) -> ComponentResult<Option<CommitNumber>> {
        let mut kept = self.kept.get();
        if kept.is_held {
            return Ok(None);
        }
        let Some(Flush { position, changes }) = self.flush.take() else { return Ok(None) };
        if kept.holder != self.identity {
            return Err(ComponentError::permanent("another process with the same identity took over"));
        }
        let fate = kept.fates.pop().unwrap_or(Fate::Kept);
        if fate != Fate::Failed {
            for (store, changes) in &changes {
                let entries = kept.stores.get_mut(store.0).ok_or_else(out_of_order)?;
                for change in changes.iter() {
                    let place = (change.group, change.key.to_vec());
                    match change.value {
                        Some(value) => entries.insert(place, value.to_vec()),
                        None => entries.remove(&place),
                    };
                }
            }
            kept.flushes += 1;
            kept.position = Some(position.clone());
        }
        match fate {
            Fate::Kept => Ok(Some(CommitNumber(position.commit))),
            Fate::Failed | Fate::KeptButSaidToHaveFailed => {
                Err(ComponentError::new(format!("flush {}: no answer", position.commit)))
            }
        }
    }

    fn close(&mut self, _: Duration) {
        self.flush = None;
    }
}
