//! Messages to stderr, as text for people or JSON for machines.
//!
//! A thread of its own writes them: a pipe that nobody reads stops that thread and nothing else. Messages that find no room
//! then are lost.

use std::{
    ffi::{OsStr, OsString},
    io::{self, IsTerminal as _},
    panic,
};

use tracing::{Level, Metadata};
use tracing_appender::non_blocking::{NonBlockingBuilder, WorkerGuard};
use tracing_subscriber::{
    filter::{FilterFn, LevelFilter},
    fmt,
    layer::SubscriberExt as _,
    util::SubscriberInitExt as _,
};

use super::{cli::Color, config::LogSettings, progress::Stderr};
use crate::kafka::CLOSED_AGAIN_LOG_TARGET;

/// Messages that wait while nobody reads stderr.
const ROOM: usize = 10_000;

/// Starts logging; a second call changes nothing. Messages are still written while what is returned is dropped, for a second at
/// most.
pub(crate) fn start(settings: LogSettings, color: Color) -> WorkerGuard {
    let (stderr, guard) =
        NonBlockingBuilder::default().buffered_lines_limit(ROOM).thread_name("messages").finish(Stderr);
    let filter = LevelFilter::from_level(settings.level);
    let registry = tracing_subscriber::registry().with(filter).with(FilterFn::new(is_news));
    let started = if settings.json {
        registry.with(fmt::layer().json().with_writer(stderr)).try_init()
    } else {
        registry.with(fmt::layer().with_ansi(ansi(color)).with_target(false).with_writer(stderr)).try_init()
    };
    // It fails if a subscriber is there already: then messages go there.
    if started.is_ok() && settings.json {
        panic::set_hook(Box::new(|panic| tracing::error!("{panic}")));
    }
    guard
}

/// Whether messages are to be JSON, as far as the command line and the variable `STORMGLASS_LOG__FORMAT` say: for what is
/// wrong before there is a configuration.
pub(crate) fn is_json_asked(args: &[OsString], variable: Option<&OsStr>) -> bool {
    let next = |at: usize| args.get(at + 1).map(OsString::as_os_str);
    let mut given =
        args.iter().enumerate().filter_map(|(at, arg)| match arg.to_str()?.strip_prefix("--log-format")? {
            "" => next(at),
            value => value.strip_prefix('=').map(OsStr::new),
        });
    given.next_back().or(variable).is_some_and(|format| format == "json")
}

/// Everything but the error of a Kafka client that is closed already.
fn is_news(message: &Metadata<'_>) -> bool {
    message.target() != CLOSED_AGAIN_LOG_TARGET || *message.level() != Level::ERROR
}

/// Whether stderr gets colours: as told, else if it is a terminal and `NO_COLOR` is not set.
#[must_use]
pub(crate) fn ansi(color: Color) -> bool {
    match color {
        Color::Always => true,
        Color::Never => false,
        Color::Auto => io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|v| v.is_empty()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_form_of_messages_is_known_before_there_is_a_configuration() {
        let asked = |args: &[&str], variable: Option<&str>| {
            is_json_asked(&args.iter().map(OsString::from).collect::<Vec<_>>(), variable.map(OsStr::new))
        };
        assert!(asked(&["run", "--log-format", "json"], None));
        assert!(asked(&["--log-format=json", "walk"], None));
        assert!(asked(&["walk"], Some("json")));
        assert!(!asked(&["--log-format=text"], Some("json")));
        assert!(!asked(&["run", "--log-format"], None));
    }
}
