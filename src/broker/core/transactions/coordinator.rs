//! All transactional ids, and the requests of their producers (Kafka's `TransactionCoordinator`).

use std::{collections::BTreeSet, time::Duration};

use kafka_protocol::{
    error::ResponseError,
    messages::{
        AddOffsetsToTxnRequest, AddOffsetsToTxnResponse, EndTxnRequest, EndTxnResponse, GroupId, InitProducerIdRequest,
        InitProducerIdResponse, ProducerId, TransactionalId, TxnOffsetCommitRequest,
    },
    protocol::StrBytes,
};

use super::{
    TransactionOptions,
    transaction::{Identity, Parts, State, Transaction},
};
use crate::{
    broker::core::{
        agenda::{Agenda, Changing},
        groups::Groups,
        logs::{Logs, Marker, OpenTransactions, TransactionalWrite},
    },
    clock::Instant,
};

/// Those that a transaction is about.
pub(in crate::broker::core) struct Participants<'a> {
    pub(in crate::broker::core) logs: &'a mut Logs,
    pub(in crate::broker::core) groups: &'a mut Groups,
}

/// All transactional ids that are in use.
#[derive(Debug)]
pub(in crate::broker::core) struct Transactions {
    options: TransactionOptions,
    pub(super) known: Agenda<TransactionalId, Transaction>,
    /// How often the coordinator has moved.
    epoch: i32,
    /// When ids are forgotten next that nobody uses.
    expiry: Instant,
}

impl Transactions {
    pub(in crate::broker::core) fn new(options: TransactionOptions) -> Self {
        let expiry = Instant::ZERO + options.id_expiration_check_interval;
        Self { options, known: Agenda::new(), epoch: 0, expiry }
    }

    /// InitProducerId with a transactional id: whoever had it is fenced and what it left open is aborted, of which the client
    /// learns by CONCURRENT_TRANSACTIONS and asks again.
    pub(in crate::broker::core) fn init_producer(
        &mut self,
        version: i16,
        request: &InitProducerIdRequest,
        participants: &mut Participants<'_>,
        now: Instant,
    ) -> InitProducerIdResponse {
        match self.renew(request, participants, now) {
            Ok(Identity { id, epoch }) => {
                InitProducerIdResponse::default().with_producer_id(ProducerId(id)).with_producer_epoch(epoch)
            }
            Err(error) => InitProducerIdResponse::default()
                .with_error_code(told(error, version, 4))
                .with_producer_id(ProducerId(-1))
                .with_producer_epoch(-1),
        }
    }

    fn renew(
        &mut self,
        request: &InitProducerIdRequest,
        participants: &mut Participants<'_>,
        now: Instant,
    ) -> Result<Identity, ResponseError> {
        let expected = match (request.producer_id.0, request.producer_epoch) {
            (-1, -1) => None,
            (-1, _) | (_, -1) => return Err(ResponseError::InvalidRequest),
            (id, epoch) => Some(Identity { id, epoch }),
        };
        let id = request.transactional_id.clone().unwrap_or_default();
        if id.is_empty() {
            return Err(ResponseError::InvalidRequest);
        }
        let asked = u64::try_from(request.transaction_timeout_ms).ok().filter(|ms| *ms > 0).map(Duration::from_millis);
        let timeout =
            asked.filter(|asked| *asked <= self.options.max_timeout).ok_or(ResponseError::InvalidTransactionTimeout)?;
        self.room(&id).ok_or(ResponseError::UnknownServerError)?;
        let Participants { logs, .. } = participants;
        let new = || Transaction::new(logs.new_producer_id().0, now);
        let mut transaction = self.known.change_or_insert(&id, new);
        if expected.is_some_and(|expected| !transaction.knows(expected)) {
            return Err(ResponseError::ProducerFenced);
        }
        if transaction.state == State::Ongoing {
            transaction.fence();
            end(&mut transaction, false, self.epoch, participants, now);
            return Err(ResponseError::ConcurrentTransactions);
        }
        transaction.renew(expected, (timeout, now), || logs.new_producer_id().0)?;
        Ok(transaction.producer)
    }

