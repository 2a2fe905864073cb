//! The sink that writes a Kafka topic.
//!
//! It takes a tuple when it has its bytes; the broker's acknowledgement is counted by flush, and gates the commit.
//!
//! Files in reading order: `options`, `flights` (what is on its way), `latest` (one value a key), `one_by_one` (records that are sent again alone).

mod flights;
mod latest;
mod one_by_one;
mod options;

use std::{fmt, io::Write as _, sync::Arc, time::Duration};

use self::{flights::Flights, latest::Latest, one_by_one::OneByOne};
use super::{
    client::{
        DeliveryFailure, DeliveryReport, FailedRecord, FlushId, ProduceBatch, SinkClient, produce::ProduceRecord,
        record::push_header,
    },
    dead_letters::{DeadLetterOptions, DeadLetters, Letter, SinkFactory, component_error, delivery_error},
};
use crate::{
    clock::Instant,
    metrics::{DeadLetterReason, Metrics, ProducedMetrics},
    topology::{ComponentError, ComponentResult, InFlight, Sink, TaskContext},
    tuple::{Batch, Tuple, Value},
};

pub use options::{Emit, KafkaSinkOptions};

/// The header that holds a tuple's lineage.
pub const LINEAGE_HEADER: &str = "stormglass-lineage";

/// Rows and bytes at which a batch is offered to the client.
const OFFER_ROWS: usize = 512;
const OFFER_BYTES: usize = 1 << 20;

/// The sink of one Kafka topic.
pub struct KafkaSink {
    options: KafkaSinkOptions,
    factory: SinkFactory,
    client: Option<Box<dyn SinkClient>>,
    key: Option<usize>,
    value: usize,
    batch: ProduceBatch,
    /// How much of the batch the client has taken.
    taken: usize,
    latest: Latest,
    flights: Flights,
    letters: DeadLetters<FlushId>,
    again: OneByOne,
    reports: Vec<DeliveryReport>,
    produced: ProducedMetrics,
    key_text: Vec<u8>,
    value_text: Vec<u8>,
    headers: Vec<u8>,
    component: String,
}

impl fmt::Debug for KafkaSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KafkaSink").field("flights", &self.flights).finish_non_exhaustive()
    }
}

impl KafkaSink {
    /// A sink that makes its client when it is opened. `letters` makes clients that send one record a request: for dead
    /// letters, and for records whose request was too large.
    #[must_use]
    pub fn new(
        options: KafkaSinkOptions,
        client: SinkFactory,
        (dead_letters, letters): (DeadLetterOptions, SinkFactory),
        metrics: &Metrics,
    ) -> Self {
        Self {
            factory: client,
            client: None,
            key: None,
            value: 0,
            batch: ProduceBatch::new(Arc::clone(&options.topic)),
            taken: 0,
            latest: Latest::default(),
            flights: Flights::default(),
            again: OneByOne::new(Arc::clone(&options.topic), Arc::clone(&letters)),
            letters: DeadLetters::new(dead_letters, letters, metrics.clone()),
            reports: Vec::new(),
            produced: metrics.produced(&options.topic),
            key_text: Vec::new(),
            value_text: Vec::new(),
            headers: Vec::new(),
            component: String::new(),
            options,
        }
    }

    /// Takes one tuple; the client is offered it later.
    #[inline]
    fn take(&mut self, input: &Tuple<'_>) -> ComponentResult {
        self.key_text.clear();
        let key = self.key.map(|at| input.get(at)).filter(|key| !key.is_null());
        if let Some(key) = key {
            write_text(key, &mut self.key_text);
        }
        self.value_text.clear();
        let value = input.get(self.value);
        write_text(value, &mut self.value_text);
        let key = key.map(|_| self.key_text.as_slice());
        let value = (!value.is_null()).then_some(self.value_text.as_slice());
        let bytes = key.map_or(0, <[u8]>::len) + value.map_or(0, <[u8]>::len);
        if bytes > ProduceBatch::MAX_BYTES / 2 {
            return Err(ComponentError::permanent(format!("an output of {bytes} bytes is too large for any topic")));
        }
        if let (Emit::LatestPerKey, Some(key)) = (self.options.emit, key) {
            self.latest.put(key, value);
            if self.latest.is_large() {
                self.take_latest();
            }
            return Ok(());
        }
        self.headers.clear();
        if self.options.emit == Emit::Every {
            push_header(LINEAGE_HEADER.as_bytes(), Some(&hex(input.lineage())), &mut self.headers);
        }
        let flush = self.flights.take();
        self.batch.push(&ProduceRecord { key, value, headers: &self.headers, flush, tag: 0 });
        if self.batch.len() - self.taken >= OFFER_ROWS || self.batch.bytes().len() >= OFFER_BYTES {
            self.offer();
        }
        Ok(())
    }

    /// Makes records of the latest values.
    fn take_latest(&mut self) {
        for (key, value) in self.latest.iter() {
            let flush = self.flights.take();
            self.batch.push(&ProduceRecord { key: Some(key), value, headers: &[], flush, tag: 0 });
        }
        self.latest.clear();
    }

