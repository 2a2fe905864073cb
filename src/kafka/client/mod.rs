//! The client ports: what the logic of this folder needs from a Kafka client, and nothing of any one client.
//!
//! Both are driven by one thread that calls `poll`; no other call waits for the network unless its text says so. Time
//! that a call may wait is a [`Duration`] argument.
//!
//! Files: `record` (a block of records over one arena), `produce` (a batch of records to send); `topics`, `transactions` and
//! `scan` (the ports of a changelog).

pub mod produce;
pub mod record;
pub mod scan;
pub mod topics;
pub mod transactions;

use std::{fmt, sync::Arc, time::Duration};

pub use self::produce::{FlushId, ProduceBatch};
pub use self::record::RecordBlock;
use crate::clock::Instant;

/// The offset *of a record*.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Offset(pub i64);

/// The offset of *the next record to read*: what a group commits. Everything below it is done.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct NextOffset(pub i64);

impl Offset {
    /// Where to read on after this record.
    #[must_use]
    pub const fn next(self) -> NextOffset {
        NextOffset(self.0 + 1)
    }
}

impl fmt::Display for Offset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for NextOffset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A partition of a topic. Cloning it bumps one reference count; one topic has one shared name per client.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct TopicPartition {
    /// The topic's name.
    pub topic: Arc<str>,
    /// The partition's number, from 0.
    pub partition: i32,
}

impl TopicPartition {
    /// Partition `partition` of `topic`.
    #[must_use]
    pub fn new(topic: impl Into<Arc<str>>, partition: i32) -> Self {
        Self { topic: topic.into(), partition }
    }
}

impl fmt::Display for TopicPartition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.topic, self.partition)
    }
}

/// Which assignment of a partition to this process something belongs to. Every [`SourceEvent::Assigned`] has a new one,
/// so what was prepared before a partition left and came back is recognised. It is local and has nothing to do with
/// the group's generation.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct AssignmentEpoch(pub u64);

/// What a group committed for a partition.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Committed {
    /// Where to read on.
    pub next: NextOffset,
    /// The text beside it, possibly of another program.
    pub metadata: String,
}

/// A partition that the group gave to this process.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AssignedPartition {
    /// The partition.
    pub partition: TopicPartition,
    /// What the group committed for it, `None` if nothing.
    pub committed: Option<Committed>,
}

/// Where to begin reading a partition.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Position {
    /// At the oldest record.
    Beginning,
    /// Behind the newest record.
    End,
    /// At an offset. If the broker no longer (or not yet) has it, [`SourceEvent::OutOfRange`] says so.
    At(NextOffset),
}

/// One value of a commit.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Commit {
    /// The partition.
    pub partition: TopicPartition,
    /// The assignment under which `next` was reached; a commit of an earlier one is refused as
    /// [`CommitOutcome::Rebalanced`] and does not reach the broker.
    pub epoch: AssignmentEpoch,
    /// Where to read on.
    pub next: NextOffset,
    /// The text beside it. Brokers refuse more than `offset.metadata.max.bytes`, by default 4,096.
    pub metadata: String,
}

/// Names a commit in flight; chosen by the caller.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct CommitToken(pub u64);

/// What became of one value of a commit.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum CommitOutcome {
    /// The broker has it.
    Done,
    /// Not committed, or not known to be; the same values may be committed again. Holds a sentence.
    Retriable(String),
    /// Not committed: the partition is no longer, or not under that epoch, this process's.
    Rebalanced,
    /// Not committed: the broker does not take so long a text beside the offset. Holds a sentence.
    MetadataTooLarge(String),
    /// Not committed, and never will be by this client: another process has its identity. Holds a sentence.
    Fenced(String),
    /// Not committed, and trying again changes nothing (not authorised). Holds a sentence.
    Refused(String),
}

/// What a source client has to say.
#[derive(Clone, Debug)]
pub enum SourceEvent {
    /// Records of one partition. Its memory goes back by [`SourceClient::recycle`].
    Records(RecordBlock),
    /// The group gave these partitions to this process, in addition to those it has. Nothing is read until
    /// [`SourceClient::assign`]; until then the group's rebalance waits.
    Assigned {
        /// The partitions with what is committed for them; may be none.
        partitions: Vec<AssignedPartition>,
        /// The epoch of these partitions.
        epoch: AssignmentEpoch,
        /// Whether the group has no committed offset for any partition of the subscribed topics: it is new, and where
        /// it starts is a setting. Otherwise a partition without committed offset is a new partition.
        group_is_new: bool,
    },
    /// The group wants these partitions back. They are still this process's, records of them may still come, and commits
    /// for them succeed until [`SourceClient::unassign`]; poll on meanwhile. After `max.poll.interval.ms` (5 minutes)
    /// the group goes on without this process.
    Revoked(Vec<TopicPartition>),
    /// These partitions have already gone to others: nothing of them may be committed. Expects
    /// [`SourceClient::unassign`] too.
    Lost(Vec<TopicPartition>),
    /// A reader has passed everything that the partition holds for it.
    EndOfPartition {
        /// The partition.
        partition: TopicPartition,
        /// Its assignment.
        epoch: AssignmentEpoch,
        /// The end: all offsets below were delivered or never will be.
        next: NextOffset,
    },
    /// The broker does not have the offset that this partition should go on from. Nothing more comes from the partition
    /// until [`SourceClient::seek`]; whether to skip what is gone is not the client's to decide.
    OutOfRange {
        /// The partition.
        partition: TopicPartition,
        /// Its assignment.
        epoch: AssignmentEpoch,
        /// The offset, if the client knows it.
        next: Option<NextOffset>,
    },
    /// The answer to a commit. Each commit has exactly one, in the order of the calls.
    Committed {
        /// The commit.
        token: CommitToken,
        /// One outcome for each value, in the order of the call.
        outcomes: Vec<CommitOutcome>,
    },
    /// Something is wrong that the client itself keeps trying to mend. Said once, until [`SourceEvent::Recovered`].
    Trouble(Trouble),
    /// What was said by the last [`SourceEvent::Trouble`] is over.
    Recovered,
}

