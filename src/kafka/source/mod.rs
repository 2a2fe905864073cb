//! The spout that reads Kafka: emits records, holds them until they are done, and commits behind them.
//!
//! It decides; the `poller` beside it talks to the client. Nothing here waits.
//!
//! Files in reading order, decisions first: `offsets` (the frontier that is committed), `retry`, `pending` (records in
//! flight), `format` (from bytes to a value), `lineage`, `history` (what this process has emitted), `partition` (one assigned partition), `commit_metadata` (what stands
//! beside a committed offset), `round` (one commit), `departure` (partitions that are asked back), `out_of_range` (offsets
//! that are gone), `others` (partitions that other members hold, where reading has an end); then `options`, `hearing`, `emission` and `committing` (the spout's parts), `poller` (its part on a thread of
//! its own), `channel` (what the two say to each other), `gauges`.

mod channel;
pub(in crate::kafka) mod commit_metadata;
mod committing;
mod departure;
mod emission;
pub mod format;
mod gauges;
mod hearing;
mod history;
pub mod lineage;
pub mod offsets;
mod options;
mod others;
mod out_of_range;
mod partition;
mod pending;
mod poller;
pub mod retry;
mod round;

use std::{
    collections::{BTreeMap, VecDeque},
    time::Duration,
};

use self::{
    channel::{BytesUnderway, Change, Order, Outlet, Read},
    departure::Departure,
    format::Scratch,
    gauges::{CommitGauges, PartitionGauges},
    offsets::Seq,
    partition::Partition,
    pending::{message_id, unpack},
    poller::{Poller, PollerParts},
    round::{Frozen, Round},
};
use super::{
    client::{AssignmentEpoch, NextOffset, TopicPartition},
    dead_letters::{DeadLetterOptions, DeadLetters, SinkFactory, component_error},
};
use crate::{
    clock::Instant,
    metrics::{Counter, DuplicateOutcome, Metrics},
    state::{SourcePosition, SourceStart},
    topology::{
        CommitNumber, CommitState, Companion, ComponentError, ComponentResult, Delivery, Failure, MessageId, Next,
        Spout, SpoutOutput, TaskContext,
    },
};

pub use history::History;
pub use options::{KafkaSpoutOptions, RecordField, SourceFactory, Start};
pub use out_of_range::OutOfRange;

/// What the rings between spout and poller can hold: blocks, changes, orders.
const RECORDS: usize = 64;
const CHANGES: usize = 256;
const ORDERS: usize = 256;

/// How often the gauges are set, and how long a partition must stand still before its memory is held against it.
const SHOW_EVERY: Duration = Duration::from_secs(1);

/// A partition with the handles of its metrics.
#[derive(Debug)]
struct Slot {
    partition: Partition,
    gauges: PartitionGauges,
}

