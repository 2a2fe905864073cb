//! The unit between tasks: rows over one arena.

use std::{hint::select_unpredictable, ops::Range};

use super::{
    Edge, KeyHash, RootId, StreamId, TaskId, Tuple, Value,
    cell::{Cell, kind},
};
use crate::clock::Instant;

/// What tracking needs to know of one tuple, and its first value: most tuples have no second one.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Row {
    /// The tree that the tuple belongs to, [`RootId::NONE`] if it is unanchored.
    pub root: RootId,
    /// The tuple's edge in that tree; its lineage too.
    pub edge: Edge,
    /// The hash of the fields by which it was grouped, 0 under groupings that use no key.
    pub key: KeyHash,
    /// End of the tuple's further anchors in [`Batch::anchors`]; the start is the end of the row before.
    anchors_end: u32,
    /// The first value, null if there is none.
    first: Cell,
}

/// A further tree that a tuple with several anchors belongs to.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Anchor {
    /// The tree.
    pub root: RootId,
    /// The edge by which the anchored tuple hangs in it.
    pub edge: Edge,
}

/// Tuples of one stream on their way to one task.
#[derive(Clone, Debug)]
pub struct Batch {
    /// The stream that all tuples belong to.
    pub stream: StreamId,
    /// The task that they go to.
    pub target: TaskId,
    /// When the first tuple was put in: what a tree timeout compares with.
    pub born: Instant,
    width: usize,
    rows: Vec<Row>,
    /// The values of each tuple but its first.
    cells: Vec<Cell>,
    text: String,
    blob: Vec<u8>,
    anchors: Vec<Anchor>,
}

/// The length of a batch at some moment, to which it can be cut back.
#[derive(Copy, Clone, Default, Debug)]
pub struct Mark {
    rows: usize,
    cells: usize,
    text: usize,
    blob: usize,
    anchors: usize,
}

impl Mark {
    /// The one or the other, without a branch.
    #[must_use]
    #[inline]
    pub fn select(first: bool, one: Self, other: Self) -> Self {
        let pick = |one, other| select_unpredictable(first, one, other);
        Self {
            rows: pick(one.rows, other.rows),
            cells: pick(one.cells, other.cells),
            text: pick(one.text, other.text),
            blob: pick(one.blob, other.blob),
            anchors: pick(one.anchors, other.anchors),
        }
    }
}

impl Batch {
    /// An empty batch for tuples of `width` values.
    #[must_use]
    pub fn new(stream: StreamId, target: TaskId, width: usize, rows: usize) -> Self {
        Self {
            stream,
            target,
            born: Instant::ZERO,
            width,
            rows: Vec::with_capacity(rows),
            cells: Vec::with_capacity(rows * width.saturating_sub(1)),
            text: String::with_capacity(rows * width * 12),
            blob: Vec::new(),
            anchors: Vec::new(),
        }
    }

    /// Number of tuples.
    #[must_use]
    #[inline]
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// True if there is no tuple in it.
    #[must_use]
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Bytes that the values take.
    #[must_use]
    #[inline]
    pub fn bytes(&self) -> usize {
        self.text.len() + self.blob.len()
    }

