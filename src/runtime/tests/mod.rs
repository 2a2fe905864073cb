//! Behaviour of the engine, under virtual time.

mod commits;
mod delivery;
mod parts;
mod stores;
mod threads;
mod timeouts;
