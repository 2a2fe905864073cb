//! How far a state has come.

use super::OffsetRanges;

/// What a state holds the effects of: written with each flush, in the same transaction as the entries.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Position {
    /// The commit that the flush belongs to. Numbers rise over the whole life of an app, restarts included.
    pub commit: u64,
    /// Where every source partition stood when the commit was frozen.
    pub sources: Vec<SourcePosition>,
}

/// Where one source partition stood.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SourcePosition {
    /// The component that reads it.
    pub source: String,
    /// The topic.
    pub topic: String,
    /// The partition.
    pub partition: i32,
    /// The frontier: every offset below is done.
    pub next: i64,
    /// What is done above the frontier.
    pub done: OffsetRanges,
    /// No offset from here on was emitted yet: what lies between `next` and this, and is not done, may be in the state
    /// in part.
    pub started: i64,
    /// The offset that the group was known to have committed when this was frozen; `None` if it had committed none.
    pub committed: Option<i64>,
}

/// Where the group has committed one source partition, as found at the start.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SourceStart {
    /// The component that reads it.
    pub source: String,
    /// The topic.
    pub topic: String,
    /// The partition.
    pub partition: i32,
    /// What is committed, `None` if nothing.
    pub committed: Option<CommittedStart>,
}

/// A committed offset with what stood beside it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CommittedStart {
    /// The frontier that was committed.
    pub next: i64,
    /// What was done above it.
    pub done: OffsetRanges,
    /// The number of the commit; `None` if the metadata beside the offset is not ours. 0: nothing was done yet, and this is
    /// where reading began.
    pub commit: Option<u64>,
}

impl CommittedStart {
    /// Whether it says only where reading began: no state need hold anything below.
    #[must_use]
    pub fn is_beginning(&self) -> bool {
        self.commit == Some(0)
    }
}
