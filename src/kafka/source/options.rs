//! How a [`KafkaSpout`](super::KafkaSpout) reads.

use std::{sync::Arc, time::Duration};

use super::{format::Decoder, history::History, out_of_range::OutOfRange, retry::RetryPolicy};
use crate::kafka::client::{ClientError, SourceClient};

/// Makes source clients: one for each start of a spout.
pub type SourceFactory = Arc<dyn Fn() -> Result<Box<dyn SourceClient>, ClientError> + Send + Sync>;

/// A part of a record that becomes a field of the tuple.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum RecordField {
    /// The value, decoded.
    Value,
    /// The key as text; null if there is none, bytes if it is no UTF-8.
    Key,
    /// The topic's name.
    Topic,
    /// The partition's number.
    Partition,
    /// The record's offset.
    Offset,
    /// Milliseconds since 1970; null if the record has none.
    Timestamp,
}

/// Where a new group starts: one that has no committed offset for any partition of its topics.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
pub enum Start {
    /// At the oldest records.
    #[default]
    Earliest,
    /// Behind the newest records.
    Latest,
}

/// How a spout reads. What it reads, and as whom, is its client's to know.
#[derive(Clone, Debug)]
pub struct KafkaSpoutOptions {
    /// Fields of the emitted stream, in order; at most 6. Default: the value alone.
    pub fields: Vec<RecordField>,
    /// What a value is, and what becomes of one that is not.
    pub decoder: Decoder,
    /// When failed records come again, and when they go to the dead-letter topic.
    pub retry: RetryPolicy,
    /// Where a new group starts. Default earliest.
    pub start: Start,
    /// Stops where the partitions ended when they were first assigned. Default false.
    pub until_end: bool,
    /// What becomes of a partition that does not hold the offset to go on from. Default: the run ends.
    pub out_of_range: OutOfRange,
    /// The topology has stores: partitions that go to another member end the generation. Default false.
    pub keyed: bool,
    /// How long partitions that are asked back may be drained; what is in flight then is repeated by whoever gets them.
    /// Default 10 s, of the 5 minutes for which the group waits.
    pub revoke_timeout: Duration,
    /// Records emitted and not done; at the cap none are emitted but retries. Default 16,384.
    pub max_pending_records: usize,
    /// Bytes of blocks with records that are not done; at the cap none are taken from the client. Default 16 MiB.
    pub max_pending_bytes: usize,
    /// Records that a partition may be ahead of its first open one; at the cap this partition alone waits. Default
    /// 131,072.
    pub max_ahead: u64,
    /// Records taken from the client at once. Default 4,096.
    pub poll_records: usize,
    /// What the spouts of these options have emitted, over all generations of the process; clones share it.
    pub history: History,
}

impl Default for KafkaSpoutOptions {
    fn default() -> Self {
        Self {
            fields: vec![RecordField::Value],
            decoder: Decoder::default(),
            retry: RetryPolicy::default(),
            start: Start::default(),
            until_end: false,
            out_of_range: OutOfRange::default(),
            keyed: false,
            revoke_timeout: Duration::from_secs(10),
            max_pending_records: 16_384,
            max_pending_bytes: 16 << 20,
            max_ahead: 1 << 17,
            poll_records: 4096,
            history: History::default(),
        }
    }
}
