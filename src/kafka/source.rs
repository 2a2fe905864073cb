//! The spout that reads Kafka: emits records, holds them until they are done, and commits behind them.
//!
//! It decides; the [`Poller`](super::poller) beside it talks to the client. Nothing here waits.

use std::collections::VecDeque;

use super::{
    channel::{BytesUnderway, News, Order, Outlet},
    client::{Commit, CommitToken, TopicPartition},
    dead_letters::{DeadLetterOptions, DeadLetters, SinkFactory, component_error},
    format::Scratch,
    gauges::{CommitGauges, PartitionGauges},
    offsets::Seq,
    partition::Partition,
    pending::{MAX_SLOTS, message_id, unpack},
    poller::{Poller, PollerParts},
    round::Round,
    source_options::{KafkaSpoutOptions, SourceFactory},
};
use crate::{
    clock::Instant,
    metrics::{DuplicateOutcome, Metrics},
    topology::{
        CommitNumber, CommitState, Companion, ComponentError, ComponentResult, Delivery, Failure, MessageId, Next,
        Spout, SpoutOutput, TaskContext,
    },
};

/// News that the ring to the spout can hold, and orders that the ring to the poller can.
const NEWS: usize = 64;
const ORDERS: usize = 256;

/// Records that wait in the spout for their first emission, at which no more blocks are taken.
const ENOUGH_WAITING: u64 = 4096;
/// Under at-most-once one batch waits for its commit while another is emitted.
const ENOUGH_WAITING_FOR_COMMIT: u64 = 65_536;

/// A partition with the handles of its metrics.
#[derive(Debug)]
pub(super) struct Slot {
    pub(super) partition: Partition,
    pub(super) gauges: PartitionGauges,
}

/// The spout of Kafka topics.
pub struct KafkaSpout {
    pub(super) options: KafkaSpoutOptions,
    factory: SourceFactory,
    pub(super) metrics: Metrics,
    pub(super) delivery: Delivery,
    poller: Option<Box<Poller>>,
    news: Option<rtrb::Consumer<News>>,
    pub(super) orders: Option<Outlet<Order>>,
    underway: BytesUnderway,
    pub(super) slots: Vec<Option<Slot>>,
    /// The first free number of each slot that was used before.
    next_seqs: Vec<Seq>,
    /// The slot that emits next.
    pub(super) turn: usize,
    /// Open trees, those of partitions that left included.
    pub(super) in_flight: usize,
    pub(super) letters: DeadLetters<(usize, Seq)>,
    /// Records given up lately: what comes late of them is no duplicate.
    pub(super) given_up: VecDeque<MessageId>,
    round: Option<Round>,
    /// The commit that at-most-once waits for: up to where each partition may be emitted then.
    pub(super) ahead: Option<Round>,
    pub(super) ahead_allows: Vec<(usize, Seq)>,
    tokens: u64,
    pub(super) broken: Option<ComponentError>,
    /// Whether the group has given partitions before: without, there is no end.
    was_assigned: bool,
    pub(super) now: Instant,
    show_at: Instant,
    commit_gauges: CommitGauges,
    pub(super) scratch: Scratch,
    pub(super) decided: super::emission::Decided,
    late: u64,
}

impl std::fmt::Debug for KafkaSpout {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KafkaSpout").field("in_flight", &self.in_flight).finish_non_exhaustive()
    }
}

impl KafkaSpout {
    /// A spout that makes its client when it is opened.
    #[must_use]
    pub fn new(
        options: KafkaSpoutOptions,
        client: SourceFactory,
        (dead_letters, sink): (DeadLetterOptions, SinkFactory),
        metrics: Metrics,
    ) -> Self {
        Self {
            options,
            factory: client,
            delivery: Delivery::default(),
            poller: None,
            news: None,
            orders: None,
            underway: BytesUnderway::default(),
            slots: Vec::new(),
            next_seqs: Vec::new(),
            turn: 0,
            in_flight: 0,
            letters: DeadLetters::new(dead_letters, sink, metrics.clone()),
            given_up: VecDeque::new(),
            round: None,
            ahead: None,
            ahead_allows: Vec::new(),
            tokens: 0,
            broken: None,
            was_assigned: false,
            now: Instant::ZERO,
            show_at: Instant::ZERO,
            commit_gauges: CommitGauges::new(&metrics),
            scratch: Scratch::default(),
            decided: super::emission::Decided::default(),
            late: 0,
            metrics,
        }
    }

