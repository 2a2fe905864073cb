//! Any sequence of requests, as they should be or damaged, through decoder, core and encoder: no panic, as many responses as
//! requests, and the broker is well at the end.

use std::{collections::BTreeMap, time::Duration};

use bytes::{Bytes, BytesMut};
use kafka_protocol::{
    messages::{ApiKey, RequestKind, ResponseHeader, ResponseKind},
    protocol::Decodable as _,
};
use proptest::prelude::*;

use super::{
    api_versions,
    invent::{Inventor, Pool},
    request,
};
use crate::{
    broker::{
        core::{Broker, BrokerOptions, ConnectionId, Effect, Request, sample::Sample},
        wire::codec,
    },
    clock::Instant,
};

/// How a frame is damaged; places are shares of its length.
#[derive(Clone, Debug)]
enum Damage {
    Flip(f64, u8),
    Number(f64, i32),
    Cut(f64),
    Insert(f64, Vec<u8>),
}

#[derive(Clone, Debug)]
struct Step {
    connection: u64,
    api: usize,
    version: usize,
    seed: u64,
    damage: Vec<Damage>,
    wait: Duration,
}

fn steps(damage: impl Strategy<Value = Vec<Damage>> + Clone) -> impl Strategy<Value = Vec<Step>> {
    let wait = prop_oneof![Just(0), 0..50_u64, 0..20_000_u64].prop_map(Duration::from_millis);
    let step = (0..3_u64, 0..1_000_usize, 0..1_000_usize, any::<u64>(), damage, wait);
    let step = step.prop_map(|(connection, api, version, seed, damage, wait)| Step {
        connection,
        api,
        version,
        seed,
        damage,
        wait,
    });
    prop::collection::vec(step, 1..60)
}

fn damage() -> impl Strategy<Value = Vec<Damage>> + Clone {
    let number = prop_oneof![Just(i32::MAX), Just(i32::MIN), Just(-2), Just(1 << 20), any::<i32>()];
    let one = prop_oneof![
        (0.0..1.0, any::<u8>()).prop_map(|(at, bits)| Damage::Flip(at, bits)),
        (0.0..1.0, number).prop_map(|(at, number)| Damage::Number(at, number)),
        (0.0..1.0).prop_map(Damage::Cut),
        (0.0..1.0, prop::collection::vec(any::<u8>(), 1..20)).prop_map(|(at, bytes)| Damage::Insert(at, bytes)),
    ];
    prop::collection::vec(one, 0..3)
}

impl Damage {
    fn done_to(&self, frame: &mut Vec<u8>) {
        let size = frame.len() as f64;
        let place = |share: &f64| (share * size) as usize;
        match self {
            Self::Flip(at, bits) => {
                let at = place(at);
                frame.iter_mut().skip(at).take(1).for_each(|byte| *byte ^= bits);
            }
            Self::Number(at, number) => {
                let at = place(at);
                frame.iter_mut().skip(at).zip(number.to_be_bytes()).for_each(|(byte, new)| *byte = new);
            }
            Self::Cut(at) => frame.truncate(place(at)),
            Self::Insert(at, bytes) => {
                let at = place(at);
                drop(frame.splice(at..at, bytes.iter().copied()));
            }
        }
    }
}

/// Reads a request from an inventor.
fn invented(api: ApiKey, version: i16, inventor: &mut Inventor<'_>) -> Option<RequestKind> {
    let body = codec::body(api, version, inventor);
    assert!(
        body.as_ref().err().is_none_or(|error| error.to_string() != codec::NOT_HERE),
        "{api:?} is not invented yet"
    );
    body.ok()
}

/// A batch of one record, of nobody or of the first producer.
fn batch(producer_id: i64, sequence: i32) -> Bytes {
    let sample = Sample::new(&[(Some("k"), Some("v"))]);
    let sample = if producer_id < 0 { sample } else { sample.by(producer_id, 0, sequence) };
    if producer_id == 1 { sample.transactional() } else { sample }.encode()
}

/// A broker with its clients.
struct World {
    broker: Broker,
    now: Instant,
    apis: Vec<(ApiKey, i16, i16)>,
    pool: Pool,
    correlation: i32,
    /// Requests that were understood and want a response, less those that have one, by connection.
    unanswered: BTreeMap<ConnectionId, i64>,
    /// Every response, for the comparison of two runs.
    said: Vec<Bytes>,
}

