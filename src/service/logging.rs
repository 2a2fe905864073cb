//! Messages to stderr, as text for people or JSON for machines.
//!
//! A thread of its own writes them: a pipe that nobody reads stops that thread and nothing else. Messages that find no room
//! then are lost.

use std::io::{self, IsTerminal as _};

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
    started.ok();
    guard
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
