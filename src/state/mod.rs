//! What a bolt remembers, by key: stores, what has changed in them, and how a restart finds them again.
//!
//! Everything here is pure: bytes and `now` in, an outcome out. The changelog topic is behind a port in `topology`, its
//! client in `kafka`.
//!
//! Files in reading order: `ranges` (offsets that are done above a frontier), `position` (how far a state has come),
//! `changes` (entries on their way to or from the changelog).

mod changes;
mod position;
mod ranges;

pub use changes::{Change, Changes};
pub use position::{CommittedStart, Position, SourcePosition, SourceStart};
pub use ranges::OffsetRanges;
