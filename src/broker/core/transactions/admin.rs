//! DescribeTransactions and ListTransactions: transactions as tools see them (KIP-664, KIP-994).

use std::{collections::BTreeMap, time::Duration};

use kafka_protocol::{
    error::ResponseError,
    messages::{
        DescribeTransactionsRequest, DescribeTransactionsResponse, ListTransactionsRequest, ListTransactionsResponse,
        ProducerId, TopicName, TransactionalId,
        describe_transactions_response::{TopicData, TransactionState as Described},
        list_transactions_response::TransactionState as Listed,
    },
    protocol::StrBytes,
};

use super::{
    coordinator::{Transactions, offsets_partition},
    transaction::{Parts, Transaction},
};
use crate::clock::Instant;

/// Every state that Kafka knows: a filter may name those too that no transaction here is seen in.
const STATES: [&str; 8] = [
    "Empty",
    "Ongoing",
    "PrepareCommit",
    "PrepareAbort",
    "CompleteCommit",
    "CompleteAbort",
    "Dead",
    "PrepareEpochFence",
];

/// The topic in which Kafka keeps what is committed.
const OFFSETS: TopicName = TopicName(StrBytes::from_static_str("__consumer_offsets"));

impl Transactions {
    /// DescribeTransactions; `wall_ms` gives the milliseconds since 1970 of an instant.
    pub(in crate::broker::core) fn describe(
        &self,
        request: &DescribeTransactionsRequest,
        wall_ms: impl Fn(Instant) -> i64,
    ) -> DescribeTransactionsResponse {
        let described = request.transactional_ids.iter().map(|id| {
            let described = match self.known.get(id) {
                Some(transaction) => described(transaction, &wall_ms),
                None => Described::default().with_error_code(missing(id).code()),
            };
            described.with_transactional_id(id.clone())
        });
        DescribeTransactionsResponse::default().with_transaction_states(described.collect())
    }

    /// ListTransactions: those that pass every filter that is set.
    pub(in crate::broker::core) fn list(
        &self,
        request: &ListTransactionsRequest,
        now: Instant,
    ) -> ListTransactionsResponse {
        let duration = u64::try_from(request.duration_filter).ok().map(Duration::from_millis);
        let passes = |transaction: &Transaction| {
            let states = &request.state_filters;
            let producers = &request.producer_id_filters;
            let is_short = |started: Instant| duration.is_some_and(|longer_than| now - started <= longer_than);
            (states.is_empty() || states.iter().any(|state| state.as_str() == transaction.state.name()))
                && (producers.is_empty() || producers.contains(&ProducerId(transaction.producer.id)))
                && !transaction.started.is_some_and(is_short)
        };
        let listed = self.known.iter().filter(|(_, transaction)| passes(transaction)).map(|(id, transaction)| {
            Listed::default()
                .with_transactional_id(id.clone())
                .with_producer_id(ProducerId(transaction.producer.id))
                .with_transaction_state(StrBytes::from_static_str(transaction.state.name()))
        });
        let unknown = request.state_filters.iter().filter(|state| !STATES.contains(&state.as_str())).cloned();
        ListTransactionsResponse::default()
            .with_transaction_states(listed.collect())
            .with_unknown_state_filters(unknown.collect())
    }
}

fn missing(id: &TransactionalId) -> ResponseError {
    if id.is_empty() { ResponseError::InvalidRequest } else { ResponseError::TransactionalIdNotFound }
}

fn described(transaction: &Transaction, wall_ms: &impl Fn(Instant) -> i64) -> Described {
    Described::default()
        .with_producer_id(ProducerId(transaction.producer.id))
        .with_producer_epoch(transaction.producer.epoch)
        .with_transaction_state(StrBytes::from_static_str(transaction.state.name()))
        .with_transaction_timeout_ms(i32::try_from(transaction.timeout.as_millis()).unwrap_or(i32::MAX))
        .with_transaction_start_time_ms(transaction.started.map_or(-1, wall_ms))
        .with_topics(topics(&transaction.parts))
}

fn topics(parts: &Parts) -> Vec<TopicData> {
    let groups = parts.groups.iter().map(|group| (OFFSETS, offsets_partition(group)));
    let mut topics: BTreeMap<TopicName, Vec<i32>> = BTreeMap::new();
    for (topic, partition) in parts.partitions.iter().cloned().chain(groups) {
        topics.entry(topic).or_default().push(partition);
    }
    let topics = topics
        .into_iter()
        .map(|(topic, partitions)| TopicData::default().with_topic(topic).with_partitions(partitions));
    topics.collect()
}
