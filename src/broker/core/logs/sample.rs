//! What tests of logs are made of: batches by another encoder than ours, and requests.

use bytes::{Bytes, BytesMut};
use indexmap::IndexMap;
use kafka_protocol::{
    messages::{
        CreateTopicsRequest, FetchRequest, ProduceRequest, RequestKind, ResponseKind, TopicName, TransactionalId,
        create_topics_request::{CreatableTopic, CreatableTopicConfig},
        fetch_request::{FetchPartition, FetchTopic},
        fetch_response::PartitionData,
        produce_request::{PartitionProduceData, TopicProduceData},
        produce_response::PartitionProduceResponse,
    },
    protocol::StrBytes,
    records::{
        Compression, NO_PARTITION_LEADER_EPOCH, Record, RecordBatchDecoder, RecordBatchEncoder, RecordEncodeOptions,
        TimestampType,
    },
};

use super::{LogOptions, Logs, Marker, OpenTransactions, TransactionalWrite, topics::named};
use crate::{
    broker::core::{
        BrokerOptions,
        request::{Answers, Reply, Ticket},
    },
    clock::Instant,
};

/// The wall clock of tests when their time begins.
pub(super) const EPOCH_MS: i64 = 1_000_000_000_000;
pub(super) const TOPIC: &str = "t";

/// A batch as a client makes it.
#[derive(Clone, Debug)]
pub(super) struct Sample {
    pub(super) records: Vec<(Option<String>, Option<String>)>,
    /// Id, epoch, first sequence.
    pub(super) producer: Option<(i64, i16, i32)>,
    pub(super) transactional: bool,
    pub(super) codec: Compression,
    /// Of the first record; each one after it is a millisecond later.
    pub(super) timestamp: i64,
}

impl Sample {
    pub(super) fn new(records: &[(Option<&str>, Option<&str>)]) -> Self {
        let owned = |text: &Option<&str>| text.map(str::to_owned);
        Self {
            records: records.iter().map(|(key, value)| (owned(key), owned(value))).collect(),
            producer: None,
            transactional: false,
            codec: Compression::None,
            timestamp: EPOCH_MS,
        }
    }

    /// Records without keys.
    pub(super) fn values(values: &[&str]) -> Self {
        Self::new(&values.iter().map(|value| (None, Some(*value))).collect::<Vec<_>>())
    }

    pub(super) fn by(self, id: i64, epoch: i16, sequence: i32) -> Self {
        Self { producer: Some((id, epoch, sequence)), ..self }
    }

    pub(super) fn transactional(self) -> Self {
        Self { transactional: true, ..self }
    }

    pub(super) fn packed(self, codec: Compression) -> Self {
        Self { codec, ..self }
    }

    pub(super) fn at(self, timestamp: i64) -> Self {
        Self { timestamp, ..self }
    }

    pub(super) fn encode(&self) -> Bytes {
        let (producer_id, producer_epoch, first) = self.producer.unwrap_or((-1, -1, -1));
        let bytes = |text: &Option<String>| text.as_ref().map(|text| Bytes::from(text.clone()));
        let records = (0..).zip(&self.records).map(|(offset, (key, value))| Record {
            transactional: self.transactional,
            control: false,
            delete_horizon: false,
            partition_leader_epoch: NO_PARTITION_LEADER_EPOCH,
            producer_id,
            producer_epoch,
            timestamp_type: TimestampType::Creation,
            offset,
            sequence: first.wrapping_add(i32::try_from(offset).unwrap()),
            timestamp: self.timestamp + offset,
            key: bytes(key),
            value: bytes(value),
            headers: IndexMap::new(),
        });
        let mut encoded = BytesMut::new();
        let options = RecordEncodeOptions { version: 2, compression: self.codec };
        RecordBatchEncoder::encode(&mut encoded, &records.collect::<Vec<_>>(), &options).unwrap();
        encoded.freeze()
    }
}

/// The records of batches as a client reads them.
pub(super) fn decode(records: &Bytes) -> Vec<Record> {
    let sets = RecordBatchDecoder::decode_all(&mut records.clone()).unwrap();
    sets.into_iter().flat_map(|set| set.records).collect()
}

/// The offsets and values of data records.
pub(super) fn values(records: &Bytes) -> Vec<(i64, String)> {
    let data = decode(records).into_iter().filter(|record| !record.control);
    data.map(|record| (record.offset, String::from_utf8(record.value.unwrap_or_default().into()).unwrap())).collect()
}

/// Everyone may write to everything.
pub(super) struct Anyone;

impl OpenTransactions for Anyone {
    fn admits(&self, _: TransactionalWrite<'_>) -> Result<(), kafka_protocol::error::ResponseError> {
        Ok(())
    }
}

