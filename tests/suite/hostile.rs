//! What the process of `stormglass broker` takes when its clients are many, deaf, or send what grows; and that others are
//! served meanwhile.

use std::{
    io::{Read as _, Write as _},
    time::{Duration, Instant},
};

use bytes::Bytes;
use kafka_protocol::{
    error::{ParseResponseErrorCode as _, ResponseError},
    messages::{
        ApiVersionsRequest, CreateTopicsRequest, FetchRequest, ProduceRequest, TopicName,
        create_topics_request::{CreatableTopic, CreatableTopicConfig},
        fetch_request::{FetchPartition, FetchTopic},
        produce_request::{PartitionProduceData, TopicProduceData},
        produce_response::PartitionProduceResponse,
    },
    protocol::StrBytes,
    records::Compression,
};
use nix::sys::resource::{Resource, getrlimit, setrlimit};

use crate::{
    broker::{Started, start},
    frames::{Made, Wire},
};

const PATIENCE: Duration = Duration::from_secs(60);

/// Most connections that a test has.
const CROWD: u64 = 10_000;

/// Files that this process has open beside the connections.
const OTHER_FILES: u64 = 500;

const MIB: u64 = 1 << 20;

/// It is answered; returns how soon.
fn is_served(client: &mut Wire) -> Duration {
    let asked = Instant::now();
    assert_eq!(client.ask(2, &ApiVersionsRequest::default()).error_code, 0);
    asked.elapsed()
}

/// Writes a batch to partition 0 of `words`; the error, if there is one.
fn produce(client: &mut Wire, batch: Bytes) -> Option<ResponseError> {
    let partition = PartitionProduceData::default().with_records(Some(batch));
    let data = TopicProduceData::default().with_name(words()).with_partition_data(vec![partition]);
    let request = ProduceRequest::default().with_acks(-1).with_timeout_ms(30_000).with_topic_data(vec![data]);
    client.ask(9, &request).responses[0].partition_responses[0].error_code.err()
}

fn words() -> TopicName {
    TopicName(StrBytes::from_static_str("words"))
}

/// The most memory that a process has had, in bytes; `None` where the system does not tell.
fn peak(broker: &Started) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{}/status", broker.id())).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    Some(line.trim().strip_suffix(" kB")?.parse::<u64>().ok()? << 10)
}

#[track_caller]
fn takes_at_most(broker: &Started, bytes: u64) {
    if let Some(peak) = peak(broker) {
        eprintln!("the broker's process took {} MiB at most", peak / MIB);
        assert!(peak <= bytes, "{peak} bytes, and {bytes} are allowed");
    }
}

/// Raises the limit of open files as far as it goes, for this process and those that it starts; returns it.
fn open_files() -> u64 {
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    setrlimit(Resource::RLIMIT_NOFILE, hard, hard).unwrap();
    hard
}

#[test]
fn ten_thousand_connections_are_served() {
    let (files, needed) = (open_files(), CROWD + OTHER_FILES);
    assert!(
        files >= needed,
        "{files} open files are allowed, and this takes {needed}: raise the hard limit (ulimit -Hn)"
    );
    let (broker, address) = start(&["--listen", "127.0.0.1:0", "--max-connections", &CROWD.to_string()]);
    let mut first = Wire::open(address);
    is_served(&mut first);
    let mut others: Vec<Wire> = Vec::new();
    while others.len() as u64 + 1 < CROWD {
        // No more at a time than the kernel keeps for a listener; a connection above that it begins anew after a second.
        let more = (CROWD - 1 - others.len() as u64).min(100);
        let mut more: Vec<_> = (0..more).map(|_| Wire::open(address)).collect();
        more.iter_mut().for_each(|client| client.tell(2, &ApiVersionsRequest::default()).unwrap());
        more.iter_mut().for_each(|client| assert_eq!(client.hear::<ApiVersionsRequest>(2).error_code, 0));
        others.extend(more);
    }
    // A hundred announce a request of 100 MiB and send a little of it.
    let hundredth = others.len().div_ceil(100);
    for other in others.iter_mut().step_by(hundredth) {
        other.stream.write_all(&(100_u32 << 20).to_be_bytes()).unwrap();
        other.stream.write_all(&[0; 50_000]).unwrap();
    }
    let mut rest = Vec::new();
    let refused = Wire::open(address).stream.read_to_end(&mut rest);
    assert!(refused.is_err() || rest.is_empty(), "one more is closed");
    let mut waits: Vec<_> = (0..100).map(|_| is_served(&mut first)).collect();
    waits.sort_unstable();
    eprintln!("the first one is answered in {:?}, in {:?} at most", waits[50], waits[99]);
    takes_at_most(&broker, 300 * MIB);
}

