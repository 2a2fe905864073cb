//! The stores of one task, and their part in its calls: what a call has written is there when it succeeds, and was never
//! there when it fails.

use std::ops::Range;

use super::{ComponentError, Output, changelog::StoreId};
use crate::{
    state::{Change, Changes, DecodeError, MAX_ENTRY_BYTES, Store, StoreError},
    tuple::{KeyGroups, KeyHash},
};

/// The stores of one task; none, if its component declares none.
pub(crate) struct TaskStores {
    groups: KeyGroups,
    /// The key groups of the task.
    pub(super) own: Range<u16>,
    pub(super) stores: Vec<TaskStore>,
    /// What had changed when the last flush ended, until it is handed over.
    collected: Vec<(StoreId, Changes)>,
}

/// One store of a task.
pub(super) struct TaskStore {
    id: StoreId,
    name: String,
    /// `None` while it is scanned.
    store: Option<Box<dyn Store>>,
    scratch: Scratch,
}

/// Room for what is encoded.
#[derive(Debug, Default)]
pub(super) struct Scratch {
    pub(super) key: Vec<u8>,
    pub(super) value: Vec<u8>,
}

impl std::fmt::Debug for TaskStores {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names = self.stores.iter().map(|store| &store.name);
        f.debug_list().entries(names).finish()
    }
}

/// Why a store does not do what a bolt asks.
#[derive(Clone, Debug, thiserror::Error)]
pub(super) enum Refusal {
    #[error("the handle is of no store of this bolt: get one from the context, in prepare")]
    NoStore,
    #[error("store \"{0}\" is being scanned: remember what is to be changed, and change it after the scan")]
    Scanned(String),
    #[error(
        "store \"{store}\": the key is of key group {group} and this task has the groups {} to {}: reach a store by the \
         hash of the tuple's own grouping key, tuple.key()", own.start, own.end.saturating_sub(1)
    )]
    NotOwn { store: String, group: u16, own: Range<u16> },
    #[error(
        "an entry of {bytes} bytes is too large for a store, which keeps at most {MAX_ENTRY_BYTES} bytes of key and value: \
         keep a hash of the key, or a part of it"
    )]
    TooLarge { bytes: usize },
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("an entry is not of the type that its store has: {0}")]
    Decode(#[from] DecodeError),
}

impl Refusal {
    #[cold]
    pub(super) fn note(self, misuse: &mut Option<ComponentError>) {
        misuse.get_or_insert_with(|| ComponentError::permanent(self));
    }
}

impl TaskStores {
    /// Of a task without stores.
    pub(super) fn none() -> Self {
        Self::new(KeyGroups::new(1, 1), 0..0)
    }

    pub(super) const fn new(groups: KeyGroups, own: Range<u16>) -> Self {
        Self { groups, own, stores: Vec::new(), collected: Vec::new() }
    }

    pub(super) fn open(&mut self, id: StoreId, name: &str, store: Box<dyn Store>) {
        self.stores.push(TaskStore { id, name: name.to_owned(), store: Some(store), scratch: Scratch::default() });
    }

    /// As many groups as a `u16` can count.
    #[inline]
    fn group(&self, by: KeyHash) -> u16 {
        self.groups.group(by) as u16
    }

    /// The store at `at`, its scratch, and the key group that the hash names; `None` if that is not the task's own, or the
    /// store is not there: [`TaskStores::refusal`] knows why.
    #[inline]
    pub(super) fn reach(&mut self, at: usize, by: KeyHash) -> Option<(u16, &mut dyn Store, &mut Scratch)> {
        let group = self.group(by);
        let of = self.stores.get_mut(at).filter(|_| self.own.contains(&group))?;
        Some((group, &mut **of.store.as_mut()?, &mut of.scratch))
    }

    /// Why there is nothing to reach.
    #[cold]
    pub(super) fn refusal(&self, at: usize, by: KeyHash) -> Refusal {
        let (group, own) = (self.group(by), self.own.clone());
        match self.stores.get(at) {
            None => Refusal::NoStore,
            Some(of) if own.contains(&group) => Refusal::Scanned(of.name.clone()),
            Some(of) => Refusal::NotOwn { store: of.name.clone(), group, own },
        }
    }