/// A transient trouble.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Trouble {
    /// What is wrong, with which broker or topic, and what to do.
    pub message: String,
    /// Since when.
    pub since: Instant,
}

/// The oldest record and the end of a partition, as a reader sees them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Watermarks {
    /// The partition.
    pub partition: TopicPartition,
    /// The oldest offset that the broker has.
    pub low: NextOffset,
    /// Behind the newest record; for a `read_committed` reader the last stable offset.
    pub high: NextOffset,
}

/// A member of a consumer group. What it subscribes to is an option of the implementation.
pub trait SourceClient: Send {
    /// Gets what there is: at most `max_records` records, waiting at most `max_wait` for the first, and every event
    /// that has come. With `max_records` 0 it takes no record and does not wait. Must be called at least every
    /// `max.poll.interval.ms` (5 minutes).
    ///
    /// # Errors
    /// Only what this client cannot recover from; it is of no use afterwards.
    fn poll(
        &mut self,
        max_records: usize,
        max_wait: Duration,
        events: &mut Vec<SourceEvent>,
    ) -> Result<(), ClientError>;

    /// Starts reading these partitions of the last [`SourceEvent::Assigned`], each from a position. Answers the
    /// event, so it is called for an empty one too, and names all its partitions.
    ///
    /// # Errors
    /// Only what this client cannot recover from.
    fn assign(&mut self, partitions: &[(TopicPartition, Position)]) -> Result<(), ClientError>;

    /// Lets go of the partitions of a [`SourceEvent::Revoked`] or [`SourceEvent::Lost`]: answers the oldest one that is
    /// not answered. No record of them comes afterwards.
    ///
    /// # Errors
    /// Only what this client cannot recover from.
    fn unassign(&mut self) -> Result<(), ClientError>;

    /// Stops delivering records of these partitions; what was fetched ahead is dropped and fetched again after
    /// [`SourceClient::resume`]. Partitions that are not assigned are ignored; one that is let go and comes back is not
    /// paused.
    ///
    /// # Errors
    /// Only what this client cannot recover from.
    fn pause(&mut self, partitions: &[TopicPartition]) -> Result<(), ClientError>;

    /// Delivers records of these partitions again, from the one after the last delivered. Partitions that are not
    /// assigned or not paused are ignored.
    ///
    /// # Errors
    /// Only what this client cannot recover from.
    fn resume(&mut self, partitions: &[TopicPartition]) -> Result<(), ClientError>;

    /// Goes on reading a partition from a position; records that were fetched before do not come any more. May wait
    /// for the network up to `max_wait`.
    ///
    /// # Errors
    /// The partition is not assigned, or the client cannot recover.
    fn seek(&mut self, partition: &TopicPartition, to: Position, max_wait: Duration) -> Result<(), ClientError>;

    /// Commits without waiting; [`SourceEvent::Committed`] with `token` is the answer. A commit waits inside the client
    /// for the answer of the one before, so commits reach the broker in the order of the calls.
    fn commit(&mut self, values: Vec<Commit>, token: CommitToken);

    /// All partitions of the topics that the subscription names now. Waits for the network up to `max_wait`.
    ///
    /// # Errors
    /// A topic that the subscription names does not exist, no broker answers, access is denied.
    fn partitions(&mut self, max_wait: Duration) -> Result<Vec<TopicPartition>, ClientError>;

    /// Oldest record and end of partitions, in the same order. Waits for the network up to `max_wait` in
    /// all; for starts, not for the hot path.
    ///
    /// # Errors
    /// A partition does not exist, no broker answers, access is denied.
    fn watermarks(&mut self, partitions: &[TopicPartition], max_wait: Duration)
    -> Result<Vec<Watermarks>, ClientError>;

    /// What the group has committed for partitions, whoever holds them, in the same order; `None`: nothing. Waits for the
    /// network up to `max_wait`.
    ///
    /// # Errors
    /// The group's coordinator does not answer, access is denied.
    fn committed(
        &mut self,
        partitions: &[TopicPartition],
        max_wait: Duration,
    ) -> Result<Vec<Option<NextOffset>>, ClientError>;

