//! `dead-letters`: what was given up, and writing it back.
//!
//! What was replayed is kept as the offsets of a consumer group of its own, `TOPIC-replay`: up to the committed offset
//! everything was, and beside it stand the ranges above that were. A replay writes records and moves these offsets in one
//! transaction, so that neither a crash nor a second replay at the same time repeats a letter.
//!
//! Files in reading order: `letters` (all letters of a topic), `progress` (which were replayed), `list`, `show`,
//! `replay`.

mod letters;
mod list;
mod progress;
mod replay;
mod show;

use std::time::Duration;

pub use letters::LetterId;

use super::{
    cli::{DeadLetterAction, DeadLetters},
    connect,
    dispatch::Session,
    exit::Outcome,
};
use crate::{
    clock::Clock,
    kafka::{
        admin::{group::GroupAdmin, reader::TopicReader},
        client::ClientError,
    },
    service::config::ClientSettings,
};

/// Longest silence of the brokers.
const PATIENCE: Duration = Duration::from_secs(15);

/// Runs the command.
///
/// # Errors
/// Wrong flags, a topic that is not there, a broker that does not answer, a letter that cannot be replayed.
pub(crate) fn dead_letters(session: &Session<'_>, args: &DeadLetters) -> Outcome {
    let (settings, topic) = session.dead_letters()?;
    match &args.action {
        DeadLetterAction::List(args) => list::list(session, &settings, &topic, args),
        DeadLetterAction::Show(args) => show::show(session, &settings, &topic, args),
        DeadLetterAction::Replay(args) => replay::replay(session, &settings, &topic, args),
    }
}

/// The group whose offsets say which letters of a topic were replayed; also the replay's `transactional.id`.
fn group_of(topic: &str) -> String {
    format!("{topic}-replay")
}

fn reader(settings: &ClientSettings) -> Result<TopicReader, ClientError> {
    TopicReader::new(&connect::consumer(settings), PATIENCE, Clock::system())
}

fn group(settings: &ClientSettings, topic: &str) -> Result<GroupAdmin, ClientError> {
    GroupAdmin::new(&connect::consumer(settings), &group_of(topic), PATIENCE)
}
