//! What a ledger has seen.

/// Counts since the ledger was made. [`LedgerCounters::acks`] is the number of edges closed, so `acks / words` shows
/// whether a run tracked every word.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
pub struct LedgerCounters {
    /// Messages applied to live trees, after folding.
    pub messages: u64,
    /// Trees opened.
    pub opened: u64,
    /// Acks applied to live trees, before folding: one for each input and root.
    pub acks: u64,
    /// Trees that were done.
    pub completed: u64,
    /// Trees that a bolt or the spout failed.
    pub failed: u64,
    /// Trees that made no progress for too long.
    pub expired: u64,
    /// Trees that were given up without a verdict (their partition went away, their epoch aborted).
    pub abandoned: u64,
    /// Acks and fails that matched no live tree.
    pub stale: StaleCounters,
}

/// Acks and fails that came for no live tree and changed nothing, by reason. Folding does not change these numbers: a
/// message of 12 folded acks counts 12. Touches count nothing.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
pub struct StaleCounters {
    /// The ledger never gave out this root: not its shard, no such slot or a generation still to come. A defect.
    pub unknown: u64,
    /// The slot has been given to another tree since.
    pub old_generation: u64,
    /// The tree has failed: what its other branches still had in flight.
    pub after_fail: u64,
    /// The tree has expired or was abandoned; a growing number says that the timeout is too short.
    pub late: u64,
    /// The tree was done, so some input was acked twice. A defect.
    pub after_done: u64,
}

impl StaleCounters {
    /// All kinds together.
    #[must_use]
    pub const fn total(&self) -> u64 {
        self.unknown + self.old_generation + self.after_fail + self.late + self.after_done
    }
}
