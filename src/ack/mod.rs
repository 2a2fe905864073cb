//! Is the tuple tree done? The acker: Storm's XOR algebra as a plain value.
//!
//! A spout tuple and all that descends from it are a *tree*. Each tuple of it is an *edge* with a 64-bit number. A
//! number is XORed into the tree's entry twice: when the tuple is emitted and when it is acked. So the entry is 0 when
//! everything that was emitted has been acked, in whatever order the messages came.
//!
//! **What it is not.** It does not send, wait, log or look at a clock: messages and ticks go in, a `#[must_use]`
//! [`Outcome`] comes out. It keeps no record for a replay and moves no offset; that is the spout's. It cannot see an
//! input that is acked twice (`v ^ e ^ e = v`): the task that holds the input must make that impossible.
//!
//! **Files in reading order.**
//! 1. `message.rs`: [`AckMessage`], and [`AckBuffer`] in which messages for one tree fold.
//! 2. `worked.rs`: [`Tick`] and [`WorkedTime`], time without the gaps in which the process was stopped.
//! 3. `ledger.rs`: [`Ledger`], the heart of at-least-once; `entry.rs`: its 16 bytes a tree.
//! 4. `counters.rs`: [`LedgerCounters`], what the ledger has seen, stale messages by kind.
//! 5. `timeouts.rs`: [`Timeouts`], which trees made no progress for too long.
//! 6. `reference.rs` (tests): trees as sets of open edges, without XOR; the ledger is held to it.
//!
//! **Invariants.**
//! 1. A tree completes exactly when its last open edge is closed: not earlier, not twice, not after it failed.
//! 2. The entry of a live tree is never 0.
//! 3. A root id is given out once: its slot's generation goes up at each use and comes back after 2^32 - 1 trees *of
//!    that slot*. Slots are used in the order in which they became free, so that this is as far away as it can be.
//! 4. A message that matches no live tree changes nothing but one counter, and which one says why.
//! 5. `opened = completed + failed + expired + abandoned + live`.
//! 6. Effects are exact: the sum over all messages of a tree is the sum that its outcome reports, however they folded.
//! 7. No live tree is out of the timeouts' sight for 2^15 ticks, so a wrapped tick never makes an old tree look young.

mod counters;
mod entry;
mod ledger;
mod message;
#[cfg(test)]
mod reference;
#[cfg(test)]
mod tests;
mod timeouts;
mod worked;

pub use counters::{LedgerCounters, StaleCounters};
pub use ledger::{Ledger, Outcome};
pub use message::{AckBuffer, AckMessage, Verdict};
pub use timeouts::{Expired, Timeouts};
pub use worked::{Tick, WorkedTime};
