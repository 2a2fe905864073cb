//! How it runs.
mod commit;
mod error;
mod executor;
mod generation;
mod link;
mod options;
mod task;
mod vitals;
mod wake;

pub use error::EngineError;
pub use options::EngineOptions;
