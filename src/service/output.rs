//! Data to stdout, sentences to stderr. A reader that went away is no error of ours.

use std::{
    io::{self, Write as _},
    sync::atomic::{AtomicBool, Ordering},
};

use serde::Serialize;
use tracing::Level;

use super::{config::without_secrets, exit::Failure, moment};
use crate::clock::wall_millis;

/// Whether what is said is JSON: one form for the whole process, which has one stderr.
static JSON: AtomicBool = AtomicBool::new(false);

/// Writes `text` to stdout. If nobody reads any more, that is fine.
///
/// # Errors
/// If stdout cannot be written for any other reason.
pub(crate) fn data(text: &str) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        result => Ok(result?),
    }
}

/// Writes one JSON object and a line end to stdout.
///
/// # Errors
/// If stdout cannot be written.
pub(crate) fn json(value: &impl Serialize) -> Result<(), Failure> {
    let mut text = serde_json::to_string(value).map_err(io::Error::from)?;
    text.push('\n');
    data(&text)
}

/// From now on what is said on stderr is one JSON object a line, or text.
pub(crate) fn speak_json(json: bool) {
    JSON.store(json, Ordering::Relaxed);
}

/// Whether what is said is JSON.
pub(crate) fn is_json() -> bool {
    JSON.load(Ordering::Relaxed)
}

/// Writes a message to stderr, whatever the level of messages is. If stderr is gone there is nobody to tell.
pub(crate) fn say(level: Level, text: impl std::fmt::Display) {
    let line = if is_json() { object(level, &text.to_string()) } else { text.to_string() };
    writeln!(io::stderr().lock(), "{}", without_secrets(&line)).ok();
}

/// Says why the program, whose name people read before it, does not do what it should.
pub(crate) fn complain(error: &anyhow::Error) {
    if is_json() {
        say(Level::ERROR, format_args!("{error:#}"))
    } else {
        say(Level::ERROR, format_args!("stormglass: {error:#}"))
    }
}

/// A message as the log writes it.
fn object(level: Level, message: &str) -> String {
    let fields = serde_json::json!({ "message": message.trim_end() });
    let time = moment::show(wall_millis());
    serde_json::json!({ "timestamp": time, "level": level.as_str(), "fields": fields, "target": "stormglass" })
        .to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_one_object_on_one_line() {
        let line = object(Level::ERROR, "two\nlines\n");
        let read: serde_json::Value = serde_json::from_str(&line).unwrap();
        assert_eq!((read["level"].as_str(), read["fields"]["message"].as_str()), (Some("ERROR"), Some("two\nlines")));
        assert!(!line.contains('\n') && read["timestamp"].as_str().is_some_and(|time| time.ends_with('Z')), "{line}");
    }
}
