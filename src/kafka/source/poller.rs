//! The part of the spout that calls the client, on a thread of its own.
//!
//! It decides nothing but where a partition without committed offset begins: it does what the spout orders and passes on
//! what the client says. When the spout has enough it takes no more records, but polls on, so that the group keeps this
//! member.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt, thread,
    time::Duration,
};

use super::{
    channel::{Arrival, BytesUnderway, Change, Order, Outlet, Read},
    options::Start,
    others::Others,
    out_of_range::{Gap, OutOfRange},
};
use crate::{
    clock::Instant,
    kafka::{
        client::{
            AssignedPartition, AssignmentEpoch, ClientError, NextOffset, Position, SourceClient, SourceEvent,
            TopicPartition, Trouble, Watermarks,
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
/// How long the question may take how far other members are; it is repeated.
const ASK_OTHERS_WAIT: Duration = Duration::from_secs(1);
/// So long without partitions is worth a word.
const LONG_WITHOUT_PARTITIONS: Duration = Duration::from_secs(5);

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
    others: Option<Others>,
    /// The partitions held, and whether each was read to its end.
    held: BTreeMap<TopicPartition, bool>,
    /// Commits without answer.
    commits: usize,
    now: Instant,
    busy_until: Instant,
    ask_ends_at: Instant,
    ask_from: usize,
    sent: bool,
    said_others: bool,
    /// The first step.
    began: Option<Instant>,
    /// Brokers answer as far as is known, the group has given nothing yet, and that was not said.
    waits_for_group: bool,
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
            out_of_range: parts.out_of_range,
            keyed: parts.keyed,
            poll_records: parts.poll_records.max(1),
            events: Vec::new(),
            arriving: None,
            held_back: Vec::new(),
            astray: Vec::new(),
            others: parts.until_end.then(|| Others::new(parts.start)),
            held: BTreeMap::new(),
            commits: 0,
            now: Instant::ZERO,
            busy_until: Instant::ZERO,
            ask_ends_at: Instant::ZERO,
            ask_from: 0,
            sent: false,
            said_others: false,
            began: None,
            waits_for_group: true,
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
                self.metrics.readiness().set_brokers_reachable();
                self.waits_for_group = false;
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
                self.waits_for_group = false;
                tracing::warn!("reading waits: {message}");
                self.metrics.readiness().set_trouble(message);
            }
            SourceEvent::Recovered => {
                self.metrics.readiness().set_brokers_reachable();
                tracing::info!("brokers answer");
            }
        }
        Ok(())
    }

    fn leave(&mut self, partitions: &[TopicPartition], event: RebalanceEvent) {
        self.metrics.rebalances(event).add(1);
        self.held.retain(|partition, _| !partitions.contains(partition));
        self.others.iter_mut().for_each(|others| others.change());
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
        if let Some(others) = &mut self.others {
            found.iter().cloned().for_each(|watermarks| others.see(watermarks));
            others.change();
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
            self.others.as_ref()?.end(&p.partition).filter(|end| !beyond(end))
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

    /// Oldest record and end of the partitions of which either must be known before any is read: the ends of all, other
    /// members' too, if reading is to stop there, and where a partition begins of which nothing is committed, if stores go
    /// with it. `None` if the brokers do not say now.
    fn find_watermarks(&mut self, partitions: &[AssignedPartition], max_wait: Duration) -> Option<Vec<Watermarks>> {
        let wait = if max_wait.is_zero() { Duration::ZERO } else { ASK_FIRST_ENDS };
        let begins_here = |p: &&AssignedPartition| self.keyed && p.committed.is_none();
        let mut asked: BTreeSet<_> = partitions.iter().filter(begins_here).map(|p| p.partition.clone()).collect();
        let told = |error: &ClientError| tracing::warn!("reading waits for the ends of its partitions: {error}");
        if let Some(others) = &self.others {
            let all = self.client.partitions(wait).inspect_err(told).ok().filter(|all| !all.is_empty())?;
            let all = all.into_iter().chain(partitions.iter().map(|p| p.partition.clone()));
            asked.extend(all.filter(|partition| others.end(partition).is_none()));
        }
        if asked.is_empty() {
            return Some(Vec::new());
        }
        let asked: Vec<_> = asked.into_iter().collect();
        self.client.watermarks(&asked, wait).inspect_err(told).ok()
    }

    /// Where reading has an end: asks from time to time whether what other members hold is committed up to there.
    fn ask_others(&mut self, max_wait: Duration) {
        let Some(others) = &mut self.others else { return };
        let Some(asked) = others.to_ask(|partition| self.held.contains_key(partition), self.now) else { return };
        let wait = if max_wait.is_zero() { Duration::ZERO } else { ASK_OTHERS_WAIT };
        let found = if asked.is_empty() { Ok(Vec::new()) } else { self.client.committed(&asked, wait) };
        match found {
            Ok(found) => {
                let count = asked.len();
                let committed: Vec<_> = asked.into_iter().zip(found).collect();
                if others.hear(&committed, self.now) {
                    self.tell(Change::OthersDone);
                } else if self.held.values().all(|at_end| *at_end) && !std::mem::replace(&mut self.said_others, true) {
                    tracing::info!(
                        partitions = count,
                        "waiting for other members of the group, who have not committed their partitions up to the end; one \
                         that has died holds them until its session times out"
                    );
                }
            }
            Err(error) => {
                others.ask_later(self.now);
                tracing::debug!("how far other members are is not known: {error}");
            }
        }
    }

    /// Says once that the group has given nothing for a while: it waits for a member that has died.
    fn say_waiting(&mut self) {
        let since = *self.began.get_or_insert(self.now);
        if self.waits_for_group && self.now - since >= LONG_WITHOUT_PARTITIONS {
            self.waits_for_group = false;
            tracing::info!(
                "waiting for the group to give partitions: it may wait for a member that has died, until its session times out"
            );
        }
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
                    let end = self.others.is_some().then_some(high);
                    self.others.iter_mut().for_each(|others| others.see_anew(&partition, low, high));
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
        self.ask_others(max_wait);
        self.say_waiting();
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