impl World {
    fn new() -> Self {
        let known = ["a", "aa", "aaa"].map(Bytes::from).to_vec();
        let known = [known, vec![batch(-1, -1), batch(0, 0), batch(0, 1), batch(1, 0)]].concat();
        let mut this = Self {
            broker: Broker::new(BrokerOptions::default()),
            now: Instant::ZERO,
            apis: Vec::new(),
            pool: Pool { known },
            correlation: 0,
            unanswered: BTreeMap::new(),
            said: Vec::new(),
        };
        let hello = this.ask(ConnectionId(9), &api_versions(1, 3).slice(4..));
        let Some(ResponseKind::ApiVersions(told)) = hello else { panic!("{hello:?}") };
        this.apis = told
            .api_keys
            .iter()
            .map(|told| (ApiKey::try_from(told.api_key).unwrap(), told.min_version, told.max_version))
            .collect();
        for name in ["a", "aa"] {
            let topic = kafka_protocol::messages::create_topics_request::CreatableTopic::default()
                .with_name(kafka_protocol::messages::TopicName(kafka_protocol::protocol::StrBytes::from_static_str(
                    name,
                )))
                .with_num_partitions(2)
                .with_replication_factor(1);
            let body = kafka_protocol::messages::CreateTopicsRequest::default().with_topics(vec![topic]);
            let frame = request(ApiKey::CreateTopics, 5, 2, &RequestKind::CreateTopics(body));
            this.ask(ConnectionId(9), &frame.slice(4..));
        }
        this
    }

    /// Sends a frame; the last response that comes at once.
    fn ask(&mut self, connection: ConnectionId, frame: &Bytes) -> Option<ResponseKind> {
        // What cannot be read closes its connection.
        let Ok(request) = codec::decode(connection, frame) else {
            self.close(connection);
            return None;
        };
        self.hand_over(request)
    }

    fn hand_over(&mut self, request: Request) -> Option<ResponseKind> {
        if !matches!(&request.body, RequestKind::Produce(produce) if produce.acks == 0) {
            *self.unanswered.entry(request.connection).or_default() += 1;
        }
        let mut effects = Vec::new();
        self.broker.handle(request, self.now, &mut effects);
        self.take(effects)
    }

    fn close(&mut self, connection: ConnectionId) {
        self.broker.disconnected(connection);
        self.unanswered.remove(&connection);
    }

    fn take(&mut self, effects: Vec<Effect>) -> Option<ResponseKind> {
        let mut last = None;
        for effect in effects {
            match effect {
                Effect::Close(connection) => drop(self.unanswered.remove(&connection)),
                Effect::Respond(response) => {
                    let owed = self.unanswered.entry(response.connection).or_default();
                    *owed -= 1;
                    assert!(*owed >= 0, "a response to nothing: {response:?}");
                    let (api, version, body) = (response.api, response.version, response.body.clone());
                    let encoded = codec::encode(response);
                    self.said.push(encoded.unwrap_or_else(|error| panic!("{api:?} {version}: {error}: {body:?}")));
                    self.remember(&body);
                    last = Some(body);
                }
            }
        }
        last
    }

    /// Members and what they may be asked with.
    fn remember(&mut self, response: &ResponseKind) {
        if let ResponseKind::JoinGroup(joined) = response
            && !joined.member_id.is_empty()
            && self.pool.known.len() < 20
        {
            self.pool.known.push(Bytes::copy_from_slice(joined.member_id.as_bytes()));
        }
    }

    fn pass(&mut self, span: Duration) {
        let until = self.now + span;
        while self.broker.due() <= until {
            self.now = self.now.max(self.broker.due());
            let mut effects = Vec::new();
            self.broker.tick(self.now, &mut effects);
            self.take(effects);
        }
        self.now = until;
    }

    fn step(&mut self, step: &Step) {
        let (api, min, max) = self.apis[step.api % self.apis.len()];
        let version = min + (step.version % usize::try_from(max - min + 1).unwrap()) as i16;
        let body = invented(api, version, &mut Inventor::new(&self.pool, step.seed));
        self.correlation += 1;
        // A few combinations of fields cannot be said in older versions.
        let Some(mut frame) = body.and_then(|body| self.frame(api, version, &body)) else { return };
        step.damage.iter().for_each(|damage| damage.done_to(&mut frame));
        self.ask(ConnectionId(step.connection), &frame.into());
        self.pass(step.wait);
    }

