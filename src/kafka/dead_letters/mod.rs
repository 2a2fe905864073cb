//! The dead-letter topic: where a record goes that was given up, with where it came from and why.
//!
//! `letter` is one as it stands in its topic.

mod letter;

use std::{collections::BTreeMap, fmt, sync::Arc, time::Duration};

use self::letter::{push_about, push_payload_left_out};
use super::client::{
    ClientError, DeliveryFailure, DeliveryReport, ErrorKind, FlushId, ProduceBatch, SinkClient, produce::ProduceRecord,
};
use crate::{
    metrics::{DeadLetterReason, Metrics},
    topology::ComponentError,
};

pub use letter::DeadLetter;

/// Makes sink clients: one for each start of a component.
pub type SinkFactory = Arc<dyn Fn() -> Result<Box<dyn SinkClient>, ClientError> + Send + Sync>;

/// The dead-letter topic.
#[derive(Clone, Debug)]
pub struct DeadLetterOptions {
    /// Its name; it must exist when the first record is given up. Default `stormglass-dead-letters`.
    pub topic: Arc<str>,
    /// Dead letters on their way after which no new records are taken. Default 1,000.
    pub max_in_flight: usize,
}

impl Default for DeadLetterOptions {
    fn default() -> Self {
        Self { topic: "stormglass-dead-letters".into(), max_in_flight: 1000 }
    }
}

/// The longest key of a letter whose payload is left out.
const MAX_SHORT_KEY: usize = 1024;

/// A record to be given up.
#[derive(Copy, Clone, Debug)]
pub(super) struct Letter<'a> {
    pub(super) key: Option<&'a [u8]>,
    /// `None` also where the payload is what is too large.
    pub(super) value: Option<&'a [u8]>,
    /// Its own headers, encoded.
    pub(super) headers: &'a [u8],
    pub(super) reason: DeadLetterReason,
    /// Headers about it: names without their prefix.
    pub(super) about: &'a [(&'a str, &'a str)],
}

/// Dead letters on their way; `T` says whose each one is.
pub(super) struct DeadLetters<T> {
    options: DeadLetterOptions,
    factory: SinkFactory,
    /// Made for the first letter: most runs have none.
    client: Option<Box<dyn SinkClient>>,
    batch: ProduceBatch,
    /// How much of the batch the client has taken.
    taken: usize,
    /// Each letter has a flush of its own, so that its acknowledgement names it.
    open: BTreeMap<u32, Open<T>>,
    next: u32,
    headers: Vec<u8>,
    reports: Vec<DeliveryReport>,
    metrics: Metrics,
}

struct Open<T> {
    ticket: T,
    reason: DeadLetterReason,
    /// The letter without its payload, and without a key that could itself be what is too large, in case the broker finds it so.
    key: Option<Vec<u8>>,
    about: Vec<u8>,
    short: bool,
}

impl<T> fmt::Debug for DeadLetters<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DeadLetters({} open)", self.open.len())
    }
}

impl<T> DeadLetters<T> {
    pub(super) fn new(options: DeadLetterOptions, factory: SinkFactory, metrics: Metrics) -> Self {
        let batch = ProduceBatch::new(Arc::clone(&options.topic));
        Self {
            options,
            factory,
            client: None,
            batch,
            taken: 0,
            open: BTreeMap::new(),
            next: 0,
            headers: Vec::new(),
            reports: Vec::new(),
            metrics,
        }
    }

    /// Letters without acknowledgement.
    pub(super) fn in_flight(&self) -> usize {
        self.open.len()
    }

    pub(super) fn is_full(&self) -> bool {
        self.open.len() >= self.options.max_in_flight
    }

    /// Takes a letter; its ticket comes back from [`DeadLetters::poll`] once the broker has it.
    pub(super) fn push(&mut self, letter: &Letter<'_>, ticket: T) {
        let mut about = Vec::new();
        let reason = ("reason", letter.reason.label());
        for (name, value) in letter.about.iter().chain([&reason]) {
            push_about(name, value, &mut about);
        }
        self.headers.clear();
        self.headers.extend_from_slice(letter.headers);
        self.headers.extend_from_slice(&about);
        let flush = FlushId(self.next);
        self.next = self.next.wrapping_add(1);
        let (key, value) = (letter.key, letter.value);
        self.batch.push(&ProduceRecord { key, value, headers: &self.headers, flush, tag: 0 });
        let key = key.filter(|key| key.len() <= MAX_SHORT_KEY).map(<[u8]>::to_vec);
        self.open.insert(flush.0, Open { ticket, reason: letter.reason, key, about, short: false });
    }

