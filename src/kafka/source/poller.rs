//! The part of the spout that calls the client, on a thread of its own.
//!
//! It decides nothing but where a partition without committed offset begins: it does what the spout orders and passes on
//! what the client says. When the spout has enough it takes no more records, but polls on, so that the group keeps this
//! member.

use std::{collections::BTreeMap, fmt, thread, time::Duration};

use super::{
    channel::{Arrival, BytesUnderway, Change, Order, Outlet, Read},
    options::Start,
    out_of_range::{Gap, OutOfRange},
};
use crate::{
    clock::Instant,
    kafka::{
        client::{
            AssignedPartition, AssignmentEpoch, NextOffset, Position, SourceClient, SourceEvent, TopicPartition,
            Trouble, Watermarks,
        },
        dead_letters::component_error,
    },
    metrics::{Metrics, RebalanceEvent},
    topology::{Companion, CompanionStep, ComponentError, ComponentResult, Waker},
};

/// Bytes of records on their way to the spout at which no more are taken.
const MAX_UNDERWAY: usize = 4 << 20;

/// The longest wait while a commit's answer is awaited, while records flow, and while nothing happens.
const WAIT_ANSWER: Duration = Duration::from_millis(1);
const WAIT_BUSY: Duration = Duration::from_millis(5);
const WAIT_IDLE: Duration = Duration::from_millis(100);

/// For so long after the last record the spout may well want something soon.
const BUSY_FOR: Duration = Duration::from_millis(500);

/// How often the brokers are asked for the ends of partitions, how long that may take, and how many are asked for at once.
const ASK_ENDS_EVERY: Duration = Duration::from_secs(2);
const ASK_ENDS_AGAIN: Duration = Duration::from_secs(15);
const ASK_ENDS_WAIT: Duration = Duration::from_millis(200);
const ASK_ENDS_AT_ONCE: usize = 8;
/// How long the question for the ends at the start may take; it is repeated.
const ASK_FIRST_ENDS: Duration = Duration::from_secs(5);

/// What the poller is made of.
pub(super) struct PollerParts {
    pub(super) client: Box<dyn SourceClient>,
    pub(super) changes: rtrb::Producer<Change>,
    pub(super) records: rtrb::Producer<Read>,
    pub(super) orders: rtrb::Consumer<Order>,
    pub(super) underway: BytesUnderway,
    pub(super) waker: Waker,
    pub(super) metrics: Metrics,
    pub(super) start: Start,
    pub(super) until_end: bool,
    pub(super) out_of_range: OutOfRange,
    pub(super) keyed: bool,
    pub(super) poll_records: usize,
}

/// Drives a source client for a spout.
pub(super) struct Poller {
    client: Box<dyn SourceClient>,
    changes: Outlet<Change>,
    records: Outlet<Read>,
    orders: rtrb::Consumer<Order>,
    underway: BytesUnderway,
    waker: Waker,
    metrics: Metrics,
    start: Start,
    until_end: bool,
    out_of_range: OutOfRange,
    keyed: bool,
    poll_records: usize,
    events: Vec<SourceEvent>,
    /// Partitions that wait for the answer where they begin or end.
    arriving: Option<(Vec<AssignedPartition>, AssignmentEpoch, bool)>,
    /// Revokes that came meanwhile: they are about what is held then.
    held_back: Vec<SourceEvent>,
    /// Partitions that do not hold the offset to go on from.
    astray: Vec<(TopicPartition, AssignmentEpoch, Option<NextOffset>)>,
    /// Where partitions ended when they were first seen, if reading is to end there.
    ends: BTreeMap<TopicPartition, NextOffset>,
    /// The partitions held, and whether each was read to its end.
    held: BTreeMap<TopicPartition, bool>,
    /// Commits without answer.
    commits: usize,
    now: Instant,
    busy_until: Instant,
    ask_ends_at: Instant,
    ask_from: usize,
    sent: bool,
}

impl fmt::Debug for Poller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Poller").field("held", &self.held).finish_non_exhaustive()
    }
}

