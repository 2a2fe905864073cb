//! What any client may ask: how many partitions a topic has, and where they begin and end. And why nobody answers.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use rdkafka::{
    consumer::{BaseConsumer, Consumer},
    error::RDKafkaErrorCode,
};

use crate::kafka::{
    client::{ClientError, ErrorKind, TopicPartition, Watermarks},
    librdkafka::{
        offsets,
        shared::{Context, Happening, config, creation_error, kind_of, metadata, native, partition_count},
        trouble::connection_error,
    },
    options::Properties,
};

/// How long a broker may take to answer before it is said that it is waited for.
const BEFORE_IT_IS_SAID: Duration = Duration::from_secs(2);

/// A consumer that asks and remembers why the last connection failed: the answer to a call does not say it. (Nor does an
/// admin client of the wrapper, whose errors nobody hears.)
pub(in crate::kafka) struct Lookup {
    consumer: Arc<BaseConsumer<Context>>,
    brokers: String,
    max_wait: Duration,
    /// Why the last connection failed, since the last answer.
    heard: Mutex<Option<ClientError>>,
}

impl Lookup {
    /// A client whose calls wait at most `max_wait` each. Does not wait for a broker itself.
    ///
    /// # Errors
    /// A property that the client does not accept.
    pub(in crate::kafka) fn new(
        properties: &Properties,
        brokers: &str,
        max_wait: Duration,
    ) -> Result<Self, ClientError> {
        let config = config(properties);
        drop(native(&config)?);
        let consumer = config.create_with_context(Context::default()).map_err(|error| creation_error(&error))?;
        Ok(Self { consumer: Arc::new(consumer), brokers: brokers.to_owned(), max_wait, heard: Mutex::default() })
    }

    pub(in crate::kafka) const fn consumer(&self) -> &Arc<BaseConsumer<Context>> {
        &self.consumer
    }

    pub(in crate::kafka) fn brokers(&self) -> &str {
        &self.brokers
    }

    /// The longest wait of a call.
    pub(in crate::kafka) const fn max_wait(&self) -> Duration {
        self.max_wait
    }

    /// The number of partitions of a topic; `None` if it does not exist.
    pub(in crate::kafka) fn partitions(&self, topic: &str) -> Result<Option<i32>, ClientError> {
        self.patiently(|max_wait| partition_count(self.consumer.client(), topic, max_wait, &self.brokers))
    }

    /// The same, with a longest wait of its own.
    pub(in crate::kafka) fn partitions_within(
        &self,
        topic: &str,
        max_wait: Duration,
    ) -> Result<Option<i32>, ClientError> {
        self.answer(partition_count(self.consumer.client(), topic, max_wait, &self.brokers))
    }

    /// The names of all topics.
    pub(in crate::kafka) fn topics(&self) -> Result<Vec<String>, ClientError> {
        let found = self.patiently(|max_wait| metadata(self.consumer.client(), None, max_wait, &self.brokers))?;
        Ok(found.topics().iter().map(|topic| topic.name().to_owned()).collect())
    }

    /// Oldest record and end of every partition of a topic that must exist, in the order of the partitions.
    pub(in crate::kafka) fn watermarks(&self, topic: &str) -> Result<Vec<Watermarks>, ClientError> {
        let count = self.partitions(topic)?.ok_or_else(|| {
            let message =
                format!("topic {topic:?} does not exist on {}: make the topic, or mend its name", self.brokers);
            ClientError::new(ErrorKind::UnknownTopic, message)
        })?;
        let name: Arc<str> = topic.into();
        let ends = |n| {
            let partition = TopicPartition { topic: Arc::clone(&name), partition: n };
            offsets::watermarks(&self.consumer, partition, self.max_wait, &self.brokers)
        };
        self.answer((0..count).map(ends).collect())
    }

    /// Asks for as long as a call may wait, and says meanwhile that nobody answers. What no waiting mends ends it at once.
    pub(super) fn patiently<T>(&self, ask: impl Fn(Duration) -> Result<T, ClientError>) -> Result<T, ClientError> {
        let rest = self.max_wait.saturating_sub(BEFORE_IT_IS_SAID);
        let first = self.answer(ask(self.max_wait - rest));
        match first {
            Err(error) if !rest.is_zero() && matches!(error.kind, ErrorKind::Unavailable | ErrorKind::TimedOut) => {
                tracing::warn!(%error, seconds = rest.as_secs(), "waiting for Kafka");
                self.answer(ask(rest))
            }
            answer => answer,
        }
    }

    /// `answer` of a call, or why there is none.
    pub(in crate::kafka) fn answer<T>(&self, answer: Result<T, ClientError>) -> Result<T, ClientError> {
        if answer.is_ok() {
            self.hear();
            *self.heard.lock().unwrap_or_else(PoisonError::into_inner) = None;
        }
        answer.map_err(|error| self.explain(error))
    }

    /// `error`, or what was heard about the connection if that is why a call failed.
    pub(in crate::kafka) fn explain(&self, error: ClientError) -> ClientError {
        self.hear();
        let heard = self.heard.lock().unwrap_or_else(PoisonError::into_inner).clone();
        match (error.kind, heard) {
            // Another of the brokers may still come.
            (ErrorKind::Unavailable | ErrorKind::TimedOut, Some(heard)) if self.brokers.contains(',') => {
                ClientError::new(error.kind, heard.message)
            }
            (ErrorKind::Unavailable | ErrorKind::TimedOut | ErrorKind::Other, Some(heard)) => heard,
            _ => error,
        }
    }

    /// Serves the client's own events: remembers why a connection failed.
    pub(in crate::kafka) fn hear(&self) {
        loop {
            drop(self.consumer.poll(Duration::ZERO));
            let happenings = self.consumer.context().take();
            if happenings.is_empty() {
                return;
            }
            for happening in happenings {
                self.remember(happening);
            }
        }
    }

    fn remember(&self, happening: Happening) {
        let Happening::Error(code, text) = happening else { return };
        let kind = kind_of(code);
        // "All brokers are down" says less than the failure before it.
        if matches!(kind, ErrorKind::Unavailable | ErrorKind::Authentication)
            && code != RDKafkaErrorCode::AllBrokersDown
        {
            let error = connection_error(kind, &text, &self.brokers);
            *self.heard.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
        }
    }
}
