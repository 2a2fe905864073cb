//! What takes how many bytes: never too few, and found without a look at every part.

/// So many entries of a large map or set: of the nodes of a tree at least five elevenths are in use.
pub(super) const fn entries<T>(count: usize) -> usize {
    3 * count * size_of::<T>()
}

/// The entries of a map or set of its own, which has a whole node for the first.
pub(super) const fn map<T>(count: usize) -> usize {
    if count == 0 { 0 } else { entries::<T>(count + 4) }
}

/// A text of this length: it is an allocation, and another counts who has it.
pub(super) const fn text(length: usize) -> usize {
    if length == 0 { 0 } else { length + 64 }
}
