//! The client ports over librdkafka, against Apache Kafka: what they promise is so.

mod member;
mod offsets;
mod producing;
mod reading;
mod rebalance;
mod trouble;

use std::{collections::BTreeMap, time::Duration};

use libtest_mimic::Trial;
use stormglass::{
    clock::Clock,
    kafka::{
        Connection, RdkafkaSink, SinkOptions,
        client::{DeliveryReport, FlushId, SinkClient as _, TopicPartition, produce::ProduceBatch},
    },
};

use crate::broker::Broker;

const PATIENCE: Duration = Duration::from_secs(30);
const STEP: Duration = Duration::from_millis(20);

pub fn trials() -> Vec<Trial> {
    [rebalance::trials(), producing::trials(), offsets::trials(), reading::trials(), trouble::trials()]
        .into_iter()
        .flatten()
        .collect()
}

fn connection(broker: &Broker) -> Connection {
    Connection { brokers: broker.bootstrap().to_owned(), ..Connection::default() }
}

fn sink(broker: &Broker) -> RdkafkaSink {
    RdkafkaSink::new(&SinkOptions::new(connection(broker)), Clock::system()).unwrap()
}

fn partition(topic: &str, n: i32) -> TopicPartition {
    TopicPartition::new(topic, n)
}

/// Sends a batch and waits for all its reports.
fn deliver(sink: &mut RdkafkaSink, batch: &ProduceBatch) -> Vec<DeliveryReport> {
    let mut reports = Vec::new();
    let mut at = 0;
    while at < batch.len() {
        at += sink.produce(batch, at);
        sink.poll(Duration::ZERO, &mut reports).unwrap();
    }
    sink.close(PATIENCE, &mut reports).unwrap();
    assert_eq!(sink.in_flight(), 0);
    reports
}

fn acked(reports: &[DeliveryReport]) -> BTreeMap<FlushId, u64> {
    let mut counts = BTreeMap::new();
    for report in reports {
        if let DeliveryReport::Acked { flush, records } = report {
            *counts.entry(*flush).or_default() += records;
        }
    }
    counts
}
