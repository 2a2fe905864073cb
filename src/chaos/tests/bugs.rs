//! The simulation is alive: deliberate bugs, each in the place of a port, and each found within a stated number of seeds.
//! What it says is in `docs/simulation.md`.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use crate::{
    chaos::{RunOptions, run, substitutes::Substitutes},
    clock::Instant,
    kafka::client::{
        ClientError, Commit, CommitToken, DeliveryReport, NextOffset, Position, ProduceBatch, RecordBlock, SinkClient,
        SourceClient, SourceEvent, TopicPartition, Watermarks,
    },
    state::{SourcePosition, SourceStart},
    topology::{
        CommitNumber, CommitState, Companion, ComponentResult, Failure, MessageId, Next, Spout, SpoutOutput,
        TaskContext,
        changelog::{Changelog, Flush, Restored},
    },
};

#[derive(Copy, Clone, PartialEq, Eq, Debug)]
enum SourceBug {
    CommitsOneTooFar,
    StartsOneTooFar,
    DropsARevoke,
    DropsABlock,
}

struct BuggySource {
    inner: Box<dyn SourceClient>,
    bug: SourceBug,
    blocks: u64,
}

impl SourceClient for BuggySource {
    fn poll(&mut self, most: usize, wait: Duration, events: &mut Vec<SourceEvent>) -> Result<(), ClientError> {
        self.inner.poll(most, wait, events)?;
        match self.bug {
            SourceBug::DropsARevoke => events.retain(|event| !matches!(event, SourceEvent::Revoked(_))),
            SourceBug::DropsABlock => events.retain(|event| {
                self.blocks += u64::from(matches!(event, SourceEvent::Records(_)));
                !matches!(event, SourceEvent::Records(_)) || !self.blocks.is_multiple_of(20)
            }),
            SourceBug::CommitsOneTooFar | SourceBug::StartsOneTooFar => {}
        }
        Ok(())
    }

    fn assign(&mut self, partitions: &[(TopicPartition, Position)]) -> Result<(), ClientError> {
        let further = |(partition, position): &(TopicPartition, Position)| match position {
            Position::At(next) if self.bug == SourceBug::StartsOneTooFar => {
                (partition.clone(), Position::At(NextOffset(next.0 + 1)))
            }
            position => (partition.clone(), *position),
        };
        let partitions: Vec<_> = partitions.iter().map(further).collect();
        self.inner.assign(&partitions)
    }

    fn unassign(&mut self) -> Result<(), ClientError> {
        self.inner.unassign()
    }

    fn pause(&mut self, partitions: &[TopicPartition]) -> Result<(), ClientError> {
        self.inner.pause(partitions)
    }

    fn resume(&mut self, partitions: &[TopicPartition]) -> Result<(), ClientError> {
        self.inner.resume(partitions)
    }

    fn seek(&mut self, partition: &TopicPartition, to: Position, wait: Duration) -> Result<(), ClientError> {
        self.inner.seek(partition, to, wait)
    }

    fn commit(&mut self, mut values: Vec<Commit>, token: CommitToken) {
        for value in &mut values {
            value.next.0 += i64::from(self.bug == SourceBug::CommitsOneTooFar);
        }
        self.inner.commit(values, token);
    }

    fn partitions(&mut self, wait: Duration) -> Result<Vec<TopicPartition>, ClientError> {
        self.inner.partitions(wait)
    }

    fn watermarks(&mut self, partitions: &[TopicPartition], wait: Duration) -> Result<Vec<Watermarks>, ClientError> {
        self.inner.watermarks(partitions, wait)
    }

    fn recycle(&mut self, block: RecordBlock) {
        self.inner.recycle(block);
    }

    fn close(&mut self, wait: Duration) -> Result<(), ClientError> {
        self.inner.close(wait)
    }
}

/// Says that records are acknowledged as soon as they are taken.
struct HastySink {
    inner: Box<dyn SinkClient>,
    early: Vec<DeliveryReport>,
}

impl SinkClient for HastySink {
    fn produce(&mut self, batch: &ProduceBatch, from: usize) -> usize {
        let taken = self.inner.produce(batch, from);
        let rows = batch.rows().iter().skip(from).take(taken);
        self.early.extend(rows.map(|row| DeliveryReport::Acked { flush: row.flush, records: 1 }));
        taken
    }