impl Poller {
    pub(super) fn new(parts: PollerParts) -> Self {
        Self {
            client: parts.client,
            changes: Outlet::new(parts.changes),
            records: Outlet::new(parts.records),
            orders: parts.orders,
            underway: parts.underway,
            waker: parts.waker,
            metrics: parts.metrics,
            start: parts.start,
            until_end: parts.until_end,
            out_of_range: parts.out_of_range,
            keyed: parts.keyed,
            poll_records: parts.poll_records.max(1),
            events: Vec::new(),
            arriving: None,
            held_back: Vec::new(),
            astray: Vec::new(),
            ends: BTreeMap::new(),
            held: BTreeMap::new(),
            commits: 0,
            now: Instant::ZERO,
            busy_until: Instant::ZERO,
            ask_ends_at: Instant::ZERO,
            ask_from: 0,
            sent: false,
        }
    }

    fn tell(&mut self, change: Change) {
        self.sent = true;
        self.changes.send(change);
    }

    fn hand_over(&mut self, read: Read) {
        self.sent = true;
        self.records.send(read);
    }

    fn obey(&mut self) -> ComponentResult {
        while let Ok(order) = self.orders.pop() {
            match order {
                Order::Commit { values, token } => {
                    self.commits += 1;
                    self.client.commit(values, token);
                }
                Order::Recycle(block) => self.client.recycle(block),
                Order::Pause(partition) => self.client.pause(&[partition]).map_err(component_error)?,
                Order::Resume(partition) => self.client.resume(&[partition]).map_err(component_error)?,
                Order::Release => self.client.unassign().map_err(component_error)?,
            }
        }
        Ok(())
    }

    fn wait(&self, max_wait: Duration) -> Duration {
        let limit = if self.commits > 0 {
            WAIT_ANSWER
        } else if self.now < self.busy_until {
            WAIT_BUSY
        } else {
            WAIT_IDLE
        };
        max_wait.min(limit)
    }

    fn poll(&mut self, max_wait: Duration) -> ComponentResult {
        let has_room = self.changes.has_room() && self.records.has_room() && self.underway.get() < MAX_UNDERWAY;
        let mut events = std::mem::take(&mut self.events);
        let (records, wait) = if has_room { (self.poll_records, self.wait(max_wait)) } else { (0, Duration::ZERO) };
        self.client.poll(records, wait, &mut events).map_err(component_error)?;
        if !has_room && events.is_empty() && !max_wait.is_zero() {
            // The spout has work for longer than this, and may take a rest only from a full ring.
            thread::sleep(WAIT_ANSWER.min(max_wait));
        }
        for event in events.drain(..) {
            self.hear(event)?;
        }
        self.events = events;
        Ok(())
    }

    fn hear(&mut self, event: SourceEvent) -> ComponentResult {
        match event {
            SourceEvent::Revoked(_) | SourceEvent::Lost(_) if self.arriving.is_some() => self.held_back.push(event),
            SourceEvent::Records(block) => {
                self.underway.add(block.memory());
                self.busy_until = self.now + BUSY_FOR;
                if let Some(at_end) = self.held.get_mut(&block.partition) {
                    *at_end = false;
                }
                self.hand_over(Read::Records(block));
            }
            SourceEvent::Assigned { partitions, epoch, group_is_new } => {
                self.metrics.readiness().set_brokers_reachable(true);
                self.arriving = Some((partitions, epoch, group_is_new));
            }
            SourceEvent::Revoked(partitions) => {
                self.leave(&partitions, RebalanceEvent::Revoked);
                self.tell(Change::Revoked(partitions));
            }
            SourceEvent::Lost(partitions) => {
                self.leave(&partitions, RebalanceEvent::Lost);
                self.tell(Change::Lost(partitions));
            }
            SourceEvent::EndOfPartition { partition, epoch, next } => {
                if let Some(at_end) = self.held.get_mut(&partition) {
                    *at_end = true;
                }
                self.hand_over(Read::End { partition, epoch, next });
            }
            SourceEvent::OutOfRange { partition, epoch, next } => self.astray.push((partition, epoch, next)),
            SourceEvent::Committed { token, outcomes } => {
                self.commits = self.commits.saturating_sub(1);
                self.tell(Change::Committed { token, outcomes });
            }
            SourceEvent::Trouble(Trouble { message, .. }) => {
                self.metrics.readiness().set_brokers_reachable(false);
                tracing::warn!("reading waits: {message}");
            }
            SourceEvent::Recovered => {
                self.metrics.readiness().set_brokers_reachable(true);
                tracing::info!("brokers answer");
            }
        }
        Ok(())
    }

