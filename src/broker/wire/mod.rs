//! The broker on the wire: any Kafka client speaks to the core over TCP.
//!
//! Files in reading order: `server` (the listener and the tasks), `connection` (one client), `inbound` (bytes into
//! frames), `codec` (frames into requests, responses into frames), `older` (what
//! old versions cannot say), `careful` (what a length may claim), `repeated` (what is named more
//! than once), `hub` (the core
//! among its connections, and its timers), `limits` (what one client may take).
//!
//! Invariants:
//! 1. Everything runs on one thread: the core sees one event after another.
//! 2. A connection has one request at a time, as at Kafka; what its client sends meanwhile waits in the kernel, but for a
//!    few kilobytes read ahead.
//! 3. Nothing is allocated because a number says so: memory follows the bytes that have arrived.
//! 4. Whatever a client sends ends at worst its own connection.

mod careful;
mod codec;
mod connection;
mod hub;
mod inbound;
mod limits;
mod older;
mod repeated;
mod server;
#[cfg(test)]
mod tests;

pub use limits::Limits;
pub use server::{Server, ServerError, ServerOptions, TopicSpec};
