//! `load`: lines of words into a topic.
//!
//! In reading order: `words` and `lines` (pure generators), `input`, `pace` (when each line is due), `send`, `command`.

mod command;
mod input;
mod lines;
mod pace;
mod send;
mod words;

pub(crate) use self::command::load;