    fn leave(&mut self, partitions: &[TopicPartition], event: RebalanceEvent) {
        self.metrics.rebalances(event).add(1);
        self.held.retain(|partition, _| !partitions.contains(partition));
        self.metrics.readiness().set_assigned(!self.held.is_empty());
        tracing::info!(partitions = partitions.len(), held = self.held.len(), "partitions {}", event.label());
    }

    /// Begins to read what has arrived, once everything about it is known that must be.
    fn arrive(&mut self, max_wait: Duration) -> ComponentResult {
        let Some((partitions, epoch, group_is_new)) = self.arriving.take() else { return Ok(()) };
        let Some(found) = self.find_watermarks(&partitions, max_wait) else {
            self.arriving = Some((partitions, epoch, group_is_new));
            return Ok(());
        };
        if self.until_end {
            let unknown = found.iter().filter(|w| !self.ends.contains_key(&w.partition));
            let ends: Vec<_> = unknown.map(|w| (w.partition.clone(), w.high)).collect();
            self.ends.extend(ends);
        }
        let start = |p: &AssignedPartition| {
            let watermarks = found.iter().find(|w| w.partition == p.partition);
            begin(p, group_is_new, self.start, watermarks.filter(|_| self.keyed))
        };
        let places: Vec<_> = partitions.iter().map(|p| (p.partition.clone(), start(p).0)).collect();
        self.client.assign(&places).map_err(component_error)?;
        // Committed beyond the end: it will be heard that this offset is gone, and only then known where reading ends.
        let end = |p: &AssignedPartition| {
            let beyond = |end: &NextOffset| p.committed.as_ref().is_some_and(|committed| committed.next > *end);
            self.ends.get(&p.partition).copied().filter(|end| !beyond(end))
        };
        let arrival = |p: AssignedPartition| Arrival {
            end: end(&p),
            first: start(&p).1,
            committed: p.committed,
            partition: p.partition,
        };
        let arrivals: Vec<_> = partitions.into_iter().map(arrival).collect();
        self.held.extend(arrivals.iter().map(|a| (a.partition.clone(), false)));
        self.metrics.rebalances(RebalanceEvent::Assigned).add(1);
        self.metrics.readiness().set_assigned(!self.held.is_empty());
        tracing::info!(partitions = arrivals.len(), held = self.held.len(), "partitions assigned");
        self.busy_until = self.now + BUSY_FOR;
        self.tell(Change::Assigned { partitions: arrivals, epoch });
        for event in std::mem::take(&mut self.held_back) {
            self.hear(event)?;
        }
        Ok(())
    }

    /// Oldest record and end of the partitions of which either must be known before they are read: the end, if reading is
    /// to stop there, and where a partition begins of which nothing is committed, if stores go with it. `None` if the
    /// brokers do not say now.
    fn find_watermarks(&mut self, partitions: &[AssignedPartition], max_wait: Duration) -> Option<Vec<Watermarks>> {
        let ends_here = |p: &&AssignedPartition| self.until_end && !self.ends.contains_key(&p.partition);
        let begins_here = |p: &&AssignedPartition| self.keyed && p.committed.is_none();
        let asked = partitions.iter().filter(|p| ends_here(p) || begins_here(p));
        let asked: Vec<_> = asked.map(|p| p.partition.clone()).collect();
        if asked.is_empty() {
            return Some(Vec::new());
        }
        let wait = if max_wait.is_zero() { Duration::ZERO } else { ASK_FIRST_ENDS };
        let found = self.client.watermarks(&asked, wait);
        found
            .inspect_err(|error| tracing::warn!("reading waits for the ends of {} partitions: {error}", asked.len()))
            .ok()
    }

