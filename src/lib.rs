//! Stormglass.
pub mod clock;
pub mod kafka;
pub mod metrics;
pub mod tuple;
