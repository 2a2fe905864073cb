//! A broker with one topic, and what clients say to it.

use std::{collections::BTreeSet, time::Duration};

use kafka_protocol::{
    messages::{
        AddOffsetsToTxnRequest, AddPartitionsToTxnRequest, ApiKey, CreateTopicsRequest, EndTxnRequest, FetchRequest,
        GroupId, InitProducerIdRequest, OffsetFetchRequest, ProduceRequest, ProducerId, RequestKind, ResponseKind,
        TopicName, TransactionalId, TxnOffsetCommitRequest,
        add_partitions_to_txn_request::AddPartitionsToTxnTopic,
        create_topics_request::CreatableTopic,
        fetch_request::{FetchPartition, FetchTopic},
        offset_fetch_request::OffsetFetchRequestTopic,
        produce_request::{PartitionProduceData, TopicProduceData},
        txn_offset_commit_request::{TxnOffsetCommitRequestPartition, TxnOffsetCommitRequestTopic},
    },
    protocol::{Request as Message, StrBytes},
    records::RecordBatchDecoder,
};

use crate::{
    broker::core::{Broker, BrokerOptions, ConnectionId, Effect, Request, sample::Sample},
    clock::Instant,
};

/// Whom a client takes itself for: producer id and epoch.
pub(super) type Identity = (i64, i16);

pub(super) const TIMEOUT: Duration = Duration::from_mins(1);

pub(super) fn text(text: &str) -> StrBytes {
    StrBytes::from_string(text.to_owned())
}

pub(super) fn topic() -> TopicName {
    TopicName(text("t"))
}

pub(super) fn group() -> GroupId {
    GroupId(text("g"))
}

pub(super) fn id(id: &str) -> TransactionalId {
    TransactionalId(text(id))
}

pub(super) struct Cluster {
    pub(super) broker: Broker,
    pub(super) now: Instant,
    asked: u64,
}

impl Cluster {
    /// With topic `t` of two partitions.
    pub(super) fn new() -> Self {
        let broker = Broker::new(BrokerOptions::default());
        let mut cluster = Self { broker, now: Instant::ZERO, asked: 0 };
        let topic = CreatableTopic::default().with_name(topic()).with_num_partitions(2).with_replication_factor(1);
        cluster.ask(7, CreateTopicsRequest::default().with_topics(vec![topic]));
        cluster
    }

    /// Asks over a connection of its own; a request that is not answered at once is a failure.
    pub(super) fn ask<R: Message + Into<RequestKind>>(&mut self, version: i16, request: R) -> ResponseKind {
        self.asked += 1;
        let request = Request {
            connection: ConnectionId(self.asked),
            correlation: 0,
            api: ApiKey::try_from(R::KEY).unwrap(),
            version,
            client_id: Some(text("c")),
            body: request.into(),
        };
        let mut effects = Vec::new();
        self.broker.handle(request, self.now, &mut effects);
        assert_eq!(effects.len(), 1, "{effects:?}");
        match effects.remove(0) {
            Effect::Respond(response) => response.body,
            Effect::Close(connection) => panic!("closed {connection:?}"),
        }
    }

    pub(super) fn pass(&mut self, span: Duration) {
        let end = self.now + span;
        while self.broker.due() <= end {
            self.now = self.now.max(self.broker.due());
            let mut effects = Vec::new();
            self.broker.tick(self.now, &mut effects);
        }
        self.now = end;
    }

    /// InitProducerId, by one that says who it was where that is given; the identity, or the error.
    pub(super) fn init(&mut self, name: &str, was: Option<Identity>) -> Result<Identity, i16> {
        let (producer, epoch) = was.unwrap_or((-1, -1));
        let request = InitProducerIdRequest::default()
            .with_transactional_id(Some(id(name)))
            .with_transaction_timeout_ms(i32::try_from(TIMEOUT.as_millis()).unwrap())
            .with_producer_id(ProducerId(producer))
            .with_producer_epoch(epoch);
        let ResponseKind::InitProducerId(response) = self.ask(4, request) else { panic!() };
        match response.error_code {
            0 => Ok((response.producer_id.0, response.producer_epoch)),
            code => Err(code),
        }
    }

    pub(super) fn add_in(
        &mut self,
        version: i16,
        name: &str,
        (producer, epoch): Identity,
        partitions: &[i32],
    ) -> Vec<i16> {
        let topic = AddPartitionsToTxnTopic::default().with_name(topic()).with_partitions(partitions.to_vec());
        let request = AddPartitionsToTxnRequest::default()
            .with_v3_and_below_transactional_id(id(name))
            .with_v3_and_below_producer_id(ProducerId(producer))
            .with_v3_and_below_producer_epoch(epoch)
            .with_v3_and_below_topics(vec![topic]);
        let ResponseKind::AddPartitionsToTxn(response) = self.ask(version, request) else { panic!() };
        let results = &response.results_by_topic_v3_and_below[0].results_by_partition;
        results.iter().map(|result| result.partition_error_code).collect()
    }

    pub(super) fn add(&mut self, name: &str, producer: Identity, partition: i32) -> i16 {
        self.add_in(3, name, producer, &[partition])[0]
    }