    /// Goes on with partitions that do not hold the offset to go on from, if that is wanted.
    fn cross_gaps(&mut self, max_wait: Duration) -> ComponentResult {
        let mut wait = if max_wait.is_zero() { Duration::ZERO } else { ASK_FIRST_ENDS };
        for (partition, epoch, next) in std::mem::take(&mut self.astray) {
            if !self.held.contains_key(&partition) {
                continue;
            }
            let found = self.client.watermarks(std::slice::from_ref(&partition), wait);
            let Ok(Some(watermarks)) = found.map(|mut found| found.pop()) else {
                // Asked again at the next step. The group does not wait for one answer after the other.
                self.astray.push((partition, epoch, next));
                wait = Duration::ZERO;
                continue;
            };
            let gap = Gap::of(next, &watermarks);
            let what = gap.describe(next, &watermarks);
            if !gap.may_skip(self.out_of_range, self.keyed) {
                return Err(ComponentError::refused(format!("{what}. {}", gap.advice(self.keyed))));
            }
            let Watermarks { low, high, .. } = watermarks;
            tracing::warn!("{what}. Reading goes on at offset {low}, as source.out_of_range says");
            match gap {
                Gap::Deleted { lost } => self.metrics.records_lost().add(lost),
                Gap::Shorter => {
                    let end = self.until_end.then_some(high);
                    self.hand_over(Read::Anew { partition: partition.clone(), epoch, end });
                }
            }
            self.client.seek(&partition, Position::At(low), wait).map_err(component_error)?;
        }
        Ok(())
    }

    /// Asks where the partitions end that are being caught up with, a few at a time: for the lag.
    fn ask_ends(&mut self) {
        if self.now < self.ask_ends_at || self.held.values().all(|at_end| *at_end) {
            return;
        }
        let behind: Vec<_> = self.held.iter().filter(|(_, at_end)| !**at_end).map(|(p, _)| p.clone()).collect();
        let some: Vec<_> = behind
            .iter()
            .cycle()
            .skip(self.ask_from % behind.len().max(1))
            .take(behind.len().min(ASK_ENDS_AT_ONCE))
            .cloned()
            .collect();
        self.ask_from = self.ask_from.wrapping_add(some.len());
        match self.client.watermarks(&some, ASK_ENDS_WAIT) {
            Ok(found) => {
                self.ask_ends_at = self.now + ASK_ENDS_EVERY;
                self.tell(Change::Ends(found.into_iter().map(|w| (w.partition, w.high)).collect()));
            }
            // The lag stays as it was last known.
            Err(error) => {
                self.ask_ends_at = self.now + ASK_ENDS_AGAIN;
                tracing::debug!("ends of partitions are not known: {error}");
            }
        }
    }
}

/// Where a partition that was given to us begins, and at which offset that is, if it is known and was not committed. Only a
/// new group starts by its setting: a partition that appears later is read from its beginning, or its first records would
/// be lost.
fn begin(
    assigned: &AssignedPartition,
    group_is_new: bool,
    start: Start,
    watermarks: Option<&Watermarks>,
) -> (Position, Option<NextOffset>) {
    match (&assigned.committed, group_is_new, start) {
        (Some(committed), _, _) => (Position::At(committed.next), None),
        // What comes between the question and the first read is not skipped: where reading begins is committed.
        (None, true, Start::Latest) => {
            let high = watermarks.map(|w| w.high);
            (high.map_or(Position::End, Position::At), high)
        }
        (None, _, _) => (Position::Beginning, watermarks.map(|w| w.low)),
    }
}

impl Companion for Poller {
    fn name(&self) -> &str {
        "kafka-poll"
    }

    fn step(&mut self, now: Instant, max_wait: Duration) -> ComponentResult<CompanionStep> {
        self.now = now;
        if self.records.is_abandoned() {
            return Ok(CompanionStep::Finished);
        }
        self.obey()?;
        self.sent |= self.changes.pump() | self.records.pump();
        self.poll(max_wait)?;
        self.arrive(max_wait)?;
        self.cross_gaps(max_wait)?;
        self.ask_ends();
        if std::mem::take(&mut self.sent) {
            self.waker.wake();
        }
        Ok(CompanionStep::Continue)
    }

    fn close(&mut self, max_wait: Duration) {
        // Commits that were ordered are sent before the member leaves.
        self.obey().ok();
        self.metrics.readiness().set_assigned(false);
        if let Err(error) = self.client.close(max_wait) {
            tracing::warn!("could not leave the consumer group in time: {error}");
        }
    }
}
