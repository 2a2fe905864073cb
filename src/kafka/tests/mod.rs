//! The spout and the sink over fake clients, in virtual time.

mod bench;
mod cut;
mod failures;
mod rebalance;
mod sink;
mod source;
mod stores;
