//! Records in, and what became of them.

use std::{
    collections::HashMap,
    ffi::{CStr, CString, c_void},
    ptr,
    sync::Arc,
    time::Duration,
};

use rdkafka::{
    bindings as rd,
    client::{Client, ClientContext},
    error::RDKafkaErrorCode,
};

use super::shared::{Event, encode_headers, millis, nullable, topic_name};
use crate::kafka::client::{
    produce::{BY_KEY, FlushId, ProduceBatch, ProduceRow},
    record::Headers,
};

/// What became of a record, or another thing that a producer has to say.
#[derive(Debug)]
pub(in crate::kafka) enum RawReport<'a> {
    /// Acknowledged by all in-sync replicas.
    Acked(FlushId),
    /// Not delivered.
    Failed {
        flush: FlushId,
        tag: u32,
        topic: String,
        key: Option<&'a [u8]>,
        value: Option<&'a [u8]>,
        headers: Vec<u8>,
        code: RDKafkaErrorCode,
    },
    /// Something is wrong with the client or a broker.
    Error { code: RDKafkaErrorCode, text: String, fatal: bool },
}

/// A producer that takes rows of a [`ProduceBatch`].
///
/// Reports come as *events* that hold all records of an answered request: the walk over them costs a few nanoseconds a
/// record. `delivery.report.only.error` with a count of what is in flight would save that too, but could not say which
/// flush an acknowledged record belongs to.
pub(in crate::kafka) struct BatchProducer<C: ClientContext + 'static> {
    events: *mut rd::rd_kafka_queue_t,
    topics: HashMap<Arc<str>, *mut rd::rd_kafka_topic_t>,
    scratch: Vec<rd::rd_kafka_message_t>,
    in_flight: usize,
    // Last: topics and queue are destroyed before it, in `Drop`.
    client: Client<C>,
}

// SAFETY: librdkafka's handles may be used from any thread; `scratch` is empty between calls.
unsafe impl<C: ClientContext + 'static> Send for BatchProducer<C> {}

impl<C: ClientContext + 'static> Drop for BatchProducer<C> {
    fn drop(&mut self) {
        // SAFETY: each handle was made here and is destroyed once, while the client still lives. The purge lets the
        // client's own destruction end without waiting for the network.
        unsafe {
            rd::rd_kafka_purge(self.client.native_ptr(), rd::RD_KAFKA_PURGE_F_QUEUE | rd::RD_KAFKA_PURGE_F_INFLIGHT);
            for topic in self.topics.values() {
                rd::rd_kafka_topic_destroy(*topic);
            }
            rd::rd_kafka_queue_destroy(self.events);
        }
    }
}

/// How many rows go to one call: their descriptions (72 bytes each) stay in the first-level cache.
const CHUNK: usize = 128;

// The flush and the tag of a record travel through librdkafka in one pointer.
const _: () = assert!(size_of::<*mut c_void>() == 8, "needs a machine with 64-bit pointers");

fn opaque(row: &ProduceRow) -> *mut c_void {
    ptr::without_provenance_mut(usize::try_from(u64::from(row.flush.0) << 32 | u64::from(row.tag)).unwrap_or(0))
}

fn flush_and_tag(opaque: *mut c_void) -> (FlushId, u32) {
    let bits = opaque.addr() as u64;
    #[expect(clippy::cast_possible_truncation, reason = "the two halves of the 64 bits")]
    (FlushId((bits >> 32) as u32), bits as u32)
}

/// A row that librdkafka refused at once.
#[derive(Debug)]
pub(in crate::kafka) struct Refused {
    pub(in crate::kafka) row: usize,
    pub(in crate::kafka) code: RDKafkaErrorCode,
}

