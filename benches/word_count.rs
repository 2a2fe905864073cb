//! Words a second through Kafka: not written yet.

fn main() {}