    /// Sends and hears what the broker says: tickets of letters that it has.
    pub(super) fn poll(&mut self, mut acknowledged: impl FnMut(T)) -> Result<(), ComponentError> {
        if self.open.is_empty() {
            return Ok(());
        }
        let client = match &mut self.client {
            Some(client) => client,
            none => none.insert((self.factory)().map_err(component_error)?),
        };
        if self.taken < self.batch.len() {
            self.taken += client.produce(&self.batch, self.taken);
        }
        if self.taken >= self.batch.len() && !self.batch.is_empty() {
            self.batch.clear();
            self.taken = 0;
            client.flush_hint();
        }
        let mut reports = std::mem::take(&mut self.reports);
        client.poll(Duration::ZERO, &mut reports).map_err(component_error)?;
        for report in reports.drain(..) {
            if let Some(open) = self.hear(report)? {
                self.metrics.dead_letters(open.reason).add(1);
                acknowledged(open.ticket);
            }
        }
        self.reports = reports;
        Ok(())
    }

    fn hear(&mut self, report: DeliveryReport) -> Result<Option<Open<T>>, ComponentError> {
        match report {
            DeliveryReport::Acked { flush, .. } => return Ok(self.open.remove(&flush.0)),
            DeliveryReport::Failed(failed) => match self.open.get_mut(&failed.flush.0) {
                Some(open) if failed.reason == DeliveryFailure::TooLarge && !open.short => {
                    open.short = true;
                    push_payload_left_out(&mut open.about);
                    let (key, flush) = (open.key.as_deref(), failed.flush);
                    self.batch.push(&ProduceRecord { key, value: None, headers: &open.about, flush, tag: 0 });
                }
                _ => {
                    let topic = &self.options.topic;
                    let why = format!("dead-letter topic {topic:?}: {}", failed.message);
                    return Err(delivery_error(failed.reason, why));
                }
            },
            DeliveryReport::Trouble(trouble) => {
                tracing::warn!(topic = &*self.options.topic, "dead letters wait: {}", trouble.message);
            }
            DeliveryReport::Recovered => tracing::info!(topic = &*self.options.topic, "dead letters are written again"),
        }
        Ok(None)
    }

    /// Lets go of the client.
    pub(super) fn close(&mut self) {
        if let Some(mut client) = self.client.take() {
            // Whoever closes has given up what is in flight: it was not committed either.
            client.close(Duration::ZERO, &mut self.reports).ok();
        }
    }
}

/// What a record means for the component that is not delivered.
pub(super) fn delivery_error(reason: DeliveryFailure, message: String) -> ComponentError {
    match reason {
        DeliveryFailure::Denied => ComponentError::denied(message),
        DeliveryFailure::TooLarge
        | DeliveryFailure::RequestTooLarge
        | DeliveryFailure::GaveUp
        | DeliveryFailure::Fatal => ComponentError::new(message),
    }
}

/// What a client's error means to the engine: whether a new start may help.
pub(super) fn component_error(error: ClientError) -> ComponentError {
    match error.kind {
        ErrorKind::Authorization | ErrorKind::Authentication => ComponentError::denied(error.message),
        ErrorKind::Config => ComponentError::refused(error.message),
        ErrorKind::Fenced | ErrorKind::OffsetOutOfRange | ErrorKind::TooLarge => {
            ComponentError::permanent(error.message)
        }
        ErrorKind::Unavailable
        | ErrorKind::NotKafka
        | ErrorKind::UnknownTopic
        | ErrorKind::TimedOut
        | ErrorKind::Other => ComponentError::new(error.message),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_configuration_is_to_blame_for_waits_for_a_person() {
        let error = |kind| component_error(ClientError::new(kind, "no"));
        assert!(error(ErrorKind::Config).is_refusal());
        assert!(error(ErrorKind::Authorization).is_denied());
        assert!(error(ErrorKind::Unavailable).is_retriable());
    }
}