    fn poll(&mut self, wait: Duration, reports: &mut Vec<DeliveryReport>) -> Result<(), ClientError> {
        self.inner.poll(wait, reports)?;
        reports.retain(|report| !matches!(report, DeliveryReport::Acked { .. }));
        reports.append(&mut self.early);
        Ok(())
    }

    fn in_flight(&self) -> usize {
        self.inner.in_flight()
    }

    fn flush_hint(&mut self) {
        self.inner.flush_hint();
    }

    fn close(&mut self, wait: Duration, reports: &mut Vec<DeliveryReport>) -> Result<(), ClientError> {
        self.inner.close(wait, reports)
    }
}

#[derive(Copy, Clone, PartialEq, Eq, Debug)]
enum SpoutBug {
    ForgetsAnAck,
    TakesAFailureForAnAck,
    CommitsWhatIsNewerThanTheFlush,
}

struct BuggySpout {
    inner: Box<dyn Spout>,
    bug: SpoutBug,
    acks: u64,
}

impl Spout for BuggySpout {
    fn open(&mut self, context: &TaskContext) -> ComponentResult {
        self.inner.open(context)
    }

    fn next(&mut self, now: Instant, budget: usize, out: &mut SpoutOutput<'_>) -> ComponentResult<Next> {
        self.inner.next(now, budget, out)
    }

    fn ack(&mut self, id: MessageId) {
        self.acks += 1;
        if self.bug != SpoutBug::ForgetsAnAck || !self.acks.is_multiple_of(700) {
            self.inner.ack(id);
        }
    }

    fn fail(&mut self, now: Instant, id: MessageId, failure: Failure<'_>, effects: u64) {
        if self.bug == SpoutBug::TakesAFailureForAnAck {
            self.inner.ack(id);
        } else {
            self.inner.fail(now, id, failure, effects);
        }
    }

    fn late_effects(&mut self, id: MessageId, effects: u64) {
        self.inner.late_effects(id, effects);
    }

    fn activate(&mut self) {
        self.inner.activate();
    }

    fn deactivate(&mut self) {
        self.inner.deactivate();
    }

    fn freeze(&mut self, number: CommitNumber) {
        self.inner.freeze(number);
    }

    fn begins_at(&mut self, now: Instant) -> ComponentResult<Option<Vec<SourceStart>>> {
        self.inner.begins_at(now)
    }

    fn confirms(&mut self, now: Instant) -> ComponentResult<bool> {
        self.inner.confirms(now)
    }

    fn frozen(&mut self) -> ComponentResult<Vec<SourcePosition>> {
        self.inner.frozen()
    }

    fn commit(&mut self, number: CommitNumber) -> ComponentResult {
        if self.bug == SpoutBug::CommitsWhatIsNewerThanTheFlush {
            self.inner.freeze(number);
        }
        self.inner.commit(number)
    }

    fn commit_state(&mut self, now: Instant) -> ComponentResult<CommitState> {
        self.inner.commit_state(now)
    }

    fn companion(&mut self) -> Option<Box<dyn Companion>> {
        self.inner.companion()
    }

    fn close(&mut self) {
        self.inner.close();
    }
}

#[derive(Copy, Clone, PartialEq, Eq, Debug)]
enum ChangelogBug {
    SaysDurableTooEarly,
    ForgetsAnEntryGroup,
}

struct BuggyChangelog {
    inner: Box<dyn Changelog>,
    bug: ChangelogBug,
    early: Option<CommitNumber>,
    later: VecDeque<Flush>,
    writing: bool,
    groups: u64,
}

impl Changelog for BuggyChangelog {
    fn open(&mut self, wait: Duration) -> ComponentResult<bool> {
        self.inner.open(wait)
    }

    fn restore(&mut self, wait: Duration) -> ComponentResult<Restored> {
        let restored = self.inner.restore(wait)?;
        if self.bug == ChangelogBug::ForgetsAnEntryGroup && matches!(restored, Restored::Entries { .. }) {
            self.groups += 1;
            if self.groups.is_multiple_of(3) {
                return Ok(Restored::Nothing);
            }
        }
        Ok(restored)
    }

    fn remaining(&self) -> Option<u64> {
        self.inner.remaining()
    }

    fn write(&mut self, flush: Flush) -> ComponentResult {
        if self.bug != ChangelogBug::SaysDurableTooEarly {
            return self.inner.write(flush);
        }
        self.early = Some(CommitNumber(flush.position.commit));
        self.later.push_back(flush);
        Ok(())
    }

