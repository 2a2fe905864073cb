//! `identities`, `transactions`, `finding`: examples against a whole broker (`cluster`); `interleavings`: producers in any
//! order against a naive reference; `versions`: every response in every version; `room`: what all ids take.

mod cluster;
mod finding;
mod identities;
mod interleavings;
mod outcomes;
mod room;
mod versions;
