//! What comes into the core and what goes out of it.

use std::collections::VecDeque;

use kafka_protocol::{
    messages::{ApiKey, RequestKind, ResponseKind},
    protocol::StrBytes,
};

/// A connection; chosen by the face, never used twice.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ConnectionId(pub u64);

/// A request that was decoded.
#[derive(Clone, PartialEq, Debug)]
pub struct Request {
    /// Where it came from.
    pub connection: ConnectionId,
    /// The client's number for it, which its response repeats.
    pub correlation: i32,
    /// Its API, of which `body` is a request.
    pub api: ApiKey,
    /// The version of its API.
    pub version: i16,
    /// How the client calls itself.
    pub client_id: Option<StrBytes>,
    /// The request.
    pub body: RequestKind,
}

/// The response to a request.
#[derive(Clone, PartialEq, Debug)]
pub struct Response {
    /// Where it goes.
    pub connection: ConnectionId,
    /// The number of its request.
    pub correlation: i32,
    /// The API of its request.
    pub api: ApiKey,
    /// The version in which the request came, and in which this is to be encoded.
    pub version: i16,
    /// The response.
    pub body: ResponseKind,
}

/// What the core wants done.
#[derive(Clone, PartialEq, Debug)]
#[expect(clippy::large_enum_variant, reason = "nearly every one is a response, and boxes would cost each of them")]
pub enum Effect {
    /// Send this.
    Respond(Response),
    /// Close this connection, without a word.
    Close(ConnectionId),
}

/// A request that is being worked on: whoever cannot answer at once keeps it and answers later.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Ticket(pub(super) u64);

/// Responses to requests that were answered [`Reply::Later`], in the order in which they were found. One may be here
/// before its own `Later` is said: nothing is sent until the request in hand is done with.
pub(super) type Answers = VecDeque<(Ticket, ResponseKind)>;

/// What a part of the core says to a request.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "nearly every one is a response, and boxes would cost each of them")]
pub(super) enum Reply {
    /// The response.
    Now(ResponseKind),
    /// The response comes later, under the request's ticket.
    Later,
    /// The client asked for none.
    Nothing,
    /// The client may not stay.
    Close,
}

impl From<ResponseKind> for Reply {
    fn from(response: ResponseKind) -> Self {
        Self::Now(response)
    }
}
