//! The simulation: several processes of the product, one broker, one clock and one thread, everything in an order that is
//! drawn from a seed, and everything going wrong by plan.
//!
//! What runs is the product: executors, acker, source, sink, stores, changelog, commits and supervision. Only what is below
//! the client ports is replaced: [`clients`] speak to the embedded broker's core over [`network`].

mod bites;
mod caps;
pub mod clients;
pub mod dice;
pub mod host;
mod link;
pub mod log;
pub mod network;
mod oracle;
mod pipeline;
pub mod plan;
mod process;
mod shrink;
mod simulation;
pub mod substitutes;
#[cfg(test)]
mod tests;
mod view;
mod words;

pub use bites::Bites;
pub use shrink::shrink;
pub use simulation::{RunOptions, Verdict, run};
