//! Stormglass.
pub mod clock;
pub mod metrics;
pub mod tuple;
