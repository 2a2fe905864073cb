//! Records out, and answers to commits.

use std::{
    any::Any,
    ffi::{CStr, CString, c_void},
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    ptr, slice,
    sync::Arc,
    time::Duration,
};

use rdkafka::{
    bindings as rd,
    consumer::{BaseConsumer, Consumer, ConsumerContext},
    error::RDKafkaErrorCode,
    topic_partition_list::TopicPartitionList,
};

use super::shared::{Event, encode_headers, millis, nullable, topic_name};
use crate::kafka::client::record::NO_TIMESTAMP;

/// A record, or what stands in its place, as librdkafka hands it over; borrowed for one call.
#[derive(Debug)]
pub(in crate::kafka) struct RawRecord<'a> {
    /// Equal for records of one topic while its partitions stay assigned.
    pub(in crate::kafka) topic_id: usize,
    pub(in crate::kafka) partition: i32,
    /// The record's offset; for the end of a partition the next one.
    pub(in crate::kafka) offset: i64,
    pub(in crate::kafka) timestamp: i64,
    pub(in crate::kafka) key: Option<&'a [u8]>,
    pub(in crate::kafka) value: Option<&'a [u8]>,
    /// Headers as encoded by [`push_header`](crate::kafka::client::record::push_header).
    pub(in crate::kafka) headers: &'a [u8],
    /// `None`: a record. Otherwise `value` is librdkafka's text about the error.
    pub(in crate::kafka) error: Option<RDKafkaErrorCode>,
    rkt: *const rd::rd_kafka_topic_t,
}

impl RawRecord<'_> {
    /// The topic's name.
    pub(in crate::kafka) fn topic(&self) -> String {
        // SAFETY: `rkt` is the topic of a message that is alive for the call that borrows `self`, or null.
        unsafe { topic_name(self.rkt) }
    }
}

/// A queue of its own that partitions of a consumer are forwarded to. The consumer's own queue then holds only events,
/// and is polled by the safe wrapper.
pub(in crate::kafka) struct RecordQueue<C: ConsumerContext + 'static> {
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
    pub(in crate::kafka) fn new(consumer: Arc<BaseConsumer<C>>) -> Self {
        // SAFETY: the client is alive; the call never returns null.
        let queue = unsafe { rd::rd_kafka_queue_new(consumer.client().native_ptr()) };
        Self { queue, headers: Vec::new(), consumer }
    }

    /// Sends what is fetched for a partition to this queue. To be called before each assignment of the partition, or
    /// its first records would go to the consumer's own queue. `false`: no such partition can exist.
    #[must_use]
    pub(in crate::kafka) fn forward(&self, topic: &str, partition: i32) -> bool {
        let Ok(topic) = CString::new(topic) else {
            return false;
        };
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

    /// The end of a partition as its last fetch has found it.
    pub(in crate::kafka) fn known_end(&self, topic: &str, partition: i32) -> Option<i64> {
        let topic = CString::new(topic).ok()?;
        let (mut low, mut high) = (-1, -1);
        // SAFETY: the client is alive, the name a C string; both numbers are written within the call.
        let err = unsafe {
            let client = self.consumer.client().native_ptr();
            rd::rd_kafka_get_watermark_offsets(client, topic.as_ptr(), partition, &raw mut low, &raw mut high)
        };
        (err == rd::rd_kafka_resp_err_t::RD_KAFKA_RESP_ERR_NO_ERROR && high >= 0).then_some(high)
    }

    /// Hands over what is there, at most `max` records, waiting at most `wait` for the first. `deliver` says whether it
    /// wants more. A panic of it goes on after the call.
    pub(in crate::kafka) fn consume<F>(&mut self, max: usize, wait: Duration, deliver: &mut F)
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

/// The text beside each committed offset, in the order of the list. It may be another program's, so bytes that are no
/// UTF-8 are replaced (the wrapper's accessor panics on them).
pub(in crate::kafka) fn committed_metadata(list: &TopicPartitionList) -> Vec<String> {
    // SAFETY: the list is alive; each element's metadata is null or `metadata_size` bytes.
    unsafe {
        elements(&*list.ptr())
            .iter()
            .map(|e| nullable(e.metadata, e.metadata_size).unwrap_or_default())
            .map(|bytes| String::from_utf8_lossy(bytes).into_owned())
            .collect()
    }
}

/// A partition's place in the answer to a commit: topic, number, and its error if it has one.
pub(in crate::kafka) type PartitionResult = (String, i32, Option<RDKafkaErrorCode>);

/// The answer to a commit: the error of the whole, and each partition's.
pub(in crate::kafka) type CommitAnswer = (Option<RDKafkaErrorCode>, Vec<PartitionResult>);

/// Commits, and their answers. The safe wrapper's `commit_callback` is for the client's own commits: an answer to a
/// manual asynchronous one reaches nobody there.
pub(in crate::kafka) struct CommitQueue<C: ConsumerContext + 'static> {
    answers: *mut rd::rd_kafka_queue_t,
    // After `answers`: the queue is destroyed first, in `Drop`.
    consumer: Arc<BaseConsumer<C>>,
}

