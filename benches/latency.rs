//! Latency through Kafka: not written yet.

fn main() {}