    pub(super) fn write_in(
        &mut self,
        version: i16,
        (name, (producer_id, producer_epoch)): (&str, Identity),
        partition: i32,
        (sequence, value): (i32, &str),
    ) -> i16 {
        let batch = Sample::values(&[value]).by(producer_id, producer_epoch, sequence).transactional().at(0).encode();
        let partition = PartitionProduceData::default().with_index(partition).with_records(Some(batch));
        let request = ProduceRequest::default()
            .with_acks(-1)
            .with_transactional_id(Some(id(name)))
            .with_topic_data(vec![TopicProduceData::default().with_name(topic()).with_partition_data(vec![partition])]);
        let ResponseKind::Produce(response) = self.ask(version, request) else { panic!() };
        response.responses[0].partition_responses[0].error_code
    }

    /// Writes one record.
    pub(super) fn write(&mut self, name: &str, producer: Identity, partition: i32, record: (i32, &str)) -> i16 {
        self.write_in(11, (name, producer), partition, record)
    }

    pub(super) fn end_in(&mut self, version: i16, name: &str, (producer, epoch): Identity, commit: bool) -> i16 {
        let request = EndTxnRequest::default()
            .with_transactional_id(id(name))
            .with_producer_id(ProducerId(producer))
            .with_producer_epoch(epoch)
            .with_committed(commit);
        let ResponseKind::EndTxn(response) = self.ask(version, request) else { panic!() };
        response.error_code
    }

    pub(super) fn end(&mut self, name: &str, producer: Identity, commit: bool) -> i16 {
        self.end_in(4, name, producer, commit)
    }

    pub(super) fn add_group(&mut self, name: &str, (producer, epoch): Identity) -> i16 {
        let request = AddOffsetsToTxnRequest::default()
            .with_transactional_id(id(name))
            .with_producer_id(ProducerId(producer))
            .with_producer_epoch(epoch)
            .with_group_id(group());
        let ResponseKind::AddOffsetsToTxn(response) = self.ask(4, request) else { panic!() };
        response.error_code
    }

    /// TxnOffsetCommit for partition 0 by one that is in no generation.
    pub(super) fn commit_in(&mut self, version: i16, name: &str, (producer, epoch): Identity, offset: i64) -> i16 {
        let partition = TxnOffsetCommitRequestPartition::default().with_committed_offset(offset);
        let request = TxnOffsetCommitRequest::default()
            .with_transactional_id(id(name))
            .with_group_id(group())
            .with_producer_id(ProducerId(producer))
            .with_producer_epoch(epoch)
            .with_generation_id(-1)
            .with_topics(vec![
                TxnOffsetCommitRequestTopic::default().with_name(topic()).with_partitions(vec![partition]),
            ]);
        let ResponseKind::TxnOffsetCommit(response) = self.ask(version, request) else { panic!() };
        response.topics[0].partitions[0].error_code
    }

    /// The committed offset of partition 0 and its error.
    pub(super) fn offset(&mut self, require_stable: bool) -> (i64, i16) {
        let asked = OffsetFetchRequestTopic::default().with_name(topic()).with_partition_indexes(vec![0]);
        let request = OffsetFetchRequest::default()
            .with_group_id(group())
            .with_require_stable(require_stable)
            .with_topics(Some(vec![asked]));
        let ResponseKind::OffsetFetch(response) = self.ask(7, request) else { panic!() };
        let found = &response.topics[0].partitions[0];
        (found.committed_offset, found.error_code)
    }

    /// What one that reads only what is committed sees of a partition.
    pub(super) fn committed(&mut self, partition: i32) -> Vec<String> {
        let asked = FetchPartition::default()
            .with_partition(partition)
            .with_partition_max_bytes(1 << 30)
            .with_current_leader_epoch(-1)
            .with_last_fetched_epoch(-1);
        let request = FetchRequest::default()
            .with_max_bytes(1 << 30)
            .with_isolation_level(1)
            .with_session_epoch(-1)
            .with_topics(vec![FetchTopic::default().with_topic(topic()).with_partitions(vec![asked])]);
        let ResponseKind::Fetch(mut response) = self.ask(12, request) else { panic!() };
        let fetched = response.responses.remove(0).partitions.remove(0);
        let aborted = fetched.aborted_transactions.unwrap_or_default();
        let mut aborted: BTreeSet<_> = aborted.iter().map(|one| (one.first_offset, one.producer_id.0)).collect();
        let mut skipped = BTreeSet::new();
        let mut seen = Vec::new();
        let sets = RecordBatchDecoder::decode_all(&mut fetched.records.unwrap_or_default()).unwrap();
        for record in sets.into_iter().flat_map(|set| set.records) {
            while aborted.first().is_some_and(|(first, _)| *first <= record.offset) {
                skipped.extend(aborted.pop_first().map(|(_, producer)| producer));
            }
            if record.control {
                skipped.remove(&record.producer_id);
            } else if !skipped.contains(&record.producer_id) {
                seen.push(String::from_utf8(record.value.unwrap().to_vec()).unwrap());
            }
        }
        seen
    }
}
