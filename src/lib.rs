//! Stormglass.
pub mod ack;
pub mod audit;
pub mod clock;
pub mod kafka;
pub mod metrics;
pub mod runtime;
pub mod service;
pub mod topologies;
pub mod topology;
pub mod tuple;