    /// Bytes of memory that the batch holds, used or not.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.rows.capacity() * size_of::<Row>()
            + self.cells.capacity() * size_of::<Cell>()
            + self.text.capacity()
            + self.blob.capacity()
            + self.anchors.capacity() * size_of::<Anchor>()
    }

    /// Makes an empty batch one for other tuples.
    pub fn redirect(&mut self, stream: StreamId, target: TaskId, width: usize) {
        debug_assert!(self.is_empty(), "tuples in it would change their stream");
        (self.stream, self.target, self.width) = (stream, target, width);
    }

    /// A batch of its own that holds one tuple of this one.
    #[must_use]
    pub fn detach(&self, tuple: &Tuple<'_>) -> Self {
        let values: Vec<_> = tuple.values().collect();
        let mut copy = Self::new(self.stream, self.target, self.width, 1);
        copy.born = self.born;
        for anchor in tuple.anchors() {
            copy.push_anchor(*anchor);
        }
        // What fits into a batch fits into an empty one.
        let row = tuple.row();
        let fits = copy.push(row.root, row.edge, row.key, &values);
        debug_assert!(fits.is_ok(), "a tuple of a batch fits into an empty one");
        copy
    }

    /// Empties the batch and keeps its memory.
    pub fn clear(&mut self) {
        self.truncate(Mark::default());
    }

    /// Appends a tuple. `values` are as many as the stream has fields.
    ///
    /// # Errors
    /// [`BatchFull`] if the values would not fit: one longer than 256 MiB, or more than 4 GiB in all. The batch is then
    /// to be cut back to the mark taken before.
    #[expect(
        clippy::inline_always,
        reason = "where it is emitted the kind of each value is known: the match goes away"
    )]
    #[inline(always)]
    pub fn push(&mut self, root: RootId, edge: Edge, key: KeyHash, values: &[Value<'_>]) -> Result<(), BatchFull> {
        debug_assert_eq!(values.len(), self.width, "the collector checks the width");
        let first = match values {
            [] => Cell(kind::NULL),
            [first] => self.cell(first)?,
            [first, further @ ..] => {
                let first = self.cell(first)?;
                for value in further {
                    let cell = self.cell(value)?;
                    self.cells.push(cell);
                }
                first
            }
        };
        self.push_row(root, edge, key, first);
        Ok(())
    }

    #[inline]
    fn push_row(&mut self, root: RootId, edge: Edge, key: KeyHash, first: Cell) {
        #[expect(clippy::cast_possible_truncation, reason = "fewer anchors than bytes in the arena")]
        let anchors_end = self.anchors.len() as u32;
        self.rows.push(Row { root, edge, key, anchors_end, first });
    }

    /// Appends a text that tuples will have parts of: where it begins.
    ///
    /// # Errors
    /// [`BatchFull`] as for [`Batch::push`].
    #[inline]
    pub fn push_text(&mut self, text: &str) -> Result<usize, BatchFull> {
        let start = self.text.len();
        Self::check(start, text.len())?;
        self.text.push_str(text);
        Ok(start)
    }

    /// Appends a tuple of one value: these bytes of the text that is here already.
    #[inline]
    pub fn push_part(&mut self, root: RootId, edge: Edge, key: KeyHash, part: Range<usize>) {
        debug_assert!(self.width == 1, "a part is the only value");
        debug_assert!(self.text.get(part.clone()).is_some(), "a part is of a text that is here");
        self.push_row(root, edge, key, Cell::span(kind::STR, part.start, part.len()));
    }

    /// Adds a further tree to the tuple that will be pushed next.
    pub fn push_anchor(&mut self, anchor: Anchor) {
        self.anchors.push(anchor);
    }

    #[expect(clippy::inline_always, reason = "see push")]
    #[inline(always)]
    fn cell(&mut self, value: &Value<'_>) -> Result<Cell, BatchFull> {
        // By reference, and text first: a copy of the value would go through memory.
        if let Value::Str(s) = value { self.text_cell(s) } else { self.other_cell(*value) }
    }

    #[inline]
    fn text_cell(&mut self, text: &str) -> Result<Cell, BatchFull> {
        Ok(Cell::span(kind::STR, self.push_text(text)?, text.len()))
    }

    fn other_cell(&mut self, value: Value<'_>) -> Result<Cell, BatchFull> {
        Ok(match value {
            Value::Str(s) => self.text_cell(s)?,
            Value::Bytes(b) => self.blob_cell(kind::BYTES, b)?,
            Value::Null => Cell(kind::NULL),
            Value::Bool(false) => Cell(kind::FALSE),
            Value::Bool(true) => Cell(kind::TRUE),
            Value::Int(i) if i << 4 >> 4 == i => Cell((i << 4).cast_unsigned() | kind::INT),
            Value::Int(i) => self.blob_cell(kind::WIDE_INT, &i.to_le_bytes())?,
            Value::Float(x) => self.blob_cell(kind::FLOAT, &x.to_le_bytes())?,
        })
    }

    fn blob_cell(&mut self, kind: u64, bytes: &[u8]) -> Result<Cell, BatchFull> {
        let start = self.blob.len();
        Self::check(start, bytes.len())?;
        self.blob.extend_from_slice(bytes);
        Ok(Cell::span(kind, start, bytes.len()))
    }

    #[inline]
    const fn check(start: usize, len: usize) -> Result<(), BatchFull> {
        if len > Cell::MAX_LEN || start + len > u32::MAX as usize {
            return Err(BatchFull);
        }
        Ok(())
    }

    /// The batch's present length.
    #[must_use]
    #[inline]
    pub fn mark(&self) -> Mark {
        Mark {
            rows: self.rows.len(),
            cells: self.cells.len(),
            text: self.text.len(),
            blob: self.blob.len(),
            anchors: self.anchors.len(),
        }
    }

    /// Takes back everything that was pushed since `mark`.
    pub fn truncate(&mut self, mark: Mark) {
        self.rows.truncate(mark.rows);
        self.cells.truncate(mark.cells);
        self.text.truncate(mark.text);
        self.blob.truncate(mark.blob);
        self.anchors.truncate(mark.anchors);
    }

    /// The rows, for the driver of a task.
    #[must_use]
    #[inline]
    pub fn rows(&self) -> &[Row] {
        &self.rows
    }

    /// The tuple at `index`, `None` past the end.
    #[must_use]
    #[inline]
    pub fn get(&self, index: usize) -> Option<Tuple<'_>> {
        Some(Tuple { batch: self, row: self.rows.get(index)?, index })
    }

    /// The tuples in order, from `start` on.
    #[inline]
    pub fn tuples_from(&self, start: usize) -> impl Iterator<Item = Tuple<'_>> {
        let rows = self.rows.get(start..).unwrap_or_default();
        rows.iter().enumerate().map(move |(at, row)| Tuple { batch: self, row, index: start + at })
    }

    /// The value at `position` of the tuple at `index`.
    #[inline]
    pub(super) fn cell_of(&self, row: &Row, index: usize, position: usize) -> Option<Cell> {
        if position >= self.width {
            return None;
        }
        match position.checked_sub(1) {
            None => Some(row.first),
            Some(further) => self.cells.get(index * (self.width - 1) + further).copied(),
        }
    }

    #[inline]
    pub(super) fn value(&self, cell: Cell) -> Value<'_> {
        let eight = || -> [u8; 8] {
            let bytes = self.blob.get(cell.start()..cell.end()).unwrap_or_default();
            bytes.try_into().unwrap_or_default()
        };
        match cell.kind() {
            kind::STR => Value::Str(self.text.get(cell.start()..cell.end()).unwrap_or_default()),
            kind::BYTES => Value::Bytes(self.blob.get(cell.start()..cell.end()).unwrap_or_default()),
            kind::INT => Value::Int(cell.0.cast_signed() >> 4),
            kind::WIDE_INT => Value::Int(i64::from_le_bytes(eight())),
            kind::FLOAT => Value::Float(f64::from_le_bytes(eight())),
            kind::TRUE => Value::Bool(true),
            kind::FALSE => Value::Bool(false),
            _ => Value::Null,
        }
    }

    #[inline]
    pub(super) fn text(&self, cell: Cell) -> Option<&str> {
        if cell.kind() == kind::STR { self.text.get(cell.start()..cell.end()) } else { None }
    }

    /// The further anchors of the tuple at `index`.
    #[inline]
    pub(super) fn anchors_of(&self, row: &Row, index: usize) -> &[Anchor] {
        if self.anchors.is_empty() {
            return &[];
        }
        let before = index.checked_sub(1).and_then(|before| self.rows.get(before));
        let start = before.map_or(0, |row| row.anchors_end as usize);
        self.anchors.get(start..row.anchors_end as usize).unwrap_or_default()
    }

    /// Values of each tuple.
    #[inline]
    pub(super) const fn width(&self) -> usize {
        self.width
    }
}