/// The spout of Kafka topics.
pub struct KafkaSpout {
    options: KafkaSpoutOptions,
    factory: SourceFactory,
    metrics: Metrics,
    delivery: Delivery,
    poller: Option<Box<Poller>>,
    changes: Option<rtrb::Consumer<Change>>,
    records: Option<rtrb::Consumer<Read>>,
    /// What came before the assignment that it belongs to.
    early: Option<Read>,
    newest_epoch: AssignmentEpoch,
    orders: Option<Outlet<Order>>,
    underway: BytesUnderway,
    slots: Vec<Option<Slot>>,
    /// The first free number of each slot that was used before.
    next_seqs: Vec<Seq>,
    /// Partitions that are asked back, in the order of the questions.
    departures: VecDeque<Departure>,
    /// The last commit that has its answer.
    answered: CommitNumber,
    /// Partitions that left, and behind the highest record emitted of each.
    left: BTreeMap<TopicPartition, NextOffset>,
    /// The slot that emits next.
    turn: usize,
    /// Open trees, those of partitions that left included.
    in_flight: usize,
    letters: DeadLetters<(usize, Seq)>,
    /// Records given up lately: what comes late of them is no duplicate.
    given_up: VecDeque<MessageId>,
    round: Option<Round>,
    /// Every partition at the last freeze.
    frozen: Vec<Frozen>,
    /// What was committed for the partitions that are read, as found when they came.
    starts: Vec<SourceStart>,
    /// It may have emitted: the commits that prepare a start are over.
    activated: bool,
    /// `starts` was told: the stores are restored to match it.
    begun: bool,
    /// A partition has left since: what is in the stores of its records has no position any more.
    has_left: bool,
    /// The component.
    name: String,
    /// The most bytes of metadata that the broker is known, or believed, to take.
    metadata_budget: usize,
    /// The commit that at-most-once waits for: up to where each partition may be emitted then.
    ahead: Option<Round>,
    ahead_allows: Vec<(usize, Seq)>,
    tokens: u64,
    broken: Option<ComponentError>,
    /// Where reading has an end: what other members hold is committed up to there.
    others_done: bool,
    /// Whether the group has given partitions before: without, there is no end.
    was_assigned: bool,
    now: Instant,
    show_at: Instant,
    commit_gauges: CommitGauges,
    scratch: Scratch,
    decided: emission::Decided,
    /// Acks and failures that came for partitions that had left.
    late: Counter,
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
            changes: None,
            records: None,
            early: None,
            newest_epoch: AssignmentEpoch(0),
            orders: None,
            underway: BytesUnderway::default(),
            slots: Vec::new(),
            next_seqs: Vec::new(),
            departures: VecDeque::new(),
            answered: CommitNumber(0),
            left: BTreeMap::new(),
            turn: 0,
            in_flight: 0,
            letters: DeadLetters::new(dead_letters, sink, metrics.clone()),
            given_up: VecDeque::new(),
            round: None,
            frozen: Vec::new(),
            starts: Vec::new(),
            activated: false,
            begun: false,
            has_left: false,
            name: String::new(),
            metadata_budget: commit_metadata::BUDGET,
            ahead: None,
            ahead_allows: Vec::new(),
            tokens: 0,
            broken: None,
            others_done: false,
            was_assigned: false,
            now: Instant::ZERO,
            show_at: Instant::ZERO,
            commit_gauges: CommitGauges::new(&metrics),
            scratch: Scratch::default(),
            decided: emission::Decided::default(),
            late: metrics.late_acks(),
            metrics,
        }
    }

    fn order(&mut self, order: Order) {
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

    /// What is to be done regularly, whatever the topology does.
    fn turn_over(&mut self, now: Instant) -> ComponentResult {
        self.now = self.now.max(now);
        self.hear_news();
        self.commit_ahead();
        self.send_commits();
        self.serve_letters()?;
        self.depart();
        self.pause_and_resume();
        if now >= self.show_at {
            self.show_at = now + SHOW_EVERY;
            for slot in self.slots.iter_mut().flatten() {
                slot.partition.look(self.options.max_pending_bytes / 2);
                slot.gauges.show(&slot.partition);
            }
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
            self.land(slot, seq);
            self.finish(slot, seq);
        }
        Ok(())
    }

    fn pause_and_resume(&mut self) {
        let ahead = self.options.max_ahead;
        let mut orders = Vec::new();
        for slot in self.slots.iter_mut().flatten() {
            let partition = &mut slot.partition;
            let pause = partition.should_pause(ahead);
            if pause != partition.paused {
                partition.paused = pause;
                let id = partition.id.clone();
                orders.push(if pause { Order::Pause(id) } else { Order::Resume(id) });
            }
        }
        orders.into_iter().for_each(|order| self.order(order));
    }

    /// A tree has ended, or a dead letter is stored. False if its partition has left.
    #[inline]
    fn land(&mut self, slot: usize, seq: Seq) -> bool {
        let Some(Some(held)) = self.slots.get_mut(slot) else { return false };
        let ours = held.partition.owns(seq);
        held.partition.in_flight = held.partition.in_flight.saturating_sub(usize::from(ours));
        ours
    }

    /// A record is done. False if its partition has left.
    #[inline]
    fn finish(&mut self, slot: usize, seq: Seq) -> bool {
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
        self.options.until_end && self.was_assigned && self.others_done && self.live().all(Partition::is_exhausted)
    }
}

/// Whether it was closed or its generation was given up: what it has emitted comes again as far as it was not committed.
impl Drop for KafkaSpout {
    fn drop(&mut self) {
        for partition in self.live() {
            if let Some(started) = partition.started() {
                self.options.history.note(&partition.id, started);
            }
        }
    }
}

