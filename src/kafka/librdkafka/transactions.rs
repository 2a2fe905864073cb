//! The transaction client over librdkafka.

use std::{fmt, sync::Arc, time::Duration};

use rdkafka::error::RDKafkaErrorCode;

use super::{
    native::{BatchProducer, RawReport, Refused, TransactionError},
    shared::{ToLog, batch_producer, kind_of, partition_count, sentence},
    trouble::{TroubleWatch, connection_error},
};
use crate::{
    clock::{Clock, Instant},
    kafka::{
        client::{ClientError, ErrorKind, produce::ProduceBatch, transactions::TransactionClient},
        options::{TransactionOptions, transaction_properties},
    },
};

/// The shortest time that librdkafka's calls are given: with none they do not even begin.
const MOMENT: Duration = Duration::from_millis(1);

/// How soon to ask again for the identity.
const ASK_AGAIN: Duration = Duration::from_millis(20);

/// A transactional producer, see [`TransactionClient`].
///
/// librdkafka waits for acknowledgements in its `commit_transaction`, but cannot see them: they are events that this
/// thread polls. So everything is acknowledged first, and the call finds nothing left to wait for.
pub struct RdkafkaTransactions {
    brokers: String,
    what: String,
    clock: Clock,
    producer: BatchProducer<ToLog>,
    refused: Vec<Refused>,
    connection: TroubleWatch,
    /// So many of the topics are known.
    known: usize,
    /// Begun, and `commit` was not called yet.
    open: bool,
}

impl fmt::Debug for RdkafkaTransactions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RdkafkaTransactions").field("what", &self.what).finish_non_exhaustive()
    }
}

impl RdkafkaTransactions {
    /// Makes the client. Does not wait for a broker.
    ///
    /// # Errors
    /// A property that the client does not accept.
    pub fn new(options: &TransactionOptions, clock: Clock) -> Result<Self, ClientError> {
        Ok(Self {
            brokers: options.connection.brokers.clone(),
            what: format!("the producer {:?}", options.id),
            clock,
            producer: batch_producer(&transaction_properties(options))?,
            refused: Vec::new(),
            connection: TroubleWatch::default(),
            known: 0,
            open: false,
        })
    }

    fn error(&self, code: RDKafkaErrorCode, text: &str) -> ClientError {
        // What a fatal error prevents is reported as if that were the reason.
        let (code, text) = match self.producer.client().fatal_error() {
            Some((code, text)) => (code, text),
            None => (code, text.to_owned()),
        };
        let error = sentence(code, &text, &self.what, &self.brokers);
        match error.kind {
            ErrorKind::Unavailable | ErrorKind::TimedOut => self.connection.reason_or(error),
            _ => error,
        }
    }

    /// False: not done within its time, it goes on.
    fn done(&self, outcome: Result<(), TransactionError>) -> Result<bool, ClientError> {
        match outcome {
            Ok(()) => Ok(true),
            Err(TransactionError { retriable: true, .. }) => Ok(false),
            Err(TransactionError { code, text, .. }) => Err(self.error(code, &text)),
        }
    }

