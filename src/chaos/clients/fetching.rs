//! Where a reader stands in each partition, and the fetches that bring it further.

use std::{collections::VecDeque, time::Duration};

use kafka_protocol::{
    error::ResponseError as E,
    messages::{
        BrokerId, FetchRequest, FetchResponse, ListOffsetsRequest, ListOffsetsResponse, ResponseKind,
        fetch_request::{FetchPartition, FetchTopic},
        fetch_response::PartitionData,
        list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic},
    },
};

use super::{FETCH, LATER, LIST_OFFSETS, PATIENCE, by_topic, error, records};
use crate::{
    chaos::{
        host::Host,
        link::{Call, Heard, Link},
    },
    clock::Instant,
    kafka::client::{AssignmentEpoch, NextOffset, Offset, Position, RecordBlock, TopicPartition},
};

/// The most records of a block, so that a caller's limit can be kept without cutting one.
const BLOCK: usize = 64;
/// Records fetched ahead of the caller after which a partition is not fetched.
const AHEAD: usize = 1_000;
/// Only what is committed is read.
const READ_COMMITTED: i8 = 1;
/// Bytes of a partition in one answer, and of all.
const BYTES: i32 = 1 << 16;
const ALL_BYTES: i32 = 1 << 20;

/// How a partition's offset is asked for.
pub(super) const EARLIEST: i64 = -2;
pub(super) const LATEST: i64 = -1;

/// A partition that is read.
#[derive(Debug)]
pub(super) struct Reading {
    pub(super) partition: TopicPartition,
    pub(super) epoch: AssignmentEpoch,
    /// Changes with every seek: what was asked before is of no use.
    version: u64,
    place: Place,
    /// Fetched and not delivered.
    blocks: VecDeque<RecordBlock>,
    ahead: usize,
    /// Behind the last record that was delivered.
    pub(super) delivered: i64,
    /// The end for a reader, if everything before it was fetched; and the one that was told.
    end: Option<i64>,
    told: Option<i64>,
    pub(super) paused: bool,
    astray: Option<bool>,
    not_before: Instant,
}

#[derive(Copy, Clone, PartialEq, Eq, Debug)]
enum Place {
    Sought(i64),
    At(i64),
}

/// What a partition has to say.
#[derive(Debug)]
pub(super) enum Found {
    Block(RecordBlock),
    End(NextOffset),
    Astray(NextOffset),
}

impl Reading {
    fn seek(&mut self, to: Position) {
        self.version += 1;
        self.place = match to {
            Position::Beginning => Place::Sought(EARLIEST),
            Position::End => Place::Sought(LATEST),
            Position::At(next) => Place::At(next.0),
        };
        if let Place::At(next) = self.place {
            self.delivered = next;
        }
        self.blocks.clear();
        (self.ahead, self.end, self.told, self.astray) = (0, None, None, None);
    }

    /// Drops what was fetched ahead: it is fetched again.
    fn rewind(&mut self) {
        if let Place::At(_) = self.place {
            self.version += 1;
            self.place = Place::At(self.delivered);
            self.blocks.clear();
            (self.ahead, self.end) = (0, None);
        }
    }

    /// What is to be told next, if a block of `room` records at most may be.
    fn next(&mut self, room: usize) -> Option<Found> {
        if self.paused {
            return None;
        }
        if let Some(block) = self.blocks.front() {
            if block.len() > room {
                return None;
            }
            let block = self.blocks.pop_front()?;
            self.ahead -= block.len();
            self.delivered = block.records().last().map_or(self.delivered, |last| last.offset.next().0);
            return Some(Found::Block(block));
        }
        if self.astray == Some(false) {
            self.astray = Some(true);
            return Some(Found::Astray(NextOffset(self.delivered)));
        }
        let end = self.end.filter(|end| self.told != Some(*end))?;
        self.told = Some(end);
        self.delivered = self.delivered.max(end);
        Some(Found::End(NextOffset(end)))
    }

