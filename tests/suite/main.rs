//! Every test that needs no Apache Kafka and starts the program, in one binary.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
#![allow(clippy::disallowed_methods, reason = "tests that start real processes live in real time")]
#![allow(clippy::string_slice, clippy::print_stderr, reason = "at worst a test fails; why tests are skipped")]
#![allow(unreachable_pub, reason = "a test binary has no outside")]

mod against;
mod binary;
mod broker;
mod cli;
mod demo;
#[path = "../../testcontainers/kafka/conformance/frames.rs"]
mod frames;
mod hostile;
mod layering;
mod sim;
mod symptoms;
