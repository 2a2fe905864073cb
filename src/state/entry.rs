//! One entry of a store in memory: half a cache line.

use std::cmp::Ordering;

use super::{Change, blobs::Blobs};
use crate::tuple::KeyHash;

/// The first 16 bytes of a key, with zeros behind a shorter one: compared as two words.
type Head = [u64; 2];

/// Room for the bytes of a key that stands in its entry.
pub(super) type KeyBytes = [u8; 16];

/// An entry: key, value, and what is known of them outside.
#[derive(Debug)]
#[repr(align(32))]
pub(super) struct Entry {
    head: Head,
    /// The cell, taken apart.
    value: [u8; 8],
    kind: u8,
    group: u16,
    /// Bytes of the key ([`LEN`]), and whether the entry is [`CHANGED`] and [`TOLD`].
    marks: u8,
    /// The number of a long key.
    key: u32,
}

/// The bits of [`Entry::marks`] that are the length of the key: [`LONG`] if it does not fit the head.
const LEN: u8 = 31;
const LONG: u8 = 17;
/// The entry was written and not told since.
const CHANGED: u8 = 1 << 6;
/// Somebody outside knows of the entry: it was told or restored with a value.
const TOLD: u8 = 1 << 7;

/// A value of at most 8 bytes, or the number of a larger one, or nothing. Two words, so that it travels in registers.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(super) struct Cell {
    /// The value's bytes as they lie in memory.
    bits: u64,
    kind: u8,
}

/// The kinds of a cell above those that are the length of a small value.
const BLOB: u8 = 9;
const NOTHING: u8 = 10;

impl Cell {
    /// No value.
    pub(super) const ABSENT: Self = Self { bits: 0, kind: NOTHING };

    /// `None` if a large value has no place.
    #[inline]
    pub(super) fn new(value: &[u8], blobs: &mut Blobs) -> Option<Self> {
        match <[u8; 8]>::try_from(value) {
            Ok(bytes) => Some(Self { bits: u64::from_ne_bytes(bytes), kind: 8 }),
            Err(_) => Self::other(value, blobs),
        }
    }

    fn other(value: &[u8], blobs: &mut Blobs) -> Option<Self> {
        let mut bytes = [0; 8];
        match (u8::try_from(value.len()), bytes.get_mut(..value.len())) {
            (Ok(kind), Some(small)) => {
                small.copy_from_slice(value);
                Some(Self { bits: u64::from_ne_bytes(bytes), kind })
            }
            _ => Some(Self { bits: blobs.add(value)?.into(), kind: BLOB }),
        }
    }

    /// Frees what stands elsewhere.
    #[inline]
    pub(super) fn free(self, blobs: &mut Blobs) {
        if self.kind == BLOB {
            blobs.free(blob(self.bits));
        }
    }
}

#[expect(clippy::cast_possible_truncation, reason = "made from 32 bits")]
const fn blob(bits: u64) -> u32 {
    bits as u32
}

/// A key that is looked for.
#[derive(Debug)]
pub(super) struct SearchKey<'a> {
    head: Head,
    bytes: &'a [u8],
}

impl<'a> SearchKey<'a> {
    #[inline]
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { head: head(bytes), bytes }
    }

    /// The hash under which the entry stands.
    pub(super) fn hash(&self) -> KeyHash {
        KeyHash::of_bytes(self.bytes)
    }
}

/// The head of a key. Long parts are read at both ends of the key, so that what is read twice falls on itself: no loop
/// whose length is different for each key.
#[inline]
fn head(key: &[u8]) -> Head {
    let (first, len) = (word(key), key.len());
    match (len, key.get(8..16), key.last_chunk()) {
        (..=8, ..) => [first, 0],
        (_, None, Some(last)) => [first, u64::from_le_bytes(*last) >> (8 * (16 - len))],
        (_, Some(second), _) => [first, word(second)],
        (_, None, None) => [first, 0],
    }
}

/// The first 8 bytes, with zeros behind a shorter key: pairs, of which the last ones fall on those before if there are fewer
/// than four. So no branch depends on the length of a key of 2 to 7 bytes.
#[inline]
fn word(bytes: &[u8]) -> u64 {
    if let Some(first) = bytes.first_chunk() {
        return u64::from_le_bytes(*first);
    }
    let Some(last) = bytes.len().checked_sub(2) else {
        return bytes.first().map_or(0, |byte| u64::from(*byte));
    };
    let pair = |at: usize| {
        let at = at.min(last);
        let pair = bytes.get(at..).and_then(|from| from.first_chunk()).copied().unwrap_or_default();
        u64::from(u16::from_le_bytes(pair)) << (8 * at)
    };
    pair(0) | pair(2) | pair(4) | pair(last)
}

#[inline]
fn key_len(key: &[u8]) -> u8 {
    u8::try_from(key.len()).map_or(LONG, |len| len.min(LONG))
}

