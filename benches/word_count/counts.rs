//! What a careful programmer would count with: a table over one arena that can do nothing but count.

use hashbrown::HashTable;

use stormglass::tuple::KeyHash;

/// How often each text occurred. A known text costs no allocation.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    /// Indexes into `entries`.
    table: HashTable<u32>,
    entries: Vec<Entry>,
    /// Their hashes, apart: only a table that grows asks for them.
    hashes: Vec<u32>,
    /// The texts, one after the other.
    texts: String,
    /// Entries that changed since [`Counts::drain_changed`], each once.
    changed: Vec<u32>,
}

/// Half a cache line. The first bytes of the text stand in the entry itself: most words need no look into the arena.
#[derive(Debug)]
#[repr(align(32))]
struct Entry {
    head: Head,
    count: u64,
    start: u32,
    /// Bytes of the text, and whether the entry has changed, in the top bit.
    len: u32,
}

/// The top bit of [`Entry::len`].
const CHANGED: u32 = 1 << 31;

/// The first 16 bytes of a text, with zeros behind a shorter one: compared as two words.
type Head = [u64; 2];

#[inline]
fn head(text: &[u8]) -> Head {
    let word = |bytes: &[u8]| -> u64 {
        match *bytes {
            [a, b, c, d, e, f, g, h, ..] => u64::from_le_bytes([a, b, c, d, e, f, g, h]),
            [a, b, c, d, ref rest @ ..] => {
                let low = u64::from(u32::from_le_bytes([a, b, c, d]));
                rest.iter().rev().fold(0, |high, byte| high << 8 | u64::from(*byte)) << 32 | low
            }
            ref rest => rest.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte)),
        }
    };
    [word(text), word(text.get(8..).unwrap_or_default())]
}

/// A table of counts cannot take another text: there are 4 GiB of them.
#[derive(Copy, Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("one task counts more than 4 GiB of different words: give the topology more count_tasks")]
pub(crate) struct CountsFull;

#[allow(dead_code, reason = "each benchmark uses its part")]
impl Counts {
    /// Counts one more `text`, whose hash is `key`, and tells its count.
    ///
    /// # Errors
    /// [`CountsFull`] if a new text has no place; nothing has changed then.
    #[inline]
    pub(crate) fn add(&mut self, key: KeyHash, text: &str) -> Result<u64, CountsFull> {
        let Self { table, entries, texts, .. } = self;
        let (bytes, head) = (text.as_bytes(), head(text.as_bytes()));
        let is_it = |&at: &u32| {
            entries.get(at as usize).is_some_and(|e| {
                e.head == head && e.len() == bytes.len() && (bytes.len() <= 16 || e.text(texts) == bytes)
            })
        };
        match table.find(spread(key.0), is_it).copied() {
            Some(at) => self.count(at),
            None => self.insert(key, text),
        }
    }

    #[inline]
    fn count(&mut self, at: u32) -> Result<u64, CountsFull> {
        let Some(entry) = self.entries.get_mut(at as usize) else { return Err(CountsFull) };
        entry.count += 1;
        if entry.len & CHANGED == 0 {
            entry.len |= CHANGED;
            self.changed.push(at);
        }
        Ok(entry.count)
    }

    #[cold]
    fn insert(&mut self, key: KeyHash, text: &str) -> Result<u64, CountsFull> {
        let small = |n: usize| u32::try_from(n).map_err(|_| CountsFull);
        let (at, start, len) = (small(self.entries.len())?, small(self.texts.len())?, small(text.len())?);
        start.checked_add(len).filter(|_| len & CHANGED == 0).ok_or(CountsFull)?;
        self.texts.push_str(text);
        self.hashes.push(key.0);
        let head = head(text.as_bytes());
        self.entries.push(Entry { head, count: 0, start, len });
        let hashes = &self.hashes;
        let hash_of = |at: &u32| hashes.get(*at as usize).map_or(0, |hash| spread(*hash));
        self.table.insert_unique(spread(key.0), at, hash_of);
        self.count(at)
    }

    /// Tells each text that changed since the last call, once, with its count: in the order of first change.
    pub(crate) fn drain_changed(&mut self, mut tell: impl FnMut(&str, u64)) {
        for at in self.changed.drain(..) {
            if let Some(entry) = self.entries.get_mut(at as usize) {
                entry.len &= !CHANGED;
                let (start, len) = (entry.start as usize, entry.len());
                tell(self.texts.get(start..start + len).unwrap_or_default(), entry.count);
            }
        }
    }

    /// Number of different texts.
    #[must_use]
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }
}

impl Entry {
    #[inline]
    const fn len(&self) -> usize {
        (self.len & !CHANGED) as usize
    }

    #[inline]
    fn text<'t>(&self, texts: &'t str) -> &'t [u8] {
        let (start, len) = (self.start as usize, self.len());
        texts.as_bytes().get(start..start + len).unwrap_or_default()
    }
}

/// 32 bits of hash over 64: the table takes its place from the low ones and its tag from the top seven. The low bits
/// of the hash itself are alike within a task, for they name the key group.
#[inline]
const fn spread(hash: u32) -> u64 {
    let wide = (hash as u64 | 1 << 32).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    wide ^ (wide >> 32)
}