    /// Acks and failures that came for partitions that had left.
    #[must_use]
    pub const fn late(&self) -> u64 {
        self.late
    }

    pub(super) fn order(&mut self, order: Order) {
        if let Some(orders) = &mut self.orders {
            orders.send(order);
        }
    }

    fn find(&self, partition: &TopicPartition) -> Option<usize> {
        let is_it = |slot: &Option<Slot>| slot.as_ref().is_some_and(|slot| slot.partition.id == *partition);
        self.slots.iter().position(is_it)
    }

    fn live(&self) -> impl Iterator<Item = &Partition> {
        self.slots.iter().flatten().map(|slot| &slot.partition)
    }

    /// Hears what the poller says, as far as there is use for more records.
    fn hear_news(&mut self) {
        if let Some(orders) = &mut self.orders {
            orders.pump();
        }
        while let Some(news) = self.news.as_mut() {
            let wanted = match news.peek() {
                Ok(News::Records(_)) => self.wants_records(),
                Ok(_) => true,
                Err(_) => return,
            };
            if !wanted {
                return;
            }
            let Some(Ok(news)) = self.news.as_mut().map(rtrb::Consumer::pop) else { return };
            self.hear(news);
        }
    }

    fn wants_records(&self) -> bool {
        let enough = match self.delivery {
            Delivery::AtMostOnce => ENOUGH_WAITING_FOR_COMMIT,
            Delivery::AtLeastOnce | Delivery::NoGuarantee => ENOUGH_WAITING,
        };
        let (mut waiting, mut bytes) = (0, 0);
        for partition in self.live() {
            // What a stuck partition holds must not keep the others from coming.
            let emittable = partition.emittable(self.options.max_ahead);
            let gated = partition.pending.unemitted() > 0 && partition.allowed.0 != u64::MAX;
            waiting += if gated { partition.pending.unemitted() } else { emittable };
            bytes += partition.pending.bytes();
        }
        waiting < enough && bytes < self.options.max_pending_bytes
    }

    fn hear(&mut self, news: News) {
        match news {
            News::Records(block) => {
                self.underway.take(block.memory());
                let slot = self.find(&block.partition).and_then(|at| self.slots.get_mut(at)?.as_mut());
                let back = match slot {
                    Some(slot) if slot.partition.epoch == block.epoch => {
                        let bytes = block.bytes().len();
                        let (records, back) = slot.partition.take(block);
                        slot.gauges.consumed(records, bytes);
                        back
                    }
                    _ => Some(block),
                };
                if let Some(block) = back {
                    self.order(Order::Recycle(block));
                }
            }
            News::Assigned { partitions, epoch } => {
                self.was_assigned = true;
                for arrival in partitions {
                    self.arrive(arrival, epoch);
                }
            }
            // Nothing of what is in flight is awaited: it was not committed, so whoever gets the partition repeats it.
            News::Revoked(partitions) | News::Lost(partitions) => {
                for partition in &partitions {
                    self.leave(partition);
                }
                self.order(Order::Release);
            }
            News::End { partition, epoch, next } => {
                let slot = self.find(&partition).and_then(|at| self.slots.get_mut(at)?.as_mut());
                if let Some(slot) = slot.filter(|slot| slot.partition.epoch == epoch) {
                    slot.partition.pass(next);
                }
            }
            News::Ends(ends) => {
                for (partition, end) in ends {
                    if let Some(slot) = self.find(&partition).and_then(|at| self.slots.get_mut(at)?.as_mut()) {
                        slot.partition.known_end = slot.partition.known_end.max(Some(end));
                    }
                }
            }
            News::Committed { token, outcomes } => self.committed(token, &outcomes),
        }
    }

    fn arrive(&mut self, arrival: super::channel::Arrival, epoch: super::client::AssignmentEpoch) {
        self.leave(&arrival.partition);
        let free = self.slots.iter().position(Option::is_none);
        let at = free.unwrap_or(self.slots.len());
        if at >= MAX_SLOTS {
            self.broken = Some(ComponentError::permanent(format!("more than {MAX_SLOTS} partitions for one spout")));
            return;
        }
        if at == self.slots.len() {
            self.slots.push(None);
            self.next_seqs.push(Seq(0));
        }
        let first = self.next_seqs.get(at).copied().unwrap_or(Seq(0));
        let gated = self.delivery == Delivery::AtMostOnce;
        let gauges = PartitionGauges::new(&self.metrics, &arrival.partition);
        let partition = Partition::new(arrival, epoch, first, self.options.retry, gated);
        if let Some(slot) = self.slots.get_mut(at) {
            *slot = Some(Slot { partition, gauges });
        }
    }

