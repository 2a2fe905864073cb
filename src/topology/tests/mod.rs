//! Tests of the folder as a whole, by subject.

mod build;
mod calls;
mod harness;
mod model;
mod parts;
mod stores;
