//! The sink port: an idempotent producer.

use std::{sync::Arc, time::Duration};

use kafka_protocol::{
    error::ResponseError as E,
    messages::{InitProducerIdRequest, ProducerId, ResponseKind},
};

use super::{
    INIT_PRODUCER_ID, LATER, PATIENCE,
    outbox::{Delivery, Outbox, OutboxOptions},
};
use crate::{
    chaos::{
        host::Host,
        link::{Call, Heard},
    },
    clock::Instant,
    kafka::{
        SinkOptions,
        client::{
            ClientError, Contents, DeliveryFailure, DeliveryReport, ErrorKind, FailedRecord, ProduceBatch, SinkClient,
            produce::ProduceRow,
        },
    },
};

/// A producer, see [`SinkClient`].
#[derive(Debug)]
pub struct SimSink {
    host: Host,
    outbox: Outbox,
    /// One record a request: the broker's refusal of a request is one of its record.
    alone: bool,
    asking: Option<Call>,
    ask_at: Instant,
    deliveries: Vec<Delivery>,
}

impl SimSink {
    /// A producer that asks for its identity when it is polled.
    #[must_use]
    pub fn new(options: &SinkOptions, epoch_ms: i64, host: Host) -> Self {
        let outbox = OutboxOptions {
            request_records: options.request_records as usize,
            queue_records: options.queue_records as usize,
            delivery_timeout: options.delivery_timeout,
            epoch_ms,
            transactional_id: None,
        };
        Self {
            outbox: Outbox::new(host.clone(), outbox),
            alone: options.request_records == 1,
            asking: None,
            ask_at: Instant::ZERO,
            deliveries: Vec::new(),
            host,
        }
    }

    fn identify(&mut self, now: Instant) {
        if let Some(call) = self.asking.take() {
            match self.outbox.link.hear(call) {
                Heard::Nothing => self.asking = Some(call),
                Heard::Answer(ResponseKind::InitProducerId(answer)) if answer.error_code == 0 => {
                    self.outbox.identity = Some((answer.producer_id.0, answer.producer_epoch));
                }
                Heard::Answer(_) | Heard::Lost => self.ask_at = now + LATER,
            }
        } else if self.outbox.identity.is_none() && now >= self.ask_at && self.outbox.link.is_ready() {
            let request = InitProducerIdRequest::default()
                .with_transactional_id(None)
                .with_transaction_timeout_ms(i32::MAX)
                .with_producer_id(ProducerId(-1))
                .with_producer_epoch(-1);
            self.asking = Some(self.outbox.link.ask(INIT_PRODUCER_ID, request.into(), PATIENCE));
        }
    }

    fn report(&self, delivery: Delivery, reports: &mut Vec<DeliveryReport>) {
        match delivery {
            Delivery::Acked(counts) => {
                let acked = |(flush, count)| DeliveryReport::Acked { flush, records: count as u64 };
                reports.extend(counts.into_iter().map(acked));
            }
            Delivery::Failed(records, code) => {
                reports.extend(records.rows().iter().map(|row| self.failed(&records, row, &code)));
            }
        }
    }

    fn failed(&self, records: &ProduceBatch, row: &ProduceRow, code: &E) -> DeliveryReport {
        let (topic, reason) = (records.topic(), reason(code, self.alone));
        let (key, value, headers) = records.parts(row);
        let contents = (reason == DeliveryFailure::RequestTooLarge)
            .then(|| Contents { value: value.map(<[u8]>::to_vec), headers: headers.to_vec() });
        DeliveryReport::Failed(Box::new(FailedRecord {
            flush: row.flush,
            tag: row.tag,
            topic: Arc::clone(topic),
            key: key.map(<[u8]>::to_vec),
            value_len: value.map_or(0, <[u8]>::len),
            reason,
            message: format!("a record for topic {topic:?} was not delivered: {code:?}"),
            contents,
        }))
    }
}

fn reason(code: &E, alone: bool) -> DeliveryFailure {
    #[expect(clippy::wildcard_enum_match_arm, reason = "a few of Kafka's 130 codes")]
    match code {
        E::MessageTooLarge | E::RecordListTooLarge if alone => DeliveryFailure::TooLarge,
        E::MessageTooLarge | E::RecordListTooLarge => DeliveryFailure::RequestTooLarge,
        E::RequestTimedOut => DeliveryFailure::GaveUp,
        _ => DeliveryFailure::Fatal,
    }
}

impl SinkClient for SimSink {
    fn produce(&mut self, batch: &ProduceBatch, from: usize) -> usize {
        // What the dead take goes nowhere.
        if self.host.call().is_ok() { self.outbox.take(batch, from) } else { 0 }
    }

    fn poll(&mut self, _: Duration, reports: &mut Vec<DeliveryReport>) -> Result<(), ClientError> {
        self.host.call()?;
        let now = self.host.now();
        self.identify(now);
        let mut deliveries = std::mem::take(&mut self.deliveries);
        self.outbox.turn(now, &mut deliveries);
        deliveries.drain(..).for_each(|delivery| self.report(delivery, reports));
        self.deliveries = deliveries;
        Ok(())
    }

    fn in_flight(&self) -> usize {
        self.outbox.in_flight()
    }

    fn flush_hint(&mut self) {}

    fn close(&mut self, _: Duration, reports: &mut Vec<DeliveryReport>) -> Result<(), ClientError> {
        self.poll(Duration::ZERO, reports)?;
        let left = self.in_flight();
        self.outbox.close();
        if left == 0 {
            return Ok(());
        }
        Err(ClientError::new(ErrorKind::TimedOut, format!("{left} records were not acknowledged")))
    }
}
