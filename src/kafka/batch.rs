//! The one file with `unsafe` code: librdkafka's batch calls, which the safe wrapper does not have and which cost a
//! half to a third of the calls that it has.
//!
//! Three small values: [`RecordQueue`] takes records off partitions, [`BatchProducer`] gives records and gets their
//! reports, and [`committed_metadata`] reads text that the wrapper would panic on. Everything else of the client goes
//! through the safe wrapper.
//!
//! Why `rd_kafka_consume_callback_queue` and not `rd_kafka_consume_batch_queue`: the batch call of librdkafka 2.12
//! counts an end-of-partition event as a consumed record (fixed in 2.13.2, #4844), so that a partition that is paused
//! at its end would skip its next record; it waits until its array is full; and it locks the queue for each record.
//! The callback call has none of the three and is as fast.
#![allow(unsafe_code, reason = "the one audited file: the safe wrapper has no batch calls")]

use std::{
    any::Any,
    collections::HashMap,
    ffi::{CStr, CString, c_char, c_void},
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    ptr, slice,
    sync::Arc,
    time::Duration,
};

use rdkafka::{
    bindings as rd,
    client::{Client, ClientContext},
    consumer::{BaseConsumer, Consumer, ConsumerContext},
    error::RDKafkaErrorCode,
    topic_partition_list::TopicPartitionList,
};

use super::{
    produce::{BY_KEY, FlushId, ProduceBatch, ProduceRow},
    record::{Headers, NO_TIMESTAMP, push_header},
};

/// A record, or what stands in its place, as librdkafka hands it over; borrowed for one call.
#[derive(Debug)]
pub(super) struct RawRecord<'a> {
    /// Equal for records of one topic while its partitions stay assigned.
    pub(super) topic_id: usize,
    pub(super) partition: i32,
    /// The record's offset; for the end of a partition the next one.
    pub(super) offset: i64,
    pub(super) timestamp: i64,
    pub(super) key: Option<&'a [u8]>,
    pub(super) value: Option<&'a [u8]>,
    /// Headers as encoded by [`push_header`].
    pub(super) headers: &'a [u8],
    /// `None`: a record. Otherwise `value` is librdkafka's text about the error.
    pub(super) error: Option<RDKafkaErrorCode>,
    rkt: *const rd::rd_kafka_topic_t,
}

impl RawRecord<'_> {
    /// The topic's name.
    pub(super) fn topic(&self) -> String {
        // SAFETY: `rkt` is the topic of a message that is alive for the call that borrows `self`, or null.
        unsafe { topic_name(self.rkt) }
    }
}

/// SAFETY: `rkt` is a live topic handle or null.
unsafe fn topic_name(rkt: *const rd::rd_kafka_topic_t) -> String {
    if rkt.is_null() {
        return String::new();
    }
    // SAFETY: a live topic has a name, a C string that lives as long as the topic.
    unsafe { CStr::from_ptr(rd::rd_kafka_topic_name(rkt)) }.to_string_lossy().into_owned()
}

/// Milliseconds for librdkafka; a part of one counts as one, so that a short wait is no busy loop.
fn millis(wait: Duration) -> i32 {
    i32::try_from(wait.as_micros().div_ceil(1000)).unwrap_or(i32::MAX)
}

/// A queue of its own that partitions of a consumer are forwarded to. The consumer's own queue then holds only events,
/// and is polled by the safe wrapper.
pub(super) struct RecordQueue<C: ConsumerContext + 'static> {
    queue: *mut rd::rd_kafka_queue_t,
    headers: Vec<u8>,
    // After `queue`: the queue is destroyed first, in `Drop`.
    consumer: Arc<BaseConsumer<C>>,
}

// SAFETY: librdkafka's handles may be used from any thread; `&mut self` on `consume` keeps it to one at a time.
unsafe impl<C: ConsumerContext + 'static> Send for RecordQueue<C> {}

impl<C: ConsumerContext + 'static> Drop for RecordQueue<C> {
    fn drop(&mut self) {
        // SAFETY: made in `new`, destroyed once, while `consumer` still lives.
        unsafe { rd::rd_kafka_queue_destroy(self.queue) }
    }
}

/// What the callback below gets: the caller's closure, how many records more it may get, and a panic to carry over C.
struct Callback<'a, F> {
    client: *mut rd::rd_kafka_t,
    deliver: &'a mut F,
    headers: &'a mut Vec<u8>,
    left: usize,
    panic: Option<Box<dyn Any + Send>>,
}

