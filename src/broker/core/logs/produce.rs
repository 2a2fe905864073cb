//! Produce: batches of one request, each to its partition.

use bytes::Bytes;
use kafka_protocol::{
    error::ResponseError,
    messages::{
        ProduceRequest, ProduceResponse, TopicName,
        produce_response::{BatchIndexAndErrorMessage, PartitionProduceResponse, TopicProduceResponse},
    },
    protocol::StrBytes,
};

use super::{
    Logs, OpenTransactions, TransactionalWrite,
    batch::{Batch, Header},
    incoming::{Incoming, Refused, Rules, one_batch},
};
use crate::{broker::core::request::Reply, clock::Instant};

/// What producers of the last versions are told, and those before them are not.
const TRANSACTION_ABORTABLE_SINCE: i16 = 11;

/// One batch on its way to a partition.
struct Write<'a> {
    topic: &'a TopicName,
    partition: i32,
    records: Bytes,
    version: i16,
    transactional_id: Option<&'a str>,
}

/// What a producer is told of a batch that is in the log.
struct Written {
    base_offset: i64,
    /// -1: the producer dated it.
    log_append_time: i64,
    start: i64,
}

/// What a producer is told of a batch that is not.
struct NotWritten {
    why: Refused,
    /// Where the log starts that refuses it; -1: it did not come so far.
    start: i64,
}

impl From<Refused> for NotWritten {
    fn from(why: Refused) -> Self {
        Self { why, start: -1 }
    }
}

impl From<ResponseError> for NotWritten {
    fn from(error: ResponseError) -> Self {
        Refused::from(error).into()
    }
}

impl Logs {
    /// Appends what is sent, or says for each partition why not.
    pub(in crate::broker::core) fn produce(
        &mut self,
        request: &ProduceRequest,
        version: i16,
        transactions: &dyn OpenTransactions,
        now: Instant,
    ) -> Reply {
        let refusal = refusal_of_all(request);
        let transactional_id = request.transactional_id.as_ref().map(|id| id.0.as_str());
        let mut failed = false;
        let mut responses = Vec::with_capacity(request.topic_data.len());
        for topic in &request.topic_data {
            let mut partitions = Vec::with_capacity(topic.partition_data.len());
            for data in &topic.partition_data {
                let records = data.records.clone().unwrap_or_default();
                let write = Write { topic: &topic.name, partition: data.index, records, version, transactional_id };
                let written = refusal.map_or_else(|| self.append(&write, transactions, now), |e| Err(e.into()));
                failed |= written.is_err();
                partitions.push(told(written).with_index(data.index));
            }
            let response = TopicProduceResponse::default().with_name(topic.name.clone());
            responses.push(response.with_partition_responses(partitions));
        }
        match request.acks {
            // There is no response that could tell.
            0 if failed => Reply::Close,
            0 => Reply::Nothing,
            _ => Reply::Now(ProduceResponse::default().with_responses(responses).into()),
        }
    }

    fn append(
        &mut self,
        write: &Write<'_>,
        transactions: &dyn OpenTransactions,
        now: Instant,
    ) -> Result<Written, NotWritten> {
        let partition = self.partition(write.topic, write.partition).ok_or(ResponseError::UnknownTopicOrPartition)?;
        let (sent, header) = one_batch(&write.records, write.version)?;
        let opens = header.has_producer() && header.is_transactional();
        if opens && !partition.in_transaction(header.producer_id, header.producer_epoch) {
            admitted(write, &header, transactions)?;
        }
        let start = partition.start();
        self.append_batch(write, (sent, header), now).map_err(|why| match why.error {
            ResponseError::CorruptMessage | ResponseError::MessageTooLarge | ResponseError::KafkaStorageError => {
                why.into()
            }
            _ => NotWritten { why, start },
        })
    }

    fn append_batch(
        &mut self,
        write: &Write<'_>,
        (sent, header): (&[u8], Header),
        now: Instant,
    ) -> Result<Written, Refused> {
        let partition = self.partition(write.topic, write.partition).ok_or(ResponseError::UnknownTopicOrPartition)?;
        let topic = self.topic(write.topic).ok_or(ResponseError::UnknownTopicOrPartition)?;
        let now_ms = self.wall_ms(now);
        let rules = Rules { settings: &topic.settings, now_ms, max_unpacked: self.options.max_unpacked_batch };
        let incoming = Incoming::check(sent, header, &rules)?;
        let header = &incoming.header;
        let (log_append_time, start) = (incoming.log_append_time().unwrap_or(-1), partition.start());
        if header.has_producer() {
            if let Some(known) = partition.producers.duplicate(header) {
                return Ok(Written { base_offset: known.base_offset, log_append_time: known.max_timestamp, start });
            }
            partition.producers.check(header)?;
        }
        self.make_room(incoming.size() + Batch::COST, now_ms)?;
        self.make_room_for_producer(write.topic, write.partition, header)?;
        let append = |partition: &mut super::Partition, settings: &_| {
            let base_offset = partition.end();
            partition.push(incoming.put(partition.next()), settings);
            Written { base_offset, log_append_time, start: partition.start() }
        };
        Ok(self.change(write.topic, write.partition, append).ok_or(ResponseError::UnknownTopicOrPartition)?)
    }
}

/// Whether nothing of a request can be taken.
fn refusal_of_all(request: &ProduceRequest) -> Option<ResponseError> {
    if !(-1..=1).contains(&request.acks) {
        return Some(ResponseError::InvalidRequiredAcks);
    }
    let mut sent = request.topic_data.iter().flat_map(|topic| &topic.partition_data).filter_map(|p| p.records.as_ref());
    let transactional = |records: &Bytes| Header::read(records).is_some_and(|header| header.is_transactional());
    if request.transactional_id.is_none() && sent.any(transactional) {
        return Some(ResponseError::TransactionalIdAuthorizationFailed);
    }
    None
}

/// Whether the coordinator knows that the producer writes here.
fn admitted(write: &Write<'_>, header: &Header, transactions: &dyn OpenTransactions) -> Result<(), ResponseError> {
    let admission = transactions.admits(TransactionalWrite {
        transactional_id: write.transactional_id.unwrap_or_default(),
        producer_id: header.producer_id,
        producer_epoch: header.producer_epoch,
        topic: write.topic,
        partition: write.partition,
    });
    match admission {
        Err(ResponseError::TransactionAbortable) if write.version < TRANSACTION_ABORTABLE_SINCE => {
            Err(ResponseError::InvalidTxnState)
        }
        admission => admission,
    }
}

fn told(written: Result<Written, NotWritten>) -> PartitionProduceResponse {
    match written {
        Ok(Written { base_offset, log_append_time, start }) => PartitionProduceResponse::default()
            .with_base_offset(base_offset)
            .with_log_append_time_ms(log_append_time)
            .with_log_start_offset(start),
        Err(NotWritten { why: Refused { error, message, record }, start }) => {
            let message = StrBytes::from_string(message);
            let blame = record.map(|index| {
                let blame = BatchIndexAndErrorMessage::default().with_batch_index(index);
                blame.with_batch_index_error_message(Some(message.clone()))
            });
            PartitionProduceResponse::default()
                .with_error_code(error.code())
                .with_base_offset(-1)
                .with_log_append_time_ms(-1)
                .with_log_start_offset(start)
                .with_record_errors(blame.into_iter().collect())
                .with_error_message(Some(message))
        }
    }
}
