//! What the user draws: spouts, bolts and sinks, the streams between them, and the ports to the outside.
//!
//! It is the vocabulary of a topology and the pure part of running one: who gets a tuple, what it is anchored to, what
//! becomes visible when a call succeeds. It is not the runtime: nothing here has a thread, a queue or a clock.
//!
//! Files in reading order: `spout`, `bolt`, `sink` (the three kinds of component, each with a numbered contract),
//! `context` (what a task is told), `grouping` (which task gets a tuple), `output` (what a component emits into),
//! `execution` (one call, from its input to its ack), `store_view` and `stores` (what a bolt remembers, in a call), `held`
//! (inputs that a bolt keeps), `lane` (batches in the making), `trees` (live trees and their spouts), `builder` (a
//! topology as it is declared), `build_error`, `validate` and `depth` (what is wrong with it), `plan` (a topology that was
//! checked), `graph` (a plan drawn), `changelog` (the port to where stores are kept), `testkit` (the two ends of a topology
//! under test).
//!
//! Invariants:
//! 1. What a call has emitted is sent, and what it has written to stores stays, only after the call has succeeded.
//! 2. An input is acked, failed or held exactly once.
//! 3. An input's ack value is its edge XOR the edges of everything anchored to it.

mod batch_output;
mod bolt;
mod build_error;
mod builder;
pub mod changelog;
mod context;
mod delivery;
mod depth;
mod error;
mod execution;
mod graph;
mod grouping;
mod held;
mod lane;
mod output;
mod parts;
mod plan;
mod sending;
mod sink;
mod spout;
mod store_view;
mod stores;
pub mod testkit;
#[cfg(test)]
mod tests;
mod trees;
mod validate;
mod waker;

pub use batch_output::BatchOutput;
pub use bolt::{AckingBolt, Bolt};
pub use build_error::{BuildError, BuildErrors, ReadOf};
pub(crate) use builder::DeclaredStore;
pub use builder::{DEFAULT_STREAM, Declaration, TopologyBuilder, declared};
pub use context::{OutStream, StreamInfo, TaskContext};
pub use delivery::Delivery;
pub use error::{ComponentError, ComponentResult};
pub(crate) use execution::TreeFailure;
pub use graph::Format;
pub(crate) use grouping::Router;
pub use grouping::{CustomGrouping, Grouping};
pub use held::{Handled, Held, Input};
pub(crate) use lane::Lane;
pub use output::Output;
pub(crate) use output::{OutputSettings, Reader, Stream};
pub use plan::{ComponentPlan, EdgePlan, Factory, Plan, StorePlan, TaskPlan};
pub use sink::{InFlight, Sink};
pub use spout::{CommitNumber, CommitState, Companion, CompanionStep, Failure, MessageId, Next, Spout};
pub use store_view::{StoreHandle, StoreView};
pub(crate) use stores::TaskStores;
pub use trees::SpoutOutput;
pub(crate) use trees::{Ended, Ending, Owner, Trees};
pub use waker::Waker;