/// Logs with a topic of one partition.
pub(super) struct Bench {
    pub(super) logs: Logs,
    pub(super) now: Instant,
    pub(super) tickets: u64,
}

impl Bench {
    pub(super) fn new(configs: &[(&str, &str)]) -> Self {
        Self::with(LogOptions::default(), configs)
    }

    pub(super) fn with(logs: LogOptions, configs: &[(&str, &str)]) -> Self {
        let options = BrokerOptions { epoch_ms: EPOCH_MS, logs, ..BrokerOptions::default() };
        let mut bench = Self { logs: Logs::new(&options), now: Instant::ZERO, tickets: 0 };
        let configs = configs.iter().map(|(name, value)| {
            let config = CreatableTopicConfig::default().with_name(StrBytes::from_string((*name).to_owned()));
            config.with_value(Some(StrBytes::from_string((*value).to_owned())))
        });
        let topic = CreatableTopic::default().with_name(named(TOPIC)).with_num_partitions(1);
        let topic = topic.with_replication_factor(1).with_configs(configs.collect());
        let created = bench.logs.create_topics(&CreateTopicsRequest::default().with_topics(vec![topic]));
        assert_eq!(created.topics[0].error_code, 0, "{:?}", created.topics[0].error_message);
        bench
    }

    pub(super) fn topic() -> TopicName {
        named(TOPIC)
    }

    pub(super) fn ticket(&mut self) -> Ticket {
        self.tickets += 1;
        Ticket(self.tickets)
    }

    /// The response to one request, if it comes at once.
    pub(super) fn ask(&mut self, request: impl Into<RequestKind>, version: i16) -> Option<ResponseKind> {
        let ticket = self.ticket();
        match self.logs.handle((ticket, version), &request.into(), &Anyone, self.now).unwrap() {
            Reply::Now(response) => Some(response),
            Reply::Later | Reply::Nothing | Reply::Close => None,
        }
    }

    pub(super) fn produce(&mut self, sent: &Bytes) -> PartitionProduceResponse {
        self.produce_as(sent, 11)
    }

    pub(super) fn produce_as(&mut self, sent: &Bytes, version: i16) -> PartitionProduceResponse {
        let partition = PartitionProduceData::default().with_index(0).with_records(Some(sent.clone()));
        let topic = TopicProduceData::default().with_name(Self::topic()).with_partition_data(vec![partition]);
        let request = ProduceRequest::default().with_acks(-1).with_topic_data(vec![topic]);
        let id = TransactionalId(StrBytes::from_static_str("tx"));
        let response = self.ask(RequestKind::Produce(request.with_transactional_id(Some(id))), version);
        let Some(ResponseKind::Produce(mut response)) = response else { panic!("{response:?}") };
        response.responses.remove(0).partition_responses.remove(0)
    }

    /// The base offset of a batch that is taken.
    pub(super) fn append(&mut self, sample: &Sample) -> i64 {
        let response = self.produce(&sample.encode());
        assert_eq!(response.error_code, 0, "{:?}", response.error_message);
        response.base_offset
    }

    /// The code with which a batch is refused.
    pub(super) fn refused(&mut self, sent: &Bytes) -> i16 {
        let response = self.produce(sent);
        assert_eq!(response.base_offset, -1);
        response.error_code
    }

    pub(super) fn end(&mut self, producer_id: i64, producer_epoch: i16, commit: bool) {
        let marker = Marker { producer_id, producer_epoch, coordinator_epoch: 0, commit };
        self.logs.write_marker(&Self::topic(), 0, marker, self.now).unwrap();
    }

    pub(super) fn fetch_request(offset: i64, isolation: i8) -> FetchRequest {
        let partition = FetchPartition::default().with_fetch_offset(offset).with_partition_max_bytes(1 << 20);
        let partition = partition.with_current_leader_epoch(-1).with_last_fetched_epoch(-1);
        let topic = FetchTopic::default().with_topic(Self::topic()).with_partitions(vec![partition]);
        let request = FetchRequest::default().with_max_bytes(1 << 20).with_isolation_level(isolation);
        request.with_session_epoch(-1).with_topics(vec![topic])
    }

    pub(super) fn fetch(&mut self, offset: i64, isolation: i8) -> PartitionData {
        let response = self.ask(Self::fetch_request(offset, isolation), 12);
        let Some(ResponseKind::Fetch(mut response)) = response else { panic!("{response:?}") };
        response.responses.remove(0).partitions.remove(0)
    }

    /// The responses that became possible.
    pub(super) fn answers(&mut self) -> Vec<(Ticket, ResponseKind)> {
        let mut answers = Answers::new();
        self.logs.wake(&mut answers);
        self.logs.tick(self.now, &mut answers);
        answers.into()
    }
}
