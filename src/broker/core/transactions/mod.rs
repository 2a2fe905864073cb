//! The transaction coordinator: producers' identities and two-phase commit.
//!
//! Files in reading order: `transaction` (one transactional id), `coordinator` (all of them, and their producers' requests),
//! `partitions` (what becomes part of a transaction), `admin` (as tools see them), `options`.
//!
//! The rules are those of Apache Kafka 4's coordinator for clients of the first transaction protocol. The second (KIP-890),
//! in which every transaction has an epoch of its own, is not here, and ApiVersions does not promise it. Decision and
//! markers are one step: whoever asks after EndTxn finds the transaction complete. Ids do not expire.
//!
//! Invariants:
//! 1. An identity that was fenced never succeeds again.
//! 2. All parts of a transaction end alike.
//! 3. All ids take no more bytes than they may, and a transaction that has begun is never kept from its end for it.

mod admin;
mod coordinator;
mod options;
mod partitions;
mod transaction;

pub(super) use coordinator::{Participants, Transactions};
pub use options::TransactionOptions;

#[cfg(test)]
mod tests;