impl<C: ConsumerContext + 'static> RecordQueue<C> {
    pub(super) fn new(consumer: Arc<BaseConsumer<C>>) -> Self {
        // SAFETY: the client is alive; the call never returns null.
        let queue = unsafe { rd::rd_kafka_queue_new(consumer.client().native_ptr()) };
        Self { queue, headers: Vec::new(), consumer }
    }

    /// Sends what is fetched for a partition to this queue. To be called before each assignment of the partition, or
    /// its first records would go to the consumer's own queue. `false`: no such partition can exist.
    #[must_use]
    pub(super) fn forward(&self, topic: &str, partition: i32) -> bool {
        let Ok(topic) = CString::new(topic) else { return false };
        // SAFETY: the client is alive, the name a C string; the handle is checked and destroyed once.
        unsafe {
            let client = self.consumer.client().native_ptr();
            let source = rd::rd_kafka_queue_get_partition(client, topic.as_ptr(), partition);
            if source.is_null() {
                return false;
            }
            rd::rd_kafka_queue_forward(source, self.queue);
            rd::rd_kafka_queue_destroy(source);
        }
        true
    }

    /// Hands over what is there, at most `max` records, waiting at most `wait` for the first. `deliver` says whether it
    /// wants more. A panic of it goes on after the call.
    pub(super) fn consume<F>(&mut self, max: usize, wait: Duration, deliver: &mut F)
    where
        F: FnMut(&RawRecord<'_>) -> bool,
    {
        let mut callback = Callback {
            client: self.consumer.client().native_ptr(),
            deliver,
            headers: &mut self.headers,
            left: max,
            panic: None,
        };
        // SAFETY: the queue is alive. librdkafka calls `on_message::<F>` only within this call and only with the
        // opaque given here, which points to a live `Callback<F>` that nobody else touches meanwhile.
        unsafe {
            rd::rd_kafka_consume_callback_queue(
                self.queue,
                millis(wait),
                Some(on_message::<F>),
                (&raw mut callback).cast(),
            );
        }
        if let Some(panic) = callback.panic {
            resume_unwind(panic);
        }
    }
}

/// SAFETY: `message` is alive for the call; `opaque` points to a `Callback<F>` that nobody else uses.
unsafe extern "C" fn on_message<F>(message: *mut rd::rd_kafka_message_t, opaque: *mut c_void)
where
    F: FnMut(&RawRecord<'_>) -> bool,
{
    // SAFETY: by this function's contract.
    let callback = unsafe { &mut *opaque.cast::<Callback<'_, F>>() };
    callback.headers.clear();
    // SAFETY: by this function's contract; the record borrows the message for this call only.
    let record = unsafe { raw_record(message, callback.headers) };
    let more = catch_unwind(AssertUnwindSafe(|| (callback.deliver)(&record)));
    callback.left = callback.left.saturating_sub(1);
    let stop = match more {
        Ok(more) => !more || callback.left == 0,
        Err(panic) => {
            callback.panic = Some(panic);
            true
        }
    };
    if stop {
        // SAFETY: the client is alive. The call sets a flag of this thread: librdkafka puts what is left back at the
        // head of the queue and returns.
        unsafe { rd::rd_kafka_yield(callback.client) }
    }
}

/// SAFETY: `message` is a live message of a consumer, for as long as `'a`.
unsafe fn raw_record<'a>(message: *mut rd::rd_kafka_message_t, headers: &'a mut Vec<u8>) -> RawRecord<'a> {
    // SAFETY: by this function's contract; the pointers and lengths in a message describe its own memory. A null
    // payload or key stays apart from an empty one.
    unsafe {
        let m = &*message;
        let ok = m.err == rd::rd_kafka_resp_err_t::RD_KAFKA_RESP_ERR_NO_ERROR;
        let timestamp = if ok { rd::rd_kafka_message_timestamp(message, ptr::null_mut()) } else { NO_TIMESTAMP };
        if ok {
            encode_headers(message, headers);
        }
        RawRecord {
            topic_id: m.rkt.addr(),
            partition: m.partition,
            offset: m.offset,
            timestamp,
            key: nullable(m.key, m.key_len),
            value: nullable(m.payload, m.len),
            headers,
            error: (!ok).then(|| m.err.into()),
            rkt: m.rkt,
        }
    }
}

/// SAFETY: `at` is null or points to `len` bytes that live as long as `'a`.
unsafe fn nullable<'a>(at: *const c_void, len: usize) -> Option<&'a [u8]> {
    // SAFETY: by this function's contract.
    (!at.is_null()).then(|| unsafe { slice::from_raw_parts(at.cast(), len) })
}

/// SAFETY: `message` is a live message.
unsafe fn encode_headers(message: *const rd::rd_kafka_message_t, out: &mut Vec<u8>) {
    let mut headers = ptr::null_mut();
    // SAFETY: by this function's contract; the headers belong to the message and are not freed here. `get_all` fills
    // name (a C string) and value (null, or so many bytes) for every index below the count.
    unsafe {
        if rd::rd_kafka_message_headers(message, &raw mut headers)
            != rd::rd_kafka_resp_err_t::RD_KAFKA_RESP_ERR_NO_ERROR
        {
            return;
        }
        let (mut name, mut value, mut len) = (ptr::null::<c_char>(), ptr::null::<c_void>(), 0_usize);
        let mut i = 0;
        while rd::rd_kafka_header_get_all(headers, i, &raw mut name, &raw mut value, &raw mut len)
            == rd::rd_kafka_resp_err_t::RD_KAFKA_RESP_ERR_NO_ERROR
        {
            push_header(CStr::from_ptr(name).to_bytes(), nullable(value, len), out);
            i += 1;
        }
    }
}

