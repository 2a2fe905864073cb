//! A client's way to the broker: calls by number, each with an answer or the news that there will be none.

use std::{collections::BTreeMap, time::Duration};

use kafka_protocol::messages::{ApiKey, RequestKind, ResponseKind};

use super::host::Host;
use crate::{
    broker::core::{ConnectionId, Request},
    clock::Instant,
};

/// How long a client waits before it connects again: the first time and at most.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(50), Duration::from_millis(800));

/// A call that was made.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Call(i32);

/// What became of a call.
#[expect(clippy::large_enum_variant, reason = "made and taken apart at once")]
#[derive(Debug)]
pub(super) enum Heard {
    /// Nothing yet.
    Nothing,
    /// The answer.
    Answer(ResponseKind),
    /// There will be none; what was asked may have been done.
    Lost,
}

/// A connection that is made again when it breaks.
#[derive(Debug)]
pub(super) struct Link {
    host: Host,
    connection: Option<ConnectionId>,
    /// Calls without answer, and until when to wait for it.
    open: BTreeMap<Call, Instant>,
    answers: BTreeMap<Call, ResponseKind>,
    next: i32,
    /// When to connect again, and how long to wait the next time.
    ready_at: Instant,
    backoff: Duration,
}

impl Link {
    pub(super) const fn new(host: Host) -> Self {
        Self {
            host,
            connection: None,
            open: BTreeMap::new(),
            answers: BTreeMap::new(),
            next: 0,
            ready_at: Instant::ZERO,
            backoff: BACKOFF.0,
        }
    }

    /// Whether a call may be made now.
    pub(super) fn is_ready(&self) -> bool {
        self.connection.is_some() || self.host.now() >= self.ready_at
    }

    /// Asks, and waits for `patience` at most.
    pub(super) fn ask(&mut self, (api, version): (ApiKey, i16), body: RequestKind, patience: Duration) -> Call {
        let connection = match self.connection {
            Some(connection) => connection,
            None => *self.connection.insert(self.host.network().connect(self.host.id())),
        };
        let call = Call(self.next);
        self.next = self.next.wrapping_add(1);
        self.open.insert(call, self.host.now() + patience);
        self.host.network().send(Request { connection, correlation: call.0, api, version, client_id: None, body });
        call
    }

    /// What became of a call; each answer is given once.
    pub(super) fn hear(&mut self, call: Call) -> Heard {
        self.serve();
        match self.answers.remove(&call) {
            Some(answer) => Heard::Answer(answer),
            None if self.open.contains_key(&call) => Heard::Nothing,
            None => Heard::Lost,
        }
    }

    /// Whether the connection broke since the last look, or never was: everything is to be asked again.
    fn serve(&mut self) {
        let Some(connection) = self.connection else { return };
        loop {
            match self.host.network().receive(connection) {
                Ok(Some(response)) => {
                    self.backoff = BACKOFF.0;
                    let call = Call(response.correlation);
                    // A response that comes twice is dropped the second time.
                    if self.open.remove(&call).is_some() {
                        self.answers.insert(call, response.body);
                    }
                }
                Ok(None) => break,
                Err(()) => return self.lose(),
            }
        }
        let now = self.host.now();
        if self.open.values().any(|deadline| now >= *deadline) {
            self.lose();
        }
    }

    /// Gives the connection up, with all calls that have no answer.
    pub(super) fn lose(&mut self) {
        if let Some(connection) = self.connection.take() {
            self.host.network().disconnect(connection);
        }
        self.open.clear();
        self.ready_at = self.host.now() + self.backoff;
        self.backoff = (self.backoff * 2).min(BACKOFF.1);
    }

    /// Closes the connection behind the answer to a call, or when it was waited for as long as that.
    pub(super) fn close_after(&mut self, Call(last): Call, patience: Duration) {
        if let Some(connection) = self.connection.take() {
            self.host.network().disconnect_after(connection, last, patience);
        }
        self.open.clear();
    }

    /// Closes the connection behind what was sent.
    pub(super) fn close(&mut self) {
        if let Some(connection) = self.connection.take() {
            self.host.network().disconnect(connection);
        }
        self.open.clear();
    }
}
