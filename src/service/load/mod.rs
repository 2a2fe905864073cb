//! `load`: lines of words into a topic.
//!
//! In reading order: `words` and `lines` (pure generators), `input`, `pace` (when each line is due), `send`.

mod input;
mod lines;
mod pace;
mod send;
mod words;
