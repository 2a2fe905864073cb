//! How it runs: executors, the queues between them, commits, and the supervisor that owns every thread.
//!
//! It is the driver of what `topology/` draws: it decides when a task is called, never what it means. It knows sources
//! and sinks by their ports only, so nothing here has heard of Kafka.
//!
//! Files in reading order: `supervisor` (generations) with `restarts`, `generation` (where every task stands), `conductor` (what a
//! generation does next), `commit` (the order of a commit), `starting`, `keeping`, `keeper` and `stores` (how stores are
//! restored and flushed), `executor` (one step of one thread, with
//! `committing`, `telling` and `spare`), `task` (one call of one
//! component), `link` and `wake` (between threads), `vitals` and `watchdog` (who is seen from outside), `stepper` (a
//! generation without threads), `stepped` (a whole run without them), `testkit` (components and topologies under test).
//!
//! Invariants:
//! 1. Emitting never blocks: what a ring has no room for waits with its producer, and only spouts stop.
//! 2. Acks never wait behind tuples.
//! 3. What is committed was frozen before the flush that covers it.
//! 4. After a generation has lost a part, nothing of it is committed.
//! 5. A panic ends a tuple's tree, or a generation, never the process.

mod commit;
mod committing;
mod conductor;
mod error;
mod executor;
mod generation;
mod keeper;
mod keeping;
mod link;
mod options;
mod restarts;
mod spare;
mod starting;
mod stepped;
mod stepper;
mod stores;
mod supervisor;
mod task;
mod telling;
pub mod testkit;
mod threads;
mod vitals;
mod wake;
mod watchdog;

pub use conductor::Ending;
pub use error::EngineError;
pub use options::EngineOptions;
pub use starting::RestoreReport;
pub use stepped::SteppedRun;
pub use stepper::Stepper;
pub use supervisor::{RunReport, StopHandle, run};

#[cfg(test)]
mod tests;
