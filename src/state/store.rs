//! The port to the entries of one task: where they live is the store's own matter.

use std::ops::Range;

use super::{Change, Changes};
use crate::tuple::KeyHash;

/// Keeps entries: each a key in a key group, with a value. Keys and values are bytes, encoded by their types.
///
/// # Contract
/// 1. An entry is known by its key group and its key: what the changelog can tell apart, and no more.
/// 2. Every write names the call that it belongs to. A write of another call says that the calls before have succeeded;
///    [`Store::take_back`] undoes what a call has written, as long as no other call has written.
/// 3. An entry is *changed* from its first write on until [`Store::drain_changed`], unless that write is taken back.
///    Changed entries are told in the order of their first change, each once, with what they hold then.
/// 4. An entry that was deleted is told as deleted, unless it was never told or restored with a value: then nobody else
///    knows of it.
/// 5. [`Store::restore`] comes before every write, and changes nothing in the sense of 3.
/// 6. A write that fails has changed nothing.
///
/// `state/contract.rs` is this contract as a test.
pub trait Store: Send {
    /// Looks an entry up: its place and its value, `None` if it is not there.
    ///
    /// # Errors
    /// It cannot be read.
    fn find(&mut self, key: &Key<'_>) -> Result<Option<(Place, &[u8])>, StoreError>;

    /// The value of an entry where it stands, if it is there and has 8 bytes: to be written over. It counts as written by
    /// `call` already, so that one look-up finds and writes a number. `None` if there is no such value, or no such access to
    /// it: then it is found and put.
    fn value_in_place(&mut self, call: u64, key: &Key<'_>) -> Option<&mut [u8; 8]>;

    /// Writes the value of the entry at `place`, without looking it up again. A place holds until the next write.
    ///
    /// # Errors
    /// It cannot be written.
    fn put_at(&mut self, call: u64, place: Place, value: &[u8]) -> Result<(), StoreError>;

    /// Writes an entry, there already or not.
    ///
    /// # Errors
    /// It cannot be written.
    fn put(&mut self, call: u64, key: &Key<'_>, value: &[u8]) -> Result<(), StoreError>;

    /// Deletes an entry; nothing changes if it is not there.
    ///
    /// # Errors
    /// It cannot be written.
    fn delete(&mut self, call: u64, key: &Key<'_>) -> Result<(), StoreError>;

    /// Undoes everything that `call` has written, if it was the last to write.
    fn take_back(&mut self, call: u64);

    /// Shows every entry of these key groups: group after group, within a group by key.
    ///
    /// # Errors
    /// They cannot be read.
    fn scan(&mut self, groups: Range<u16>, visit: &mut dyn FnMut(Change<'_>)) -> Result<(), StoreError>;

    /// Shows every changed entry, as [`Store::drain_changed`] would hand it over.
    ///
    /// # Errors
    /// They cannot be read.
    fn scan_changed(&mut self, visit: &mut dyn FnMut(Change<'_>)) -> Result<(), StoreError>;

    /// Hands over every changed entry; they are then as unchanged ones. All calls so far have succeeded.
    ///
    /// # Errors
    /// [`StoreError::TooManyChanges`] if there is no room: what was handed over is unchanged, the rest is not.
    fn drain_changed(&mut self, into: &mut Changes) -> Result<(), StoreError>;

    /// Sets an entry to what the changelog has for it, `None` if it was deleted.
    ///
    /// # Errors
    /// It cannot be written.
    fn restore(&mut self, group: u16, key: &[u8], value: Option<&[u8]>) -> Result<(), StoreError>;

    /// Number of entries.
    fn len(&self) -> usize;

    /// Whether there is none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// What an entry is known by.
#[derive(Copy, Clone, Debug)]
pub struct Key<'a> {
    /// The key group, which the grouping key's hash names.
    pub group: u16,
    /// The key, encoded.
    pub bytes: &'a [u8],
    /// What [`KeyHash::of_bytes`] would tell of the bytes, or another number: right it saves a store the work, wrong it
    /// does no harm. The hash that comes with a tuple is right where the grouping key is the key.
    pub hint: KeyHash,
}

impl<'a> Key<'a> {
    /// A key whose hash is not at hand.
    #[must_use]
    pub fn new(group: u16, bytes: &'a [u8]) -> Self {
        Self { group, bytes, hint: KeyHash::of_bytes(bytes) }
    }
}

/// Where an entry is; the store that gave it knows what it means.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Place(pub(super) u32);

/// The most bytes that key and value of an entry have together. What is kept is a record of the changelog, and clients and
/// brokers take none of more than a million bytes unless they are told to.
pub const MAX_ENTRY_BYTES: usize = 960 << 10;

/// A store cannot do what was asked.
#[derive(Copy, Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum StoreError {
    /// No room for another entry.
    #[error("the store of one task is full: 2^32 entries. Give the bolt more tasks")]
    Full,
    /// One flush cannot take so much.
    #[error("more than 4 GiB of one store changed between two commits: commit more often, or give the bolt more tasks")]
    TooManyChanges,
}
