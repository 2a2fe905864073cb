//! The program, with none of our environment's settings.

use std::process::{Command, Stdio};

/// A command of it that reads nothing.
pub fn stormglass(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_stormglass"));
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("STORMGLASS_")) {
        command.env_remove(name);
    }
    command.args(args).stdin(Stdio::null());
    command
}
