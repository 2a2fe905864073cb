//! Frames into requests, responses into frames. The messages are the protocol crate's; it is used as something that may
//! fail in any way.

use std::{
    any::Any,
    panic::{AssertUnwindSafe, catch_unwind},
};

use bytes::{Buf as _, BufMut as _, Bytes, BytesMut};
use kafka_protocol::{
    error::ResponseError,
    messages::{ApiKey, ApiVersionsRequest, RequestHeader, RequestKind, ResponseHeader, ResponseKind},
    protocol::{Decodable, Encodable as _, Message as _, buf::ByteBuf},
};

use super::{careful::Careful, older};
use crate::broker::core::{ConnectionId, Request, Response};

/// Why a frame is no request, or a response no frame.
#[derive(Debug, thiserror::Error)]
pub(super) enum CodecError {
    /// Shorter than what says which request it is.
    #[error("a request of {0} bytes is none")]
    Short(usize),
    /// No API that this broker knows has this number.
    #[error("there is no API {0}")]
    Api(i16),
    /// It is not what it says it is.
    #[error("{0:?} request in version {1}: {2}")]
    Request(ApiKey, i16, anyhow::Error),
    /// The core's response cannot be said in this version.
    #[error("{0:?} response in version {1}: {2}")]
    Response(ApiKey, i16, anyhow::Error),
}

/// Reads a request.
pub(super) fn decode(connection: ConnectionId, frame: &Bytes) -> Result<Request, CodecError> {
    let mut start = frame.as_ref();
    let (Ok(api), Ok(version)) = (start.try_get_i16(), start.try_get_i16()) else {
        return Err(CodecError::Short(frame.len()));
    };
    let api = ApiKey::try_from(api).map_err(|()| CodecError::Api(api))?;
    // Of other requests names are kept, which are not to keep the frame. Of this one nothing is: a log copies its batches.
    let shared = api == ApiKey::Produce;
    let careful = || {
        let mut bytes = Careful::new(frame.clone()).sharing(shared);
        let request = message(connection, api, version, &mut bytes)?;
        if !bytes.doubted() {
            return Ok(request);
        }
        drop(request);
        message(connection, api, version, &mut Careful::trusted(frame.clone()).sharing(shared))
    };
    caught(careful).map_err(|error| CodecError::Request(api, version, error))
}

fn message(connection: ConnectionId, api: ApiKey, version: i16, bytes: &mut Careful) -> anyhow::Result<Request> {
    let header = RequestHeader::decode(bytes, api.request_header_version(version))?;
    let body = match api {
        // Nobody can read it, and yet it is answered: with the versions that there are.
        ApiKey::ApiVersions if version > ApiVersionsRequest::VERSIONS.max => {
            RequestKind::ApiVersions(ApiVersionsRequest::default())
        }
        _ => body(api, version, bytes)?,
    };
    Ok(Request { connection, correlation: header.correlation_id, api, version, client_id: header.client_id, body })
}

/// What is said of an API that this broker does not have.
pub(super) const NOT_HERE: &str = "this broker does not have it";

/// The crate's own dispatch reads from [`Bytes`] only.
pub(super) fn body<B: ByteBuf>(api: ApiKey, version: i16, bytes: &mut B) -> anyhow::Result<RequestKind> {
    macro_rules! by_api {
        ($($name:ident),+ $(,)?) => {
            match api {
                $(ApiKey::$name => Ok(RequestKind::$name(Decodable::decode(bytes, version)?)),)+
                _ => anyhow::bail!(NOT_HERE),
            }
        };
    }
    by_api!(
        AddOffsetsToTxn,
        AddPartitionsToTxn,
        AlterConfigs,
        ApiVersions,
        CreatePartitions,
        CreateTopics,
        DeleteGroups,
        DeleteRecords,
        DeleteTopics,
        DescribeCluster,
        DescribeConfigs,
        DescribeGroups,
        DescribeProducers,
        DescribeTopicPartitions,
        DescribeTransactions,
        EndTxn,
        Fetch,
        FindCoordinator,
        Heartbeat,
        IncrementalAlterConfigs,
        InitProducerId,
        JoinGroup,
        LeaveGroup,
        ListGroups,
        ListOffsets,
        ListTransactions,
        Metadata,
        OffsetCommit,
        OffsetDelete,
        OffsetFetch,
        OffsetForLeaderEpoch,
        Produce,
        SyncGroup,
        TxnOffsetCommit,
    )
}

/// Writes a response with its length before it.
pub(super) fn encode(response: Response) -> Result<Bytes, CodecError> {
    let Response { correlation, api, version, mut body, .. } = response;
    let version = match &body {
        // Whoever asks in a version of the future is answered in the first one.
        ResponseKind::ApiVersions(answer) if answer.error_code == ResponseError::UnsupportedVersion.code() => 0,
        _ => version,
    };
    older::fit(&mut body, version);
    let encoded = || {
        let mut frame = BytesMut::new();
        frame.put_i32(0);
        let header = ResponseHeader::default().with_correlation_id(correlation);
        header.encode(&mut frame, api.response_header_version(version))?;
        body.encode(&mut frame, version)?;
        let length = i32::try_from(frame.len() - size_of::<i32>())?;
        frame.get_mut(..size_of::<i32>()).unwrap_or_default().copy_from_slice(&length.to_be_bytes());
        Ok(frame.freeze())
    };
    caught(encoded).map_err(|error| CodecError::Response(api, version, error))
}

/// A panic in the protocol crate is an error like any other: nothing of ours was touched.
fn caught<T>(work: impl FnOnce() -> anyhow::Result<T>) -> anyhow::Result<T> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| Err(anyhow::anyhow!("panic: {}", said(&*panic))))
}

fn said(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("without a word")
}
