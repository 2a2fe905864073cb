//! The program: command line, configuration, HTTP, and the commands.
//!
//! Files in reading order: `cli` (what can be typed), `config/` (what is set, and by whom), `dispatch` (which command
//! does what), `exit` (with which code it ends), then one file a command.
//!
//! Invariants:
//! 1. Data goes to stdout, messages go to stderr. A closed stdout ends a command quietly.
//! 2. Every command ends with a code of `sysexits.h`, which [`exit`] alone decides.

mod audit;
mod broker;
pub mod cli;
pub mod config;
mod connect;
mod dead_letters;
mod dispatch;
pub mod exit;
mod flags;
mod graph;
pub mod http;
mod load;
mod lock;
mod logging;
mod moment;
mod output;
mod pipeline;
mod progress;
mod reset;
mod run;
mod seeds;
pub mod signals;
mod sim;
mod state;
mod summary;

pub use self::{dead_letters::LetterId, dispatch::main, summary::Summary};
