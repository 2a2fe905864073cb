//! What tests of logs are made of: logs with a topic, and requests to them.

use bytes::Bytes;
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
    records::{Record, RecordBatchDecoder},
};

pub(super) use crate::broker::core::sample::Sample;

use super::{LogOptions, Logs, Marker, OpenTransactions, TransactionalWrite, topics::named};
use crate::{
    broker::core::{
        BrokerOptions,
        request::{Answers, Reply, Ticket},
        sample::DATED_MS,
    },
    clock::Instant,
};

/// The wall clock of tests when their time begins.
pub(super) const EPOCH_MS: i64 = DATED_MS;
pub(super) const TOPIC: &str = "t";

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
