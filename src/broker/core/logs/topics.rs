//! Which topics there are, and the rules for their names.

use kafka_protocol::{error::ResponseError, messages::TopicName, protocol::StrBytes};
use uuid::Uuid;

use super::{
    Logs,
    config::{Overrides, Settings},
    partition::Partition,
    producers::Count,
};
use crate::tuple::mix;

/// A topic.
#[derive(Debug)]
pub(in crate::broker::core) struct Topic {
    pub(super) id: Uuid,
    pub(super) overrides: Overrides,
    pub(super) settings: Settings,
    pub(super) partitions: Vec<Partition>,
}

/// Topics in which Kafka keeps what its coordinators know. Here it is in no topic, and nobody may have one of that name.
pub(super) const INTERNAL: [&str; 2] = ["__consumer_offsets", "__transaction_state"];
/// The log of Kafka's controllers, which is no topic even there.
pub(super) const CLUSTER_METADATA: &str = "__cluster_metadata";

pub(super) fn is_internal(name: &str) -> bool {
    INTERNAL.contains(&name) || name == CLUSTER_METADATA
}

/// Checks a topic's name (Kafka's `Topic.validate`); the message is for the response.
pub(super) fn check_name(name: &str) -> Result<(), String> {
    let legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    if name.is_empty() {
        Err("Topic name is invalid: the empty string is not allowed".to_owned())
    } else if name == "." || name == ".." {
        Err(format!("Topic name is invalid: '{name}' is not allowed"))
    } else if name.len() > 249 {
        Err(format!("Topic name is invalid: the length of '{name}' is longer than the max allowed length 249"))
    } else if !name.chars().all(legal) {
        Err(format!(
            "Topic name is invalid: '{name}' contains one or more characters other than ASCII alphanumerics, '.', '_' \
             and '-'"
        ))
    } else {
        Ok(())
    }
}

impl Logs {
    /// Creates a topic whose name and settings were checked.
    ///
    /// # Errors
    /// TOPIC_ALREADY_EXISTS; POLICY_VIOLATION if there would be more partitions than [`super::LogOptions`] allows.
    pub(super) fn create(
        &mut self,
        name: &TopicName,
        partitions: usize,
        overrides: Overrides,
    ) -> Result<Uuid, ResponseError> {
        if self.topics.contains_key(name) {
            return Err(ResponseError::TopicAlreadyExists);
        }
        self.check_room_for(partitions).map_err(|refusal| refusal.error)?;
        let id = self.random_id();
        let settings = Settings::new(&overrides);
        let partitions = (0..partitions).map(|_| Partition::new()).collect();
        self.topics.insert(name.clone(), Topic { id, overrides, settings, partitions });
        self.names.insert(id, name.clone());
        Ok(id)
    }

    /// Deletes a topic and everything in it; who waits for its records is told.
    pub(super) fn delete(&mut self, name: &TopicName) -> Option<Topic> {
        let topic = self.topics.remove(name)?;
        self.names.remove(&topic.id);
        self.cost -= topic.partitions.iter().map(|partition| partition.cost).sum::<usize>();
        for (index, partition) in topic.partitions.iter().enumerate() {
            self.remembered.note((topic.id, index), partition.producers.count(), Count::default());
        }
        self.changed.extend((0..).zip(&topic.partitions).map(|(index, _)| (topic.id, index)));
        Some(topic)
    }

    /// Refuses more partitions than may be added.
    pub(super) fn check_room_for(&self, more: usize) -> Result<(), Refusal> {
        let there = self.topics.values().map(|topic| topic.partitions.len()).sum::<usize>();
        let most = self.options.max_partitions;
        if more <= most.saturating_sub(there) {
            return Ok(());
        }
        let why = format!(
            "{more} more partition(s) are too many: there may be {most} in all topics together, and there are {there}. \
             Ask for fewer, or delete topics first."
        );
        Err(Refusal::new(ResponseError::PolicyViolation, why))
    }

    /// The name of the topic with an id.
    pub(super) fn name_of(&self, id: Uuid) -> Option<&TopicName> {
        self.names.get(&id)
    }

    fn random_id(&mut self) -> Uuid {
        self.created += 1;
        let high = mix(self.seed ^ mix(self.created));
        Uuid::from_u64_pair(high, mix(high))
    }
}

/// Why something about topics is refused.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Refusal {
    pub(super) error: ResponseError,
    pub(super) message: String,
}

/// Bytes of a message, at most.
const MAX_MESSAGE: usize = 1_000;

impl Refusal {
    /// A message may quote what was asked for, and older versions have no room for more than 32,767 bytes.
    pub(super) fn new(error: ResponseError, message: impl Into<String>) -> Self {
        let mut message = message.into();
        if message.len() > MAX_MESSAGE {
            message.truncate(message.floor_char_boundary(MAX_MESSAGE));
            message.push_str(" ...");
        }
        Self { error, message }
    }
}

impl From<ResponseError> for Refusal {
    fn from(error: ResponseError) -> Self {
        Self::new(error, error.to_string())
    }
}

/// A topic's name from a string.
pub(super) fn named(name: &str) -> TopicName {
    TopicName(StrBytes::from_string(name.to_owned()))
}
