//! `ledger`, `message`, `timeouts`, `mixing`: examples. `interleavings` (with `world`): the ledger against real trees.

mod interleavings;
mod ledger;
mod message;
mod mixing;
mod timeouts;
mod world;
