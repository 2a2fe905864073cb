//! What the spout and its poller, each on a thread of its own, say to each other.

use std::{
    collections::VecDeque,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use crate::kafka::client::{
    AssignmentEpoch, Commit, CommitOutcome, CommitToken, Committed, NextOffset, RecordBlock, TopicPartition,
};

/// A partition that has come.
#[derive(Clone, Debug)]
pub(super) struct Arrival {
    pub(super) partition: TopicPartition,
    /// What the group has committed: where reading begins, if that is an offset.
    pub(super) committed: Option<Committed>,
    /// Where reading begins otherwise, if that was asked for: the state of a topology with stores is to know it.
    pub(super) first: Option<NextOffset>,
    /// Where reading ends, if it does.
    pub(super) end: Option<NextOffset>,
}

/// What was read, in its order within a partition.
#[derive(Debug)]
pub(super) enum Read {
    Records(RecordBlock),
    /// A partition has nothing more for now.
    End {
        partition: TopicPartition,
        epoch: AssignmentEpoch,
        next: NextOffset,
    },
    /// The partition's topic was made anew: what follows has nothing to do with what came before.
    Anew {
        partition: TopicPartition,
        epoch: AssignmentEpoch,
        /// Where reading ends, if it does.
        end: Option<NextOffset>,
    },
}

impl Read {
    /// The assignment that it belongs to.
    pub(super) const fn epoch(&self) -> AssignmentEpoch {
        match self {
            Self::Records(block) => block.epoch,
            Self::End { epoch, .. } | Self::Anew { epoch, .. } => *epoch,
        }
    }
}

/// What has changed; on a ring of its own, so that it overtakes what was read.
#[derive(Debug)]
pub(super) enum Change {
    Assigned {
        partitions: Vec<Arrival>,
        epoch: AssignmentEpoch,
    },
    /// To be answered with [`Order::Release`].
    Revoked(Vec<TopicPartition>),
    /// To be answered with [`Order::Release`].
    Lost(Vec<TopicPartition>),
    /// Reading has an end, and partitions that other members hold are committed up to there.
    OthersDone,
    /// Where partitions end, as the brokers say.
    Ends(Vec<(TopicPartition, NextOffset)>),
    Committed {
        token: CommitToken,
        outcomes: Vec<CommitOutcome>,
    },
}

/// What the spout wants.
#[derive(Debug)]
pub(super) enum Order {
    Commit {
        values: Vec<Commit>,
        token: CommitToken,
    },
    Recycle(RecordBlock),
    Pause(TopicPartition),
    Resume(TopicPartition),
    /// Let go of the partitions that were revoked or lost.
    Release,
}

/// The sending end of a bounded ring. What does not fit waits on the sender's side, in order: few things do, since
/// whoever sends looks at [`Outlet::has_room`] before it makes more.
#[derive(Debug)]
pub(super) struct Outlet<T> {
    ring: rtrb::Producer<T>,
    waiting: VecDeque<T>,
}

impl<T> Outlet<T> {
    pub(super) const fn new(ring: rtrb::Producer<T>) -> Self {
        Self { ring, waiting: VecDeque::new() }
    }

    pub(super) fn send(&mut self, item: T) {
        self.waiting.push_back(item);
        self.pump();
    }

    /// Sends what waits; whether anything went.
    pub(super) fn pump(&mut self) -> bool {
        let mut any = false;
        while !self.waiting.is_empty() && !self.ring.is_full() {
            let Some(item) = self.waiting.pop_front() else { break };
            any |= self.ring.push(item).is_ok();
        }
        any
    }

    pub(super) fn has_room(&self) -> bool {
        self.waiting.is_empty() && !self.ring.is_full()
    }

    /// Whether nobody listens any more.
    pub(super) fn is_abandoned(&self) -> bool {
        self.ring.is_abandoned()
    }
}

/// Bytes of records in the ring to the spout: both ends count.
#[derive(Clone, Debug, Default)]
pub(super) struct BytesUnderway(Arc<AtomicUsize>);

impl BytesUnderway {
    pub(super) fn add(&self, bytes: usize) {
        self.0.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(super) fn take(&self, bytes: usize) {
        self.0.fetch_sub(bytes, Ordering::Relaxed);
    }

    pub(super) fn get(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}
