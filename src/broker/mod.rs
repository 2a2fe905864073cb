//! A small Kafka broker for demos, tests and simulation; **never for production**: it keeps everything in memory, is one
//! node, and knows no users. It is held to Apache Kafka by one conformance suite that runs on both.
//!
//! Two faces stand on one core. [`core`] decides: a plain value, requests and the time in, responses out. On the wire any Kafka client speaks to it; in the process a simulation calls it under virtual time.

pub mod core;
pub mod wire;
