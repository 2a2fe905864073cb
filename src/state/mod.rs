//! What a bolt remembers, by key: stores, what has changed in them, and how a restart finds them again.
//!
//! Everything here is pure: bytes and `now` in, an outcome out. The changelog topic is behind a port in `topology`, its
//! client in `kafka`.
//!
//! Files in reading order: `scalar`, `key`, `key_type` and `value` (types and their bytes), `changes` (entries on their
//! way to or from the changelog), `store` (the port to where entries live, and its contract as a test in `contract`),
//! `memory` with `entry` and `blobs` (a store in memory), `ranges` (offsets that are done above a frontier), `position` (how far a state has
//! come), `restart` (may it go on from there?), `records` (what stands in the changelog).

mod blobs;
mod changes;
#[cfg(test)]
pub(crate) mod contract;
mod entry;
mod key;
mod key_type;
mod memory;
mod position;
mod ranges;
mod records;
mod restart;
mod scalar;
mod store;
mod value;

pub use changes::{Change, Changes};
pub use key::{KeyPart, StateKey};
pub use key_type::{KeyType, NoKeyType, PartType};
pub use memory::MemoryStore;
pub use position::{CommittedStart, Position, SourcePosition, SourceStart};
pub use ranges::OffsetRanges;
pub use records::{FormatRecord, RecordError, RecordKey};
pub(crate) use restart::RESET;
pub use restart::{RestartPlan, next_commit, plan_restart};
pub use scalar::{DecodeError, NotOfType, Scalar, ScalarType};
pub use store::{Key, MAX_ENTRY_BYTES, Place, Store, StoreError};
pub use value::{NoValueType, StateValue, ValueType};
