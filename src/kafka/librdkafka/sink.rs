//! The sink client over librdkafka: an idempotent producer that takes batches.

use std::{sync::Arc, time::Duration};

use rdkafka::error::RDKafkaErrorCode;

use super::{
    native::{BatchProducer, RawReport, Refused},
    shared::{ToLog, batch_producer, kind_of, sentence},
    trouble::{TroubleWatch, connection_error},
    unheard::{Hearing, Unheard},
};
use crate::{
    clock::{Clock, Instant},
    kafka::{
        client::{
            ClientError, Contents, DeliveryFailure, DeliveryReport, ErrorKind, FailedRecord, FlushId, ProduceBatch,
            SinkClient, Trouble,
        },
        options::{SinkOptions, sink_properties},
    },
};

/// How long a question whether a broker is back may take.
const PROBE: Duration = Duration::from_millis(100);

/// A producer, see [`SinkClient`].
pub struct RdkafkaSink {
    brokers: String,
    clock: Clock,
    producer: BatchProducer<ToLog>,
    /// One record a request: the broker's refusal of a request is one of its record.
    alone: bool,
    /// Rows that were refused at once, for the next poll.
    refused: Vec<FailedRecord>,
    scratch: Vec<Refused>,
    topic: Option<Arc<str>>,
    connection: TroubleWatch,
    unheard: Unheard,
    /// A record was acknowledged since the last look.
    heard: bool,
}

impl std::fmt::Debug for RdkafkaSink {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RdkafkaSink").field("in_flight", &self.producer.in_flight()).finish_non_exhaustive()
    }
}

impl RdkafkaSink {
    /// Makes the client. Does not wait for a broker.
    ///
    /// # Errors
    /// A property that the client does not accept.
    pub fn new(options: &SinkOptions, clock: Clock) -> Result<Self, ClientError> {
        Ok(Self {
            brokers: options.connection.brokers.clone(),
            clock,
            producer: batch_producer(&sink_properties(options))?,
            alone: options.request_records == 1,
            refused: Vec::new(),
            scratch: Vec::new(),
            topic: None,
            connection: TroubleWatch::default(),
            unheard: Unheard::default(),
            heard: false,
        })
    }

    /// What one poll of the client gives: reports, counts of acknowledgements folded, and errors of the client itself.
    fn collect(&mut self, wait: Duration, reports: &mut Vec<DeliveryReport>) -> Vec<(RDKafkaErrorCode, String, bool)> {
        let mut errors = Vec::new();
        let mut acked = Tally::default();
        let (brokers, topic, alone) = (&self.brokers, &self.topic, self.alone);
        self.producer.poll(wait, &mut |report| match report {
            RawReport::Acked(flush) => acked.count(flush, reports),
            RawReport::Failed { flush, tag, topic: name, key, value, headers, code } => {
                let value_len = value.map_or(0, <[u8]>::len);
                let reason = match reason(code) {
                    DeliveryFailure::TooLarge if !alone => DeliveryFailure::RequestTooLarge,
                    reason => reason,
                };
                let again = reason == DeliveryFailure::RequestTooLarge;
                let shared = topic.as_ref().filter(|shared| ***shared == *name);
                let failed = FailedRecord {
                    flush,
                    tag,
                    topic: shared.map_or_else(|| Arc::from(name.as_str()), Arc::clone),
                    key: key.map(<[u8]>::to_vec),
                    value_len,
                    reason,
                    message: failure(code, &name, key.map_or(0, <[u8]>::len) + value_len, brokers),
                    contents: again.then(|| Contents { value: value.map(<[u8]>::to_vec), headers }),
                };
                reports.push(DeliveryReport::Failed(Box::new(failed)));
            }
            RawReport::Error { code, text, fatal } => errors.push((code, text, fatal)),
        });
        if acked.finish(reports) {
            self.heard = true;
            if self.connection.went_well() {
                reports.push(DeliveryReport::Recovered);
            }
        }
        errors
    }

    /// Says if nothing is acknowledged though brokers are there.
    fn listen(&mut self, now: Instant, reports: &mut Vec<DeliveryReport>) {
        let waits = self.producer.in_flight() > 0 && !self.connection.is_on();
        match self.unheard.look(waits, std::mem::take(&mut self.heard), now) {
            Some(Hearing::Nothing { since }) => reports.push(DeliveryReport::Trouble(Trouble {
                message: format!(
                    "{} acknowledges none of {} records though the connection stands: see the broker's log; it may hang, its \
                     disk may be full, or too few replicas are in sync",
                    self.brokers,
                    self.producer.in_flight()
                ),
                since,
            })),
            Some(Hearing::Again) => reports.push(DeliveryReport::Recovered),
            None => {}
        }
    }

    fn error(&mut self, code: RDKafkaErrorCode, text: &str, reports: &mut Vec<DeliveryReport>) {
        let kind = kind_of(code);
        let error = connection_error(kind, text, &self.brokers);
        let now = self.clock.now();
        let trouble = match kind {
            ErrorKind::Unavailable if code == RDKafkaErrorCode::AllBrokersDown => {
                self.connection.suspect(error, now);
                None
            }
            ErrorKind::Unavailable => {
                self.connection.connection_failed(error);
                None
            }
            ErrorKind::Authentication => {
                self.connection.connection_failed(error.clone());
                self.connection.begin(&error, now)
            }
            _ => {
                tracing::debug!(target: "librdkafka", %code, text);
                None
            }
        };
        reports.extend(trouble.map(DeliveryReport::Trouble));
    }

