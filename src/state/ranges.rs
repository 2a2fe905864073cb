//! Sets of offsets as ranges.

/// Offsets, as ranges that are sorted, not empty, and neither overlap nor touch.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct OffsetRanges(Vec<(i64, i64)>);

impl OffsetRanges {
    /// No offset.
    #[must_use]
    pub const fn new() -> Self {
        Self(Vec::new())
    }

    /// Adds the offsets from `start` up to, not including, `end`; they must lie above all that were added before. A
    /// range that touches the last one makes it longer, an empty one changes nothing.
    pub fn push(&mut self, start: i64, end: i64) {
        if start >= end {
            return;
        }
        match self.0.last_mut() {
            Some(last) if start <= last.1 => last.1 = last.1.max(end),
            _ => self.0.push((start, end)),
        }
    }

    /// Whether `offset` is in it.
    #[must_use]
    pub fn contains(&self, offset: i64) -> bool {
        let after = self.0.partition_point(|(start, _)| *start <= offset);
        after.checked_sub(1).and_then(|at| self.0.get(at)).is_some_and(|(_, end)| offset < *end)
    }

    /// The ranges (start, end exclusive), lowest first.
    pub fn iter(&self) -> impl Iterator<Item = (i64, i64)> {
        self.0.iter().copied()
    }

    /// Number of ranges.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether no offset is in it.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Number of offsets from `start` up to, not including, `end` that are not in it.
    #[must_use]
    pub fn missing_between(&self, start: i64, end: i64) -> u64 {
        let inside: i64 = self.iter().map(|(from, to)| (to.min(end) - from.max(start)).max(0)).sum();
        u64::try_from((end - start).max(0) - inside).unwrap_or(0)
    }
}
