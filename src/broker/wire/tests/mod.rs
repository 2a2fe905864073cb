//! Clients that speak as they should, and clients that do not.

mod frames;
mod invent;
mod requests;

use std::{
    io::{Read as _, Write as _},
    net::{Shutdown, SocketAddr, TcpStream},
    thread::JoinHandle,
    time::Duration,
};

use bytes::{Buf as _, BufMut as _, Bytes, BytesMut};
use kafka_protocol::{
    messages::{
        ApiKey, ApiVersionsRequest, FetchRequest, ProduceRequest, RequestHeader, RequestKind, ResponseHeader,
        ResponseKind, TopicName,
        fetch_request::{FetchPartition, FetchTopic},
        produce_request::{PartitionProduceData, TopicProduceData},
    },
    protocol::{Decodable as _, Encodable as _, StrBytes},
};
use tokio::sync::oneshot;

use super::{
    Limits, Server, ServerError, ServerOptions, TopicSpec,
    codec::{self, CodecError},
};
use crate::broker::core::{BrokerOptions, ConnectionId, sample::Sample};

/// Longer than any answer takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);

/// A server that runs until it is dropped.
struct Served {
    address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<Result<(), ServerError>>>,
}

fn options(limits: Limits) -> ServerOptions {
    let listen = SocketAddr::from(([127, 0, 0, 1], 0));
    ServerOptions { listen, advertise: None, broker: BrokerOptions::default(), topics: Vec::new(), limits }
}

impl Served {
    fn start(limits: Limits) -> Self {
        Self::run(options(limits))
    }

    fn run(options: ServerOptions) -> Self {
        let server = Server::bind(options).unwrap();
        let address = server.address();
        let (stop, stopped) = oneshot::channel::<()>();
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build().unwrap();
            runtime.block_on(server.run(async {
                stopped.await.ok();
            }))
        });
        Self { address, stop: Some(stop), thread: Some(thread) }
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream
    }

    /// Another client is answered: nothing that was done disturbs it.
    fn is_well(&self) {
        let mut client = self.connect();
        client.write_all(&api_versions(7, 3)).unwrap();
        assert!(matches!(answer(&mut client, ApiKey::ApiVersions, 3), (7, ResponseKind::ApiVersions(_))));
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        drop(self.stop.take());
        let ended = self.thread.take().unwrap().join();
        if !std::thread::panicking() {
            ended.unwrap().unwrap();
        }
    }
}

/// A request as a client sends it, its length first.
fn request(api: ApiKey, version: i16, correlation: i32, body: &RequestKind) -> Bytes {
    let mut frame = BytesMut::new();
    let header = RequestHeader::default()
        .with_request_api_key(api as i16)
        .with_request_api_version(version)
        .with_correlation_id(correlation)
        .with_client_id(Some(StrBytes::from_static_str("test")));
    frame.put_i32(0);
    header.encode(&mut frame, api.request_header_version(version)).unwrap();
    body.encode(&mut frame, version).unwrap();
    let length = i32::try_from(frame.len() - 4).unwrap();
    frame[..4].copy_from_slice(&length.to_be_bytes());
    frame.freeze()
}

fn api_versions(correlation: i32, version: i16) -> Bytes {
    let body = ApiVersionsRequest::default()
        .with_client_software_name(StrBytes::from_static_str("test"))
        .with_client_software_version(StrBytes::from_static_str("1"));
    request(ApiKey::ApiVersions, version, correlation, &RequestKind::ApiVersions(body))
}

/// The next response: its correlation id and what it says.
fn answer(client: &mut TcpStream, api: ApiKey, version: i16) -> (i32, ResponseKind) {
    let mut length = [0; 4];
    client.read_exact(&mut length).unwrap();
    let mut frame = vec![0; usize::try_from(i32::from_be_bytes(length)).unwrap()];
    client.read_exact(&mut frame).unwrap();
    let mut frame = Bytes::from(frame);
    let header = ResponseHeader::decode(&mut frame, api.response_header_version(version)).unwrap();
    let body = ResponseKind::decode(api, &mut frame, version).unwrap();
    assert_eq!(frame.remaining(), 0, "more than a response");
    (header.correlation_id, body)
}

/// The server closes the connection and says nothing.
fn is_closed(client: &mut TcpStream) {
    let mut rest = Vec::new();
    match client.read_to_end(&mut rest) {
        Ok(_) => assert!(rest.is_empty(), "an answer of {} bytes", rest.len()),
        // What was sent and never read makes a reset of the close.
        Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset, "{error}"),
    }
}

