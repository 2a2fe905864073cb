//! The transaction coordinator: producers' identities and two-phase commit.

mod options;

pub use options::TransactionOptions;