/// A batch of a record whose value would be as long as a number can say: all zeros, packed so that it stays within
/// `max.message.bytes`.
fn bomb(codec: Compression) -> (u64, Bytes) {
    const PART: usize = 16 << 20;
    let zeros = vec![0_u8; PART];
    let (times, packed) = match codec {
        // Members and frames may follow each other.
        Compression::Gzip => {
            let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
            encoder.write_all(&zeros).unwrap();
            let member = encoder.finish().unwrap();
            let times = 1_000_000 / member.len();
            (times, member.repeat(times))
        }
        Compression::Zstd => (1_000, zstd::encode_all(&*zeros, 3).unwrap().repeat(1_000)),
        Compression::Lz4 => {
            let mut encoder = lz4::EncoderBuilder::new().build(Vec::new()).unwrap();
            let times = 14;
            (0..times).for_each(|_| encoder.write_all(&zeros).unwrap());
            (times, encoder.finish().0)
        }
        // It says first how long it is: four gigabytes.
        Compression::Snappy => (256, vec![0xff, 0xff, 0xff, 0xff, 0x0f, 0]),
        Compression::None => unreachable!("nothing grows"),
    };
    (times as u64 * PART as u64, batch(codec, &packed))
}

/// A batch that says it has one record.
fn batch(codec: Compression, records: &[u8]) -> Bytes {
    Made { codec: codec as i16, last_offset_delta: 0, count: 1, records }.bytes()
}

#[test]
fn a_batch_that_unpacks_to_gigabytes_is_refused() {
    let (broker, address) = start(&["--listen", "127.0.0.1:0", "--topic", "words"]);
    let (mut hostile, mut other) = (Wire::open(address), Wire::open(address));
    for codec in [Compression::Gzip, Compression::Snappy, Compression::Lz4, Compression::Zstd] {
        let (unpacked, bomb) = bomb(codec);
        eprintln!("{codec:?}: {} bytes, unpacked {} MiB", bomb.len(), unpacked / MIB);
        for _ in 0..3 {
            assert_eq!(produce(&mut hostile, bomb.clone()), Some(ResponseError::InvalidRecord), "{codec:?}");
        }
        is_served(&mut other);
    }
    // Where a batch may unpack to 64 MiB.
    takes_at_most(&broker, 256 * MIB);
    assert_eq!(produce(&mut other, batch(Compression::None, &[12, 0, 0, 0, 1, 0, 0])), None);
}

#[test]
fn who_never_reads_takes_no_more_than_there_is_for_all() {
    const DEAF: usize = 200;
    let (broker, address) = start(&["--listen", "127.0.0.1:0", "--topic", "words"]);
    let mut other = Wire::open(address);
    // A record of 900 KB, ten times: what each of them asks for.
    let value = vec![7; 900_000];
    let head = |number: usize| [number as u8 | 0x80, (number >> 7) as u8 | 0x80, (number >> 14) as u8];
    let length = 2 * value.len();
    let record = [&head(length + 2 * 8)[..], &[0, 0, 0, 1], &head(length), &value, &[0]].concat();
    for _ in 0..10 {
        assert_eq!(produce(&mut other, batch(Compression::None, &record)), None);
    }
    let partition = FetchPartition::default().with_current_leader_epoch(-1).with_partition_max_bytes(50 << 20);
    let topic = FetchTopic::default().with_topic(words()).with_partitions(vec![partition]);
    let all = FetchRequest::default().with_replica_id((-1).into()).with_max_bytes(50 << 20).with_session_epoch(-1);
    let all = all.with_topics(vec![topic]);
    let deaf: Vec<Wire> = (0..DEAF)
        .map(|_| {
            let mut deaf = Wire::open(address);
            (0..3).for_each(|_| deaf.tell(11, &all).unwrap());
            deaf
        })
        .collect();
    // They have what there is for all, and the small requests of others pass.
    let deadline = Instant::now() + PATIENCE;
    while peak(&broker).is_some_and(|peak| peak < 100 * MIB) {
        assert!(Instant::now() < deadline, "they do not even take what they may: {:?}", peak(&broker));
        is_served(&mut other);
    }
    let slowest = (0..100).map(|_| is_served(&mut other)).max();
    eprintln!("another client is answered in {slowest:?} at most");
    takes_at_most(&broker, 300 * MIB);
    drop(deaf);
}

