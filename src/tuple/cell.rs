//! One value in eight bytes.

/// One value, packed: kind in the low 4 bits. Text and bytes: length (28 bits), offset (32 bits). Whole numbers that
/// fit stand in the upper 60 bits; others, and floats, stand in the blob.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(super) struct Cell(pub(super) u64);

pub(super) mod kind {
    pub(in crate::tuple) const NULL: u64 = 0;
    pub(in crate::tuple) const FALSE: u64 = 1;
    pub(in crate::tuple) const TRUE: u64 = 2;
    pub(in crate::tuple) const INT: u64 = 3;
    pub(in crate::tuple) const WIDE_INT: u64 = 4;
    pub(in crate::tuple) const FLOAT: u64 = 5;
    pub(in crate::tuple) const STR: u64 = 6;
    pub(in crate::tuple) const BYTES: u64 = 7;
}

impl Cell {
    /// Longest text or bytes value.
    pub(super) const MAX_LEN: usize = (1 << 28) - 1;

    #[inline]
    pub(super) const fn span(kind: u64, start: usize, len: usize) -> Self {
        Self((start as u64) << 32 | (len as u64) << 4 | kind)
    }

    #[inline]
    pub(super) const fn kind(self) -> u64 {
        self.0 & 15
    }

    #[inline]
    pub(super) const fn start(self) -> usize {
        (self.0 >> 32) as usize
    }

    #[inline]
    pub(super) const fn end(self) -> usize {
        self.start() + ((self.0 >> 4) as usize & Self::MAX_LEN)
    }
}