    /// Takes a block's memory back. Optional: a block that is dropped is no leak.
    fn recycle(&mut self, block: RecordBlock) {
        drop(block);
    }

    /// Leaves the group, so that the others take over at once; waits at most `max_wait`. Commits still on their way are
    /// given up: wait for their answers first.
    ///
    /// # Errors
    /// The client could not leave in time; the group notices after the session timeout.
    fn close(&mut self, max_wait: Duration) -> Result<(), ClientError>;
}

/// What became of records that a sink client took.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum DeliveryReport {
    /// So many records of a flush have just been acknowledged by all in-sync replicas; earlier reports of the flush
    /// are not included.
    Acked {
        /// The flush.
        flush: FlushId,
        /// How many records.
        records: u64,
    },
    /// One record was not delivered and will not be.
    Failed(Box<FailedRecord>),
    /// Something is wrong that the client itself keeps trying to mend. Said once, until [`DeliveryReport::Recovered`].
    Trouble(Trouble),
    /// What was said by the last [`DeliveryReport::Trouble`] is over.
    Recovered,
}

/// A record that was not delivered.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FailedRecord {
    /// Its flush.
    pub flush: FlushId,
    /// Its tag, see [`produce::ProduceRow::tag`].
    pub tag: u32,
    /// Its topic.
    pub topic: Arc<str>,
    /// Its key, if it has one and the client still knew it.
    pub key: Option<Vec<u8>>,
    /// Bytes of its value.
    pub value_len: usize,
    /// Why.
    pub reason: DeliveryFailure,
    /// Why, as a sentence: what failed, with which value, and what to do.
    pub message: String,
    /// The record itself, where it may be sent again: see [`DeliveryFailure::RequestTooLarge`].
    pub contents: Option<Contents>,
}

/// What a record holds besides its key.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Contents {
    /// Its value.
    pub value: Option<Vec<u8>>,
    /// Its headers, encoded.
    pub headers: Vec<u8>,
}

/// Why a record was not delivered.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum DeliveryFailure {
    /// The broker or the client does not take a record of this size: no retry helps, others go on.
    TooLarge,
    /// The broker refused the whole request for its size. It does not say which of the records in it is to blame: each may
    /// be sent again alone, by a client that sends one record a request.
    RequestTooLarge,
    /// The client has given up after its delivery timeout.
    GaveUp,
    /// The broker does not allow it: no client will do better.
    Denied,
    /// The topic does not exist, another producer took this one's place: nothing more will succeed with this client.
    Fatal,
}

/// A producer of records, idempotent, which waits for all in-sync replicas.
pub trait SinkClient: Send {
    /// Takes records of `batch` from row `from` on, in order, and says how many. What is not taken (the client's queue
    /// is full) is offered again after a [`SinkClient::poll`]. Does not wait.
    ///
    /// A record that can never be sent, being too large for this client, is taken and reported as failed.
    fn produce(&mut self, batch: &ProduceBatch, from: usize) -> usize;

    /// Gets the reports that have come, waiting at most `max_wait` for the first. Must be called regularly: queue space
    /// is released here.
    ///
    /// # Errors
    /// Only what this client cannot recover from; records that are still in flight have no report then.
    fn poll(&mut self, max_wait: Duration, reports: &mut Vec<DeliveryReport>) -> Result<(), ClientError>;

    /// Records taken and not yet reported.
    fn in_flight(&self) -> usize;

    /// Says that nothing more comes for this flush: what lingers for fuller requests is sent now. Does not wait.
    fn flush_hint(&mut self);

    /// Sends what is in flight, waiting at most `max_wait`, and gives the last reports. Records that are still in
    /// flight then are dropped *without* report.
    ///
    /// # Errors
    /// Not everything was sent in time, or the client had a fatal error before.
    fn close(&mut self, max_wait: Duration, reports: &mut Vec<DeliveryReport>) -> Result<(), ClientError>;
}

/// What kind of error it is, for whoever chooses by it (an exit code, a retry).
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum ErrorKind {
    /// A setting that the client does not accept.
    Config,
    /// No broker answers, or what answers does not go on to speak Kafka's protocol.
    Unavailable,
    /// What answers speaks another protocol: the address is wrong, and waiting does not mend it.
    NotKafka,
    /// Wrong credentials or certificate.
    Authentication,
    /// Right credentials, and no right to do this.
    Authorization,
    /// A topic or partition does not exist.
    UnknownTopic,
    /// A position that the broker does not have: records are gone, or the topic was made anew.
    OffsetOutOfRange,
    /// Another process took this one's place.
    Fenced,
    /// Not done in time.
    TimedOut,
    /// A record that the broker or the client does not take for its size.
    TooLarge,
    /// Anything else.
    Other,
}

/// An error of a client. The message is a sentence: what failed, with which broker, topic or value, and what to do. It
/// never holds a secret.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{message}")]
pub struct ClientError {
    /// What kind of error it is.
    pub kind: ErrorKind,
    /// The sentence.
    pub message: String,
}

impl ClientError {
    /// An error of a kind with its sentence.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into() }
    }
}
