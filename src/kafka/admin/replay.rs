//! Records written back to a topic, and how far that has come, in one transaction: a crash leaves both or neither.

use std::{
    sync::{Mutex, PoisonError},
    time::Duration,
};

use rdkafka::{
    ClientContext,
    config::RDKafkaLogLevel,
    error::{KafkaError, RDKafkaErrorCode},
    message::{DeliveryResult, Header, OwnedHeaders},
    producer::{BaseProducer, BaseRecord, Producer, ProducerContext},
};

use super::group::{GroupAdmin, Move};
use crate::kafka::{
    client::{ClientError, record::Headers},
    librdkafka::shared::{call_error, config, creation_error, log_line, native, sentence},
    options::{Connection, SinkOptions, transactional_properties},
};

/// A record to write.
#[derive(Copy, Clone, Debug)]
pub struct ReplayRecord<'a> {
    /// The topic, which must exist.
    pub topic: &'a str,
    /// The partition, which must exist; `None`: by the key.
    pub partition: Option<i32>,
    /// The key; `None` is null.
    pub key: Option<&'a [u8]>,
    /// The value; `None` is null.
    pub value: Option<&'a [u8]>,
    /// Headers, encoded by [`push_header`](crate::kafka::client::record::push_header).
    pub headers: &'a [u8],
}

/// Writes records, and commits offsets with them.
pub struct Replayer {
    producer: BaseProducer<Refused>,
    offsets: GroupAdmin,
    brokers: String,
    max_wait: Duration,
}

impl std::fmt::Debug for Replayer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Replayer").field("offsets", &self.offsets).finish_non_exhaustive()
    }
}

/// Why the broker did not take a record: the first one.
#[derive(Debug, Default)]
struct Refused(Mutex<Option<(KafkaError, String)>>);

impl ClientContext for Refused {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, message: &str) {
        log_line(level, facility, message);
    }

    fn stats_raw(&self, _: &[u8]) {}

    fn error(&self, error: KafkaError, reason: &str) {
        tracing::debug!(target: "librdkafka", %error, reason, "a client's own trouble");
    }
}

impl ProducerContext for Refused {
    type DeliveryOpaque = ();

    fn delivery(&self, result: &DeliveryResult<'_>, (): ()) {
        use rdkafka::Message as _;
        if let Err((error, message)) = result {
            let topic = message.topic().to_owned();
            self.0.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert_with(|| (error.clone(), topic));
        }
    }
}

impl Replayer {
    /// A writer under `name`, its `transactional.id`: whoever had the name before can write no more, and what it had not
    /// finished is undone. Offsets are committed for the group of `offsets`. Each call waits at most `max_wait`.
    ///
    /// # Errors
    /// A property that the client does not accept, no broker answers, access is denied.
    pub fn new(
        connection: &Connection,
        name: &str,
        offsets: GroupAdmin,
        max_wait: Duration,
    ) -> Result<Self, ClientError> {
        let options = SinkOptions { delivery_timeout: max_wait, ..SinkOptions::new(connection.clone()) };
        let config = config(&transactional_properties(&options, name));
        drop(native(&config)?);
        let producer: BaseProducer<Refused> =
            config.create_with_context(Refused::default()).map_err(|error| creation_error(&error))?;
        let replayer = Self { producer, offsets, brokers: connection.brokers.clone(), max_wait };
        let begun = replayer.producer.init_transactions(max_wait);
        begun.map_err(|error| replayer.failed(&error, "taking the place of an earlier replay"))?;
        Ok(replayer)
    }

    /// Writes records and commits offsets, all or nothing.
    ///
    /// # Errors
    /// A record was refused, another replay has taken this one's place, no broker answers: nothing was written.
    pub fn write<'a>(
        &self,
        records: impl IntoIterator<Item = ReplayRecord<'a>>,
        moves: &[Move],
    ) -> Result<(), ClientError> {
        let begun = self.producer.begin_transaction();
        begun.map_err(|error| self.failed(&error, "beginning a transaction"))?;
        let done = self.within(records, moves);
        if done.is_err()
            && let Err(error) = self.producer.abort_transaction(self.max_wait)
        {
            tracing::debug!(%error, "the transaction is left for the broker to abort");
        }
        done
    }

    fn within<'a>(
        &self,
        records: impl IntoIterator<Item = ReplayRecord<'a>>,
        moves: &[Move],
    ) -> Result<(), ClientError> {
        for record in records {
            self.send(record)?;
        }
        let flushed = self.producer.flush(self.max_wait);
        let refused = self.producer.context().0.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some((error, topic)) = refused {
            return Err(self.failed(&error, &format!("writing to topic {topic:?}")));
        }
        flushed.map_err(|error| self.failed(&error, "writing"))?;
        let (moves, group) = (self.offsets.moves(moves)?, self.offsets.metadata()?);
        let kept = self.producer.send_offsets_to_transaction(&moves, &group, self.max_wait);
        kept.map_err(|error| self.failed(&error, "keeping what was replayed"))?;
        let committed = self.producer.commit_transaction(self.max_wait);
        committed.map_err(|error| self.failed(&error, "committing what was written"))
    }

    fn send(&self, record: ReplayRecord<'_>) -> Result<(), ClientError> {
        let text = |name| String::from_utf8_lossy(name).into_owned();
        let headers = Headers::decode(record.headers)
            .fold(OwnedHeaders::new(), |headers, (key, value)| headers.insert(Header { key: &text(key), value }));
        let mut next = BaseRecord::<[u8], [u8]>::to(record.topic).headers(headers);
        (next.key, next.payload, next.partition) = (record.key, record.value, record.partition);
        while let Err((error, refused)) = self.producer.send(next) {
            if error.rdkafka_error_code() != Some(RDKafkaErrorCode::QueueFull) {
                return Err(self.failed(&error, &format!("writing to topic {:?}", record.topic)));
            }
            self.producer.poll(Duration::from_millis(10));
            next = refused;
        }
        Ok(())
    }

    fn failed(&self, error: &KafkaError, what: &str) -> ClientError {
        // What is wrong for good says more than the call that failed over it.
        match self.producer.client().fatal_error() {
            Some((code, text)) => sentence(code, &text, what, &self.brokers),
            None => call_error(error, what, &self.brokers),
        }
    }
}
