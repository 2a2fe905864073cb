//! The protocol without a client: what trials ask of a broker by it, with error codes exactly as they come.

use bytes::{Bytes, BytesMut};
use kafka_protocol::{
    messages::{
        BrokerId, FetchRequest, FetchResponse, InitProducerIdRequest, ProduceRequest, ProducerId, TopicName,
        TransactionalId,
        fetch_request::{FetchPartition, FetchTopic},
        produce_request::{PartitionProduceData, TopicProduceData},
        produce_response::PartitionProduceResponse,
    },
    protocol::StrBytes,
    records::{Compression, Record, RecordBatchEncoder, RecordEncodeOptions, TimestampType},
};

pub use super::frames::Wire;
use crate::broker::Broker;

pub fn text(value: &str) -> StrBytes {
    StrBytes::from_string(value.to_owned())
}

pub fn topic_name(value: &str) -> TopicName {
    TopicName(text(value))
}

impl Wire {
    pub fn connect(broker: &Broker) -> Self {
        Self::open(broker.bootstrap())
    }

    /// A new producer id with its epoch.
    pub fn producer(&mut self, transactional_id: Option<&str>) -> (i64, i16) {
        let request = InitProducerIdRequest::default()
            .with_transactional_id(transactional_id.map(|id| TransactionalId(text(id))))
            .with_transaction_timeout_ms(60_000)
            .with_producer_id(ProducerId(-1))
            .with_producer_epoch(-1);
        let answer = self.ask(4, &request);
        assert_eq!(answer.error_code, 0, "{answer:?}");
        (answer.producer_id.0, answer.producer_epoch)
    }

    /// Writes a batch to partition 0 with `acks=all`.
    pub fn produce(&mut self, topic: &str, batch: Bytes) -> PartitionProduceResponse {
        let answer = self.ask(9, &produce(topic, -1, batch));
        answer.responses[0].partition_responses[0].clone()
    }

    /// Fetches partition 0 from an offset, without waiting.
    pub fn fetch(&mut self, topic: &str, offset: i64, isolation: i8) -> FetchResponse {
        let partition = FetchPartition::default()
            .with_partition(0)
            .with_fetch_offset(offset)
            .with_current_leader_epoch(-1)
            .with_partition_max_bytes(1 << 20);
        let request = FetchRequest::default()
            .with_replica_id(BrokerId(-1))
            .with_max_wait_ms(0)
            .with_min_bytes(0)
            .with_max_bytes(1 << 20)
            .with_isolation_level(isolation)
            .with_session_epoch(-1)
            .with_topics(vec![FetchTopic::default().with_topic(topic_name(topic)).with_partitions(vec![partition])]);
        self.ask(11, &request)
    }
}

/// A request that writes a batch to partition 0.
pub fn produce(topic: &str, acks: i16, batch: Bytes) -> ProduceRequest {
    let partition = PartitionProduceData::default().with_index(0).with_records(Some(batch));
    let data = TopicProduceData::default().with_name(topic_name(topic)).with_partition_data(vec![partition]);
    ProduceRequest::default().with_acks(acks).with_timeout_ms(30_000).with_topic_data(vec![data])
}

/// Who writes a batch, and where in its sequence the batch begins.
#[derive(Debug, Clone, Copy)]
pub struct Writer {
    pub id: i64,
    pub epoch: i16,
    pub sequence: i32,
}

impl Writer {
    /// One without an identity.
    pub const NOBODY: Self = Self { id: -1, epoch: -1, sequence: -1 };
}

/// A batch of these values.
pub fn batch(writer: Writer, values: &[&str]) -> Bytes {
    packed(Compression::None, writer, values)
}

/// A batch of these values, by this codec.
pub fn packed(compression: Compression, writer: Writer, values: &[&str]) -> Bytes {
    let Writer { id: producer_id, epoch: producer_epoch, sequence } = writer;
    let records = values.iter().zip(0_i32..).map(|(value, place)| Record {
        transactional: false,
        control: false,
        delete_horizon: false,
        partition_leader_epoch: -1,
        producer_id,
        producer_epoch,
        timestamp_type: TimestampType::Creation,
        offset: place.into(),
        sequence: if sequence < 0 { sequence } else { sequence + place },
        timestamp: 1_700_000_000_000,
        key: None,
        value: Some(Bytes::copy_from_slice(value.as_bytes())),
        headers: Default::default(),
    });
    let records: Vec<_> = records.collect();
    let options = RecordEncodeOptions { version: 2, compression };
    let mut bytes = BytesMut::new();
    RecordBatchEncoder::encode(&mut bytes, &records, &options).expect("a batch");
    bytes.freeze()
}
