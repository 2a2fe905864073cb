//! From the entries of a flush to one transaction.

use std::{sync::Arc, time::Duration};

use super::{ChangelogOptions, opening::Topics};
use crate::{
    clock::{Clock, Instant},
    kafka::{
        client::{
            ClientError,
            produce::{ProduceBatch, ProduceRecord},
            record::NO_TIMESTAMP,
            transactions::TransactionClient,
        },
        dead_letters::component_error,
    },
    state::{Changes, FormatRecord, RecordKey},
    topology::{
        CommitNumber, ComponentError, ComponentResult,
        changelog::{Flush, StoreId},
    },
};

/// How many records are offered at a time: their bytes stay in the second-level cache until they are copied.
const ROWS: usize = 1024;

/// The longest time between two steps that counts as waiting: more, and the process stood still.
const STANDSTILL: Duration = Duration::from_secs(1);

/// A flush on its way.
pub(super) struct Flushing {
    number: CommitNumber,
    topics: Vec<Arc<str>>,
    changes: Vec<(StoreId, Changes)>,
    /// Where in `changes` the next record is.
    at: (usize, usize),
    /// What is no entry, by store; taken when it is offered.
    others: Vec<(usize, RecordKey<'static>, Vec<u8>)>,
    batch: ProduceBatch,
    /// So many rows of the batch were taken.
    taken: usize,
    key: Vec<u8>,
    age: Age,
    /// Until when to wait for news of a successor, and what to say if there is none.
    doubt: Option<(Instant, ComponentError)>,
}

/// How old a transaction is, and how long it was waited for: a process that stood still has not waited.
struct Age {
    began: Instant,
    seen: Instant,
    waited: Duration,
}

impl Flushing {
    /// A flush that begins now. `formats` says what the topics are, if they do not say so yet.
    ///
    /// # Errors
    /// Entries of a store that this changelog does not keep.
    pub(super) fn new(flush: Flush, topics: &Topics, formats: &[FormatRecord], now: Instant) -> ComponentResult<Self> {
        let Flush { position, changes } = flush;
        if let Some((StoreId(store), _)) = changes.iter().find(|(store, _)| store.0 >= topics.names().len()) {
            return Err(ComponentError::new(format!(
                "flush {} has entries of store {store}, which is none",
                position.commit
            )));
        }
        let formats = formats.iter().map(FormatRecord::encode).enumerate();
        let mut others: Vec<_> = formats.map(|(store, value)| (store, RecordKey::Format, value)).collect();
        others.push((0, RecordKey::Position, position.encode()));
        Ok(Self {
            number: CommitNumber(position.commit),
            batch: ProduceBatch::new("".into()),
            topics: topics.names().to_vec(),
            changes,
            at: (0, 0),
            others,
            taken: 0,
            key: Vec::new(),
            age: Age { began: now, seen: now, waited: Duration::ZERO },
            doubt: None,
        })
    }

    /// Offers records until all are taken (true) or the client has no room for more.
    pub(super) fn send(&mut self, producer: &mut dyn TransactionClient) -> Result<bool, ClientError> {
        loop {
            if self.taken == self.batch.len() && !self.fill() {
                return Ok(true);
            }
            self.taken += producer.produce(&self.batch, self.taken)?;
            if self.taken < self.batch.len() {
                return Ok(false);
            }
        }
    }

    /// Fills the batch with the next records; false if there are none, and it is empty.
    fn fill(&mut self) -> bool {
        self.taken = 0;
        self.batch.clear();
        while let Some((store, changes)) = self.changes.get(self.at.0) {
            if self.at.1 < changes.len() {
                let Some(topic) = self.topics.get(store.0) else { return false };
                turn_to(&mut self.batch, topic);
                let end = changes.len().min(self.at.1 + ROWS);
                for change in (self.at.1..end).filter_map(|row| changes.get(row)) {
                    push(
                        &mut self.batch,
                        &mut self.key,
                        i32::from(change.group),
                        (RecordKey::Entry(change.key), change.value),
                    );
                }
                self.at.1 = end;
                return true;
            }
            self.at = (self.at.0 + 1, 0);
        }
        let Some((store, key, value)) = self.others.pop() else { return false };
        let Some(topic) = self.topics.get(store) else { return false };
        turn_to(&mut self.batch, topic);
        push(&mut self.batch, &mut self.key, 0, (key, Some(&value)));
        true
    }

    /// Works on, and says when the flush is durable.
    ///
    /// # Errors
    /// It was not written, or nobody knows.
    pub(super) fn step(
        &mut self,
        producer: &mut dyn TransactionClient,
        options: &ChangelogOptions,
        clock: &Clock,
        max_wait: Duration,
    ) -> ComponentResult<Option<CommitNumber>> {
        if let Some((until, error)) = &self.doubt {
            let left = *until - clock.now();
            if left.is_zero() {
                return Err(error.clone());
            }
            std::thread::sleep(max_wait.min(left));
            return Ok(None);
        }
        let error = match self.work(producer, max_wait) {
            Ok(true) => return Ok(Some(self.number)),
            Ok(false) => None,
            Err(error) => Some(error),
        };
        let timeout = options.transaction_timeout;
        let (age, waited) = self.age.at(clock.now());
        match error {
            Some(error) if age < timeout => Err(self.unknown(error)),
            // The broker ends a transaction that outlives its timeout, and refuses it as if another process had taken
            // over. If this one stood still, that may have happened too: the group knows, and its heartbeats tell.
            Some(error) if waited < timeout => {
                let error = ComponentError::new(format!("{}: {}", self.overdue(age), error.message));
                self.doubt = Some((clock.now() + options.takeover_notice, error));
                Ok(None)
            }
            Some(error) => Err(ComponentError::new(format!("{}: {}", self.overdue(waited), error.message))),
            None if waited >= timeout => Err(ComponentError::new(self.overdue(waited))),
            None => Ok(None),
        }
    }

    fn work(&mut self, producer: &mut dyn TransactionClient, max_wait: Duration) -> Result<bool, ClientError> {
        if self.send(producer)? {
            return producer.commit(max_wait);
        }
        producer.poll(max_wait)?;
        Ok(false)
    }

    /// An error before the transaction was too old: it says what it says.
    fn unknown(&self, error: ClientError) -> ComponentError {
        let error = ClientError { message: format!("flush {}: {}", self.number.0, error.message), ..error };
        component_error(error)
    }

    fn overdue(&self, age: Duration) -> String {
        format!(
            "flush {} was not acknowledged within {age:.1?}; the next start finds out whether it was written",
            self.number.0
        )
    }
}

impl Age {
    /// How old the transaction is now, and how long it was waited for.
    fn at(&mut self, now: Instant) -> (Duration, Duration) {
        self.waited += (now - self.seen).min(STANDSTILL);
        self.seen = now;
        (now - self.began, self.waited)
    }
}

/// Makes an empty batch one for `topic`.
fn turn_to(batch: &mut ProduceBatch, topic: &Arc<str>) {
    if !Arc::ptr_eq(batch.topic(), topic) {
        *batch = ProduceBatch::new(Arc::clone(topic));
    }
}

fn push(batch: &mut ProduceBatch, key: &mut Vec<u8>, partition: i32, record: (RecordKey<'_>, Option<&[u8]>)) {
    key.clear();
    record.0.encode(key);
    let record = ProduceRecord { key: Some(key), value: record.1, ..ProduceRecord::default() };
    batch.push_to(partition, NO_TIMESTAMP, &record);
}
