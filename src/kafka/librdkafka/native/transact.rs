//! Transactions of a [`BatchProducer`].

use std::{ffi::CStr, time::Duration};

use rdkafka::{bindings as rd, client::ClientContext, error::RDKafkaErrorCode};

use super::{BatchProducer, shared::millis};

/// Why a call about a transaction did not succeed.
#[derive(Debug)]
pub(in crate::kafka) struct TransactionError {
    pub(in crate::kafka) code: RDKafkaErrorCode,
    pub(in crate::kafka) text: String,
    /// The same call may be made again, and goes on where it was.
    pub(in crate::kafka) retriable: bool,
}

type Outcome = Result<(), TransactionError>;

/// The calls of a producer whose `transactional.id` is set. One that has not ended within its time goes on in the client,
/// and the same call must be made again.
impl<C: ClientContext + 'static> BatchProducer<C> {
    pub(in crate::kafka) fn init_transactions(&mut self, wait: Duration) -> Outcome {
        // SAFETY: the client is alive. The call gives an error that is ours to free, or null.
        unsafe { outcome(rd::rd_kafka_init_transactions(self.client().native_ptr(), millis(wait))) }
    }

    pub(in crate::kafka) fn begin_transaction(&mut self) -> Outcome {
        // SAFETY: as above.
        unsafe { outcome(rd::rd_kafka_begin_transaction(self.client().native_ptr())) }
    }

    /// Waits for the acknowledgements of all records, whose events must be polled meanwhile, and commits.
    pub(in crate::kafka) fn commit_transaction(&mut self, wait: Duration) -> Outcome {
        // SAFETY: as above.
        unsafe { outcome(rd::rd_kafka_commit_transaction(self.client().native_ptr(), millis(wait))) }
    }

    /// Drops what is queued, waits for what is on its way, whose events must be polled meanwhile, and aborts.
    pub(in crate::kafka) fn abort_transaction(&mut self, wait: Duration) -> Outcome {
        // SAFETY: as above.
        unsafe { outcome(rd::rd_kafka_abort_transaction(self.client().native_ptr(), millis(wait))) }
    }
}

/// SAFETY: `error` is null, or an error that nobody else frees.
unsafe fn outcome(error: *mut rd::rd_kafka_error_t) -> Outcome {
    if error.is_null() {
        return Ok(());
    }
    // SAFETY: by this function's contract; the text is a C string that lives as long as the error.
    unsafe {
        let code = rd::rd_kafka_error_code(error).into();
        let text = CStr::from_ptr(rd::rd_kafka_error_string(error)).to_string_lossy().into_owned();
        let retriable = rd::rd_kafka_error_is_retriable(error) != 0;
        rd::rd_kafka_error_destroy(error);
        Err(TransactionError { code, text, retriable })
    }
}
