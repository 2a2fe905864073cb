//! The one place with `unsafe` code: calls of librdkafka that the safe wrapper does not have. Its batch calls cost a half
//! to a third of the calls that the wrapper has.
//!
//! Small values with safe methods: [`RecordQueue`] takes records off partitions, [`CommitQueue`] commits and hears the
//! answers, [`BatchProducer`] takes rows, in transactions if it is told to, and reports what became of them. Everything
//! else goes through the wrapper.
//!
//! Why `rd_kafka_consume_callback_queue` and not `rd_kafka_consume_batch_queue`: the batch call of librdkafka 2.12
//! counts an end-of-partition event as a consumed record (fixed in 2.13.2, #4844), so that a partition that is paused
//! at its end would skip its next record; it waits until its array is full; and it locks the queue for each record.
//! The callback call has none of the three and is as fast.
#![allow(unsafe_code, reason = "the one audited place: the safe wrapper has no batch calls")]

mod consume;
mod produce;
mod shared;
mod transact;

pub(in crate::kafka) use consume::{CommitQueue, PartitionResult, RawRecord, RecordQueue, committed_metadata};
pub(in crate::kafka) use produce::{BatchProducer, RawReport, Refused};
pub(in crate::kafka) use transact::TransactionError;
