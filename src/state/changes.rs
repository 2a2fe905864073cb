//! Entries of a store on their way to its changelog, or back.

/// Entries of one store, packed: the bytes stand one after the other.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Changes {
    rows: Vec<Row>,
    bytes: Vec<u8>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
struct Row {
    group: u16,
    deleted: bool,
    key_end: u32,
    end: u32,
}

/// One entry: what its key holds now.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Change<'a> {
    /// The key group, which is the changelog's partition.
    pub group: u16,
    /// The key, encoded.
    pub key: &'a [u8],
    /// The value, encoded; `None` if the entry was deleted.
    pub value: Option<&'a [u8]>,
}

impl Changes {
    /// Adds an entry. False, and nothing is added, if the entries would take more than 4 GiB.
    pub fn push(&mut self, group: u16, key: &[u8], value: Option<&[u8]>) -> bool {
        let key_end = self.bytes.len() + key.len();
        let end = key_end + value.map_or(0, <[u8]>::len);
        let (Ok(key_end), Ok(end)) = (u32::try_from(key_end), u32::try_from(end)) else { return false };
        self.bytes.extend_from_slice(key);
        self.bytes.extend_from_slice(value.unwrap_or_default());
        self.rows.push(Row { group, deleted: value.is_none(), key_end, end });
        true
    }

    /// The entry at `index`, `None` past the end.
    #[must_use]
    pub fn get(&self, index: usize) -> Option<Change<'_>> {
        let row = self.rows.get(index)?;
        let start = index.checked_sub(1).and_then(|before| self.rows.get(before)).map_or(0, |before| before.end);
        let key = self.bytes.get(start as usize..row.key_end as usize)?;
        let value = self.bytes.get(row.key_end as usize..row.end as usize)?;
        Some(Change { group: row.group, key, value: (!row.deleted).then_some(value) })
    }

    /// The entries in order.
    pub fn iter(&self) -> impl Iterator<Item = Change<'_>> {
        (0..self.len()).filter_map(|index| self.get(index))
    }

    /// Number of entries.
    #[must_use]
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Bytes of keys and values.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Empties it and keeps its memory.
    pub fn clear(&mut self) {
        self.rows.clear();
        self.bytes.clear();
    }
}
