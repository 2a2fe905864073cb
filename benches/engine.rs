//! Criterion benchmarks of the engine's inner parts, without a broker: one module a group.
//!
//! `cargo bench --bench engine [-- FILTER]`

use criterion::{criterion_group, criterion_main};

#[path = "word_count/counts.rs"]
mod counts;
#[path = "engine/hop.rs"]
mod hop;
#[path = "engine/ledger.rs"]
mod ledger;
#[path = "engine/store.rs"]
mod store;

criterion_group!(benches, ledger::benches, hop::benches, store::benches);
criterion_main!(benches);
