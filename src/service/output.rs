//! Data to stdout, sentences to stderr. A reader that went away is no error of ours.

use std::io::{self, Write as _};

use serde::Serialize;

use super::{config::without_secrets, exit::Failure};

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

/// Writes a line to stderr. If stderr is gone there is nobody to tell.
pub(crate) fn say(text: impl std::fmt::Display) {
    writeln!(io::stderr().lock(), "{}", without_secrets(&text.to_string())).ok();
}
