//! A member of a group that a test drives.

use std::{collections::BTreeMap, time::Instant};

use stormglass::{
    clock::Clock,
    kafka::{
        RdkafkaSource, SourceOptions,
        client::{
            AssignmentEpoch, Commit, CommitOutcome, CommitToken, Committed, NextOffset, Position, SourceClient as _,
            SourceEvent, TopicPartition,
        },
    },
};

use super::{PATIENCE, STEP, connection};
use crate::broker::Broker;

/// A source client that is driven by a test, which answers every rebalance at once unless it says otherwise.
pub struct Member {
    pub source: RdkafkaSource,
    /// Partition → the epoch under which it is ours.
    pub ours: BTreeMap<TopicPartition, AssignmentEpoch>,
    /// Partition → offsets that came, in order.
    pub offsets: BTreeMap<TopicPartition, Vec<i64>>,
    pub ends: BTreeMap<TopicPartition, NextOffset>,
    pub committed: BTreeMap<TopicPartition, Option<Committed>>,
    pub new_group: Option<bool>,
    pub outcomes: BTreeMap<CommitToken, Vec<CommitOutcome>>,
    pub others: Vec<SourceEvent>,
    pub rebalances: usize,
    /// Keep revoked partitions until the test lets them go.
    pub holds: bool,
}

impl Member {
    pub fn new(broker: &Broker, group: &str, topics: &[&str]) -> Self {
        Self::with(SourceOptions::new(
            connection(broker),
            group,
            topics.iter().map(|&topic| topic.to_owned()).collect(),
        ))
    }

    pub fn with(options: SourceOptions) -> Self {
        Self {
            source: RdkafkaSource::new(options, Clock::system()).unwrap(),
            ours: BTreeMap::new(),
            offsets: BTreeMap::new(),
            ends: BTreeMap::new(),
            committed: BTreeMap::new(),
            new_group: None,
            outcomes: BTreeMap::new(),
            others: Vec::new(),
            rebalances: 0,
            holds: false,
        }
    }

    pub fn step(&mut self) {
        let mut events = Vec::new();
        self.source.poll(1000, STEP, &mut events).unwrap();
        for event in events {
            self.take(event);
        }
    }

    pub fn take(&mut self, event: SourceEvent) {
        match event {
            SourceEvent::Records(block) => {
                assert_eq!(self.ours.get(&block.partition), Some(&block.epoch), "{}", block.partition);
                let seen = self.offsets.entry(block.partition.clone()).or_default();
                seen.extend(block.records().iter().map(|head| head.offset.0));
                assert!(seen.is_sorted_by(|a, b| a < b), "out of order: {seen:?}");
                self.source.recycle(block);
            }
            SourceEvent::Assigned { partitions, epoch, group_is_new } => {
                self.rebalances += 1;
                self.new_group = Some(group_is_new);
                let mut from = Vec::new();
                for p in partitions {
                    assert!(self.ours.insert(p.partition.clone(), epoch).is_none(), "given twice: {p:?}");
                    let start = p.committed.as_ref().map_or(Position::Beginning, |c| Position::At(c.next));
                    from.push((p.partition.clone(), start));
                    self.committed.insert(p.partition, p.committed);
                }
                self.source.assign(&from).unwrap();
            }
            SourceEvent::Revoked(partitions) | SourceEvent::Lost(partitions) => {
                self.rebalances += 1;
                if self.holds {
                    self.others.push(SourceEvent::Revoked(partitions));
                    return;
                }
                for p in partitions {
                    assert!(self.ours.remove(&p).is_some(), "taken though not ours: {p}");
                }
                self.source.unassign().unwrap();
            }
            SourceEvent::EndOfPartition { partition, epoch, next } => {
                assert_eq!(self.ours.get(&partition), Some(&epoch));
                self.ends.insert(partition, next);
            }
            SourceEvent::Committed { token, outcomes } => {
                assert!(self.outcomes.insert(token, outcomes).is_none(), "answered twice");
            }
            other => self.others.push(other),
        }
    }

    pub fn until(&mut self, what: &str, mut done: impl FnMut(&Self) -> bool) {
        let deadline = Instant::now() + PATIENCE;
        while !done(self) {
            assert!(Instant::now() < deadline, "did not happen: {what}; {:?} {:?}", self.ends, self.others);
            self.step();
        }
    }

    pub fn total(&self) -> usize {
        self.offsets.values().map(Vec::len).sum()
    }

    pub fn commit(&mut self, partition: &TopicPartition, next: i64, metadata: &str, token: u64) -> CommitOutcome {
        let epoch = self.ours[partition];
        self.commit_as(partition, epoch, (next, metadata), token)
    }

    pub fn commit_as(
        &mut self,
        partition: &TopicPartition,
        epoch: AssignmentEpoch,
        (next, metadata): (i64, &str),
        token: u64,
    ) -> CommitOutcome {
        let (partition, token) = (partition.clone(), CommitToken(token));
        let value = Commit { partition, epoch, next: NextOffset(next), metadata: metadata.to_owned() };
        self.source.commit(vec![value], token);
        self.until("the commit is answered", |m| m.outcomes.contains_key(&token));
        self.outcomes.remove(&token).unwrap().pop().unwrap()
    }
}
