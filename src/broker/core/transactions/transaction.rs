//! One transactional id: its producer and the state of its transaction (Kafka's `TransactionMetadata`, KIP-98, KIP-360).

use std::{collections::BTreeSet, time::Duration};

use kafka_protocol::{
    error::ResponseError,
    messages::{GroupId, TransactionalId},
};

use crate::{
    broker::core::{
        agenda::Kept,
        groups::Partition,
        sizes::{entries, map, text},
    },
    clock::Instant,
};

/// No producer has this id, and none this epoch.
const NONE: i16 = -1;

/// The last epoch that a producer is given: one above is left, so that it can always be fenced.
const LAST_EPOCH: i16 = i16::MAX - 1;

/// What an id's transaction is in. Kafka has two states more, in which markers are on their way: here they are written with
/// the decision.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
pub(super) enum State {
    /// A producer has its identity and has done nothing with it.
    #[default]
    Empty,
    /// Something is part of the transaction.
    Ongoing,
    /// The last transaction was committed.
    CompleteCommit,
    /// The last transaction was aborted.
    CompleteAbort,
}

impl State {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Empty => "Empty",
            Self::Ongoing => "Ongoing",
            Self::CompleteCommit => "CompleteCommit",
            Self::CompleteAbort => "CompleteAbort",
        }
    }
}

/// A producer's identity: its id, and which of the processes that have had it.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(super) struct Identity {
    pub(super) id: i64,
    pub(super) epoch: i16,
}

/// Whom a transaction is about: partitions that were written to, groups that were committed for.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Parts {
    pub(super) partitions: BTreeSet<Partition>,
    pub(super) groups: BTreeSet<GroupId>,
    /// The bytes of their names.
    names: usize,
}

impl Parts {
    pub(super) fn new(partitions: BTreeSet<Partition>, groups: BTreeSet<GroupId>) -> Self {
        let topics = partitions.iter().map(|(topic, _)| text(topic.len())).sum::<usize>();
        let names = topics + groups.iter().map(|group| text(group.len())).sum::<usize>();
        Self { partitions, groups, names }
    }

    const fn size_of(partitions: usize, groups: usize, names: usize) -> usize {
        map::<Partition>(partitions) + map::<GroupId>(groups) + names
    }

    fn size(&self) -> usize {
        Self::size_of(self.partitions.len(), self.groups.len(), self.names)
    }

    /// What of others is not there yet.
    fn missing(&self, others: &Self) -> Self {
        Self::new(&others.partitions - &self.partitions, &others.groups - &self.groups)
    }

    /// How much larger it is with what is missing.
    fn growth(&self, missing: &Self) -> usize {
        let partitions = self.partitions.len() + missing.partitions.len();
        let groups = self.groups.len() + missing.groups.len();
        Self::size_of(partitions, groups, self.names + missing.names) - self.size()
    }

    fn extend(&mut self, missing: Self) {
        self.partitions.extend(missing.partitions);
        self.groups.extend(missing.groups);
        self.names += missing.names;
    }
}

#[derive(Clone, Debug)]
pub(super) struct Transaction {
    pub(super) producer: Identity,
    /// The id before this one, for a client that asks again because it has lost the response.
    previous_id: i64,
    /// The epoch before this one if the producer itself asked for the next; [`NONE`] if another was fenced by it.
    last_epoch: i16,
    pub(super) timeout: Duration,
    pub(super) state: State,
    /// When the transaction began, or the one before if none goes on.
    pub(super) started: Option<Instant>,
    /// When something became of it last.
    pub(super) updated: Instant,
    pub(super) parts: Parts,
}

impl Transaction {
    /// An id that nobody has used.
    pub(super) fn new(producer_id: i64, now: Instant) -> Self {
        Self {
            producer: Identity { id: producer_id, epoch: NONE },
            previous_id: i64::from(NONE),
            last_epoch: NONE,
            timeout: Duration::ZERO,
            state: State::Empty,
            started: None,
            updated: now,
            parts: Parts::default(),
        }
    }