#[test]
fn requests_of_one_connection_are_answered_in_their_order() {
    let server = Served::start(Limits::default());
    let mut client = server.connect();
    let sent: Vec<u8> = (0..1000).flat_map(|correlation| api_versions(correlation, 3)).collect();
    let mut writer = client.try_clone().unwrap();
    let writer = std::thread::spawn(move || writer.write_all(&sent).unwrap());
    for correlation in 0..1000 {
        assert_eq!(answer(&mut client, ApiKey::ApiVersions, 3).0, correlation);
    }
    writer.join().unwrap();
}

#[test]
fn a_request_in_single_bytes_is_a_request() {
    let server = Served::start(Limits::default());
    let mut client = server.connect();
    client.set_nodelay(true).unwrap();
    for byte in api_versions(5, 2) {
        client.write_all(&[byte]).unwrap();
    }
    assert_eq!(answer(&mut client, ApiKey::ApiVersions, 2).0, 5);
}

#[test]
fn api_versions_of_the_future_is_answered_in_version_0() {
    let server = Served::start(Limits::default());
    let mut client = server.connect();
    // The header is as it will be, the body is not to be understood.
    let mut frame = BytesMut::new();
    frame.put_slice(&[0, 18, 0, 99, 0, 0, 0, 8, 0, 1, b'x', 0, 0xde, 0xad]);
    client.write_all(&u32::try_from(frame.len()).unwrap().to_be_bytes()).unwrap();
    client.write_all(&frame).unwrap();
    let (correlation, ResponseKind::ApiVersions(answer)) = answer(&mut client, ApiKey::ApiVersions, 0) else {
        panic!("another answer");
    };
    assert_eq!((correlation, answer.error_code), (8, 35));
    let versions = answer.api_keys.iter().find(|versions| versions.api_key == ApiKey::ApiVersions as i16);
    assert!(versions.is_some_and(|versions| versions.max_version >= 3), "{answer:?}");
    // And the connection goes on, in a version that there is.
    client.write_all(&api_versions(9, 3)).unwrap();
    assert_eq!(self::answer(&mut client, ApiKey::ApiVersions, 3).0, 9);
}

