//! The port to the changelog: where the stores of a topology are kept outside the process.

use std::{fmt, sync::Arc, time::Duration};

use super::{CommitNumber, ComponentResult};
use crate::state::{Changes, Position};

/// What a changelog must know of a store to keep it: what another app, another topology or another format would have
/// written otherwise.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StoreFormat {
    /// The bolt that owns the store.
    pub component: String,
    /// The store's name, unique within its bolt.
    pub store: String,
    /// The type of its keys, as `state` names it: `text`, `int`, `(text, int)`.
    pub key: String,
    /// The type of its values.
    pub value: String,
    /// Key groups, which are the changelog's partitions.
    pub key_groups: u16,
}

/// A store's number among the topology's stores, in the order in which the plan lists them.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct StoreId(pub usize);

/// The entries of one flush, with the position that they belong to.
#[derive(Clone, Debug, Default)]
pub struct Flush {
    /// What was frozen before; its number names the flush.
    pub position: Position,
    /// The changed entries, each key once.
    pub changes: Vec<(StoreId, Changes)>,
}

/// What [`Changelog::restore`] has found.
#[derive(Debug)]
#[must_use]
pub enum Restored {
    /// Entries of one key group of one store. In a later batch the same key may come again and wins.
    Entries {
        /// The store.
        store: StoreId,
        /// The key group that all entries belong to.
        group: u16,
        /// The entries.
        entries: Changes,
    },
    /// Nothing now: call again.
    Nothing,
    /// Everything was read. `None`: nothing was ever written.
    Done(Option<Position>),
}

/// Keeps the stores of one topology, one flush a transaction.
///
/// # Contract
/// 1. All calls come from one thread, in this order: `open`, `restore` until it is done, then `write` and `poll`, then
///    `close`. A call waits for the network up to its `max_wait` and then returns.
/// 2. After `open` no other writer of the same identity can write any more, and whatever it had not finished is undone.
/// 3. A flush is written whole or not at all, entries and position together.
/// 4. One flush is on its way at a time: `write(n + 1)` comes after `poll` has told that `n` is durable.
/// 5. An error ends the generation. One that is a refusal ends the run: its sentence says what a person has to decide.
pub trait Changelog: Send {
    /// Takes the place of a predecessor. True when that is done; false: call again.
    ///
    /// # Errors
    /// The changelog is of another app, topology or format, or is not what a changelog must be; access is denied.
    fn open(&mut self, max_wait: Duration) -> ComponentResult<bool>;

    /// Reads on.
    ///
    /// # Errors
    /// What is there cannot be read.
    fn restore(&mut self, max_wait: Duration) -> ComponentResult<Restored>;

    /// Entries that `restore` still has to read, as far as is known; for the progress line.
    fn remaining(&self) -> Option<u64>;

    /// Starts to write a flush.
    ///
    /// # Errors
    /// Nothing can be written any more.
    fn write(&mut self, flush: Flush) -> ComponentResult;

    /// Works on, and tells the flush that has become durable, once.
    ///
    /// # Errors
    /// The flush was not written, or it is not known whether it was: the generation ends, and the next one finds out.
    /// Another writer has taken this one's place.
    fn poll(&mut self, max_wait: Duration) -> ComponentResult<Option<CommitNumber>>;

    /// The last call.
    fn close(&mut self, max_wait: Duration);
}

/// Makes a changelog for each generation.
#[derive(Clone)]
pub struct ChangelogFactory(Arc<Make>);

type Make = dyn Fn(&[StoreFormat]) -> ComponentResult<Box<dyn Changelog>> + Send + Sync;

impl ChangelogFactory {
    /// `make` is given the topology's stores in the order of their [`StoreId`].
    #[must_use]
    pub fn new(make: impl Fn(&[StoreFormat]) -> ComponentResult<Box<dyn Changelog>> + Send + Sync + 'static) -> Self {
        Self(Arc::new(make))
    }

    /// A changelog for these stores.
    ///
    /// # Errors
    /// If it cannot work at all; the sentence is for the user.
    pub fn make(&self, stores: &[StoreFormat]) -> ComponentResult<Box<dyn Changelog>> {
        (self.0)(stores)
    }
}

impl fmt::Debug for ChangelogFactory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ChangelogFactory")
    }
}
