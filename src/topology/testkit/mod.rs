//! What stands at the two ends of a topology under test: a source with its tuples given and a sink that takes everything,
//! and rows to compare. `runtime::testkit` runs them.
//!
//! Files in reading order: `row` (tuples to compare), `mock` (a source and a sink).

mod mock;
mod row;

pub use mock::{MockSink, MockSpout};
pub(crate) use row::of_tuple;
pub use row::{OwnedValue, Row, row, rows};
