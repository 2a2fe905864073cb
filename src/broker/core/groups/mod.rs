//! Consumer groups of the classic protocol: members, generations, committed offsets.

mod options;

pub use options::GroupOptions;