/// The text beside each committed offset, in the order of the list. It may be another program's, so bytes that are no
/// UTF-8 are replaced (the wrapper's accessor panics on them).
pub(super) fn committed_metadata(list: &TopicPartitionList) -> Vec<String> {
    // SAFETY: the list is alive and owns `cnt` elements; each element's metadata is null or `metadata_size` bytes.
    unsafe {
        let list = &*list.ptr();
        let count = usize::try_from(list.cnt).unwrap_or(0);
        if count == 0 {
            return Vec::new();
        }
        slice::from_raw_parts(list.elems, count)
            .iter()
            .map(|e| nullable(e.metadata, e.metadata_size).unwrap_or_default())
            .map(|bytes| String::from_utf8_lossy(bytes).into_owned())
            .collect()
    }
}

/// What became of a record, or another thing that a producer has to say.
#[derive(Debug)]
pub(super) enum RawReport<'a> {
    /// Acknowledged by all in-sync replicas.
    Acked(FlushId),
    /// Not delivered.
    Failed {
        flush: FlushId,
        tag: u32,
        topic: String,
        key: Option<&'a [u8]>,
        value_len: usize,
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
pub(super) struct BatchProducer<C: ClientContext + 'static> {
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
            rd::rd_kafka_purge(
                self.client.native_ptr(),
                rd::RD_KAFKA_PURGE_F_QUEUE | rd::RD_KAFKA_PURGE_F_INFLIGHT,
            );
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
pub(super) struct Refused {
    pub(super) row: usize,
    pub(super) code: RDKafkaErrorCode,
}

impl<C: ClientContext + 'static> BatchProducer<C> {
    /// The kinds of events to switch on before the client is made.
    pub(super) fn switch_events_on(config: &rdkafka::config::NativeClientConfig) {
        // SAFETY: the configuration is alive.
        unsafe {
            rd::rd_kafka_conf_set_events(config.ptr(), rd::RD_KAFKA_EVENT_DR | rd::RD_KAFKA_EVENT_ERROR);
        }
    }

    /// A producer over a client that was made with [`BatchProducer::switch_events_on`].
    pub(super) fn new(client: Client<C>) -> Self {
        // SAFETY: the client is alive; the call never returns null.
        let events = unsafe { rd::rd_kafka_queue_get_main(client.native_ptr()) };
        Self { events, topics: HashMap::new(), scratch: Vec::with_capacity(CHUNK), in_flight: 0, client }
    }

    pub(super) const fn client(&self) -> &Client<C> {
        &self.client
    }

    pub(super) const fn in_flight(&self) -> usize {
        self.in_flight
    }

    fn topic(&mut self, name: &Arc<str>) -> *mut rd::rd_kafka_topic_t {
        if let Some(topic) = self.topics.get(name) {
            return *topic;
        }
        let Ok(c_name) = CString::new(&**name) else { return ptr::null_mut() };
        // SAFETY: the client is alive, the name a C string; null configuration means the client's own. Null on error.
        let topic = unsafe {
            rd::rd_kafka_topic_new(self.client.native_ptr(), c_name.as_ptr(), ptr::null_mut())
        };
        if !topic.is_null() {
            self.topics.insert(Arc::clone(name), topic);
        }
        topic
    }

    /// Copies rows into the client's queue, in order, from row `from` until the queue is full; says how many rows were
    /// taken. Those that were refused for good are taken too and added to `refused`.
    pub(super) fn produce(&mut self, batch: &ProduceBatch, from: usize, refused: &mut Vec<Refused>) -> usize {
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
        let Some(row) = batch.rows().get(at) else { return 0 };
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
            let error =
                rd::rd_kafka_produceva(self.client.native_ptr(), arguments.as_ptr(), arguments.len());
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
    pub(super) fn poll(&mut self, wait: Duration, report: &mut impl FnMut(RawReport<'_>)) {
        let mut wait = millis(wait);
        loop {
            // SAFETY: the queue is alive; the event is checked, and destroyed once, below.
            let event = unsafe { rd::rd_kafka_queue_poll(self.events, wait) };
            if event.is_null() {
                return;
            }
            let event = Event(event);
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
            let Some(m) = (unsafe { rd::rd_kafka_event_message_next(event.0).as_ref() }) else { return };
            self.in_flight = self.in_flight.saturating_sub(1);
            let (flush, tag) = flush_and_tag(m._private);
            if m.err == rd::rd_kafka_resp_err_t::RD_KAFKA_RESP_ERR_NO_ERROR {
                report(RawReport::Acked(flush));
                continue;
            }
            // SAFETY: as above: topic and key are the message's own.
            let (topic, key) = unsafe { (topic_name(m.rkt), nullable(m.key, m.key_len)) };
            report(RawReport::Failed { flush, tag, topic, key, value_len: m.len, code: m.err.into() });
        }
    }
}

/// An event, destroyed when it goes out of scope.
struct Event(*mut rd::rd_kafka_event_t);

impl Drop for Event {
    fn drop(&mut self) {
        // SAFETY: came from `rd_kafka_queue_poll`, not null, destroyed once.
        unsafe { rd::rd_kafka_event_destroy(self.0) }
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
