//! What stands at the ends of a topology under test: a source with its tuples given and a sink that takes everything, rows
//! to compare, and a changelog in memory. `runtime::testkit` runs them.
//!
//! Files in reading order: `row` (tuples to compare), `mock` (a source and a sink), `memory_changelog` (keeps stores over
//! the generations of an engine under test), `changelog_contract` (what it has in common with the one in Kafka).

mod changelog_contract;
mod memory_changelog;
mod mock;
mod row;

pub use changelog_contract::{BrokenContract, check_changelog};
pub use memory_changelog::MemoryChangelog;
pub use mock::{MockSink, MockSpout};
pub(crate) use row::of_tuple;
pub use row::{OwnedValue, Row, row, rows};
