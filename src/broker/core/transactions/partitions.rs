//! AddPartitionsToTxn.

use std::collections::BTreeSet;

use kafka_protocol::{
    error::ResponseError,
    messages::{
        AddPartitionsToTxnRequest, AddPartitionsToTxnResponse,
        add_partitions_to_txn_response::{AddPartitionsToTxnPartitionResult, AddPartitionsToTxnTopicResult},
    },
};

use super::{
    coordinator::{Transactions, told},
    transaction::{Identity, Parts},
};
use crate::{broker::core::groups::Exists, clock::Instant};

impl Transactions {
    /// AddPartitionsToTxn as clients ask it; versions 4 and later are spoken between brokers. All partitions are added or
    /// none is.
    pub(in crate::broker::core) fn add_partitions(
        &mut self,
        version: i16,
        request: &AddPartitionsToTxnRequest,
        exists: Exists<'_>,
        now: Instant,
    ) -> AddPartitionsToTxnResponse {
        let topics = &request.v3_and_below_topics;
        let complete = topics.iter().all(|topic| topic.partitions.iter().all(|index| exists(&topic.name, *index)));
        let code = if complete {
            self.add_all(request, now).err().map_or(0, |error| told(error, version, 2))
        } else {
            ResponseError::OperationNotAttempted.code()
        };
        let results = topics.iter().map(|topic| {
            let results = topic.partitions.iter().map(|index| {
                let there = complete || exists(&topic.name, *index);
                AddPartitionsToTxnPartitionResult::default()
                    .with_partition_index(*index)
                    .with_partition_error_code(if there { code } else { ResponseError::UnknownTopicOrPartition.code() })
            });
            AddPartitionsToTxnTopicResult::default()
                .with_name(topic.name.clone())
                .with_results_by_partition(results.collect())
        });
        AddPartitionsToTxnResponse::default().with_results_by_topic_v3_and_below(results.collect())
    }

    fn add_all(&mut self, request: &AddPartitionsToTxnRequest, now: Instant) -> Result<(), ResponseError> {
        let producer = Identity { id: request.v3_and_below_producer_id.0, epoch: request.v3_and_below_producer_epoch };
        let partitions = request
            .v3_and_below_topics
            .iter()
            .flat_map(|topic| topic.partitions.iter().map(|index| (topic.name.clone(), *index)));
        let parts = Parts::new(partitions.collect(), BTreeSet::new());
        self.add(&request.v3_and_below_transactional_id, producer, &parts, now)
    }
}