    fn frame(&self, api: ApiKey, version: i16, body: &RequestKind) -> Option<Vec<u8>> {
        let mut encoded = BytesMut::new();
        body.encode(&mut encoded, version).ok()?;
        // Larger ones have more fields than a request may have, perhaps.
        (encoded.len() < 1 << 18).then_some(())?;
        Some(request(api, version, self.correlation, body).slice(4..).to_vec())
    }

    /// A new client is answered, and what is answered can be read.
    fn is_well(&mut self) {
        let hello = self.ask(ConnectionId(10), &api_versions(1, 3).slice(4..));
        assert!(matches!(hello, Some(ResponseKind::ApiVersions(_))), "{hello:?}");
        let mut frame = self.said.last().unwrap().slice(4..);
        ResponseHeader::decode(&mut frame, 0).unwrap();
        ResponseKind::decode(ApiKey::ApiVersions, &mut frame, 3).unwrap();
        assert!(frame.is_empty());
    }
}

fn run(steps: &[Step]) -> World {
    let mut world = World::new();
    steps.iter().for_each(|step| world.step(step));
    world.is_well();
    world
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_request_has_one_response_in_time(steps in steps(Just(Vec::new()))) {
        let mut world = run(&steps);
        // Longer than any timeout that is invented.
        world.pass(Duration::from_secs(300));
        let owed: Vec<_> = world.unanswered.iter().filter(|(_, owed)| **owed != 0).collect();
        prop_assert!(owed.is_empty(), "without a response: {owed:?}");
    }

    #[test]
    fn damaged_requests_end_nothing_but_their_connection(steps in steps(damage())) {
        run(&steps);
    }

    #[test]
    fn the_same_requests_have_the_same_responses(steps in steps(damage())) {
        prop_assert_eq!(run(&steps).said, run(&steps).said);
    }

    #[test]
    fn garbage_is_no_request_or_one_that_is_answered(bytes in prop::collection::vec(any::<u8>(), 0..200), api in 0..93_u8) {
        let mut world = World::new();
        let mut bytes = bytes;
        // Most numbers are no API: then not much would be tested.
        if let [first, second, third, fourth, ..] = bytes.as_mut_slice() {
            (*first, *second, *third, *fourth) = (0, api, 0, *fourth % 14);
        }
        world.ask(ConnectionId(0), &bytes.into());
        world.is_well();
    }

    /// What is suspected and what is not are read alike.
    #[test]
    fn suspicion_changes_no_request(steps in steps(Just(Vec::new()))) {
        let mut world = World::new();
        for step in &steps {
            let (api, min, max) = world.apis[step.api % world.apis.len()];
            let version = min + (step.version % usize::try_from(max - min + 1).unwrap()) as i16;
            let Some(body) = invented(api, version, &mut Inventor::new(&world.pool, step.seed)) else { continue };
            let Some(frame) = world.frame(api, version, &body) else { continue };
            let decoded = codec::decode(ConnectionId(0), &frame.into());
            let decoded = decoded.unwrap_or_else(|error| panic!("{error}: {body:?}"));
            prop_assert_eq!((decoded.api, decoded.version, decoded.body), (api, version, body));
            world.correlation += 1;
        }
    }
}

/// Lengths that no invented request has.
#[test]
fn large_lengths_are_read_as_they_are() {
    for size in [1_000, 1 << 18, (1 << 18) + 1, 300_000, 1 << 21, 5_000_000] {
        for version in [7, 9] {
            let records = Bytes::from(vec![7; size]);
            let partition =
                kafka_protocol::messages::produce_request::PartitionProduceData::default().with_records(Some(records));
            let topic = kafka_protocol::messages::produce_request::TopicProduceData::default()
                .with_partition_data(vec![partition]);
            // A number that looks like a length.
            let body = kafka_protocol::messages::ProduceRequest::default()
                .with_timeout_ms(280_000)
                .with_topic_data(vec![topic]);
            let body = RequestKind::Produce(body);
            let frame = request(ApiKey::Produce, version, 1, &body).slice(4..);
            let decoded = codec::decode(ConnectionId(0), &frame).unwrap();
            assert_eq!(decoded.body, body, "{size} bytes in version {version}");
        }
    }
}

/// A claim is not believed because there are bytes: so many elements would take more memory than the frame.
#[test]
fn more_fields_than_a_request_may_have_are_refused() {
    let mut frame = vec![0, 3, 0, 1, 0, 0, 0, 1, 0xff, 0xff];
    frame.extend_from_slice(&5_000_000_i32.to_be_bytes());
    frame.resize(frame.len() + 10_000_000, 0);
    assert!(codec::decode(ConnectionId(0), &frame.into()).is_err());
}
