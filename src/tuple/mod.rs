//! What flows: batches of tuples, their values, and the ids that make a tuple part of a tree.
//!
//! A tuple never stands alone. The unit between tasks is a [`Batch`]: one arena of bytes, one small fixed-size
//! [`Row`] a tuple. A bolt sees a [`Tuple`], a borrowed view of one row.
//!
//! Files in reading order: `id` (roots, edges, tasks), `value` (what a field can hold), `cell` (the same in
//! eight bytes), `batch` (rows over an arena), `view` (one of them, borrowed), `key` (the hash that decides where a key lives).
//!
//! Invariants:
//! 1. An edge is the hash of its parent's edge and the emit index, so it is equal across replays: the edge of a tuple
//!    *is* its lineage, and costs nothing more.
//! 2. All rows of a batch belong to one stream and go to one task.
//! 3. Pushing a row and truncating to the length before it leaves the batch as it was.

mod batch;
mod cell;
mod id;
mod key;
mod value;
mod view;

pub use batch::{Anchor, Batch, BatchFull, Mark, Row};
#[cfg(test)]
pub(crate) use id::substituted::substitute_edges;
pub use id::{ComponentId, Edge, RootId, StreamId, TaskId, mix};
pub use key::{KeyGroups, KeyHash, murmur2};
pub use value::Value;
pub use view::Tuple;
