//! A proxy before a broker that loses responses: the request is done, and whoever sent it does not learn of it.

use std::{
    collections::HashMap,
    io::{self, Read, Write},
    net::{Shutdown, TcpListener, TcpStream},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

use bytes::{Buf, BufMut, Bytes, BytesMut};
use kafka_protocol::{
    messages::{ApiKey, ResponseHeader, ResponseKind},
    protocol::{Decodable, Encodable},
};

use super::wire::text;

/// Which requests lose their response, with their connection.
pub type Loses = fn(ApiKey, usize) -> bool;

/// It serves until its process ends; its threads end with their connections.
#[derive(Debug)]
pub struct Proxy {
    address: String,
    lost: Arc<AtomicUsize>,
}

impl Proxy {
    /// Before the broker at this address; `loses` is asked with the API of each response and how many of that API there
    /// were before it.
    pub fn before(broker: &str, loses: Loses) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("its address").to_string();
        let lost = Arc::new(AtomicUsize::new(0));
        let shared = Arc::new(Shared {
            broker: broker.to_owned(),
            port: listener.local_addr().expect("its address").port(),
            loses,
            lost: Arc::clone(&lost),
            responses: Mutex::default(),
        });
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                shared.serve(client);
            }
        });
        Self { address, lost }
    }

    /// Where clients connect to.
    pub fn bootstrap(&self) -> &str {
        &self.address
    }

    /// How many responses are lost.
    pub fn lost(&self) -> usize {
        self.lost.load(Ordering::Relaxed)
    }
}

#[derive(Debug)]
struct Shared {
    broker: String,
    port: u16,
    loses: Loses,
    lost: Arc<AtomicUsize>,
    /// How many there were of each API.
    responses: Mutex<HashMap<i16, usize>>,
}

/// The requests of a connection that have no response yet: API and version, by correlation id.
type Open = Mutex<HashMap<i32, (ApiKey, i16)>>;

impl Shared {
    fn serve(self: &Arc<Self>, client: TcpStream) {
        let Ok(broker) = TcpStream::connect(&self.broker) else { return };
        let open = Arc::new(Open::default());
        let ends =
            |from: &TcpStream, to: &TcpStream| (from.try_clone().expect("a handle"), to.try_clone().expect("one"));
        let (shared, known) = (Arc::clone(self), Arc::clone(&open));
        let (mut from, mut to) = ends(&broker, &client);
        thread::spawn(move || {
            drop(shared.responses(&mut from, &mut to, &known));
            hang_up(&from, &to);
        });
        let (mut from, mut to) = (client, broker);
        thread::spawn(move || {
            drop(requests(&mut from, &mut to, &open));
            hang_up(&from, &to);
        });
    }

    /// Passes responses on until one is lost.
    fn responses(&self, from: &mut TcpStream, to: &mut TcpStream, open: &Open) -> io::Result<()> {
        loop {
            let frame = read(from)?;
            let correlation = frame.slice(..4).get_i32();
            let asked = open.lock().unwrap_or_else(PoisonError::into_inner).remove(&correlation);
            let (api, version) = asked.ok_or(io::ErrorKind::InvalidData)?;
            let before = {
                let mut responses = self.responses.lock().unwrap_or_else(PoisonError::into_inner);
                let count = responses.entry(api as i16).or_default();
                std::mem::replace(count, *count + 1)
            };
            if (self.loses)(api, before) {
                self.lost.fetch_add(1, Ordering::Relaxed);
                return Ok(());
            }
            let names_brokers = matches!(api, ApiKey::Metadata | ApiKey::FindCoordinator);
            write(to, &if names_brokers { self.here(api, version, frame) } else { frame })?;
        }
    }

    /// The broker is to be found where the proxy is.
    fn here(&self, api: ApiKey, version: i16, mut frame: Bytes) -> Bytes {
        let header_version = api.response_header_version(version);
        let header = ResponseHeader::decode(&mut frame, header_version).expect("a header");
        let mut body = ResponseKind::decode(api, &mut frame, version).expect("a response");
        let (host, port) = (text("127.0.0.1"), i32::from(self.port));
        match &mut body {
            ResponseKind::Metadata(metadata) => {
                for broker in &mut metadata.brokers {
                    (broker.host, broker.port) = (host.clone(), port);
                }
            }
            ResponseKind::FindCoordinator(found) => {
                for coordinator in &mut found.coordinators {
                    (coordinator.host, coordinator.port) = (host.clone(), port);
                }
                if found.port >= 0 {
                    (found.host, found.port) = (host, port);
                }
            }
            other => unreachable!("{other:?} names no broker"),
        }
        let mut changed = BytesMut::new();
        header.encode(&mut changed, header_version).expect("a header");
        body.encode(&mut changed, version).expect("a response");
        changed.freeze()
    }
}

fn requests(from: &mut TcpStream, to: &mut TcpStream, open: &Open) -> io::Result<()> {
    loop {
        let frame = read(from)?;
        let mut head = frame.slice(..8);
        let api = ApiKey::try_from(head.get_i16()).map_err(|()| io::ErrorKind::InvalidData)?;
        let asked = (api, head.get_i16());
        open.lock().unwrap_or_else(PoisonError::into_inner).insert(head.get_i32(), asked);
        write(to, &frame)?;
    }
}

fn read(from: &mut TcpStream) -> io::Result<Bytes> {
    let mut length = [0; 4];
    from.read_exact(&mut length)?;
    let mut frame = vec![0; u32::from_be_bytes(length) as usize];
    from.read_exact(&mut frame)?;
    Ok(frame.into())
}

fn write(to: &mut TcpStream, frame: &Bytes) -> io::Result<()> {
    let mut whole = BytesMut::with_capacity(frame.len() + 4);
    whole.put_u32(u32::try_from(frame.len()).map_err(io::Error::other)?);
    whole.put_slice(frame);
    to.write_all(&whole)
}

/// Both ends see it, whichever was first.
fn hang_up(one: &TcpStream, other: &TcpStream) {
    for stream in [one, other] {
        stream.shutdown(Shutdown::Both).ok();
    }
}
