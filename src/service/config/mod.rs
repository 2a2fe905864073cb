//! Configuration: from files, environment and flags to [`Settings`].
//!
//! Precedence: **flag > environment > file > default**. In reading order: `raw` (every field), `schema` (what is known
//! of a field), `layers` (who set it), `load`, `validate` with `rules`, `brokers`, `properties` and `secrets`, `settings` (the
//! result), `print`.
//!
//! Invariants:
//! 1. All mistakes are reported together, each with its path, its origin and what to do.
//! 2. No value is changed in silence.
//! 3. A secret enters by reference only, and nothing prints it.

mod brokers;
mod layers;
mod load;
mod print;
mod problem;
mod properties;
mod raw;
mod rules;
mod schema;
mod secrets;
mod settings;
#[cfg(test)]
mod tests;
mod validate;

pub(crate) use self::{
    layers::Given,
    load::{FILE_VARIABLE, Loaded, Sources, load},
    print::effective,
    raw::words_of,
    rules::{legal_topic, no_topic},
    secrets::without_secrets,
    validate::{app, client, dead_letters, log, pipeline},
};
pub use self::{
    layers::Origin,
    print::reference,
    problem::{Problem, Problems},
    secrets::Secret,
    settings::*,
};