    fn leave(&mut self, id: &TopicPartition) {
        let Some(at) = self.find(id) else { return };
        let Some(Slot { partition, gauges }) = self.slots.get_mut(at).and_then(Option::take) else { return };
        if let Some(next) = self.next_seqs.get_mut(at) {
            *next = partition.frontier.next_seq();
        }
        drop(gauges);
        self.metrics.forget_partition(&id.topic, id.partition);
        for round in [&mut self.round, &mut self.ahead].into_iter().flatten() {
            round.forget(|value| value.partition == *id);
        }
        self.ahead_allows.retain(|(slot, _)| *slot != at);
        for block in partition.pending.into_blocks() {
            self.order(Order::Recycle(block));
        }
    }

    fn next_token(tokens: &mut u64) -> CommitToken {
        *tokens += 1;
        CommitToken(*tokens)
    }

    /// Sends commits that are due.
    pub(super) fn send_commits(&mut self) {
        let (now, tokens) = (self.now, &mut self.tokens);
        let due = |round: &mut Option<Round>, tokens: &mut u64| round.as_mut()?.due(now, || Self::next_token(tokens));
        for (values, token) in [due(&mut self.round, tokens), due(&mut self.ahead, tokens)].into_iter().flatten() {
            self.order(Order::Commit { values, token });
        }
    }

    fn committed(&mut self, token: CommitToken, outcomes: &[super::client::CommitOutcome]) {
        let now = self.now;
        let of = |round: &mut Option<Round>| {
            round.as_mut().and_then(|r| Some((r.answered(token, outcomes, now)?, r.frozen_at)))
        };
        let Some((answer, frozen_at)) = of(&mut self.round).or_else(|| of(&mut self.ahead)) else { return };
        for value in &answer.done {
            let slot = self.find(&value.partition).and_then(|at| self.slots.get_mut(at)?.as_mut());
            if let Some(slot) = slot.filter(|slot| slot.partition.epoch == value.epoch) {
                slot.partition.committed = slot.partition.committed.max(Some(value.next));
            }
        }
        self.commit_gauges.answered(&answer, now - frozen_at);
        if let Some(why) = answer.broken {
            tracing::error!("{why}");
            self.broken = Some(ComponentError::permanent(why));
        }
        self.allow_ahead();
    }

    /// Values to commit: what every partition has reached and nobody was asked to commit before.
    pub(super) fn values(&self, next: impl Fn(&Partition) -> Option<super::client::NextOffset>) -> Vec<Commit> {
        let value = |partition: &Partition| {
            Some(Commit {
                partition: partition.id.clone(),
                epoch: partition.epoch,
                next: next(partition)?,
                metadata: String::new(),
            })
        };
        self.live().filter_map(value).collect()
    }

    pub(super) fn mark_asked(&mut self, values: &[Commit]) {
        for slot in self.slots.iter_mut().flatten() {
            let of_it = values.iter().find(|value| value.partition == slot.partition.id);
            slot.partition.asked = slot.partition.asked.max(of_it.map(|value| value.next));
        }
    }

    /// What is to be done regularly, whatever the topology does.
    fn turn_over(&mut self, now: Instant) -> ComponentResult {
        self.now = self.now.max(now);
        self.hear_news();
        self.commit_ahead();
        self.send_commits();
        self.serve_letters()?;
        self.pause_and_resume();
        if now >= self.show_at {
            self.show_at = now + std::time::Duration::from_secs(1);
            self.slots.iter_mut().flatten().for_each(|slot| slot.gauges.show(&slot.partition));
        }
        self.broken.clone().map_or(Ok(()), Err)
    }

    fn serve_letters(&mut self) -> ComponentResult {
        if self.letters.in_flight() == 0 {
            return Ok(());
        }
        let mut acknowledged = Vec::new();
        self.letters.poll(|ticket| acknowledged.push(ticket))?;
        for (slot, seq) in acknowledged {
            self.finish(slot, seq);
        }
        Ok(())
    }