    fn poll(&mut self, wait: Duration) -> ComponentResult<Option<CommitNumber>> {
        if self.bug != ChangelogBug::SaysDurableTooEarly {
            return self.inner.poll(wait);
        }
        if !self.writing
            && let Some(flush) = self.later.pop_front()
        {
            self.inner.write(flush)?;
            self.writing = true;
        }
        if self.writing && self.inner.poll(wait)?.is_some() {
            self.writing = false;
        }
        Ok(self.early.take())
    }

    fn close(&mut self, wait: Duration) {
        self.inner.close(wait);
    }
}

fn source(bug: SourceBug) -> Substitutes {
    let around = move |inner| -> Box<dyn SourceClient> { Box::new(BuggySource { inner, bug, blocks: 0 }) };
    Substitutes { source: Some(Arc::new(around)), ..Substitutes::default() }
}

fn spout(bug: SpoutBug) -> Substitutes {
    let around = move |inner| -> Box<dyn Spout> { Box::new(BuggySpout { inner, bug, acks: 0 }) };
    Substitutes { spout: Some(Arc::new(around)), ..Substitutes::default() }
}

fn sink() -> Substitutes {
    let around = |inner| -> Box<dyn SinkClient> { Box::new(HastySink { inner, early: Vec::new() }) };
    Substitutes { sink: Some(Arc::new(around)), ..Substitutes::default() }
}

fn changelog(bug: ChangelogBug) -> Substitutes {
    let around = move |inner| -> Box<dyn Changelog> {
        let (early, later) = (None, VecDeque::new());
        Box::new(BuggyChangelog { inner, bug, early, later, writing: false, groups: 0 })
    };
    Substitutes { changelog: Some(Arc::new(around)), ..Substitutes::default() }
}

/// The first seed at which a bug is found, and what is said of it.
fn first(substitutes: &Substitutes, stores: bool, within: u64) -> Option<(u64, String)> {
    (0..within).find_map(|seed| {
        let substitutes = substitutes.clone();
        let verdict = run(&RunOptions { substitutes, stores: Some(stores), ..RunOptions::new(seed) });
        Some((seed, verdict.failure?))
    })
}

/// Asserts that a bug is found within so many seeds.
fn found(name: &str, substitutes: &Substitutes, stores: bool, within: u64) {
    let found = first(substitutes, stores, within);
    let Some((seed, what)) = found else { panic!("{name}: not found within {within} seeds") };
    println!("| {name} | {} | {seed} | {what} |", if stores { "with" } else { "without" });
}

#[test]
fn a_commit_that_is_one_too_far_is_found() {
    found("commits one too far", &source(SourceBug::CommitsOneTooFar), false, 3);
}

#[test]
fn a_reader_that_starts_one_too_far_is_found() {
    found("starts one too far", &source(SourceBug::StartsOneTooFar), false, 5);
}

#[test]
fn records_that_are_dropped_are_found() {
    found("drops a block of records", &source(SourceBug::DropsABlock), false, 5);
}

#[test]
fn a_revoke_that_is_never_answered_is_found() {
    found("never answers a revoke", &source(SourceBug::DropsARevoke), false, 60);
}

#[test]
fn an_output_that_counts_as_acknowledged_when_it_is_sent_is_found() {
    found("takes sent for acknowledged", &sink(), false, 5);
}

#[test]
fn an_ack_that_is_forgotten_is_found() {
    found("forgets an ack", &spout(SpoutBug::ForgetsAnAck), false, 10);
}

#[test]
fn a_failure_that_is_taken_for_an_ack_is_found() {
    found("takes a failure for an ack", &spout(SpoutBug::TakesAFailureForAnAck), false, 10);
}

#[test]
fn a_commit_that_is_newer_than_its_flush_is_found() {
    found("commits what is newer than the flush", &spout(SpoutBug::CommitsWhatIsNewerThanTheFlush), true, 5);
}

#[test]
fn a_flush_that_counts_as_durable_before_it_is_found() {
    found("commits before the flush is durable", &changelog(ChangelogBug::SaysDurableTooEarly), true, 5);
}

#[test]
fn a_restore_that_forgets_entries_is_found() {
    found("forgets entries at a restore", &changelog(ChangelogBug::ForgetsAnEntryGroup), true, 5);
}

#[test]
fn a_changelog_without_fencing_is_found() {
    found("does not fence its predecessor", &Substitutes { unfenced: true, ..Substitutes::default() }, true, 200);
}
