//! What both halves need: C's strings, optional bytes, headers and milliseconds.

use std::{
    ffi::{CStr, c_char, c_void},
    ptr, slice,
    time::Duration,
};

use rdkafka::bindings as rd;

use crate::kafka::client::record::push_header;

/// SAFETY: `rkt` is a live topic handle or null.
pub(super) unsafe fn topic_name(rkt: *const rd::rd_kafka_topic_t) -> String {
    if rkt.is_null() {
        return String::new();
    }
    // SAFETY: a live topic has a name, a C string that lives as long as the topic.
    unsafe { CStr::from_ptr(rd::rd_kafka_topic_name(rkt)) }.to_string_lossy().into_owned()
}

/// Milliseconds for librdkafka; a part of one counts as one, so that a short wait is no busy loop.
pub(super) fn millis(wait: Duration) -> i32 {
    i32::try_from(wait.as_micros().div_ceil(1000)).unwrap_or(i32::MAX)
}

/// SAFETY: `at` is null or points to `len` bytes that live as long as `'a`.
pub(super) unsafe fn nullable<'a>(at: *const c_void, len: usize) -> Option<&'a [u8]> {
    // SAFETY: by this function's contract.
    (!at.is_null()).then(|| unsafe { slice::from_raw_parts(at.cast(), len) })
}

/// Appends a message's headers, encoded by [`push_header`].
///
/// SAFETY: `message` is a live message.
pub(super) unsafe fn encode_headers(message: *const rd::rd_kafka_message_t, out: &mut Vec<u8>) {
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

/// An event, destroyed when it goes out of scope.
pub(super) struct Event(pub(super) *mut rd::rd_kafka_event_t);

impl Event {
    /// The next event of a queue, waiting at most `wait` milliseconds.
    ///
    /// SAFETY: the queue is alive, and its client outlives the event.
    pub(super) unsafe fn next(queue: *mut rd::rd_kafka_queue_t, wait: i32) -> Option<Self> {
        // SAFETY: by this function's contract.
        let event = unsafe { rd::rd_kafka_queue_poll(queue, wait) };
        (!event.is_null()).then_some(Self(event))
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        // SAFETY: came from `rd_kafka_queue_poll`, not null, destroyed once.
        unsafe { rd::rd_kafka_event_destroy(self.0) }
    }
}
