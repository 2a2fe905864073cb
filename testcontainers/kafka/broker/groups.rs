//! What a group has committed, and what it is at.

use rdkafka::{
    TopicPartitionList,
    consumer::{BaseConsumer, Consumer as _},
    error::KafkaError,
    types::RDKafkaErrorCode,
};

use super::{Broker, PATIENCE, eventually};

impl Broker {
    /// The offset that a group has committed, per partition.
    pub fn committed(&self, group: &str, topic: &str) -> Vec<Option<i64>> {
        let consumer: BaseConsumer = self.client().set("group.id", group).create().expect("a consumer");
        let mut wanted = TopicPartitionList::new();
        let partitions = self.partitions(topic).unwrap_or_else(|| panic!("no topic {topic}"));
        wanted.add_partition_range(topic, 0, partitions - 1);
        let mut found = TopicPartitionList::new();
        // A broker that has just started does not know at once which groups are its own.
        eventually("the group's coordinator answers", || match consumer.committed_offsets(wanted.clone(), PATIENCE) {
            Ok(offsets) => {
                found = offsets;
                true
            }
            Err(KafkaError::MetadataFetch(
                RDKafkaErrorCode::NotCoordinator
                | RDKafkaErrorCode::CoordinatorLoadInProgress
                | RDKafkaErrorCode::CoordinatorNotAvailable,
            )) => false,
            Err(error) => panic!("the offsets of group {group}: {error}"),
        });
        found.elements().iter().map(|element| element.offset().to_raw().filter(|raw| *raw >= 0)).collect()
    }

    /// What a group is at, as its coordinator calls it: `Stable`, `PreparingRebalance`. Kafka's own tool takes seconds for it.
    pub fn group_state(&self, group: &str) -> String {
        let consumer: BaseConsumer = self.client().create().expect("a consumer");
        let found = consumer.fetch_group_list(Some(group), PATIENCE).expect("the coordinator answers");
        found.groups().first().map(|found| found.state().to_owned()).unwrap_or_default()
    }

    /// `LAG` of each partition, as Kafka's own tool sees it.
    pub fn lags(&self, group: &str, topic: &str) -> Vec<String> {
        let described = self.tool("kafka-consumer-groups", &["--describe", "--group", group]);
        let rows = described.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
        // GROUP TOPIC PARTITION CURRENT-OFFSET LOG-END-OFFSET LAG ...
        rows.filter(|row| row.get(1) == Some(&topic)).map(|row| row[5].to_owned()).collect()
    }
}
