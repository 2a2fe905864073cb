//! The broker as a value: requests and `now` in, responses out. No clock, no network, no randomness of its own.
//!
//! Files in reading order: `request` (what comes in and goes out), `broker` (one request from its arrival to its
//! response), `apis` (which APIs in which versions); then what it is about: `logs/` (topics, partitions, batches),
//! `groups/` (members and committed offsets), `transactions/` (producers' identities and two-phase commit),
//! `coordinators` (who is asked about those), `agenda` (which of many is due first, and what all of them take), `sizes`
//! (what takes how many bytes). In front of it all, where it is wanted, stands `faults` (what goes wrong), with `refusals`
//! (responses that say nothing but an error) and `partitions` (what of a request is about which).
//!
//! Invariants:
//! 1. A connection has one request at a time, as at Kafka: those that come meanwhile wait, so a join that waits for other
//!    members holds up whatever its connection sends after it.
//! 2. Every request has exactly one response, but a produce request that asks for none.
//! 3. The same inputs give the same outputs, byte for byte.

mod agenda;
mod apis;
mod broker;
mod coordinators;
#[cfg(test)]
mod fault_tests;
pub mod faults;
mod groups;
mod logs;
mod partitions;
#[cfg(test)]
mod refusal_tests;
mod refusals;
mod request;
#[cfg(test)]
pub(super) mod sample;
mod sizes;
mod transactions;

pub use broker::{Broker, BrokerOptions};
pub use coordinators::Coordinates;
pub use groups::GroupOptions;
pub use logs::LogOptions;
pub use request::{ConnectionId, Effect, Request, Response, Ticket};
pub use transactions::TransactionOptions;
