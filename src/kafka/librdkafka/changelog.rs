//! The clients of a changelog over librdkafka.

use std::{sync::Arc, time::Duration};

use super::{scan::RdkafkaScan, topics::RdkafkaTopics, transactions::RdkafkaTransactions};
use crate::{
    clock::Clock,
    kafka::{
        changelog::{ChangelogClients, ChangelogClientsFactory, ChangelogOptions},
        options::{Connection, TransactionOptions},
    },
};

/// Longest wait for one answer about topics.
const ANSWER: Duration = Duration::from_secs(10);

/// Longest silence while the changelog is read.
const SILENCE: Duration = Duration::from_secs(30);

/// What the clients of a changelog connect with: one connection asks, one reads, one writes.
#[derive(Clone, Debug)]
pub struct ChangelogConnections {
    /// For looking at topics and making them.
    pub admin: Connection,
    /// For reading.
    pub consumer: Connection,
    /// For writing.
    pub producer: Connection,
}

impl ChangelogConnections {
    /// Makes the clients of each generation's changelog.
    #[must_use]
    pub fn clients(self, clock: Clock) -> ChangelogClientsFactory {
        Arc::new(move |options: &ChangelogOptions| {
            let (admin, id) = (self.admin.clone(), options.transactional_id());
            let transactions = TransactionOptions {
                timeout: options.transaction_timeout,
                ..TransactionOptions::new(self.producer.clone(), id)
            };
            Ok(ChangelogClients {
                topics: Box::new(RdkafkaTopics::new(admin, ANSWER, clock.clone())),
                producer: Box::new(RdkafkaTransactions::new(&transactions, clock.clone())?),
                scan: Box::new(RdkafkaScan::new(&self.consumer, SILENCE, clock.clone())?),
            })
        })
    }
}