    /// Takes what was fetched, into blocks of which `spare` has the memory.
    fn take(&mut self, data: &PartitionData, now: Instant, spare: &mut Vec<RecordBlock>) {
        match error(data.error_code) {
            None => {}
            Some(E::OffsetOutOfRange) => return self.astray = Some(false),
            Some(_) => return self.not_before = now + LATER,
        }
        let Place::At(from) = self.place else { return };
        let mut headers = Vec::new();
        let next = read(data, from, &mut |record| {
            record.headers(&mut headers);
            self.push(record, &headers, spare);
        });
        self.place = Place::At(next);
        self.end = Some(data.last_stable_offset.max(0)).filter(|end| next >= *end);
    }

    fn push(&mut self, record: &records::Record<'_>, headers: &[u8], spare: &mut Vec<RecordBlock>) {
        if self.blocks.back().is_none_or(|block| block.len() >= BLOCK) {
            let (partition, epoch) = (self.partition.clone(), self.epoch);
            self.blocks.push_back(match spare.pop() {
                Some(block) => block.reuse(partition, epoch),
                None => RecordBlock::new(partition, epoch),
            });
        }
        if let Some(block) = self.blocks.back_mut() {
            block.push(Offset(record.offset), record.timestamp, record.key, record.value, headers);
            self.ahead += 1;
        }
    }
}

/// A fetch on its way: for each partition its version.
#[derive(Debug)]
struct Underway {
    call: Call,
    asked: Vec<(TopicPartition, u64)>,
}

/// Reads partitions.
#[derive(Debug)]
pub(super) struct Fetcher {
    link: Link,
    sought: Link,
    wait: Duration,
    pub(super) readings: Vec<Reading>,
    underway: Option<Underway>,
    seeking: Option<Underway>,
    versions: u64,
    turn: usize,
    /// Blocks that came back.
    spare: Vec<RecordBlock>,
}

impl Fetcher {
    pub(super) fn new(host: &Host, wait: Duration) -> Self {
        Self {
            link: host.link(),
            sought: host.link(),
            wait,
            readings: Vec::new(),
            underway: None,
            seeking: None,
            versions: 0,
            turn: 0,
            spare: Vec::new(),
        }
    }

    pub(super) fn find(&mut self, partition: &TopicPartition) -> Option<&mut Reading> {
        self.readings.iter_mut().find(|reading| reading.partition == *partition)
    }

    pub(super) fn epoch(&self, partition: &TopicPartition) -> Option<AssignmentEpoch> {
        self.readings.iter().find(|reading| reading.partition == *partition).map(|reading| reading.epoch)
    }

    pub(super) fn add(&mut self, partition: TopicPartition, epoch: AssignmentEpoch, from: Position) {
        self.remove(std::slice::from_ref(&partition));
        self.versions += 1 << 32;
        let mut reading = Reading {
            partition,
            epoch,
            version: self.versions,
            place: Place::Sought(EARLIEST),
            blocks: VecDeque::new(),
            ahead: 0,
            delivered: 0,
            end: None,
            told: None,
            paused: false,
            astray: None,
            not_before: Instant::ZERO,
        };
        reading.seek(from);
        self.readings.push(reading);
    }

    pub(super) fn remove(&mut self, partitions: &[TopicPartition]) {
        self.readings.retain(|reading| !partitions.contains(&reading.partition));
    }

    /// True if there is such a partition.
    pub(super) fn seek(&mut self, partition: &TopicPartition, to: Position) -> bool {
        self.find(partition).map(|reading| reading.seek(to)).is_some()
    }

    pub(super) fn pause(&mut self, partitions: &[TopicPartition], paused: bool) {
        for partition in partitions {
            if let Some(reading) = self.find(partition).filter(|reading| reading.paused != paused) {
                reading.paused = paused;
                reading.rewind();
            }
        }
    }

