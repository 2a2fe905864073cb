//! The topics of a changelog: how they are made, and what they must be.

use std::sync::Arc;

use super::options::ChangelogOptions;
use crate::{
    kafka::client::topics::{TopicFacts, TopicSpec},
    state::{FormatRecord, RESET},
    topology::{ComponentError, ComponentResult, changelog::StoreFormat},
};

/// How a topic is made. Kafka compacts only segments that are full, and its default of 1 GiB would have a restart read up
/// to 64 GiB of 64 key groups; a tenth of a log that is not compacted yet is enough to compact it.
const SETTINGS: [(&str, &str); 3] =
    [("cleanup.policy", "compact"), ("segment.bytes", "8388608"), ("min.cleanable.dirty.ratio", "0.1")];

/// The longest name that a topic may have.
const LONGEST_NAME: usize = 249;

/// The topics of all stores, in the order of the stores.
#[derive(Debug)]
pub(super) struct Topics {
    names: Vec<Arc<str>>,
    specs: Vec<TopicSpec>,
    formats: Vec<FormatRecord>,
}

impl Topics {
    /// The topics that these stores have.
    ///
    /// # Errors
    /// A name that no topic can have.
    pub(super) fn new(options: &ChangelogOptions, stores: &[StoreFormat]) -> ComponentResult<Self> {
        let mut topics = Self { names: Vec::new(), specs: Vec::new(), formats: Vec::new() };
        for store in stores {
            let name: Arc<str> = named(options.topic(&store.component, &store.store))?.into();
            topics.specs.push(TopicSpec {
                name: Arc::clone(&name),
                partitions: i32::from(store.key_groups),
                replication: options.replication,
                settings: SETTINGS.to_vec(),
            });
            topics.names.push(name);
            topics.formats.push(FormatRecord {
                app: options.app.clone(),
                component: store.component.clone(),
                store: store.store.clone(),
                key: store.key.clone(),
                value: store.value.clone(),
                key_groups: store.key_groups,
            });
        }
        Ok(topics)
    }

    pub(super) fn names(&self) -> &[Arc<str>] {
        &self.names
    }

    pub(super) fn specs(&self) -> &[TopicSpec] {
        &self.specs
    }

    /// What the format record of each topic must say.
    pub(super) fn formats(&self) -> &[FormatRecord] {
        &self.formats
    }

    /// Whether topics that were found can be used.
    ///
    /// # Errors
    /// The first that cannot: what is wrong with it, and what to do.
    pub(super) fn check(&self, facts: &[TopicFacts], brokers: &str) -> ComponentResult {
        self.specs.iter().zip(facts).try_for_each(|(spec, facts)| check(spec, facts, brokers))
    }
}

fn named(name: String) -> ComponentResult<String> {
    let possible = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    if name.len() <= LONGEST_NAME && name.chars().all(possible) {
        return Ok(name);
    }
    Err(ComponentError::refused(format!(
        "a store's changelog would be the topic {name:?}, which Kafka does not take: names have at most {LONGEST_NAME} \
         letters (a-z, A-Z), digits, dots, underscores and hyphens. Choose another group, or another name for the \
         component or the store"
    )))
}

fn check(spec: &TopicSpec, facts: &TopicFacts, brokers: &str) -> ComponentResult {
    let TopicSpec { name, partitions, .. } = spec;
    if facts.partitions != *partitions {
        return Err(ComponentError::refused(format!(
            "the changelog topic {name:?} has {} partitions, but its store has {partitions} key groups, one for each: \
             their number is fixed for the life of a state. Go back to {} key groups; or, if partitions were added to the \
             topic, start anew: {RESET}",
            facts.partitions, facts.partitions
        )));
    }
    match facts.cleanup_policy.as_deref() {
        None | Some("compact") => Ok(()),
        Some(policy) => Err(ComponentError::refused(format!(
            "the changelog topic {name:?} has cleanup.policy={policy}, so that its entries are deleted when they are old: \
             set it back with `kafka-configs --bootstrap-server {brokers} --alter --entity-type topics --entity-name {name} \
             --add-config cleanup.policy=compact`"
        ))),
    }
}
