//! Topics that tests make, and an admin client.

use std::{
    hash::{BuildHasher as _, Hasher as _, RandomState},
    sync::{
        LazyLock,
        atomic::{AtomicUsize, Ordering},
    },
};

use rdkafka::{
    Offset, TopicPartitionList,
    admin::{AdminClient, AdminOptions, NewPartitions, NewTopic, TopicReplication},
    client::DefaultClientContext,
    consumer::Consumer as _,
    error::KafkaResult,
    types::RDKafkaErrorCode,
};

use super::{Broker, Isolation, PATIENCE, eventually};

impl Broker {
    /// A name for a topic or group that no other test has, in this run or an earlier one against the same broker.
    pub fn unique(&self, name: &str) -> String {
        static RUN: LazyLock<u64> = LazyLock::new(|| RandomState::new().build_hasher().finish());
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        format!("{name}-{:x}-{}", *RUN, COUNT.fetch_add(1, Ordering::Relaxed))
    }

    /// Makes a topic, e.g. `topic("counts", 4, &[("cleanup.policy", "compact")])`, and returns its unique name.
    pub fn topic(&self, name: &str, partitions: i32, config: &[(&str, &str)]) -> String {
        let name = self.unique(name);
        self.make_topic(&name, partitions, config);
        name
    }

    /// Makes a topic of this name.
    pub fn make_topic(&self, name: &str, partitions: i32, config: &[(&str, &str)]) {
        let topic =
            config.iter().fold(NewTopic::new(name, partitions, TopicReplication::Fixed(1)), |topic, (key, value)| {
                topic.set(key, value)
            });
        let results = self.administer(async |admin, options| admin.create_topics([&topic], options).await);
        for result in results {
            result.unwrap_or_else(|(name, error)| panic!("topic {name}: {error}"));
        }
        // The answer comes before every client can see the topic.
        eventually("the new topic has leaders", || self.partitions(name).is_some_and(|n| n == partitions));
    }

    /// Gives a topic more partitions, so that there are this many.
    pub fn grow(&self, topic: &str, partitions: usize) -> Result<(), RDKafkaErrorCode> {
        let wanted = NewPartitions::new(topic, partitions);
        let results = self.administer(async |admin, options| admin.create_partitions([&wanted], options).await);
        results.into_iter().try_for_each(|result| result.map(drop).map_err(|(_, code)| code))
    }

    pub fn delete_topic(&self, name: &str) {
        let results = self.administer(async |admin, options| admin.delete_topics(&[name], options).await);
        for result in results {
            result.unwrap_or_else(|(name, error)| panic!("topic {name}: {error}"));
        }
        eventually("the topic is gone", || self.partitions(name).is_none());
    }

    /// Deletes the records of a partition below `low`, as retention does in time.
    pub fn delete_records(&self, topic: &str, partition: i32, low: i64) {
        let mut list = TopicPartitionList::new();
        list.add_partition_offset(topic, partition, Offset::Offset(low)).expect("a valid offset");
        let done = self.administer(async |admin, options| admin.delete_records(&list, options).await);
        done.elements().iter().for_each(|element| element.error().expect("the records are deleted"));
    }

    /// Calls an admin client.
    pub fn administer<T>(
        &self,
        call: impl AsyncFnOnce(&AdminClient<DefaultClientContext>, &AdminOptions) -> KafkaResult<T>,
    ) -> T {
        let admin: AdminClient<_> = self.client().create().expect("an admin client");
        let options = AdminOptions::new().operation_timeout(Some(PATIENCE)).request_timeout(Some(PATIENCE));
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        runtime.block_on(call(&admin, &options)).expect("the broker answers")
    }

    pub(super) fn partitions(&self, topic: &str) -> Option<i32> {
        let client = self.consumer(Isolation::ReadCommitted);
        let metadata = client.fetch_metadata(Some(topic), PATIENCE).ok()?;
        let partitions = metadata.topics().first().filter(|topic| topic.error().is_none())?.partitions();
        partitions
            .iter()
            .all(|p| p.error().is_none() && p.leader() >= 0)
            .then(|| i32::try_from(partitions.len()).ok())?
    }
}