    /// Hears answers and asks for more.
    pub(super) fn turn(&mut self, now: Instant) {
        self.settle_sought(now);
        if let Some(underway) = self.underway.take() {
            match self.link.hear(underway.call) {
                Heard::Nothing => self.underway = Some(underway),
                Heard::Answer(ResponseKind::Fetch(answer)) => self.fetched(&underway, &answer, now),
                Heard::Answer(_) | Heard::Lost => {}
            }
        }
        if self.underway.is_none() && self.link.is_ready() {
            self.fetch(now);
        }
    }

    fn fetched(&mut self, underway: &Underway, answer: &FetchResponse, now: Instant) {
        for topic in &answer.responses {
            for data in &topic.partitions {
                let is_it = |p: &TopicPartition| p.partition == data.partition_index && *p.topic == *topic.topic.0;
                let Some((partition, version)) = underway.asked.iter().find(|(p, _)| is_it(p)) else { continue };
                let mut readings = self.readings.iter_mut();
                let reading = readings.find(|reading| reading.partition == *partition && reading.version == *version);
                if let Some(reading) = reading {
                    reading.take(data, now, &mut self.spare);
                }
            }
        }
    }

    fn fetch(&mut self, now: Instant) {
        let wanted = |reading: &&Reading| {
            !reading.paused && reading.astray.is_none() && reading.ahead < AHEAD && now >= reading.not_before
        };
        let at = |reading: &Reading| match reading.place {
            Place::At(next) => Some(next),
            Place::Sought(_) => None,
        };
        let asked: Vec<_> = self.readings.iter().filter(wanted).filter_map(|r| Some((r, at(r)?))).collect();
        if asked.is_empty() {
            return;
        }
        let one = |(reading, next): &(&Reading, i64)| {
            let part = FetchPartition::default().with_partition(reading.partition.partition);
            part.with_fetch_offset(*next).with_current_leader_epoch(-1).with_partition_max_bytes(BYTES)
        };
        let topics = by_topic(asked.iter().map(|item| (&*item.0.partition.topic, one(item))));
        let topics =
            topics.into_iter().map(|(topic, parts)| FetchTopic::default().with_topic(topic).with_partitions(parts));
        let request = FetchRequest::default()
            .with_replica_id(BrokerId(-1))
            .with_max_wait_ms(i32::try_from(self.wait.as_millis()).unwrap_or(i32::MAX))
            .with_min_bytes(1)
            .with_max_bytes(ALL_BYTES)
            .with_isolation_level(READ_COMMITTED)
            .with_session_id(0)
            .with_session_epoch(-1)
            .with_topics(topics.collect());
        let asked = asked.iter().map(|(reading, _)| (reading.partition.clone(), reading.version)).collect();
        let call = self.link.ask(FETCH, request.into(), self.wait + PATIENCE);
        self.underway = Some(Underway { call, asked });
    }

    /// Turns "the beginning" and "the end" into offsets.
    fn settle_sought(&mut self, now: Instant) {
        if let Some(seeking) = self.seeking.take() {
            match self.sought.hear(seeking.call) {
                Heard::Nothing => self.seeking = Some(seeking),
                Heard::Answer(ResponseKind::ListOffsets(answer)) => {
                    for (topic, partition, code, offset) in offsets(&answer) {
                        let is_it = |p: &TopicPartition| p.partition == partition && *p.topic == *topic;
                        let Some((asked, version)) = seeking.asked.iter().find(|(p, _)| is_it(p)) else { continue };
                        let Some(reading) = self.find(asked).filter(|r| r.version == *version) else { continue };
                        if code == 0 {
                            (reading.place, reading.delivered) = (Place::At(offset), offset);
                        } else {
                            reading.not_before = now + LATER;
                        }
                    }
                }
                Heard::Answer(_) | Heard::Lost => {}
            }
        }
        if self.seeking.is_some() || !self.sought.is_ready() {
            return;
        }
        let open = |reading: &&Reading| now >= reading.not_before;
        let asked: Vec<_> = self
            .readings
            .iter()
            .filter(open)
            .filter_map(|r| match r.place {
                Place::Sought(what) => Some((r.partition.clone(), r.version, what)),
                Place::At(_) => None,
            })
            .collect();
        if !asked.is_empty() {
            let request = ask_offsets(asked.iter().map(|(partition, _, what)| (partition, *what)));
            let call = self.sought.ask(LIST_OFFSETS, request.into(), PATIENCE);
            let asked = asked.into_iter().map(|(partition, version, _)| (partition, version)).collect();
            self.seeking = Some(Underway { call, asked });
        }
    }