    fn take(&mut self, at: usize) -> Result<Box<dyn Store>, Refusal> {
        let store = self.stores.get_mut(at).ok_or(Refusal::NoStore)?;
        store.store.take().ok_or_else(|| Refusal::Scanned(store.name.clone()))
    }

    fn open_stores(&mut self) -> impl Iterator<Item = (StoreId, &mut Box<dyn Store>)> {
        self.stores.iter_mut().filter_map(|of| Some((of.id, of.store.as_mut()?)))
    }

    /// Undoes what the call has written.
    pub(super) fn take_back(&mut self, call: u64) {
        self.open_stores().for_each(|(_, store)| store.take_back(call));
    }

    /// Takes what has changed out of every store.
    fn collect(&mut self) -> Result<(), StoreError> {
        // What nobody has asked for since the last flush, nobody keeps.
        let mut collected = std::mem::take(&mut self.collected);
        collected.clear();
        for (id, store) in self.open_stores() {
            let mut changes = Changes::default();
            store.drain_changed(&mut changes)?;
            if !changes.is_empty() {
                collected.push((id, changes));
            }
        }
        self.collected = collected;
        Ok(())
    }
}

/// A store on loan: it goes back when the scan is over, by a panic too.
pub(super) struct Lent<'a> {
    pub(super) output: &'a mut Output,
    at: usize,
    pub(super) store: Option<Box<dyn Store>>,
}

impl<'a> Lent<'a> {
    pub(super) fn new(output: &'a mut Output, at: usize) -> Result<Self, Refusal> {
        let store = output.stores.take(at)?;
        Ok(Self { output, at, store: Some(store) })
    }
}

impl Drop for Lent<'_> {
    fn drop(&mut self) {
        if let Some(of) = self.output.stores.stores.get_mut(self.at) {
            of.store = self.store.take();
        }
    }
}

/// The driver's side of a task's stores.
impl Output {
    /// Gives the task its stores.
    pub(crate) fn open_stores(&mut self, stores: TaskStores) {
        self.stores = stores;
    }

    /// A flush has succeeded, as a call whose input was a root. What has changed in the stores until now is what
    /// [`Output::drain_changes`] tells; the bolt has seen the same.
    ///
    /// # Errors
    /// If the call emitted what cannot be emitted, or too much has changed.
    pub(crate) fn end_flush(&mut self) -> Result<u64, ComponentError> {
        let xor = self.end_root()?;
        self.stores.collect()?;
        Ok(xor)
    }

    /// Adds the changes that the last flush has ended with, store by store. What was written since is for the next one,
    /// whose bolt will see it: it would not, if it were handed over here.
    pub(crate) fn drain_changes(&mut self, into: &mut Vec<(StoreId, Changes)>) {
        into.append(&mut self.stores.collected);
    }

    /// Puts entries of one key group back into a store; before the first call.
    ///
    /// # Errors
    /// There is no room for them.
    pub(crate) fn restore(&mut self, store: StoreId, group: u16, entries: &Changes) -> Result<(), StoreError> {
        let found = self.stores.open_stores().find(|(id, _)| *id == store);
        let Some((_, store)) = found else { return Ok(()) };
        entries.iter().try_for_each(|entry| store.restore(group, entry.key, entry.value))
    }

    /// Shows every entry of every store.
    ///
    /// # Errors
    /// They cannot be read.
    pub(crate) fn scan_stores(&mut self, mut visit: impl FnMut(StoreId, Change<'_>)) -> Result<(), StoreError> {
        let own = self.stores.own.clone();
        let mut stores = self.stores.open_stores();
        stores.try_for_each(|(id, store)| store.scan(own.clone(), &mut |entry| visit(id, entry)))
    }

    /// Entries in all stores of the task.
    pub(crate) fn entries(&self) -> u64 {
        self.stores.stores.iter().filter_map(|of| of.store.as_ref()).map(|store| store.len() as u64).sum()
    }
}