impl Spout for KafkaSpout {
    fn open(&mut self, context: &TaskContext) -> ComponentResult {
        self.check(context)?;
        self.delivery = context.delivery;
        self.name = context.component.to_string();
        let client = (self.factory)().map_err(component_error)?;
        let (changes, changes_end) = rtrb::RingBuffer::new(CHANGES);
        let (records, records_end) = rtrb::RingBuffer::new(RECORDS);
        let (orders, orders_end) = rtrb::RingBuffer::new(ORDERS);
        self.changes = Some(changes_end);
        self.records = Some(records_end);
        self.orders = Some(Outlet::new(orders));
        self.poller = Some(Box::new(Poller::new(PollerParts {
            client,
            changes,
            records,
            orders: orders_end,
            underway: self.underway.clone(),
            waker: context.waker.clone(),
            metrics: self.metrics.clone(),
            start: self.options.start,
            until_end: self.options.until_end,
            out_of_range: self.options.out_of_range,
            keyed: self.options.keyed,
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

    fn poll(&mut self, now: Instant) -> ComponentResult {
        if self.activated {
            return self.turn_over(now);
        }
        self.now = self.now.max(now);
        self.hear_news();
        self.broken.clone().map_or(Ok(()), Err)
    }

    fn activate(&mut self) {
        self.activated = true;
    }

    #[inline]
    fn ack(&mut self, id: MessageId) {
        self.in_flight = self.in_flight.saturating_sub(1);
        let (slot, seq) = unpack(id);
        if self.land(slot, seq) {
            self.finish(slot, seq);
        } else {
            self.late.add(1);
        }
    }

    fn fail(&mut self, now: Instant, id: MessageId, failure: Failure<'_>, effects: u64) {
        self.in_flight = self.in_flight.saturating_sub(1);
        let (slot, seq) = unpack(id);
        if self.land(slot, seq) {
            self.judge(now, (slot, seq), failure, effects);
        } else {
            self.late.add(1);
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
        self.hear_news();
        // What was frozen before and never sent is part of this, being below.
        let frozen = self.live().filter_map(|partition| Some((partition.freeze()?, partition)));
        let (frozen, news): (Vec<_>, Vec<_>) =
            frozen.map(|(f, p)| (p.is_news(&f.done), f)).map(|(news, f)| (f, news)).unzip();
        let values = frozen.iter().zip(news).filter(|(_, news)| *news).map(|(frozen, _)| frozen.clone()).collect();
        self.frozen = frozen;
        let now = self.now;
        self.departures.iter_mut().for_each(|departure| departure.frozen(number, now));
        self.round = Some(Round::new(number, values, self.now));
    }

    fn begins_at(&mut self, now: Instant) -> ComponentResult<Option<Vec<SourceStart>>> {
        self.now = self.now.max(now);
        self.hear_news();
        self.broken.clone().map_or(Ok(()), Err)?;
        // Stores that are restored to match no partition match none that comes later.
        self.begun = self.was_assigned && !(self.options.keyed && self.starts.is_empty());
        Ok(self.begun.then(|| self.starts.clone()))
    }

    /// Commits again what was found: the group refuses that to a member whose place was taken, and it is heard before the
    /// first flush. What a partition begins with that had nothing is commit 0.
    fn confirms(&mut self, now: Instant) -> ComponentResult<bool> {
        self.now = self.now.max(now);
        self.hear_news();
        if self.round.is_none() {
            let found: Vec<_> = self.live().filter_map(Partition::freeze_found).collect();
            self.mark_asked(&found);
            let mut round = Round::new(CommitNumber(0), found, self.now);
            round.begin();
            self.round = Some(round);
        }
        self.send_commits();
        self.broken.clone().map_or(Ok(()), Err)?;
        match self.round.as_ref().map_or(CommitState::Done, Round::state) {
            CommitState::Pending => Ok(false),
            CommitState::Done => Ok(true),
            CommitState::Refused => Err(ComponentError::new(
                "the group has given this process's place away while the stores were restored. The topology starts again, \
                 and finds out what is its own",
            )),
        }
    }

    fn frozen(&mut self) -> ComponentResult<Vec<SourcePosition>> {
        if self.has_left {
            self.broken.clone().map_or(Ok(()), Err)?;
        }
        // What was emitted since the freeze may be in the stores: of partitions that were frozen, and of those that came
        // later.
        let started = |of: &Frozen| {
            let now = self.live().find(|partition| partition.id == of.partition && partition.epoch == of.epoch);
            now.and_then(Partition::started).max(Some(of.started)).unwrap_or(of.started)
        };
        let position = |of: &Frozen| SourcePosition {
            source: self.name.clone(),
            topic: of.partition.topic.to_string(),
            partition: of.partition.partition,
            next: of.done.next.0,
            done: of.done.above.clone(),
            started: started(of).0,
            committed: of.committed.map(|next| next.0),
        };
        let later = self.live().filter(|partition| self.frozen.iter().all(|of| of.partition != partition.id));
        let later: Vec<_> = later.filter_map(Partition::freeze).collect();
        Ok(self.frozen.iter().chain(&later).map(position).collect())
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
        let Some(round) = &self.round else { return Ok(CommitState::Done) };
        let state = round.state();
        if state != CommitState::Pending {
            self.answered = round.number;
            self.depart();
        }
        Ok(state)
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