    /// The transaction of an id, if the one that asks is its producer.
    pub(super) fn of<'a>(
        &'a mut self,
        id: &'a TransactionalId,
        producer: Identity,
    ) -> Result<Changing<'a, TransactionalId, Transaction>, ResponseError> {
        if id.is_empty() {
            return Err(ResponseError::InvalidRequest);
        }
        let transaction = self.known.change(id).ok_or(ResponseError::InvalidProducerIdMapping)?;
        transaction.validate(producer)?;
        Ok(transaction)
    }

    /// Others become part of the transaction of an id, if the one that asks is its producer.
    pub(super) fn add(
        &mut self,
        id: &TransactionalId,
        producer: Identity,
        parts: &Parts,
        now: Instant,
    ) -> Result<(), ResponseError> {
        let room = self.room(id).unwrap_or(0);
        self.of(id, producer)?.add(parts, room, now)
    }

    /// Bytes that an id may take more; `None`: it is not there, and there is no room to make it.
    fn room(&self, id: &TransactionalId) -> Option<usize> {
        self.known.room(id, self.options.max_bytes, || Transaction::new(0, Instant::ZERO))
    }

    /// AddOffsetsToTxn.
    pub(in crate::broker::core) fn add_offsets(
        &mut self,
        version: i16,
        request: &AddOffsetsToTxnRequest,
        now: Instant,
    ) -> AddOffsetsToTxnResponse {
        let producer = Identity { id: request.producer_id.0, epoch: request.producer_epoch };
        let parts = Parts::new(BTreeSet::new(), BTreeSet::from([request.group_id.clone()]));
        let added = self.add(&request.transactional_id, producer, &parts, now);
        AddOffsetsToTxnResponse::default().with_error_code(added.err().map_or(0, |error| told(error, version, 2)))
    }

    /// Whether a group is part of the transaction in whose name somebody commits for it.
    pub(in crate::broker::core) fn verify_commit(
        &self,
        version: i16,
        request: &TxnOffsetCommitRequest,
    ) -> Result<(), ResponseError> {
        let producer = Identity { id: request.producer_id.0, epoch: request.producer_epoch };
        let is_in = |transaction: &Transaction| transaction.parts.groups.contains(&request.group_id);
        self.verify(&request.transactional_id, producer, is_in).map_err(|error| match error {
            ResponseError::TransactionAbortable if version < 4 => ResponseError::InvalidTxnState,
            error => error,
        })
    }

    fn verify(
        &self,
        id: &TransactionalId,
        producer: Identity,
        is_in: impl FnOnce(&Transaction) -> bool,
    ) -> Result<(), ResponseError> {
        let transaction = self.known.get(id).ok_or(ResponseError::InvalidProducerIdMapping)?;
        transaction.validate(producer).map_err(|error| match error {
            // Who writes is told as a log would tell it.
            ResponseError::ProducerFenced => ResponseError::InvalidProducerEpoch,
            error => error,
        })?;
        if is_in(transaction) { Ok(()) } else { Err(ResponseError::TransactionAbortable) }
    }

    /// EndTxn: the decision and its markers.
    pub(in crate::broker::core) fn end(
        &mut self,
        version: i16,
        request: &EndTxnRequest,
        participants: &mut Participants<'_>,
        now: Instant,
    ) -> EndTxnResponse {
        let producer = Identity { id: request.producer_id.0, epoch: request.producer_epoch };
        let coordinator = self.epoch;
        let ended = self.of(&request.transactional_id, producer).and_then(|mut transaction| {
            if transaction.may_end(request.committed)? {
                end(&mut transaction, request.committed, coordinator, participants, now);
            }
            Ok(())
        });
        EndTxnResponse::default().with_error_code(ended.err().map_or(0, |error| told(error, version, 2)))
    }

    /// The coordinator moves: what it wrote before is told from what it writes now.
    pub(in crate::broker::core) const fn moved(&mut self) {
        self.epoch += 1;
    }

    /// When [`Transactions::tick`] is due.
    pub(in crate::broker::core) fn due(&self) -> Instant {
        self.known.first_due().min(self.expiry)
    }

    /// A fault: every transaction that is open has lasted too long. How many.
    pub(in crate::broker::core) fn time_out(&mut self, participants: &mut Participants<'_>, now: Instant) -> usize {
        let open = self.known.due_until(Instant::FAR_FUTURE);
        open.iter().for_each(|id| self.abort(id, participants, now));
        open.len()
    }

    /// Aborts what has lasted too long, and fences its producer; forgets ids that nobody uses.
    pub(in crate::broker::core) fn tick(&mut self, participants: &mut Participants<'_>, now: Instant) {
        for id in self.known.due_until(now) {
            self.abort(&id, participants, now);
        }
        if self.expiry <= now {
            self.expiry = now + self.options.id_expiration_check_interval;
            let unused = |since| now.saturating_since(since) >= self.options.id_expiration;
            self.known.retain(|transaction| transaction.state == State::Ongoing || !unused(transaction.updated));
        }
    }

    /// Aborts what an id has open, and fences its producer.
    fn abort(&mut self, id: &TransactionalId, participants: &mut Participants<'_>, now: Instant) {
        if let Some(mut transaction) = self.known.change(id) {
            transaction.fence();
            end(&mut transaction, false, self.epoch, participants, now);
        }
    }
}

impl OpenTransactions for Transactions {
    fn admits(&self, write: TransactionalWrite<'_>) -> Result<(), ResponseError> {
        let id = TransactionalId(StrBytes::from_string(write.transactional_id.to_owned()));
        let producer = Identity { id: write.producer_id, epoch: write.producer_epoch };
        let partition = (write.topic.clone(), write.partition);
        self.verify(&id, producer, |transaction| transaction.parts.partitions.contains(&partition))
    }
}

/// Ends a transaction everywhere.
fn end(
    transaction: &mut Transaction,
    commit: bool,
    coordinator_epoch: i32,
    participants: &mut Participants<'_>,
    now: Instant,
) {
    let Identity { id: producer_id, epoch: producer_epoch } = transaction.producer;
    let marker = Marker { producer_id, producer_epoch, coordinator_epoch, commit };
    let parts = transaction.end(commit, now);
    for (topic, partition) in &parts.partitions {
        let written = participants.logs.write_marker(topic, *partition, marker, now);
        // A partition that is gone has nothing to end; later epochs than this coordinator's own there are none.
        debug_assert!(matches!(written, Ok(_) | Err(ResponseError::UnknownTopicOrPartition)), "{written:?}");
    }
    for group in &parts.groups {
        participants.groups.end_transaction(group, producer_id, commit);
    }
}

/// The error as a version knows it: before `since` there was no PRODUCER_FENCED.
pub(super) const fn told(error: ResponseError, version: i16, since: i16) -> i16 {
    match error {
        ResponseError::ProducerFenced if version < since => ResponseError::InvalidProducerEpoch.code(),
        error => error.code(),
    }
}

/// The partition of `__consumer_offsets` in which Kafka keeps a group, of the 50 that there are by default: Java's hash of
/// its name.
pub(super) fn offsets_partition(group: &GroupId) -> i32 {
    let hash = group.encode_utf16().fold(0_i32, |hash, unit| hash.wrapping_mul(31).wrapping_add(i32::from(unit)));
    hash.checked_abs().unwrap_or(0) % 50
}
