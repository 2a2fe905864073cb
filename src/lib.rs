//! Stormglass.
pub mod clock;
pub mod tuple;