    /// Gets to know the topics; whether it does. librdkafka 2.12 registers a record for a topic that it does not know with
    /// the transaction as one of partition -1, which the broker refuses again and again. And with a connection at hand
    /// `init_transactions` does not wait half a second for one.
    fn know(&mut self, topics: &[Arc<str>], deadline: Instant) -> Result<bool, ClientError> {
        while let Some(topic) = topics.get(self.known) {
            let possible = self.producer.know(topic);
            let left = (deadline - self.clock.now()).max(MOMENT);
            match partition_count(self.producer.client(), topic, left, &self.brokers) {
                Ok(Some(_)) if possible => self.known += 1,
                Ok(_) => {
                    let message = format!("topic {topic:?} does not exist on {}", self.brokers);
                    return Err(ClientError::new(ErrorKind::UnknownTopic, message));
                }
                Err(error) if matches!(error.kind, ErrorKind::TimedOut | ErrorKind::Unavailable) => return Ok(false),
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }

    /// Waits until everything is acknowledged.
    fn settle(&mut self, max_wait: Duration) -> Result<(), ClientError> {
        let deadline = self.clock.now() + max_wait;
        while self.producer.in_flight() > 0 {
            let left = deadline - self.clock.now();
            self.poll(left)?;
            if left.is_zero() {
                break;
            }
        }
        Ok(())
    }

    fn record_error(&self, topic: &str, bytes: usize, code: RDKafkaErrorCode) -> ClientError {
        use RDKafkaErrorCode as E;
        if matches!(code, E::MessageSizeTooLarge | E::InvalidMessageSize | E::MessageBatchTooLarge) {
            let message = format!(
                "a record for topic {topic:?} with {bytes} bytes of key and value is too large ({code}): raise max.message.bytes of the topic and the property message.max.bytes"
            );
            return ClientError::new(ErrorKind::TooLarge, message);
        }
        let error = self.error(code, "");
        if error.kind == ErrorKind::UnknownTopic {
            return sentence(code, "", &format!("topic {topic:?}"), &self.brokers);
        }
        error
    }
}

impl TransactionClient for RdkafkaTransactions {
    fn init(&mut self, topics: &[Arc<str>], max_wait: Duration) -> Result<bool, ClientError> {
        let deadline = self.clock.now() + max_wait;
        if !self.know(topics, deadline)? {
            return Ok(false);
        }
        loop {
            let left = deadline - self.clock.now();
            let outcome = self.producer.init_transactions(left.clamp(MOMENT, ASK_AGAIN));
            self.poll(Duration::ZERO)?;
            if self.done(outcome)? {
                return Ok(true);
            }
            let Some(topic) = topics.first().filter(|_| left > ASK_AGAIN) else { return Ok(false) };
            // While the broker ends the predecessor's transaction, it answers that it is busy. librdkafka would ask again
            // after half a second; whenever it hears about a topic, it asks at once.
            drop(partition_count(self.producer.client(), topic, left, &self.brokers));
        }
    }

    fn begin(&mut self) -> Result<(), ClientError> {
        let outcome = self.producer.begin_transaction();
        outcome.map_err(|TransactionError { code, text, .. }| self.error(code, &text))?;
        self.open = true;
        Ok(())
    }

    fn produce(&mut self, batch: &ProduceBatch, from: usize) -> Result<usize, ClientError> {
        let taken = self.producer.produce(batch, from, &mut self.refused);
        let Some(Refused { row, code }) = self.refused.drain(..).next() else {
            return Ok(taken);
        };
        let bytes = batch.rows().get(row).map_or(0, |row| {
            let (key, value, _) = batch.parts(row);
            key.map_or(0, <[u8]>::len) + value.map_or(0, <[u8]>::len)
        });
        Err(self.record_error(batch.topic(), bytes, code))
    }

    fn poll(&mut self, max_wait: Duration) -> Result<(), ClientError> {
        let mut failed = None;
        let (connection, brokers) = (&mut self.connection, &self.brokers);
        self.producer.poll(max_wait, &mut |report| match report {
            RawReport::Acked(_) => {}
            RawReport::Failed { topic, key, value, code, .. } => {
                let bytes = key.map_or(0, <[u8]>::len) + value.map_or(0, <[u8]>::len);
                failed.get_or_insert((topic, bytes, code));
            }
            RawReport::Error { code, text, .. } => {
                let kind = kind_of(code);
                tracing::debug!(target: "librdkafka", %code, text);
                if matches!(kind, ErrorKind::Unavailable | ErrorKind::Authentication)
                    && code != RDKafkaErrorCode::AllBrokersDown
                {
                    connection.connection_failed(connection_error(kind, &text, brokers));
                }
            }
        });
        if let Some((topic, bytes, code)) = failed {
            // An error of the transaction drops its records: the next call about the transaction says which.
            let outcome = self.producer.commit_transaction(MOMENT);
            let dropped = matches!(code, RDKafkaErrorCode::PurgeQueue | RDKafkaErrorCode::PurgeInflight);
            return Err(match outcome {
                Err(TransactionError { code, text, retriable: false }) if dropped => self.error(code, &text),
                _ => self.record_error(&topic, bytes, code),
            });
        }
        match self.producer.client().fatal_error() {
            Some((code, text)) => Err(self.error(code, &text)),
            None => Ok(()),
        }
    }

    fn commit(&mut self, max_wait: Duration) -> Result<bool, ClientError> {
        self.open = false;
        let deadline = self.clock.now() + max_wait;
        self.settle(max_wait)?;
        // Called even if something is left to acknowledge: it says why, if nothing ever will.
        let outcome = self.producer.commit_transaction((deadline - self.clock.now()).max(MOMENT));
        self.done(outcome)
    }

    fn close(&mut self, max_wait: Duration) {
        let deadline = self.clock.now() + max_wait;
        while std::mem::take(&mut self.open) {
            // What is on its way must come back first, in events of this thread.
            let outcome = self.producer.abort_transaction(MOMENT);
            let goes_on = matches!(&outcome, Err(error) if error.retriable);
            let left = deadline - self.clock.now();
            self.open = goes_on && !left.is_zero();
            // Failures are the reports of records that the abort has dropped.
            drop(self.poll(left.min(10 * MOMENT)));
        }
    }
}