    /// Hands the client what it takes; the rest stays, in order. While records are sent again alone nothing new goes out: it
    /// could be an older value of the same key that comes last. (What the client had taken already may still overtake.)
    fn offer(&mut self) {
        let Some(client) = &mut self.client else { return };
        if self.taken < self.batch.len() && self.again.is_idle() {
            self.taken += client.produce(&self.batch, self.taken);
        }
        if self.taken >= self.batch.len() && !self.batch.is_empty() {
            self.produced.bytes.add(self.batch.bytes().len() as u64);
            self.batch.clear();
            self.taken = 0;
        }
    }

    fn serve(&mut self) -> ComponentResult {
        let Some(client) = &mut self.client else { return Ok(()) };
        let mut reports = std::mem::take(&mut self.reports);
        client.poll(Duration::ZERO, &mut reports).map_err(component_error)?;
        self.again.poll(&mut reports)?;
        for report in reports.drain(..) {
            match report {
                DeliveryReport::Acked { flush, records } => {
                    self.produced.acknowledged.add(records);
                    self.flights.close(flush, records);
                }
                DeliveryReport::Failed(failed) => self.failed(*failed)?,
                DeliveryReport::Trouble(trouble) => {
                    tracing::warn!(
                        topic = &*self.options.topic,
                        component = self.component,
                        "outputs wait: {}",
                        trouble.message
                    );
                }
                DeliveryReport::Recovered => tracing::info!(topic = &*self.options.topic, "outputs are written again"),
            }
        }
        self.reports = reports;
        if self.letters.in_flight() > 0 {
            let mut done = Vec::new();
            self.letters.poll(|flush| done.push(flush))?;
            done.into_iter().for_each(|flush| self.flights.close(flush, 1));
        }
        self.offer();
        Ok(())
    }

    fn failed(&mut self, failed: FailedRecord) -> ComponentResult {
        if failed.reason == DeliveryFailure::RequestTooLarge
            && let Some(contents) = failed.contents
        {
            let (key, value) = (failed.key.as_deref(), contents.value.as_deref());
            let (headers, flush) = (contents.headers.as_slice(), failed.flush);
            return self.again.send(&ProduceRecord { key, value, headers, flush, tag: 0 });
        }
        self.produced.failed.add(1);
        if failed.reason != DeliveryFailure::TooLarge {
            tracing::error!(topic = &*failed.topic, component = self.component, "{}", failed.message);
            return Err(delivery_error(failed.reason, failed.message));
        }
        let bytes = failed.value_len.to_string();
        let letter = Letter {
            key: failed.key.as_deref(),
            value: None,
            headers: &[],
            reason: DeadLetterReason::TooLarge,
            about: &[
                ("target-topic", &failed.topic),
                ("value-bytes", &bytes),
                ("error", &failed.message),
                ("component", &self.component),
            ],
        };
        self.letters.push(&letter, failed.flush);
        Ok(())
    }
}

/// Text as it is, numbers in decimal.
#[inline]
fn write_text(value: Value<'_>, out: &mut Vec<u8>) {
    match value {
        Value::Str(text) => out.extend_from_slice(text.as_bytes()),
        Value::Bytes(bytes) => out.extend_from_slice(bytes),
        // Writing into memory does not fail.
        other => write!(out, "{other}").unwrap_or_default(),
    }
}

/// 16 hexadecimal digits.
fn hex(bits: u64) -> [u8; 16] {
    let mut digits = [0; 16];
    for (place, shift) in digits.iter_mut().zip((0..16).rev()) {
        let digit = u8::try_from(bits >> (4 * shift) & 15).unwrap_or(0);
        *place = if digit < 10 { b'0' + digit } else { b'a' + digit - 10 };
    }
    digits
}

impl Sink for KafkaSink {
    fn open(&mut self, context: &TaskContext) -> ComponentResult {
        self.component = context.component.to_string();
        self.key = self.options.key.as_deref().map(|key| context.field(key)).transpose()?;
        self.value = context.field(&self.options.value)?;
        self.client = Some((self.factory)().map_err(component_error)?);
        Ok(())
    }

    fn ready(&mut self) -> bool {
        if self.taken < self.batch.len() {
            self.offer();
        }
        // What the client did not take waits here; more would only grow.
        self.batch.len() - self.taken < OFFER_ROWS && !self.letters.is_full()
    }

    fn write(&mut self, input: &Tuple<'_>) -> ComponentResult {
        self.take(input)
    }

    fn write_batch(&mut self, batch: &Batch, report: &mut dyn FnMut(ComponentResult)) {
        for tuple in batch.tuples_from(0) {
            report(self.take(&tuple));
        }
        self.offer();
    }

    fn flush(&mut self, _now: Instant) -> ComponentResult {
        self.take_latest();
        self.offer();
        if let Some(client) = &mut self.client {
            client.flush_hint();
        }
        self.flights.flush();
        self.serve()
    }

    fn poll(&mut self, _now: Instant) -> ComponentResult<InFlight> {
        self.serve()?;
        Ok(InFlight { records: self.flights.open() })
    }

    fn close(&mut self) {
        self.letters.close();
        if let Some(mut client) = self.client.take() {
            // The last commit has waited for its records; others were not to be kept.
            client.close(Duration::ZERO, &mut self.reports).ok();
        }
    }
}