/// A batch cannot take the tuple: a value of more than 256 MiB, or more than 4 GiB in one batch.
#[derive(Copy, Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("a value of more than 256 MiB, or a batch of more than 4 GiB")]
pub struct BatchFull;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn batch(width: usize) -> Batch {
        Batch::new(StreamId(0), TaskId(0), width, 4)
    }

    fn push(batch: &mut Batch, values: &[Value<'_>]) {
        batch.push(RootId::NONE, Edge::UNTRACKED, KeyHash(0), values).unwrap();
    }

    #[test]
    fn a_row_is_half_a_cache_line_and_a_value_8_bytes() {
        assert_eq!((size_of::<Row>(), size_of::<Cell>()), (32, 8));
    }

    #[test]
    fn a_failed_executes_tuples_are_taken_back_without_a_trace() {
        let mut batch = batch(1);
        push(&mut batch, &[Value::Str("stays")]);
        let mark = batch.mark();
        batch.push_anchor(Anchor { root: RootId::new(0, 1, 1), edge: Edge::root(1) });
        push(&mut batch, &[Value::Str("goes")]);
        push(&mut batch, &[Value::Float(1.5)]);
        batch.truncate(mark);
        push(&mut batch, &[Value::Str("new")]);
        let texts: Vec<_> = batch.tuples_from(0).map(|t| t.str(0)).collect();
        assert_eq!(texts, [Some("stays"), Some("new")]);
        assert_eq!(batch.get(1).unwrap().anchors(), []);
        assert_eq!(batch.bytes(), "staysnew".len());
    }

    #[test]
    fn each_tuple_has_its_own_anchors() {
        let mut batch = batch(0);
        let anchor = |slot| Anchor { root: RootId::new(0, slot, 1), edge: Edge::root(slot.into()) };
        push(&mut batch, &[]);
        batch.push_anchor(anchor(1));
        batch.push_anchor(anchor(2));
        push(&mut batch, &[]);
        push(&mut batch, &[]);
        let anchors: Vec<_> = batch.tuples_from(0).map(|t| t.anchors().len()).collect();
        assert_eq!(anchors, [0, 2, 0]);
    }

    proptest! {
        #[test]
        fn values_come_out_as_they_went_in(rows in prop::collection::vec((any::<i64>(), any::<f64>(), any::<bool>(), ".*", prop::collection::vec(any::<u8>(), 0..20)), 0..20)) {
            let mut batch = batch(6);
            let values: Vec<_> = rows.iter().map(|(i, x, b, s, bytes)| {
                [Value::Int(*i), Value::Float(*x), Value::Bool(*b), Value::Str(s), Value::Bytes(bytes), Value::Null]
            }).collect();
            for row in &values {
                push(&mut batch, row);
            }
            for (at, row) in values.iter().enumerate() {
                prop_assert!(batch.get(at).unwrap().values().eq(row.iter().copied()));
            }
            prop_assert_eq!(batch.tuples_from(0).count(), rows.len());
        }
    }
}