    /// Hands over what was fetched, in turns: at most `room` records.
    pub(super) fn deliver(&mut self, mut room: usize, mut each: impl FnMut(&TopicPartition, AssignmentEpoch, Found)) {
        let count = self.readings.len();
        for _ in 0..count {
            self.turn = self.turn.wrapping_add(1);
            let Some(reading) = self.readings.get_mut(self.turn % count) else { return };
            while let Some(found) = reading.next(room) {
                if let Found::Block(block) = &found {
                    room -= block.len();
                }
                each(&reading.partition, reading.epoch, found);
            }
        }
    }

    /// Takes the memory of a block back.
    pub(super) fn recycle(&mut self, block: RecordBlock) {
        self.spare.push(block);
    }

    pub(super) fn close(&mut self) {
        self.readings.clear();
        self.link.close();
        self.sought.close();
    }
}

/// Reads what was fetched from an offset on, without what was aborted; where to go on.
pub(in crate::chaos) fn read(data: &PartitionData, from: i64, each: &mut dyn FnMut(&records::Record<'_>)) -> i64 {
    let mut aborted: Vec<_> = data.aborted_transactions.iter().flatten().collect();
    aborted.sort_by_key(|a| std::cmp::Reverse(a.first_offset));
    let (mut dropped, mut next) = (Vec::new(), from);
    for batch in records::batches(data.records.as_deref().unwrap_or_default()) {
        while aborted.last().is_some_and(|a| a.first_offset <= batch.last) {
            dropped.extend(aborted.pop().map(|a| a.producer_id.0));
        }
        next = next.max(batch.last + 1);
        if batch.control {
            if batch.is_abort() {
                dropped.retain(|producer| *producer != batch.producer_id);
            }
        } else if !(batch.transactional && dropped.contains(&batch.producer_id)) {
            batch.records().filter(|record| record.offset >= from).for_each(|record| each(&record));
        }
    }
    next
}

/// Asks for offsets by what they are: [`EARLIEST`] or [`LATEST`].
pub(super) fn ask_offsets<'a>(asked: impl IntoIterator<Item = (&'a TopicPartition, i64)>) -> ListOffsetsRequest {
    let topics = by_topic(asked.into_iter().map(|(partition, what)| {
        let part = ListOffsetsPartition::default().with_partition_index(partition.partition);
        (&*partition.topic, part.with_current_leader_epoch(-1).with_timestamp(what))
    }));
    let topics =
        topics.into_iter().map(|(topic, parts)| ListOffsetsTopic::default().with_name(topic).with_partitions(parts));
    ListOffsetsRequest::default()
        .with_replica_id(BrokerId(-1))
        .with_isolation_level(READ_COMMITTED)
        .with_topics(topics.collect())
}

/// What was answered: topic, partition, error code and offset.
pub(super) fn offsets(answer: &ListOffsetsResponse) -> impl Iterator<Item = (&str, i32, i16, i64)> {
    answer
        .topics
        .iter()
        .flat_map(|topic| topic.partitions.iter().map(|p| (&*topic.name.0, p.partition_index, p.error_code, p.offset)))
}