#[test]
fn what_is_no_request_ends_its_connection_only() {
    let server = Served::start(Limits::default());
    let truncated = api_versions(1, 3);
    let unknown_version =
        request(ApiKey::Metadata, 12, 1, &RequestKind::Metadata(kafka_protocol::messages::MetadataRequest::default()));
    let mut unknown_version = unknown_version.to_vec();
    unknown_version[7] = 99;
    let cases: &[(&str, &[u8])] = &[
        ("TLS hello", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03 and so on"),
        ("HTTP", b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"),
        ("two gigabytes", b"\x7f\xff\xff\xff\x00\x12\x00\x03"),
        ("negative size", b"\xff\xff\xff\xff\x00\x12\x00\x03"),
        ("no size", b"\x00\x00\x00\x00"),
        ("too short", b"\x00\x00\x00\x03\x00\x12\x00"),
        ("no such API", b"\x00\x00\x00\x0a\x7f\x00\x00\x00\x00\x00\x00\x01\xff\xff"),
        ("an API between brokers", b"\x00\x00\x00\x0a\x00\x04\x00\x00\x00\x00\x00\x01\xff\xff"),
        ("no such version", &unknown_version),
        ("negative version", b"\x00\x00\x00\x0a\x00\x12\xff\xff\x00\x00\x00\x01\xff\xff"),
        ("client id of 32 KB in 10 bytes", b"\x00\x00\x00\x0a\x00\x12\x00\x00\x00\x00\x00\x01\x7f\xff"),
        ("two billion topics", b"\x00\x00\x00\x0e\x00\x03\x00\x01\x00\x00\x00\x01\xff\xff\x7f\xff\xff\xff"),
        ("half a request", &truncated[..truncated.len() - 1]),
        ("half a size", b"\x00\x00"),
    ];
    for (what, bytes) in cases {
        let mut client = server.connect();
        client.write_all(bytes).unwrap();
        client.shutdown(Shutdown::Write).unwrap();
        is_closed(&mut client);
        server.is_well();
        eprintln!("{what}: closed");
    }
}

#[test]
fn one_connection_too_many_is_closed_and_others_stay() {
    let server = Served::start(Limits { connections: 3, ..Limits::default() });
    let mut clients = [server.connect(), server.connect(), server.connect()];
    for client in &mut clients {
        client.write_all(&api_versions(1, 3)).unwrap();
        answer(client, ApiKey::ApiVersions, 3);
    }
    is_closed(&mut server.connect());
    for client in &mut clients {
        client.write_all(&api_versions(2, 3)).unwrap();
        assert_eq!(answer(client, ApiKey::ApiVersions, 3).0, 2);
    }
}

#[test]
fn who_says_nothing_or_not_all_is_closed_in_time() {
    let brief = Duration::from_millis(50);
    let server = Served::start(Limits { idle: brief, stall: brief, ..Limits::default() });
    is_closed(&mut server.connect());
    let mut client = server.connect();
    client.write_all(b"\x00\x00\x00\xff\x00\x12").unwrap();
    is_closed(&mut client);
    server.is_well();
}

/// Responses fill what the kernel holds, and then the client has its time.
#[test]
fn who_never_reads_is_closed_and_holds_one_response() {
    let server = Served::start(Limits { stall: Duration::from_millis(100), ..Limits::default() });
    let mut client = server.connect();
    client.set_write_timeout(Some(PATIENCE)).unwrap();
    let requests: Vec<u8> = (0..1000).flat_map(|correlation| api_versions(correlation, 3)).collect();
    // Writing fails once the server has closed; before that it stops to read, so that this blocks.
    let error = std::iter::repeat_with(|| client.write_all(&requests)).find_map(Result::err).unwrap();
    assert!(!matches!(error.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut), "{error}");
    server.is_well();
}

/// Everything that is announced is waited for, and nothing of it is allocated.
#[test]
fn announced_bytes_take_no_room() {
    let server = Served::start(Limits { in_flight: 100 << 20, ..Limits::default() });
    let silent: Vec<_> = (0..20)
        .map(|_| {
            let mut client = server.connect();
            client.write_all(&(100_u32 << 20).to_be_bytes()).unwrap();
            client.write_all(&[0; 1000]).unwrap();
            client
        })
        .collect();
    // A large request finds room although 2 GB are announced.
    let mut client = server.connect();
    let long = "x".repeat(30_000);
    let body = ApiVersionsRequest::default().with_client_software_name(StrBytes::from(long));
    client.write_all(&request(ApiKey::ApiVersions, 3, 4, &RequestKind::ApiVersions(body))).unwrap();
    assert_eq!(answer(&mut client, ApiKey::ApiVersions, 3).0, 4);
    drop(silent);
}

/// Records that fill sixteen half rooms, so that a response of all of them is more than there is room for, and more than the
/// kernel takes for one that does not read.
fn full_of_words(limits: Limits, room: usize) -> (Served, TcpStream, String) {
    let mut options = options(limits);
    options.topics = vec!["words".parse().unwrap()];
    let server = Served::run(options);
    let mut writer = server.connect();
    let value = "x".repeat(room / 2);
    (0..16).for_each(|correlation| write(&mut writer, correlation, &value));
    (server, writer, value)
}

fn write(writer: &mut TcpStream, correlation: i32, value: &str) {
    writer.write_all(&produced(correlation, value)).unwrap();
    let (_, ResponseKind::Produce(answer)) = answer(writer, ApiKey::Produce, 9) else { panic!() };
    assert_eq!(answer.responses[0].partition_responses[0].error_code, 0);
}

#[test]
fn who_never_reads_keeps_nobody_from_writing_nor_for_long_from_reading() {
    const ROOM: usize = 1 << 20;
    let limits = Limits { frame: ROOM, in_flight: ROOM, hurried: Duration::from_millis(100), ..Limits::default() };
    let (server, mut writer, value) = full_of_words(limits, ROOM);
    let mut deaf: Vec<_> = (0..4).map(|_| server.connect()).collect();
    for (correlation, reader) in (0..).zip(&mut deaf) {
        reader.write_all(&fetched(correlation)).unwrap();
    }
    write(&mut writer, 16, &value);
    let mut reader = server.connect();
    reader.write_all(&fetched(7)).unwrap();
    assert_eq!(answer(&mut reader, ApiKey::Fetch, 11).0, 7);
    drop(deaf);
}

/// Who has to wait for room has what it asked for when there is some.
#[test]
fn a_response_for_which_there_is_no_room_is_read_again() {
    const ROOM: usize = 1 << 20;
    // They are read one after the other: who is not read yet holds its room meanwhile, and is not to be hurried.
    let hurried = Limits::default().stall;
    let limits = Limits { frame: ROOM, in_flight: ROOM, hurried, ..Limits::default() };
    let (server, _writer, value) = full_of_words(limits, ROOM);
    let mut readers: Vec<_> = (0..5).map(|_| server.connect()).collect();
    for (correlation, reader) in (0..).zip(&mut readers) {
        reader.write_all(&fetched(correlation)).unwrap();
    }
    server.is_well();
    for (correlation, reader) in (0..).zip(&mut readers) {
        let (asked, ResponseKind::Fetch(answer)) = answer(reader, ApiKey::Fetch, 11) else { panic!() };
        let partition = &answer.responses[0].partitions[0];
        let read = partition.records.as_ref().map_or(0, Bytes::len);
        assert_eq!((asked, partition.error_code, partition.high_watermark), (correlation, 0, 16));
        assert!(read > 15 * value.len(), "{read} bytes");
    }
}

/// A request that writes a record.
fn produced(correlation: i32, value: &str) -> Bytes {
    let batch = Sample::values(&[value]).at(0).encode();
    let partition = PartitionProduceData::default().with_records(Some(batch));
    let data = TopicProduceData::default().with_name(words()).with_partition_data(vec![partition]);
    let body = ProduceRequest::default().with_acks(-1).with_timeout_ms(1_000).with_topic_data(vec![data]);
    request(ApiKey::Produce, 9, correlation, &RequestKind::Produce(body))
}

/// A request that reads everything.
fn fetched(correlation: i32) -> Bytes {
    let partition = FetchPartition::default().with_current_leader_epoch(-1).with_partition_max_bytes(i32::MAX);
    let topic = FetchTopic::default().with_topic(words()).with_partitions(vec![partition]);
    let body = FetchRequest::default().with_replica_id((-1).into()).with_max_bytes(i32::MAX).with_session_epoch(-1);
    request(ApiKey::Fetch, 11, correlation, &RequestKind::Fetch(body.with_topics(vec![topic])))
}

fn words() -> TopicName {
    TopicName(StrBytes::from_static_str("words"))
}

#[test]
fn a_port_in_use_is_said() {
    let server = Served::start(Limits::default());
    let error = Server::bind(ServerOptions { listen: server.address, ..options(Limits::default()) }).unwrap_err();
    assert!(error.to_string().contains("is in use by another process: choose another with --listen"), "{error}");
}

#[test]
fn topics_are_named_with_their_partitions() {
    let spec = |name: &str, partitions| Ok(TopicSpec { name: name.to_owned(), partitions });
    assert_eq!("words".parse(), spec("words", 1));
    assert_eq!("words:12".parse(), spec("words", 12));
    for wrong in ["", ":3", "words:0", "words:-1", "words:x", "words:", "words:1:2"] {
        assert!(wrong.parse::<TopicSpec>().is_err(), "{wrong}");
    }
}

#[test]
fn every_api_that_is_told_is_read() {
    let frame = api_versions(1, 3);
    let mut broker = crate::broker::core::Broker::new(BrokerOptions::default());
    let mut effects = Vec::new();
    let asked = codec::decode(ConnectionId(0), &frame.slice(4..)).unwrap();
    broker.handle(asked, crate::clock::Instant::ZERO, &mut effects);
    let [crate::broker::core::Effect::Respond(response)] = effects.as_slice() else { panic!("{effects:?}") };
    let ResponseKind::ApiVersions(answer) = &response.body else { panic!("{response:?}") };
    for told in &answer.api_keys {
        for version in told.min_version..=told.max_version {
            let header = [told.api_key.to_be_bytes(), version.to_be_bytes(), [0, 0], [0, 1], [0xff, 0xff], [0, 0]];
            let error = codec::decode(ConnectionId(0), &Bytes::from(header.concat())).err();
            let unknown = error.is_some_and(|error| match error {
                CodecError::Request(_, _, error) => error.to_string().contains("does not have"),
                CodecError::Api(_) => true,
                CodecError::Short(_) | CodecError::Response(..) => false,
            });
            assert!(!unknown, "{told:?}");
        }
    }
}
