//! A tuple as bolts see it.

use super::{Anchor, Batch, KeyHash, Row, StreamId, Value};

/// One tuple of a batch, borrowed.
#[derive(Copy, Clone, Debug)]
pub struct Tuple<'a> {
    pub(super) batch: &'a Batch,
    pub(super) row: &'a Row,
    pub(super) index: usize,
}

impl<'a> Tuple<'a> {
    /// The value of the field at `position`, [`Value::Null`] past the last. Positions are resolved from field names
    /// when the bolt is prepared.
    #[must_use]
    #[inline]
    pub fn get(&self, position: usize) -> Value<'a> {
        let cell = self.batch.cell_of(self.row, self.index, position);
        cell.map_or(Value::Null, |cell| self.batch.value(cell))
    }

    /// The text of the field at `position`, `None` if it is not text.
    #[must_use]
    #[inline]
    pub fn str(&self, position: usize) -> Option<&'a str> {
        // Not by way of a Value: it would be built in memory and taken apart again.
        let cell = self.batch.cell_of(self.row, self.index, position)?;
        self.batch.text(cell)
    }

    /// Number of values.
    #[must_use]
    pub const fn width(&self) -> usize {
        self.batch.width()
    }

    /// The values in the order of the fields.
    pub fn values(&self) -> impl Iterator<Item = Value<'a>> {
        let tuple = *self;
        (0..self.width()).map(move |position| tuple.get(position))
    }

    /// The stream on which the tuple came.
    #[must_use]
    #[inline]
    pub const fn stream(&self) -> StreamId {
        self.batch.stream
    }

    /// The hash of the grouping key; what a store of this task looks the key up by.
    #[must_use]
    #[inline]
    pub const fn key(&self) -> KeyHash {
        self.row.key
    }

    /// The tuple's identity, equal when its record is replayed.
    #[must_use]
    #[inline]
    pub const fn lineage(&self) -> u64 {
        self.row.edge.bits()
    }

    /// What tracking knows of the tuple.
    #[must_use]
    #[inline]
    pub const fn row(&self) -> &'a Row {
        self.row
    }

    /// The tuple's place in its batch.
    #[must_use]
    #[inline]
    pub const fn index(&self) -> usize {
        self.index
    }

    /// The further trees that the tuple belongs to.
    #[must_use]
    #[inline]
    pub fn anchors(&self) -> &'a [Anchor] {
        self.batch.anchors_of(self.row, self.index)
    }
}