// SAFETY: librdkafka's handles may be used from any thread.
unsafe impl<C: ConsumerContext + 'static> Send for CommitQueue<C> {}

impl<C: ConsumerContext + 'static> Drop for CommitQueue<C> {
    fn drop(&mut self) {
        // SAFETY: made in `new`, destroyed once, while `consumer` still lives.
        unsafe { rd::rd_kafka_queue_destroy(self.answers) }
    }
}

impl<C: ConsumerContext + 'static> CommitQueue<C> {
    pub(in crate::kafka) fn new(consumer: Arc<BaseConsumer<C>>) -> Self {
        // SAFETY: the client is alive; the call never returns null.
        let answers = unsafe { rd::rd_kafka_queue_new(consumer.client().native_ptr()) };
        Self { answers, consumer }
    }

    /// Starts a commit. On an error there is no answer.
    pub(in crate::kafka) fn send(&mut self, list: &TopicPartitionList) -> Result<(), RDKafkaErrorCode> {
        // SAFETY: client, list and queue are alive; the client copies the list. No callback, so no opaque.
        let err = unsafe {
            rd::rd_kafka_commit_queue(
                self.consumer.client().native_ptr(),
                list.ptr(),
                self.answers,
                None,
                ptr::null_mut(),
            )
        };
        if err == rd::rd_kafka_resp_err_t::RD_KAFKA_RESP_ERR_NO_ERROR { Ok(()) } else { Err(err.into()) }
    }

    /// The next answer, if one has come.
    pub(in crate::kafka) fn answer(&mut self) -> Option<CommitAnswer> {
        // SAFETY: the queue is alive. The event owns its list, which is null or has `cnt` elements with C strings as
        // names; all is copied before the event goes.
        unsafe {
            let event = Event::next(self.answers, 0)?;
            let whole = error_of(rd::rd_kafka_event_error(event.0));
            let list = rd::rd_kafka_event_topic_partition_list(event.0);
            let each = list.as_ref().map(|list| elements(list)).unwrap_or_default();
            let name = |e: &rd::rd_kafka_topic_partition_t| CStr::from_ptr(e.topic).to_string_lossy().into_owned();
            Some((whole, each.iter().map(|e| (name(e), e.partition, error_of(e.err))).collect()))
        }
    }
}

fn error_of(err: rd::rd_kafka_resp_err_t) -> Option<RDKafkaErrorCode> {
    (err != rd::rd_kafka_resp_err_t::RD_KAFKA_RESP_ERR_NO_ERROR).then(|| err.into())
}

/// SAFETY: the list owns `cnt` elements.
unsafe fn elements(list: &rd::rd_kafka_topic_partition_list_t) -> &[rd::rd_kafka_topic_partition_t] {
    match usize::try_from(list.cnt) {
        // SAFETY: by this function's contract.
        Ok(count) if count > 0 => unsafe { slice::from_raw_parts(list.elems, count) },
        _ => &[],
    }
}
