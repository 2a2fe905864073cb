//! The port of a producer that writes in transactions.

use std::{sync::Arc, time::Duration};

use kafka_protocol::{
    error::ResponseError as E,
    messages::{
        AddPartitionsToTxnRequest, EndTxnRequest, InitProducerIdRequest, ProducerId, ResponseKind, TransactionalId,
        add_partitions_to_txn_request::AddPartitionsToTxnTopic,
    },
};

use super::{
    ADD_PARTITIONS, END_TXN, INIT_PRODUCER_ID, LATER, PATIENCE, by_topic, error,
    outbox::{Delivery, LaneId, Outbox, OutboxOptions},
    text,
};
use crate::{
    chaos::{
        host::Host,
        link::{Call, Heard},
    },
    clock::Instant,
    kafka::{
        TransactionOptions,
        client::{ClientError, ErrorKind, ProduceBatch, transactions::TransactionClient},
    },
};

/// A transactional producer, see [`TransactionClient`].
#[derive(Debug)]
pub struct SimTransactions {
    host: Host,
    id: TransactionalId,
    timeout: Duration,
    outbox: Outbox,
    initializing: Option<Call>,
    adding: Option<(Call, Vec<LaneId>)>,
    ending: Option<Call>,
    not_before: Instant,
    /// A transaction that no commit was called for.
    open: bool,
    /// The open transaction has a partition.
    holds_any: bool,
    deliveries: Vec<Delivery>,
}

impl SimTransactions {
    /// A producer that takes its identity in `init`.
    #[must_use]
    pub fn new(options: &TransactionOptions, epoch_ms: i64, host: Host) -> Self {
        let id = TransactionalId(text(&options.id));
        let outbox = OutboxOptions {
            request_records: 10_000,
            queue_records: options.queue_records as usize,
            delivery_timeout: options.timeout,
            epoch_ms,
            transactional_id: Some(id.clone()),
        };
        Self {
            outbox: Outbox::new(host.clone(), outbox),
            id,
            timeout: options.timeout,
            initializing: None,
            adding: None,
            ending: None,
            not_before: Instant::ZERO,
            open: false,
            holds_any: false,
            deliveries: Vec::new(),
            host,
        }
    }

    fn error(&self, code: &E) -> ClientError {
        let kind = match code {
            E::InvalidProducerEpoch | E::ProducerFenced | E::InvalidProducerIdMapping => ErrorKind::Fenced,
            E::MessageTooLarge | E::RecordListTooLarge => ErrorKind::TooLarge,
            E::RequestTimedOut => ErrorKind::TimedOut,
            _ => ErrorKind::Other,
        };
        ClientError::new(kind, format!("transactional id {:?}: {code:?}", self.id.0))
    }

    /// Whether the same question may be asked again later.
    fn is_later(code: &E) -> bool {
        matches!(
            code,
            E::ConcurrentTransactions
                | E::NotCoordinator
                | E::CoordinatorNotAvailable
                | E::CoordinatorLoadInProgress
                | E::UnknownTopicOrPartition
                | E::RequestTimedOut
        )
    }

    /// Sends what may be sent, and tells the coordinator of partitions before their first record.
    fn turn(&mut self) -> Result<(), ClientError> {
        let now = self.host.now();
        self.add_partitions(now)?;
        let mut deliveries = std::mem::take(&mut self.deliveries);
        self.outbox.turn(now, &mut deliveries);
        let failed = deliveries.drain(..).find_map(|delivery| match delivery {
            Delivery::Acked(_) => None,
            Delivery::Failed(_, code) => Some(code),
        });
        self.deliveries = deliveries;
        failed.map_or(Ok(()), |code| Err(self.error(&code)))
    }

