//! Bytes into frames, as they arrive.

use std::{io, time::Duration};

use bytes::{Buf as _, Bytes, BytesMut};
use tokio::{
    io::{AsyncRead, AsyncReadExt as _},
    time::timeout,
};

use super::limits::{Budget, FREE, Limits, Room};

/// Bytes that are read before anybody has asked for them, at most.
const AHEAD: usize = 16 << 10;

/// Why no further frame comes.
#[derive(Debug, thiserror::Error)]
pub(super) enum InboundError {
    #[error("the client has closed the connection")]
    Closed,
    #[error("the client has closed the connection within a request")]
    Truncated,
    #[error("a length of {0} is none, or more than is allowed")]
    Length(i32),
    #[error("no request for {0:?}")]
    Idle(Duration),
    #[error("a request did not arrive within {0:?}")]
    Stalled(Duration),
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// What a client sends.
#[derive(Debug)]
pub(super) struct Inbound<R> {
    stream: R,
    ahead: BytesMut,
    limits: Limits,
    budget: Budget,
}

/// A request as it came, without its length.
#[derive(Debug)]
pub(super) struct Frame {
    pub(super) bytes: Bytes,
    pub(super) room: Room,
}

impl<R: AsyncRead + Unpin> Inbound<R> {
    pub(super) fn new(stream: R, limits: Limits, budget: Budget) -> Self {
        Self { stream, ahead: BytesMut::new(), limits, budget }
    }

    /// The next frame.
    pub(super) async fn frame(&mut self) -> Result<Frame, InboundError> {
        let Limits { idle, stall, .. } = self.limits;
        if self.ahead.is_empty() {
            timeout(idle, self.more()).await.map_err(|_late| InboundError::Idle(idle))??;
        }
        timeout(stall, self.rest()).await.map_err(|_late| InboundError::Stalled(stall))?
    }

    async fn rest(&mut self) -> Result<Frame, InboundError> {
        while self.ahead.len() < size_of::<i32>() {
            self.more().await.map_err(within)?;
        }
        let length = self.ahead.get_i32();
        let size = usize::try_from(length).ok().filter(|size| *size <= self.limits.frame);
        let size = size.ok_or(InboundError::Length(length))?;
        let (mut body, mut room) = (Vec::new(), Room::default());
        let there = self.ahead.len().min(size);
        body.reserve_exact(size.min(FREE));
        body.extend_from_slice(&self.ahead.split_to(there));
        while body.len() < size {
            if body.len() == body.capacity() {
                let step = body.len().min(size - body.len());
                self.budget.enlarge(&mut room, step).await;
                body.reserve_exact(step);
            }
            let wanted = (size - body.len()) as u64;
            if (&mut self.stream).take(wanted).read_buf(&mut body).await? == 0 {
                return Err(InboundError::Truncated);
            }
        }
        Ok(Frame { bytes: body.into(), room })
    }

    /// Reads ahead until the client closes the connection; for as long as its request is worked on. Nothing is lost if
    /// it is dropped.
    pub(super) async fn closed(&mut self) -> InboundError {
        while self.ahead.len() < AHEAD {
            if let Err(error) = self.more().await {
                return error;
            }
        }
        std::future::pending().await
    }

    async fn more(&mut self) -> Result<(), InboundError> {
        self.ahead.reserve(AHEAD - self.ahead.len());
        match self.stream.read_buf(&mut self.ahead).await? {
            0 => Err(InboundError::Closed),
            _ => Ok(()),
        }
    }
}

fn within(error: InboundError) -> InboundError {
    if matches!(error, InboundError::Closed) { InboundError::Truncated } else { error }
}
