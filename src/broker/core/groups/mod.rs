//! Consumer groups of the classic protocol: members, generations, committed offsets.
//!
//! Files in reading order: `group` (what a group is between two events), `member`; `rebalance` (from one generation to the
//! next), `join`, `sync`, `leave` (the members' requests); `offsets` (what is committed), `commits` and `fetches` (the
//! requests about it); `coordinator` (all groups), `admin` (as tools see them),
//! `reload` (what is left when the coordinator moves), `expiry` (what is forgotten in time), `room` (what all of it takes);
//! `step`, `member_ids`, `options`.
//!
//! The rules are those of Apache Kafka 4's coordinator for classic groups; where it leaves a request without a response (a
//! join or sync that the same member repeats, a member that is removed while it waits), here it has one.
//!
//! Invariants:
//! 1. A generation has one leader, and every member of it got exactly one response that names it.
//! 2. Generations of a group only grow, unless its coordinator moves in the middle of a rebalance.
//! 3. What a transaction commits is seen when it commits, and never if it does not.
//! 4. All groups take no more bytes than they may, and what is there already is never refused for it.

mod admin;
mod commits;
mod coordinator;
mod expiry;
mod fetches;
mod group;
mod join;
mod leave;
mod member;
mod member_ids;
mod offsets;
mod options;
mod rebalance;
mod reload;
mod room;
mod step;
mod sync;

pub(super) use commits::Exists;
pub(super) use coordinator::Groups;
pub(super) use offsets::Partition;
pub use options::GroupOptions;
pub(super) use step::Caller;

#[cfg(test)]
mod tests;
