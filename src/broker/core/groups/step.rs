//! What every call brings along: who asks, the time, and where responses go.

use std::time::Duration;

use kafka_protocol::{messages::ResponseKind, protocol::StrBytes};

use super::GroupOptions;
use crate::{
    broker::core::{Ticket, request::Answers},
    clock::Instant,
};

/// Who asks, and in which version.
#[derive(Clone, Debug)]
pub(in crate::broker::core) struct Caller {
    /// Under it the response is given.
    pub(in crate::broker::core) ticket: Ticket,
    /// Of the request's API.
    pub(in crate::broker::core) version: i16,
    /// How the client calls itself; empty if it does not say.
    pub(in crate::broker::core) client_id: StrBytes,
    /// Where it is: `/ADDRESS`, as Java writes it.
    pub(in crate::broker::core) client_host: StrBytes,
}

/// One event at one group.
pub(super) struct Step<'a> {
    pub(super) now: Instant,
    pub(super) options: &'a GroupOptions,
    /// Bytes that the group may take more, where more is asked for.
    pub(super) room: usize,
    pub(super) answers: &'a mut Answers,
}

impl Step<'_> {
    pub(super) fn answer(&mut self, ticket: Ticket, response: impl Into<ResponseKind>) {
        self.answers.push_back((ticket, response.into()));
    }
}

/// A span as requests give it; what is negative is none.
pub(super) fn millis(ms: i32) -> Duration {
    Duration::from_millis(u64::try_from(ms).unwrap_or(0))
}
