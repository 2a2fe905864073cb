//! One line on the terminal that says how far a command has come. Where there is no terminal there is no line.

use std::{
    io::{self, IsTerminal as _, Write},
    sync::LazyLock,
    time::Duration,
};

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};

use super::{cli::Global, config::without_secrets, output};

/// The terminal, shared by the line and the messages, so that neither writes over the other.
static TERMINAL: LazyLock<MultiProgress> = LazyLock::new(MultiProgress::new);

/// The line; it goes away when this is dropped.
#[derive(Debug)]
pub(crate) struct Progress {
    line: ProgressBar,
}

impl Progress {
    /// A line on the terminal, unless there is none, or messages are to be few or for machines.
    pub(crate) fn new(global: &Global) -> Self {
        let wanted = global.quiet == 0 && !output::is_json() && io::stderr().is_terminal();
        let line = if wanted { TERMINAL.add(ProgressBar::new_spinner()) } else { ProgressBar::hidden() };
        if let Ok(style) = ProgressStyle::with_template("{spinner} {wide_msg}") {
            line.set_style(style);
        }
        if wanted {
            line.enable_steady_tick(Duration::from_millis(200));
        }
        Self { line }
    }

    /// Whether anybody sees the line: if not, its text need not be made.
    pub(crate) fn is_shown(&self) -> bool {
        !self.line.is_hidden()
    }

    /// Replaces the line's text.
    pub(crate) fn show(&self, text: String) {
        self.line.set_message(text);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.line.finish_and_clear();
    }
}

/// Stderr for messages: the line steps aside while one is written. One write is one message.
#[derive(Debug)]
pub(crate) struct Stderr;

impl Write for Stderr {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let message = String::from_utf8_lossy(bytes);
        TERMINAL.suspend(|| io::stderr().write_all(without_secrets(&message).as_bytes()))?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().flush()
    }
}

/// `1234567` as `1,234,567`.
pub(crate) fn grouped(n: u64) -> String {
    let digits = n.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// `1 line`, `2,000 lines`; `what` is the word for one.
pub(crate) fn counted(n: u64, what: &str) -> String {
    format!("{} {what}{}", grouped(n), if n == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    #[test]
    fn digits_are_grouped_by_three() {
        assert_eq!([0, 999, 1000, 1_234_567].map(super::grouped), ["0", "999", "1,000", "1,234,567"]);
    }

    #[test]
    fn one_is_no_plural() {
        assert_eq!([0, 1, 2000].map(|n| super::counted(n, "line")), ["0 lines", "1 line", "2,000 lines"]);
    }
}