    fn pause_and_resume(&mut self) {
        let (ahead, bytes) = (self.options.max_ahead, self.options.max_pending_bytes / 2);
        let mut orders = Vec::new();
        for slot in self.slots.iter_mut().flatten() {
            let partition = &mut slot.partition;
            let pause = partition.should_pause(ahead, bytes);
            if pause != partition.paused {
                partition.paused = pause;
                let id = partition.id.clone();
                orders.push(if pause { Order::Pause(id) } else { Order::Resume(id) });
            }
        }
        orders.into_iter().for_each(|order| self.order(order));
    }

    /// A record is done. False if its partition has left.
    #[inline]
    pub(super) fn finish(&mut self, slot: usize, seq: Seq) -> bool {
        let Some(Some(held)) = self.slots.get_mut(slot) else { return false };
        if !held.partition.owns(seq) {
            return false;
        }
        if let Some(Some(block)) = held.partition.done(seq) {
            self.order(Order::Recycle(block));
        }
        true
    }

    fn is_exhausted(&self) -> bool {
        self.options.until_end && self.was_assigned && !self.slots.iter().all(Option::is_none)
            && self.live().all(Partition::is_exhausted)
    }
}

impl Spout for KafkaSpout {
    fn open(&mut self, context: &TaskContext) -> ComponentResult {
        self.check(context)?;
        self.delivery = context.delivery;
        let client = (self.factory)().map_err(component_error)?;
        let (news, news_end) = rtrb::RingBuffer::new(NEWS);
        let (orders, orders_end) = rtrb::RingBuffer::new(ORDERS);
        self.news = Some(news_end);
        self.orders = Some(Outlet::new(orders));
        self.poller = Some(Box::new(Poller::new(PollerParts {
            client,
            news,
            orders: orders_end,
            underway: self.underway.clone(),
            waker: context.waker.clone(),
            metrics: self.metrics.clone(),
            start: self.options.start,
            until_end: self.options.until_end,
            poll_records: self.options.poll_records,
        })));
        Ok(())
    }

    fn next(&mut self, now: Instant, budget: usize, out: &mut SpoutOutput<'_>) -> ComponentResult<Next> {
        self.turn_over(now)?;
        let emitted = self.emit(budget, out);
        if emitted > 0 {
            return Ok(Next::Emitted);
        }
        if self.is_exhausted() {
            return Ok(Next::Exhausted);
        }
        Ok(Next::Idle { until: self.next_due(now) })
    }

    #[inline]
    fn ack(&mut self, id: MessageId) {
        self.in_flight = self.in_flight.saturating_sub(1);
        let (slot, seq) = unpack(id);
        if !self.finish(slot, seq) {
            self.late += 1;
        }
    }

    fn fail(&mut self, now: Instant, id: MessageId, failure: Failure<'_>, effects: u64) {
        self.in_flight = self.in_flight.saturating_sub(1);
        let (slot, seq) = unpack(id);
        if !self.judge(now, (slot, seq), failure, effects) {
            self.late += 1;
        }
    }

    fn late_effects(&mut self, id: MessageId, effects: u64) {
        let (slot, seq) = unpack(id);
        let ours = self.slots.get(slot).and_then(Option::as_ref).is_some_and(|held| held.partition.owns(seq));
        if ours && !self.given_up.contains(&message_id(slot, seq)) {
            self.metrics.duplicates(DuplicateOutcome::Visible).add(effects);
        }
    }

    fn freeze(&mut self, number: CommitNumber) {
        // What was frozen before and never sent is part of this, being below.
        let values = self.values(Partition::uncommitted);
        self.round = Some(Round::new(number, values, self.now));
    }

    fn commit(&mut self, number: CommitNumber) -> ComponentResult {
        let Some(mut round) = self.round.take().filter(|round| round.number == number) else {
            return Err(ComponentError::permanent(format!("commit {} was not frozen", number.0)));
        };
        round.begin();
        self.mark_asked(round.values());
        self.round = Some(round);
        self.send_commits();
        Ok(())
    }

    fn commit_state(&mut self, now: Instant) -> ComponentResult<CommitState> {
        self.turn_over(now)?;
        Ok(self.round.as_ref().map_or(CommitState::Done, Round::state))
    }

    fn companion(&mut self) -> Option<Box<dyn Companion>> {
        self.poller.take().map(|poller| poller as Box<dyn Companion>)
    }

    fn close(&mut self) {
        self.letters.close();
        let ids: Vec<_> = self.live().map(|partition| partition.id.clone()).collect();
        ids.iter().for_each(|id| self.leave(id));
    }
}