    fn add_partitions(&mut self, now: Instant) -> Result<(), ClientError> {
        if let Some((call, lanes)) = self.adding.take() {
            match self.outbox.link.hear(call) {
                Heard::Nothing => self.adding = Some((call, lanes)),
                Heard::Answer(ResponseKind::AddPartitionsToTxn(answer)) => {
                    let results = answer.results_by_topic_v3_and_below.iter();
                    let mut codes = results.flat_map(|t| &t.results_by_partition).map(|p| p.partition_error_code);
                    match codes.find_map(error) {
                        None => {
                            self.outbox.added(&lanes);
                            self.holds_any = true;
                        }
                        Some(code) if Self::is_later(&code) => self.not_before = now + LATER,
                        Some(code) => return Err(self.error(&code)),
                    }
                }
                Heard::Answer(_) | Heard::Lost => {}
            }
        }
        if self.adding.is_some() || now < self.not_before || !self.outbox.link.is_ready() {
            return Ok(());
        }
        let (Some((producer_id, epoch)), lanes) = (self.outbox.identity, self.outbox.to_add()) else { return Ok(()) };
        if !lanes.is_empty() {
            let topics = by_topic(lanes.iter().map(|(topic, partition)| (&**topic, *partition)));
            let topics = topics.into_iter().map(|(topic, partitions)| {
                AddPartitionsToTxnTopic::default().with_name(topic).with_partitions(partitions)
            });
            let request = AddPartitionsToTxnRequest::default()
                .with_v3_and_below_transactional_id(self.id.clone())
                .with_v3_and_below_producer_id(ProducerId(producer_id))
                .with_v3_and_below_producer_epoch(epoch)
                .with_v3_and_below_topics(topics.collect());
            self.adding = Some((self.outbox.link.ask(ADD_PARTITIONS, request.into(), PATIENCE), lanes));
        }
        Ok(())
    }

    fn end(&mut self, committed: bool) -> Option<Call> {
        let (producer_id, epoch) = self.outbox.identity?;
        let request = EndTxnRequest::default()
            .with_transactional_id(self.id.clone())
            .with_producer_id(ProducerId(producer_id))
            .with_producer_epoch(epoch)
            .with_committed(committed);
        Some(self.outbox.link.ask(END_TXN, request.into(), PATIENCE))
    }
}

impl TransactionClient for SimTransactions {
    fn init(&mut self, topics: &[Arc<str>], _: Duration) -> Result<bool, ClientError> {
        self.host.call()?;
        let now = self.host.now();
        let known = self.outbox.know(topics);
        self.outbox.look(now);
        if let Some(call) = self.initializing.take() {
            match self.outbox.link.hear(call) {
                Heard::Nothing => self.initializing = Some(call),
                Heard::Answer(ResponseKind::InitProducerId(answer)) => match error(answer.error_code) {
                    None => self.outbox.identity = Some((answer.producer_id.0, answer.producer_epoch)),
                    Some(code) if Self::is_later(&code) => self.not_before = now + LATER,
                    Some(code) => return Err(self.error(&code)),
                },
                Heard::Answer(_) | Heard::Lost => {}
            }
        } else if self.outbox.identity.is_none() && now >= self.not_before && self.outbox.link.is_ready() {
            let timeout = i32::try_from(self.timeout.as_millis()).unwrap_or(i32::MAX);
            let request = InitProducerIdRequest::default()
                .with_transactional_id(Some(self.id.clone()))
                .with_transaction_timeout_ms(timeout)
                .with_producer_id(ProducerId(-1))
                .with_producer_epoch(-1);
            self.initializing = Some(self.outbox.link.ask(INIT_PRODUCER_ID, request.into(), PATIENCE));
        }
        Ok(known && self.outbox.identity.is_some())
    }

    fn begin(&mut self) -> Result<(), ClientError> {
        self.host.call()?;
        self.outbox.forget_added();
        (self.open, self.holds_any) = (true, false);
        Ok(())
    }

    fn produce(&mut self, batch: &ProduceBatch, from: usize) -> Result<usize, ClientError> {
        self.host.call()?;
        Ok(self.outbox.take(batch, from))
    }

    fn poll(&mut self, _: Duration) -> Result<(), ClientError> {
        self.host.call()?;
        self.turn()
    }

    fn commit(&mut self, _: Duration) -> Result<bool, ClientError> {
        self.host.call()?;
        self.open = false;
        if self.outbox.in_flight() > 0 {
            self.turn()?;
            return Ok(false);
        }
        if !self.holds_any {
            return Ok(true);
        }
        let now = self.host.now();
        if let Some(call) = self.ending.take() {
            match self.outbox.link.hear(call) {
                Heard::Nothing => self.ending = Some(call),
                Heard::Answer(ResponseKind::EndTxn(answer)) => match error(answer.error_code) {
                    None => {
                        self.holds_any = false;
                        return Ok(true);
                    }
                    Some(code) if Self::is_later(&code) => self.not_before = now + LATER,
                    Some(code) => return Err(self.error(&code)),
                },
                // Asked again: to end what has ended is no error.
                Heard::Answer(_) | Heard::Lost => {}
            }
        } else if now >= self.not_before && self.outbox.link.is_ready() {
            self.ending = self.end(true);
        }
        Ok(false)
    }

    fn close(&mut self, _: Duration) {
        if self.host.call().is_err() {
            return;
        }
        if std::mem::take(&mut self.open) && self.holds_any && self.outbox.link.is_ready() {
            self.end(false);
        }
        self.outbox.close();
    }
}
