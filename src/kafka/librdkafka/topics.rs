//! The topics client over librdkafka.

use std::{
    fmt,
    sync::mpsc::{Receiver, RecvTimeoutError, sync_channel},
    thread,
    time::Duration,
};

use crate::{
    clock::Clock,
    kafka::{
        admin::Admin,
        client::{
            ClientError, ErrorKind,
            topics::{TopicFacts, TopicSpec, TopicsClient},
        },
        options::Connection,
    },
};

type Answer = Result<Vec<TopicFacts>, ClientError>;

/// Makes topics and looks at them, see [`TopicsClient`]. A question runs on a thread of its own, since no call of the
/// admin client can be taken up again.
pub struct RdkafkaTopics {
    connection: Connection,
    /// Longest wait for one answer of a broker.
    patience: Duration,
    clock: Clock,
    asked: Option<Receiver<Answer>>,
}

impl fmt::Debug for RdkafkaTopics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RdkafkaTopics").field("brokers", &self.connection.brokers).finish_non_exhaustive()
    }
}

impl RdkafkaTopics {
    /// A client that waits at most `patience` for each answer of a broker.
    #[must_use]
    pub const fn new(connection: Connection, patience: Duration, clock: Clock) -> Self {
        Self { connection, patience, clock, asked: None }
    }

    fn ask(&self, topics: Vec<TopicSpec>) -> Result<Receiver<Answer>, ClientError> {
        let (send, receive) = sync_channel(1);
        let (connection, patience, clock) = (self.connection.clone(), self.patience, self.clock.clone());
        let body = move || {
            let admin = Admin::new(&connection, patience, clock);
            let look = |admin: &Admin| topics.iter().map(|topic| look(admin, topic)).collect();
            // Nobody listens any more if the process is stopping.
            send.send(admin.as_ref().map_err(Clone::clone).and_then(look)).ok();
            // Here, behind the answer: an admin client takes a tenth of a second to end.
            drop(admin);
        };
        match thread::Builder::new().name("kafka-topics".to_owned()).spawn(body) {
            Ok(_) => Ok(receive),
            Err(error) => Err(ClientError::new(ErrorKind::Other, format!("cannot start a thread: {error}"))),
        }
    }
}

fn look(admin: &Admin, topic: &TopicSpec) -> Result<TopicFacts, ClientError> {
    if admin.ensure(topic)? {
        tracing::info!(topic = &*topic.name, partitions = topic.partitions, "made the topic");
    }
    let partitions = admin.partitions(&topic.name)?.ok_or_else(|| {
        let message = format!("topic {:?} was removed while it was looked at", topic.name);
        ClientError::new(ErrorKind::UnknownTopic, message)
    })?;
    Ok(TopicFacts { partitions, cleanup_policy: admin.topic_setting(&topic.name, "cleanup.policy")? })
}

impl TopicsClient for RdkafkaTopics {
    fn ensure(&mut self, topics: &[TopicSpec], max_wait: Duration) -> Result<Option<Vec<TopicFacts>>, ClientError> {
        let asked = match self.asked.take() {
            Some(asked) => asked,
            None => self.ask(topics.to_vec())?,
        };
        match asked.recv_timeout(max_wait) {
            Ok(answer) => answer.map(Some),
            Err(RecvTimeoutError::Timeout) => {
                self.asked = Some(asked);
                Ok(None)
            }
            Err(RecvTimeoutError::Disconnected) => {
                Err(ClientError::new(ErrorKind::Other, "looking at the changelog's topics has panicked"))
            }
        }
    }
}