impl<C: ClientContext + 'static> BatchProducer<C> {
    /// The kinds of events to switch on before the client is made.
    pub(in crate::kafka) fn switch_events_on(config: &rdkafka::config::NativeClientConfig) {
        // SAFETY: the configuration is alive.
        unsafe {
            rd::rd_kafka_conf_set_events(config.ptr(), rd::RD_KAFKA_EVENT_DR | rd::RD_KAFKA_EVENT_ERROR);
        }
    }

    /// A producer over a client that was made with [`BatchProducer::switch_events_on`].
    pub(in crate::kafka) fn new(client: Client<C>) -> Self {
        // SAFETY: the client is alive; the call never returns null.
        let events = unsafe { rd::rd_kafka_queue_get_main(client.native_ptr()) };
        Self { events, topics: HashMap::new(), scratch: Vec::with_capacity(CHUNK), in_flight: 0, client }
    }

    pub(in crate::kafka) const fn client(&self) -> &Client<C> {
        &self.client
    }

    pub(in crate::kafka) const fn in_flight(&self) -> usize {
        self.in_flight
    }

    /// Makes the client's handle of a topic, so that what it hears about the topic's partitions reaches it. False: no such
    /// topic can exist.
    #[must_use]
    pub(in crate::kafka) fn know(&mut self, name: &Arc<str>) -> bool {
        !self.topic(name).is_null()
    }

    fn topic(&mut self, name: &Arc<str>) -> *mut rd::rd_kafka_topic_t {
        if let Some(topic) = self.topics.get(name) {
            return *topic;
        }
        let Ok(c_name) = CString::new(&**name) else {
            return ptr::null_mut();
        };
        // SAFETY: the client is alive, the name a C string; null configuration means the client's own. Null on error.
        let topic = unsafe { rd::rd_kafka_topic_new(self.client.native_ptr(), c_name.as_ptr(), ptr::null_mut()) };
        if !topic.is_null() {
            self.topics.insert(Arc::clone(name), topic);
        }
        topic
    }

    /// Copies rows into the client's queue, in order, from row `from` until the queue is full; says how many rows were
    /// taken. Those that were refused for good are taken too and added to `refused`.
    pub(in crate::kafka) fn produce(&mut self, batch: &ProduceBatch, from: usize, refused: &mut Vec<Refused>) -> usize {
        let topic = self.topic(batch.topic());
        let mut at = from;
        while let Some(rest) = batch.rows().get(at..).filter(|rows| !rows.is_empty()) {
            if topic.is_null() {
                refused.push(Refused { row: at, code: RDKafkaErrorCode::UnknownTopic });
                at += 1;
                continue;
            }
            let plain = rest.iter().take(CHUNK).take_while(|row| is_plain(row)).count();
            let taken = if plain > 0 {
                self.produce_plain(topic, batch, (at, plain), refused)
            } else {
                self.produce_one(topic, batch, at, refused)
            };
            at += taken;
            if taken < plain.max(1) {
                break;
            }
        }
        at - from
    }

    /// Rows without headers and timestamp, by one call.
    fn produce_plain(
        &mut self,
        topic: *mut rd::rd_kafka_topic_t,
        batch: &ProduceBatch,
        (at, count): (usize, usize),
        refused: &mut Vec<Refused>,
    ) -> usize {
        self.scratch.clear();
        self.scratch.extend(batch.rows().iter().skip(at).take(count).map(|row| {
            let (key, value, _) = batch.parts(row);
            rd::rd_kafka_message_t {
                err: rd::rd_kafka_resp_err_t::RD_KAFKA_RESP_ERR_NO_ERROR,
                rkt: ptr::null_mut(),
                partition: row.partition,
                payload: start_of(value),
                len: value.map_or(0, <[u8]>::len),
                key: start_of(key),
                key_len: key.map_or(0, <[u8]>::len),
                offset: 0,
                _private: opaque(row),
            }
        }));
        // SAFETY: the topic is alive. With the COPY flag the client copies keys and values before the call returns; it
        // only reads them, though their type is `*mut`. It writes `err` of each of the `count` messages.
        unsafe {
            rd::rd_kafka_produce_batch(
                topic,
                BY_KEY,
                rd::RD_KAFKA_MSG_F_COPY | rd::RD_KAFKA_MSG_F_PARTITION,
                self.scratch.as_mut_ptr(),
                i32::try_from(self.scratch.len()).unwrap_or(0),
            );
        }
        let mut taken = 0;
        for message in self.scratch.drain(..) {
            match message.err {
                rd::rd_kafka_resp_err_t::RD_KAFKA_RESP_ERR_NO_ERROR => self.in_flight += 1,
                // Once full, the call refuses all that follow, so what was taken is a prefix.
                rd::rd_kafka_resp_err_t::RD_KAFKA_RESP_ERR__QUEUE_FULL => break,
                err => refused.push(Refused { row: at + taken, code: err.into() }),
            }
            taken += 1;
        }
        taken
    }

    /// One row with headers or timestamp, which the batch call cannot carry. 1 if it was taken.
    fn produce_one(
        &mut self,
        topic: *mut rd::rd_kafka_topic_t,
        batch: &ProduceBatch,
        at: usize,
        refused: &mut Vec<Refused>,
    ) -> usize {
        use rd::rd_kafka_vtype_t as kind;
        use rd::rd_kafka_vu_s__bindgen_ty_1 as Value;
        let Some(row) = batch.rows().get(at) else {
            return 0;
        };
        let (key, value, headers) = batch.parts(row);
        let mem = |bytes: Option<&[u8]>| Value {
            mem: rd::rd_kafka_vu_s__bindgen_ty_1__bindgen_ty_1 {
                ptr: start_of(bytes),
                size: bytes.map_or(0, <[u8]>::len),
            },
        };
        // SAFETY: the topic is alive; each argument's kind names the field of the union that was written. Key and
        // value are copied before the call returns. On success the client owns the headers, else they are freed here.
        let error = unsafe {
            let headers = decode_headers(headers);
            let arguments = [
                (kind::RD_KAFKA_VTYPE_RKT, Value { rkt: topic }),
                (kind::RD_KAFKA_VTYPE_PARTITION, Value { i32_: row.partition }),
                (kind::RD_KAFKA_VTYPE_MSGFLAGS, Value { i: rd::RD_KAFKA_MSG_F_COPY }),
                (kind::RD_KAFKA_VTYPE_KEY, mem(key)),
                (kind::RD_KAFKA_VTYPE_VALUE, mem(value)),
                (kind::RD_KAFKA_VTYPE_TIMESTAMP, Value { i64_: row.timestamp.max(0) }),
                (kind::RD_KAFKA_VTYPE_OPAQUE, Value { ptr: opaque(row) }),
                (kind::RD_KAFKA_VTYPE_HEADERS, Value { headers }),
            ]
            .map(|(vtype, u)| rd::rd_kafka_vu_t { vtype, u });
            let error = rd::rd_kafka_produceva(self.client.native_ptr(), arguments.as_ptr(), arguments.len());
            if error.is_null() {
                self.in_flight += 1;
                return 1;
            }
            rd::rd_kafka_headers_destroy(headers);
            let code = rd::rd_kafka_error_code(error);
            rd::rd_kafka_error_destroy(error);
            code
        };
        if error == rd::rd_kafka_resp_err_t::RD_KAFKA_RESP_ERR__QUEUE_FULL {
            return 0;
        }
        refused.push(Refused { row: at, code: error.into() });
        1
    }

    /// Hands over the reports that have come, waiting at most `wait` for the first.
    pub(in crate::kafka) fn poll(&mut self, wait: Duration, report: &mut impl FnMut(RawReport<'_>)) {
        let mut wait = millis(wait);
        loop {
            // SAFETY: the queue is alive, and the client outlives this call.
            let Some(event) = (unsafe { Event::next(self.events, wait) }) else {
                return;
            };
            // SAFETY: the event is alive for this pass.
            match unsafe { rd::rd_kafka_event_type(event.0) } {
                rd::RD_KAFKA_EVENT_DR => self.reports_of(&event, report),
                rd::RD_KAFKA_EVENT_ERROR => report(event.error()),
                _ => {}
            }
            wait = 0;
        }
    }

    fn reports_of(&mut self, event: &Event, report: &mut impl FnMut(RawReport<'_>)) {
        loop {
            // SAFETY: the event is alive; its messages live as long as it does, and are freed with it.
            let Some(m) = (unsafe { rd::rd_kafka_event_message_next(event.0).as_ref() }) else {
                return;
            };
            self.in_flight = self.in_flight.saturating_sub(1);
            let (flush, tag) = flush_and_tag(m._private);
            if m.err == rd::rd_kafka_resp_err_t::RD_KAFKA_RESP_ERR_NO_ERROR {
                report(RawReport::Acked(flush));
                continue;
            }
            let mut headers = Vec::new();
            // SAFETY: as above: topic, key, value and headers are the message's own.
            let (topic, key, value) = unsafe {
                encode_headers(m, &mut headers);
                (topic_name(m.rkt), nullable(m.key, m.key_len), nullable(m.payload, m.len))
            };
            report(RawReport::Failed { flush, tag, topic, key, value, headers, code: m.err.into() });
        }
    }
}

impl Event {
    fn error(&self) -> RawReport<'static> {
        // SAFETY: the event is alive; its text is null or a C string that lives as long as it does.
        unsafe {
            let text = rd::rd_kafka_event_error_string(self.0);
            let text = if text.is_null() { String::new() } else { CStr::from_ptr(text).to_string_lossy().into_owned() };
            let code = rd::rd_kafka_event_error(self.0);
            RawReport::Error { code: code.into(), text, fatal: rd::rd_kafka_event_error_is_fatal(self.0) != 0 }
        }
    }
}

/// Whether the batch call can carry a row.
const fn is_plain(row: &ProduceRow) -> bool {
    row.headers_len == 0 && row.timestamp < 0
}

/// Null for null; for bytes, even none of them, their place.
fn start_of(bytes: Option<&[u8]>) -> *mut c_void {
    bytes.map_or(ptr::null_mut(), |b| b.as_ptr().cast_mut().cast())
}

/// librdkafka's form of encoded headers.
///
/// SAFETY: the caller frees them, or gives them to a message.
unsafe fn decode_headers(encoded: &[u8]) -> *mut rd::rd_kafka_headers_t {
    // SAFETY: lengths are given with every name and value, which are copied.
    unsafe {
        let headers = rd::rd_kafka_headers_new(8);
        for (name, value) in Headers::decode(encoded) {
            rd::rd_kafka_header_add(
                headers,
                name.as_ptr().cast(),
                name.len().cast_signed(),
                start_of(value),
                value.map_or(0, <[u8]>::len).cast_signed(),
            );
        }
        headers
    }
}
