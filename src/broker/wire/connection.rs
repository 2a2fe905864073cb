//! One client: a frame is read, the core asked, its response written, and then the next.

use std::{io, net::SocketAddr, sync::Arc, time::Duration};

use bytes::Bytes;
use kafka_protocol::{
    ResponseError,
    messages::{RequestKind, ResponseKind},
};
use tokio::{
    io::AsyncWriteExt as _,
    net::{TcpStream, tcp::OwnedReadHalf, tcp::OwnedWriteHalf},
    sync::mpsc,
    time::timeout,
};

use super::{
    codec::{self, CodecError},
    hub::{Hub, Word},
    inbound::{Inbound, InboundError},
    limits::{Budget, FREE, Limits, Room},
    repeated::answer_once,
};
use crate::broker::core::{ConnectionId, Request, Response};

/// How often it is asked whether others wait for the room of a client that takes nothing.
const LOOK: Duration = Duration::from_millis(500);

/// Why a connection ended.
#[derive(Debug, thiserror::Error)]
enum End {
    #[error(transparent)]
    Inbound(#[from] InboundError),
    #[error(transparent)]
    Codec(#[from] CodecError),
    #[error("the broker has no answer to this")]
    Refused,
    #[error("the client takes nothing for {0:?}")]
    Deaf(Duration),
    #[error(transparent)]
    Io(#[from] io::Error),
}

#[derive(Debug)]
struct Connection {
    id: ConnectionId,
    hub: Arc<Hub>,
    inbound: Inbound<OwnedReadHalf>,
    outbound: OwnedWriteHalf,
    told: mpsc::Receiver<Word>,
    limits: Limits,
    /// Of responses.
    budget: Budget,
    /// That there is no room for its records was said.
    is_told_full: bool,
}

/// Serves a client until it goes, or has to.
pub(super) async fn serve(
    hub: Arc<Hub>,
    stream: TcpStream,
    peer: SocketAddr,
    limits: Limits,
    budgets: (Budget, Budget),
) {
    let (id, told) = hub.connect(Some(peer.ip()));
    let (read, outbound) = stream.into_split();
    let (requests, budget) = budgets;
    let inbound = Inbound::new(read, limits, requests);
    let mut connection = Connection { id, hub, inbound, outbound, told, limits, budget, is_told_full: false };
    let end = connection.run().await;
    connection.hub.disconnect(id);
    match end {
        Err(End::Inbound(InboundError::Closed)) | Ok(()) => tracing::debug!(%peer, "connection closed"),
        Err(end @ End::Codec(CodecError::Response(..))) => tracing::error!(%peer, %end, "connection closed: a bug"),
        Err(end) => tracing::info!(%peer, %end, "connection closed"),
    }
}

impl Connection {
    async fn run(&mut self) -> Result<(), End> {
        loop {
            let frame = self.inbound.frame().await?;
            let mut request = codec::decode(self.id, &frame.bytes)?;
            answer_once(&mut request.body);
            let answered = !matches!(&request.body, RequestKind::Produce(produce) if produce.acks == 0);
            let read = Read::of(&request);
            drop(frame.bytes);
            self.hub.ask(request);
            // The broker has what it keeps of the request: one that waits, for days maybe, takes no room of others.
            drop(frame.room);
            if answered {
                let response = self.response().await?;
                if !self.is_told_full && finds_no_room(&response) {
                    self.is_told_full = true;
                    tracing::warn!(
                        "records are refused: the memory for them is full (--memory); delete records or topics"
                    );
                }
                self.answer(response, read).await?;
            } else if self.told.try_recv().is_ok() {
                return Err(End::Refused);
            }
        }
    }

    async fn response(&mut self) -> Result<Response, End> {
        // What is dropped has lost nothing: words stay in the channel, bytes in the read-ahead.
        let word = tokio::select! {
            biased;
            word = self.told.recv() => word,
            end = self.inbound.closed() => return Err(end.into()),
        };
        match word {
            Some(Word::Response(response)) => Ok(*response),
            Some(Word::Close) | None => Err(End::Refused),
        }
    }

    async fn answer(&mut self, mut response: Response, read: Option<Read>) -> Result<(), End> {
        let mut room = Room::default();
        let size = records(&response);
        if size > FREE && !self.budget.try_enlarge(&mut room, size) {
            // What waits for room may not take it meanwhile: it is forgotten, and read again once there is some.
            drop(response);
            self.budget.enlarge(&mut room, size).await;
            self.hub.ask(read.ok_or(End::Refused)?.again(size));
            response = self.response().await?;
        }
        let frame = codec::encode(response)?;
        self.write(frame).await
    }

    /// As long as the client takes anything within the time, it may take long for all of it.
    async fn write(&mut self, mut frame: Bytes) -> Result<(), End> {
        let mut deaf = Duration::ZERO;
        while !frame.is_empty() {
            let patience = if self.budget.is_wanted() { self.limits.hurried } else { self.limits.stall };
            if deaf >= patience.min(self.limits.stall) {
                return Err(End::Deaf(deaf));
            }
            let look = LOOK.min(self.limits.stall);
            match timeout(look, self.outbound.write_buf(&mut frame)).await {
                Ok(Ok(0)) => return Err(io::Error::from(io::ErrorKind::WriteZero).into()),
                Ok(written) => {
                    written?;
                    deaf = Duration::ZERO;
                }
                Err(_late) => deaf += look,
            }
        }
        Ok(())
    }
}

/// A request that reads records, which is all that has a large response: it may be asked again.
#[derive(Debug)]
struct Read(Request);

impl Read {
    fn of(request: &Request) -> Option<Self> {
        matches!(request.body, RequestKind::Fetch(_)).then(|| Self(request.clone()))
    }

    /// For what there is now, up to so many bytes: as Kafka has it, a first batch that is larger comes whole.
    fn again(self, bytes: usize) -> Request {
        let Self(mut request) = self;
        if let RequestKind::Fetch(fetch) = &mut request.body {
            fetch.max_wait_ms = 0;
            fetch.max_bytes = fetch.max_bytes.min(i32::try_from(bytes).unwrap_or(i32::MAX));
        }
        request
    }
}

/// Whether records were refused for which there is no room. Clients try again without a word.
fn finds_no_room(response: &Response) -> bool {
    let ResponseKind::Produce(produce) = &response.body else { return false };
    let mut partitions = produce.responses.iter().flat_map(|topic| &topic.partition_responses);
    partitions.any(|partition| partition.error_code == ResponseError::KafkaStorageError.code())
}

/// Bytes of the records in a response: what makes it large, if it is.
fn records(response: &Response) -> usize {
    let ResponseKind::Fetch(fetch) = &response.body else { return 0 };
    let partitions = fetch.responses.iter().flat_map(|topic| &topic.partitions);
    partitions.filter_map(|partition| partition.records.as_ref()).map(Bytes::len).sum()
}