    /// Asks whether a broker is there.
    fn probe(&mut self, reports: &mut Vec<DeliveryReport>) {
        if self.producer.client().fetch_metadata(self.topic.as_deref(), PROBE).is_err() {
            let trouble = self.connection.probe_failed(self.clock.now());
            reports.extend(trouble.map(DeliveryReport::Trouble));
        } else if self.connection.went_well() {
            reports.push(DeliveryReport::Recovered);
        }
    }

    fn refuse(&mut self, batch: &ProduceBatch) {
        for Refused { row, code } in self.scratch.drain(..) {
            let Some(row) = batch.rows().get(row) else {
                continue;
            };
            let (key, value, _) = batch.parts(row);
            let value_len = value.map_or(0, <[u8]>::len);
            self.refused.push(FailedRecord {
                flush: row.flush,
                tag: row.tag,
                topic: Arc::clone(batch.topic()),
                key: key.map(<[u8]>::to_vec),
                value_len,
                reason: reason(code),
                message: failure(code, batch.topic(), key.map_or(0, <[u8]>::len) + value_len, &self.brokers),
                contents: None,
            });
        }
    }
}

/// Counts acknowledgements of one flush after the other: records of a flush are acknowledged mostly together.
#[derive(Default)]
struct Tally {
    flush: FlushId,
    records: u64,
    any: bool,
}

impl Tally {
    #[inline]
    fn count(&mut self, flush: FlushId, reports: &mut Vec<DeliveryReport>) {
        if flush != self.flush {
            self.put(reports);
            self.flush = flush;
        }
        self.records += 1;
    }

    fn put(&mut self, reports: &mut Vec<DeliveryReport>) {
        let records = std::mem::take(&mut self.records);
        if records > 0 {
            self.any = true;
            reports.push(DeliveryReport::Acked { flush: self.flush, records });
        }
    }

    /// Whether there was any.
    fn finish(mut self, reports: &mut Vec<DeliveryReport>) -> bool {
        self.put(reports);
        self.any
    }
}

fn reason(code: RDKafkaErrorCode) -> DeliveryFailure {
    use RDKafkaErrorCode as E;
    #[expect(clippy::wildcard_enum_match_arm, reason = "a few of librdkafka's 200 codes")]
    match code {
        E::MessageSizeTooLarge | E::InvalidMessageSize | E::MessageBatchTooLarge => DeliveryFailure::TooLarge,
        _ if kind_of(code) == ErrorKind::Authorization => DeliveryFailure::Denied,
        _ if matches!(kind_of(code), ErrorKind::Fenced | ErrorKind::UnknownTopic) => DeliveryFailure::Fatal,
        E::Fatal | E::OutOfOrderSequenceNumber | E::UnknownProducerId => DeliveryFailure::Fatal,
        _ => DeliveryFailure::GaveUp,
    }
}

fn failure(code: RDKafkaErrorCode, topic: &str, bytes: usize, brokers: &str) -> String {
    let what = format!("a record for topic {topic:?}");
    match reason(code) {
        DeliveryFailure::TooLarge | DeliveryFailure::RequestTooLarge => format!(
            "{what} with {bytes} bytes of key and value is too large ({code}): raise max.message.bytes of the topic and the property message.max.bytes"
        ),
        DeliveryFailure::GaveUp if kind_of(code) == ErrorKind::TimedOut => format!(
            "{what} was not acknowledged within delivery.timeout.ms ({code}): check that {brokers} and all in-sync replicas are up"
        ),
        DeliveryFailure::GaveUp | DeliveryFailure::Denied | DeliveryFailure::Fatal => {
            sentence(code, "", &what, brokers).message
        }
    }
}

impl SinkClient for RdkafkaSink {
    fn produce(&mut self, batch: &ProduceBatch, from: usize) -> usize {
        if self.topic.as_ref().is_none_or(|topic| !Arc::ptr_eq(topic, batch.topic())) {
            self.topic = Some(Arc::clone(batch.topic()));
        }
        let taken = self.producer.produce(batch, from, &mut self.scratch);
        if !self.scratch.is_empty() {
            self.refuse(batch);
        }
        taken
    }

    fn poll(&mut self, max_wait: Duration, reports: &mut Vec<DeliveryReport>) -> Result<(), ClientError> {
        let wait = if self.refused.is_empty() { max_wait } else { Duration::ZERO };
        reports.extend(self.refused.drain(..).map(|failed| DeliveryReport::Failed(Box::new(failed))));
        let mut dead = None;
        for (code, text, fatal) in self.collect(wait, reports) {
            if fatal {
                let (code, text) = self.producer.client().fatal_error().unwrap_or((code, text));
                dead = Some(sentence(code, &text, "the producer", &self.brokers));
            } else {
                self.error(code, &text, reports);
            }
        }
        let now = self.clock.now();
        if self.connection.probe_due(now) {
            self.probe(reports);
        }
        self.listen(now, reports);
        dead.map_or(Ok(()), Err)
    }

    fn in_flight(&self) -> usize {
        self.producer.in_flight() + self.refused.len()
    }

    /// Nothing to do: what lingers is on its way after [`SinkOptions::linger`].
    fn flush_hint(&mut self) {}

    fn close(&mut self, max_wait: Duration, reports: &mut Vec<DeliveryReport>) -> Result<(), ClientError> {
        let deadline = self.clock.now() + max_wait;
        while self.in_flight() > 0 {
            let left = deadline - self.clock.now();
            if left.is_zero() {
                let message = format!(
                    "{} records were not acknowledged by {} within {max_wait:?}",
                    self.in_flight(),
                    self.brokers
                );
                return Err(ClientError::new(ErrorKind::TimedOut, message));
            }
            self.poll(left.min(Duration::from_millis(100)), reports)?;
        }
        Ok(())
    }
}
