//! A connection without a client, and batches byte by byte: requests exactly as a trial wants them. Of both the trials of
//! conformance and the tests of the program's process, which know a broker each in their own way.

use std::{
    io::{self, Read, Write},
    net::{TcpStream, ToSocketAddrs},
    time::Duration,
};

use bytes::{Buf, BufMut, Bytes, BytesMut};
use kafka_protocol::{
    messages::{ApiKey, RequestHeader, ResponseHeader},
    protocol::{Decodable, Encodable, HeaderVersion, Request, StrBytes},
};

/// Longer than any answer takes on a busy two-core machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// One connection.
#[derive(Debug)]
pub struct Wire {
    pub stream: TcpStream,
    correlation: i32,
}

impl Wire {
    pub fn open(address: impl ToSocketAddrs) -> Self {
        let stream = TcpStream::connect(address).expect("a connection");
        stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        stream.set_write_timeout(Some(PATIENCE)).expect("a timeout");
        stream.set_nodelay(true).expect("no delay");
        Self { stream, correlation: 0 }
    }

    /// Sends a request and reads its response.
    pub fn ask<R: Request>(&mut self, version: i16, request: &R) -> R::Response {
        // If the broker has closed before it has read all, that is what is heard.
        self.tell(version, request).ok();
        self.hear::<R>(version)
    }

    /// Only sends it.
    pub fn tell<R: Request>(&mut self, version: i16, request: &R) -> io::Result<()> {
        self.correlation += 1;
        let header = RequestHeader::default()
            .with_request_api_key(R::KEY)
            .with_request_api_version(version)
            .with_correlation_id(self.correlation)
            .with_client_id(Some(StrBytes::from_static_str("conformance")));
        let mut frame = BytesMut::new();
        header.encode(&mut frame, <R as HeaderVersion>::header_version(version)).expect("a header");
        request.encode(&mut frame, version).expect("a request");
        self.send(&frame)
    }

    /// The response to the last request.
    pub fn hear<R: Request>(&mut self, version: i16) -> R::Response {
        let mut frame = self.frame().expect("a response");
        let api = ApiKey::try_from(R::KEY).expect("an API");
        let header = ResponseHeader::decode(&mut frame, api.response_header_version(version)).expect("a header");
        assert_eq!(header.correlation_id, self.correlation, "the response to another request");
        let response = R::Response::decode(&mut frame, version).expect("a response");
        assert_eq!(frame.remaining(), 0, "more than a response: {api:?}");
        response
    }

    /// Sends bytes with their length before them.
    pub fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        let mut frame = BytesMut::with_capacity(bytes.len() + 4);
        frame.put_u32(bytes.len().try_into().expect("a length"));
        frame.put_slice(bytes);
        self.stream.write_all(&frame)
    }

    /// The next response as it comes; `None`: the broker has closed the connection.
    pub fn frame(&mut self) -> Option<Bytes> {
        let mut length = [0; 4];
        self.stream.read_exact(&mut length).ok()?;
        let mut frame = vec![0; i32::from_be_bytes(length).try_into().expect("a length")];
        self.stream.read_exact(&mut frame).ok()?;
        Some(frame.into())
    }
}

/// A batch with the header that its maker wants, of no producer, and a checksum that is right.
#[derive(Debug, Clone, Copy)]
pub struct Made<'a> {
    pub codec: i16,
    pub last_offset_delta: i32,
    pub count: i32,
    /// As the codec packs it.
    pub records: &'a [u8],
}

impl Made<'_> {
    pub fn bytes(self) -> Bytes {
        let mut signed = BytesMut::new();
        signed.put_i16(self.codec);
        signed.put_i32(self.last_offset_delta);
        signed.put_i64(1_700_000_000_000);
        signed.put_i64(1_700_000_000_000);
        // Producer, its epoch and its sequence: none.
        signed.put_slice(&[0xff; 14]);
        signed.put_i32(self.count);
        signed.put_slice(self.records);
        let mut bytes = BytesMut::new();
        bytes.put_i64(0);
        bytes.put_i32(i32::try_from(signed.len()).expect("a length") + 9);
        bytes.put_i32(-1);
        bytes.put_u8(2);
        bytes.put_u32(crc32c::crc32c(&signed));
        bytes.put_slice(&signed);
        bytes.freeze()
    }
}