impl Entry {
    /// An entry without a value; `None` if its key has no place.
    pub(super) fn new(group: u16, key: &SearchKey<'_>, blobs: &mut Blobs) -> Option<Self> {
        let key_len = key_len(key.bytes);
        let long = if key_len == LONG { blobs.add(key.bytes)? } else { 0 };
        Some(Self { head: key.head, value: [0; 8], kind: NOTHING, group, marks: key_len, key: long })
    }

    /// Whether it is the entry of this key.
    #[inline]
    pub(super) fn is(&self, group: u16, key: &SearchKey<'_>, blobs: &Blobs) -> bool {
        self.head == key.head
            && self.group == group
            && self.key_len() == key_len(key.bytes)
            && (!self.is_long() || blobs.get(self.key) == key.bytes)
    }

    #[inline]
    const fn key_len(&self) -> u8 {
        self.marks & LEN
    }

    #[inline]
    const fn is_long(&self) -> bool {
        self.key_len() == LONG
    }

    /// The hash under which the entry stands.
    pub(super) fn hash(&self, blobs: &Blobs) -> KeyHash {
        KeyHash::of_bytes(self.key(&mut KeyBytes::default(), blobs))
    }

    /// The key's bytes; `room` takes a short key.
    fn key<'a>(&'a self, room: &'a mut KeyBytes, blobs: &'a Blobs) -> &'a [u8] {
        if self.is_long() {
            return blobs.get(self.key);
        }
        let (low, high) = room.split_at_mut(8);
        low.copy_from_slice(&self.head[0].to_le_bytes());
        high.copy_from_slice(&self.head[1].to_le_bytes());
        room.get(..self.key_len().into()).unwrap_or_default()
    }

    fn long_key<'a>(&self, blobs: &'a Blobs) -> &'a [u8] {
        if self.is_long() { blobs.get(self.key) } else { &[] }
    }

    pub(super) fn free_key(&self, blobs: &mut Blobs) {
        if self.is_long() {
            blobs.free(self.key);
        }
    }

    #[inline]
    pub(super) fn value<'a>(&'a self, blobs: &'a Blobs) -> Option<&'a [u8]> {
        match self.kind {
            NOTHING => None,
            BLOB => Some(blobs.get(blob(u64::from_ne_bytes(self.value)))),
            len => self.value.get(..usize::from(len)),
        }
    }

    pub(super) const fn group(&self) -> u16 {
        self.group
    }

    /// Whether it has a value.
    pub(super) const fn is_there(&self) -> bool {
        self.kind != NOTHING
    }

    /// Sets the cell; the former one.
    #[inline]
    pub(super) const fn replace(&mut self, cell: Cell) -> Cell {
        let former = Cell { bits: u64::from_ne_bytes(self.value), kind: self.kind };
        (self.value, self.kind) = (cell.bits.to_ne_bytes(), cell.kind);
        former
    }

    /// Marks an entry with a value of 8 bytes as changed: its former cell, whether it was unchanged before, and the bytes, to
    /// be written over.
    #[inline]
    pub(super) const fn write_over(&mut self) -> Option<(Cell, bool, &mut [u8; 8])> {
        if self.kind != 8 {
            return None;
        }
        let former = Cell { bits: u64::from_ne_bytes(self.value), kind: 8 };
        Some((former, self.mark_changed(), &mut self.value))
    }

    /// True if it was unchanged before.
    #[inline]
    pub(super) const fn mark_changed(&mut self) -> bool {
        let first = self.marks & CHANGED == 0;
        self.marks |= CHANGED;
        first
    }

    pub(super) const fn mark_unchanged(&mut self) {
        self.marks &= !CHANGED;
    }

    /// Somebody outside knows what it holds now.
    pub(super) const fn mark_told(&mut self) {
        self.marks = self.key_len() | if self.is_there() { TOLD } else { 0 };
    }

    /// The entry as it is to be told, if anybody outside knows of it or ought to. `room` takes a short key.
    pub(super) fn change<'a>(&'a self, room: &'a mut KeyBytes, blobs: &'a Blobs) -> Option<Change<'a>> {
        let value = self.value(blobs);
        if value.is_none() && self.marks & TOLD == 0 {
            return None;
        }
        Some(Change { group: self.group, key: self.key(room, blobs), value })
    }

    /// By group, then by key: a shorter key has zeros in its head where a longer one has at least that.
    pub(super) fn order(&self, other: &Self, blobs: &Blobs) -> Ordering {
        let place = |entry: &Self| (entry.group, entry.head.map(u64::swap_bytes), entry.key_len());
        place(self).cmp(&place(other)).then_with(|| self.long_key(blobs).cmp(other.long_key(blobs)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_is_the_first_bytes_and_zeros() {
        let key: Vec<u8> = (1..=20).collect();
        for len in 0..=20 {
            let mut padded = [0; 16];
            let short = len.min(16);
            padded[..short].copy_from_slice(&key[..short]);
            let (low, high) = padded.split_at(8);
            assert_eq!(head(&key[..len]), [low, high].map(|part| u64::from_le_bytes(part.try_into().unwrap())));
        }
    }

    #[test]
    fn an_entry_is_half_a_cache_line() {
        assert_eq!(size_of::<Entry>(), 32);
    }
}
