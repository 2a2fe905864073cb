//! Topics: make them, look at them, remove them. Every call waits, with a bound.
//!
//! Files: `lookup` (what any client may ask), `group` (a group's offsets and members), `reader` (a whole topic, once), `replay`
//! (letters written back).

pub mod group;
pub(super) mod lookup;
pub mod reader;
pub mod replay;

use std::{future::Future, time::Duration};

use rdkafka::{
    admin::{AdminClient, AdminOptions, NewTopic, ResourceSpecifier, TopicReplication},
    error::{KafkaResult, RDKafkaErrorCode},
    util::Timeout,
};

use self::lookup::Lookup;
use super::{
    client::{ClientError, ErrorKind, topics::TopicSpec},
    librdkafka::shared::{ToLog, call_error, config, creation_error, native, sentence},
    options::{Connection, admin_properties, reader_properties},
};
use crate::clock::Clock;

/// How often to look whether a topic that was made has come to be.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Asks brokers about topics and changes them.
pub struct Admin {
    client: AdminClient<ToLog>,
    runtime: tokio::runtime::Runtime,
    lookup: Lookup,
    clock: Clock,
}

impl std::fmt::Debug for Admin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Admin").field("brokers", &self.lookup.brokers()).finish_non_exhaustive()
    }
}

impl Admin {
    /// A client whose calls wait at most `max_wait` each. Does not wait for a broker itself.
    ///
    /// # Errors
    /// A property that the client does not accept.
    pub fn new(connection: &Connection, max_wait: Duration, clock: Clock) -> Result<Self, ClientError> {
        let config = config(&admin_properties(connection));
        drop(native(&config)?);
        let client = config.create_with_context(ToLog).map_err(|error| creation_error(&error))?;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build()
            .map_err(|error| ClientError::new(ErrorKind::Other, format!("cannot start a timer: {error}")))?;
        let lookup = Lookup::new(&reader_properties(connection), &connection.brokers, max_wait)?;
        Ok(Self { client, runtime, lookup, clock })
    }

    /// The number of partitions of a topic; `None` if it does not exist.
    ///
    /// # Errors
    /// No broker answers, access is denied.
    pub fn partitions(&self, topic: &str) -> Result<Option<i32>, ClientError> {
        self.lookup.partitions(topic)
    }

    /// The names of all topics, in no order.
    ///
    /// # Errors
    /// No broker answers, access is denied.
    pub fn topics(&self) -> Result<Vec<String>, ClientError> {
        self.lookup.topics()
    }

    /// Makes a topic if there is none of its name, and waits until it can be used. Says whether it was made; one that
    /// exists is left as it is.
    ///
    /// # Errors
    /// No broker answers, access is denied, the broker does not accept the name, a setting or so many copies.
    pub fn ensure(&self, topic: &TopicSpec) -> Result<bool, ClientError> {
        let TopicSpec { name: topic, partitions, replication, settings } = topic;
        if self.partitions(topic)?.is_some() {
            return Ok(false);
        }
        let copies = TopicReplication::Fixed(replication.map_or(-1, i32::from));
        let new = NewTopic::new(topic, *partitions, copies);
        let new = settings.iter().fold(new, |new, (name, value)| new.set(name, value));
        let what = format!("making topic {topic:?} with {partitions} partitions");
        let answers = self.wait(&what, self.client.create_topics([&new], &self.request()))?;
        let made = match answers.into_iter().next() {
            // Somebody else was faster.
            Some(Err((_, RDKafkaErrorCode::TopicAlreadyExists))) => false,
            Some(Err((_, code))) => return Err(sentence(code, "", &what, self.lookup.brokers())),
            Some(Ok(_)) | None => true,
        };
        self.wait_for(&what, topic, |found| found.is_some())?;
        Ok(made)
    }

    /// The same, with as many copies as the broker makes unasked.
    ///
    /// # Errors
    /// See [`Admin::ensure`].
    pub fn ensure_topic(
        &self,
        topic: &str,
        partitions: i32,
        settings: &[(&'static str, &'static str)],
    ) -> Result<bool, ClientError> {
        self.ensure(&TopicSpec { name: topic.into(), partitions, replication: None, settings: settings.to_vec() })
    }

    /// Removes a topic, and waits until it is gone. Says whether there was one.
    ///
    /// # Errors
    /// No broker answers, access is denied.
    pub fn delete_topic(&self, topic: &str) -> Result<bool, ClientError> {
        let what = format!("removing topic {topic:?}");
        let answers = self.wait(&what, self.client.delete_topics(&[topic], &self.request()))?;
        match answers.into_iter().next() {
            Some(Err((_, RDKafkaErrorCode::UnknownTopicOrPartition | RDKafkaErrorCode::UnknownTopic))) => {
                return Ok(false);
            }
            Some(Err((_, code))) => return Err(sentence(code, "", &what, self.lookup.brokers())),
            Some(Ok(_)) | None => {}
        }
        self.wait_for(&what, topic, |found| found.is_none())?;
        Ok(true)
    }

    /// The value of a topic's setting, e.g. `cleanup.policy`; `None` if the broker knows no such setting, or hides it.
    ///
    /// # Errors
    /// No such topic, no broker answers, access is denied.
    pub fn topic_setting(&self, topic: &str, name: &str) -> Result<Option<String>, ClientError> {
        let what = format!("settings of topic {topic:?}");
        let topic = ResourceSpecifier::Topic(topic);
        let answers = self.wait(&what, self.client.describe_configs([&topic], &self.request()))?;
        match answers.into_iter().next() {
            Some(Ok(found)) => {
                Ok(found.entries.into_iter().find(|entry| entry.name == name).and_then(|entry| entry.value))
            }
            Some(Err(code)) => Err(sentence(code, "", &what, self.lookup.brokers())),
            None => Ok(None),
        }
    }

    fn request(&self) -> AdminOptions {
        let wait = Some(Timeout::After(self.lookup.max_wait()));
        AdminOptions::new().request_timeout(wait).operation_timeout(wait)
    }

    fn wait<T>(&self, what: &str, answer: impl Future<Output = KafkaResult<T>>) -> Result<T, ClientError> {
        // The client's own time-out should come first; this one is for the day when it does not.
        let bound = self.lookup.max_wait() + Duration::from_secs(1);
        match self.runtime.block_on(async { tokio::time::timeout(bound, answer).await }) {
            Ok(Ok(value)) => Ok(value),
            Ok(Err(error)) => Err(self.lookup.explain(call_error(&error, what, self.lookup.brokers()))),
            Err(_) => {
                Err(self.lookup.explain(sentence(RDKafkaErrorCode::OperationTimedOut, "", what, self.lookup.brokers())))
            }
        }
    }

    fn wait_for(&self, what: &str, topic: &str, there: impl Fn(Option<i32>) -> bool) -> Result<(), ClientError> {
        let deadline = self.clock.now() + self.lookup.max_wait();
        while !there(self.partitions(topic)?) {
            if self.clock.now() >= deadline {
                return Err(sentence(RDKafkaErrorCode::OperationTimedOut, "", what, self.lookup.brokers()));
            }
            std::thread::sleep(LOOK_EVERY);
        }
        Ok(())
    }
}
