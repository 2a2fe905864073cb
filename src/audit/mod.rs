//! What should be there, what is, and what differs: a recount that shares no code with the engine.
//!
//! Pure: texts in, verdict out. In reading order: `ledger` (the recount), `verdict` (the comparison).
//!
//! It is not a copy of a bolt. A word is what stands between *Unicode whitespace* ([`str::split_whitespace`]), bytes that
//! are no UTF-8 are replaced as [`String::from_utf8_lossy`] does, and null or blank values hold no word.

mod ledger;
mod verdict;

pub use self::{
    ledger::{Ledger, Tally},
    verdict::{Difference, Verdict, WordCount},
};