    /// Whether a client that says who it was may have a new identity.
    pub(super) fn knows(&self, expected: Identity) -> bool {
        self.producer.epoch == NONE
            || expected.id == self.producer.id
            || (expected.id == self.previous_id && expected.epoch >= LAST_EPOCH)
    }

    /// Gives a new identity, which fences whoever has the one before. `expected`: the producer asks for the next one of its
    /// own after an error (KIP-360), and is given the same again if it asks again.
    pub(super) fn renew(
        &mut self,
        expected: Option<Identity>,
        (timeout, now): (Duration, Instant),
        new_id: impl FnOnce() -> i64,
    ) -> Result<(), ResponseError> {
        let before = self.producer;
        let asked = expected.map(|expected| expected.epoch);
        if asked.is_none_or(|epoch| before.epoch == NONE || epoch == before.epoch) {
            self.last_epoch = if asked.is_some() { before.epoch } else { NONE };
            self.producer = if before.epoch >= LAST_EPOCH {
                Identity { id: new_id(), epoch: 0 }
            } else {
                Identity { id: before.id, epoch: before.epoch + 1 }
            };
            self.previous_id = before.id;
        } else if asked != Some(self.last_epoch) {
            return Err(ResponseError::ProducerFenced);
        }
        self.timeout = timeout;
        self.state = State::Empty;
        self.started = None;
        self.updated = now;
        Ok(())
    }

    /// Nobody has this identity any more, and nobody is given the one that comes of it.
    pub(super) const fn fence(&mut self) {
        self.producer.epoch = self.producer.epoch.saturating_add(1);
        self.last_epoch = NONE;
    }

    /// The one that asks is this id's producer.
    pub(super) fn validate(&self, producer: Identity) -> Result<(), ResponseError> {
        if producer.id != self.producer.id {
            Err(ResponseError::InvalidProducerIdMapping)
        } else if producer.epoch != self.producer.epoch {
            Err(ResponseError::ProducerFenced)
        } else {
            Ok(())
        }
    }

    /// Others become part of the transaction, if they take no more than `room` bytes; the first that do begin it.
    ///
    /// # Errors
    /// UNKNOWN_SERVER_ERROR, as Kafka says it of what is too large for its log of transactions.
    pub(super) fn add(&mut self, others: &Parts, room: usize, now: Instant) -> Result<(), ResponseError> {
        let missing = self.parts.missing(others);
        if self.parts.growth(&missing) > room {
            return Err(ResponseError::UnknownServerError);
        }
        self.parts.extend(missing);
        if self.state != State::Ongoing {
            self.state = State::Ongoing;
            self.started = Some(now);
        }
        self.updated = now;
        Ok(())
    }

    /// Whether there is something to end. `false`: it has ended just so, and the client asks again.
    pub(super) const fn may_end(&self, commit: bool) -> Result<bool, ResponseError> {
        match (self.state, commit) {
            (State::Ongoing, _) => Ok(true),
            (State::CompleteCommit, true) | (State::CompleteAbort, false) => Ok(false),
            _ => Err(ResponseError::InvalidTxnState),
        }
    }

    /// The transaction is over; whom it was about, to be told.
    #[must_use]
    pub(super) fn end(&mut self, commit: bool, now: Instant) -> Parts {
        self.updated = now;
        self.state = if commit { State::CompleteCommit } else { State::CompleteAbort };
        std::mem::take(&mut self.parts)
    }
}

impl Kept<TransactionalId> for Transaction {
    /// When it has lasted too long.
    fn due(&self) -> Instant {
        let started = self.started.filter(|_| self.state == State::Ongoing);
        started.map_or(Instant::FAR_FUTURE, |started| started + self.timeout)
    }

    fn bytes(&self, name: &TransactionalId) -> usize {
        entries::<(TransactionalId, Self, Instant, TransactionalId)>(1) + text(name.len()) + self.parts.size()
    }
}