/// The same batch of an idempotent producer, with its first sequence.
fn by(batch: &[u8], producer: i64, sequence: i32) -> Bytes {
    // Where the fields are: checksum, what it is of, the producer.
    const CRC: usize = 17;
    const SIGNED: usize = 21;
    const PRODUCER: usize = 43;
    let mut bytes = batch.to_vec();
    let fields = [&producer.to_be_bytes()[..], &[0, 0], &sequence.to_be_bytes()].concat();
    bytes[PRODUCER..PRODUCER + fields.len()].copy_from_slice(&fields);
    let crc = crc32c::crc32c(&bytes[SIGNED..]);
    bytes[CRC..SIGNED].copy_from_slice(&crc.to_be_bytes());
    bytes.into()
}

/// Makes `words` with two partitions that keep a megabyte of records.
fn create_short_words(client: &mut Wire) {
    let config = |(name, value)| {
        let config = CreatableTopicConfig::default().with_name(StrBytes::from_static_str(name));
        config.with_value(Some(StrBytes::from_static_str(value)))
    };
    let configs = [("retention.bytes", "1000000"), ("segment.bytes", "1048576")].map(config);
    let topic = CreatableTopic::default().with_name(words()).with_num_partitions(2).with_replication_factor(1);
    let request = CreateTopicsRequest::default().with_topics(vec![topic.with_configs(configs.to_vec())]);
    assert_eq!(client.ask(5, &request).topics[0].error_code, 0);
}

/// Writes many batches to partitions of `words`.
fn produce_all(client: &mut Wire, batches: impl Iterator<Item = (i32, Bytes)>) -> Vec<PartitionProduceResponse> {
    let partition = |(index, batch)| PartitionProduceData::default().with_index(index).with_records(Some(batch));
    let partitions = batches.map(partition).collect();
    let data = TopicProduceData::default().with_name(words()).with_partition_data(partitions);
    let request = ProduceRequest::default().with_acks(-1).with_timeout_ms(30_000).with_topic_data(vec![data]);
    client.ask(9, &request).responses.remove(0).partition_responses
}

#[test]
fn invented_producers_take_no_more_than_there_is_for_all() {
    const INVENTED: i64 = 1_000_000;
    const AT_ONCE: usize = 10_000;
    let (broker, address) = start(&["--listen", "127.0.0.1:0", "--memory", "10000000"]);
    let (mut hostile, mut other) = (Wire::open(address), Wire::open(address));
    create_short_words(&mut other);
    let batch = batch(Compression::None, &[12, 0, 0, 0, 1, 0, 0]);
    let mut honest = |sequence| produce_all(&mut other, [(1, by(&batch, 0, sequence))].into_iter()).remove(0);
    assert_eq!(honest(0).error_code, 0);
    for first in (1..=INVENTED).step_by(AT_ONCE) {
        let batches = (first..).take(AT_ONCE).map(|producer| (0, by(&batch, producer, 0)));
        let refused = produce_all(&mut hostile, batches).iter().find(|told| told.error_code != 0).cloned();
        assert_eq!(refused, None);
    }
    // Another's partition has forgotten nothing.
    assert_eq!((honest(0).base_offset, honest(1).base_offset), (0, 1));
    assert_eq!(honest(3).error_code.err(), Some(ResponseError::OutOfOrderSequenceNumber));
    takes_at_most(&broker, 128 * MIB);
}
