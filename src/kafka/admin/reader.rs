//! Reads a whole topic once: from its beginning to the end that it has at the start. For the audit and for tools; it
//! belongs to no group and leaves no trace on the broker.

use std::{collections::BTreeMap, ops::ControlFlow, sync::Arc, time::Duration};

use rdkafka::{TopicPartitionList, consumer::Consumer, topic_partition_list::Offset as Place};

use super::lookup::Lookup;
use crate::{
    clock::Clock,
    kafka::{
        client::{
            AssignmentEpoch, ClientError, ErrorKind, NextOffset, RecordBlock, SourceEvent, TopicPartition, Watermarks,
        },
        librdkafka::{
            intake::Intake,
            native::RecordQueue,
            shared::{Context, call_error, sentence},
        },
        options::{Connection, reader_properties},
    },
};

/// How many records and how long one poll may take.
const RECORDS: usize = 4096;
const WAIT: Duration = Duration::from_millis(100);

/// A reader of whole topics, as far as they are committed (`read_committed`).
pub struct TopicReader {
    // Before `lookup`: its queue is destroyed first.
    queue: RecordQueue<Context>,
    lookup: Lookup,
    clock: Clock,
}

impl std::fmt::Debug for TopicReader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TopicReader").field("brokers", &self.lookup.brokers()).finish_non_exhaustive()
    }
}

impl TopicReader {
    /// A reader that gives up after hearing nothing for `patience`. Does not wait for a broker itself.
    ///
    /// # Errors
    /// A property that the client does not accept.
    pub fn new(connection: &Connection, patience: Duration, clock: Clock) -> Result<Self, ClientError> {
        let lookup = Lookup::new(&reader_properties(connection), &connection.brokers, patience)?;
        Ok(Self { queue: RecordQueue::new(Arc::clone(lookup.consumer())), lookup, clock })
    }

    /// Oldest record and end of every partition of a topic, in the order of the partitions.
    ///
    /// # Errors
    /// No such topic, no broker answers, access is denied.
    pub fn watermarks(&mut self, topic: &str) -> Result<Vec<Watermarks>, ClientError> {
        self.lookup.watermarks(topic)
    }

    /// Hands every record of a topic to `each`, in the order of the offsets within a partition, up to the ends that the
    /// topic has now; returns these ends. Stops early where `each` breaks. Records that come to be meanwhile may be
    /// among those handed over, at most a batch for each partition; compare offsets where that matters.
    ///
    /// # Errors
    /// No such topic, nothing came for a time, access is denied.
    pub fn read_all(
        &mut self,
        topic: &str,
        each: &mut dyn FnMut(&RecordBlock) -> ControlFlow<()>,
    ) -> Result<Vec<Watermarks>, ClientError> {
        let ends = self.watermarks(topic)?;
        let mut open: BTreeMap<i32, NextOffset> =
            ends.iter().filter(|w| w.high > w.low).map(|w| (w.partition.partition, w.high)).collect();
        let mut intake = self.start(topic, open.keys().copied())?;
        let read = self.read_open(&mut intake, &mut open, each);
        let stopped = self.lookup.consumer().unassign();
        read?;
        stopped.map_err(|error| call_error(&error, &format!("reading topic {topic:?}"), self.lookup.brokers()))?;
        Ok(ends)
    }

    fn start(&self, topic: &str, partitions: impl Iterator<Item = i32>) -> Result<Intake, ClientError> {
        let what = format!("reading topic {topic:?}");
        let mut intake = Intake::default();
        let mut list = TopicPartitionList::new();
        let name = intake.name(topic);
        for partition in partitions {
            let added = list.add_partition_offset(topic, partition, Place::Beginning);
            added.map_err(|error| call_error(&error, &what, self.lookup.brokers()))?;
            if self.queue.forward(topic, partition) {
                intake.add(TopicPartition { topic: Arc::clone(&name), partition }, AssignmentEpoch(0));
            }
        }
        self.lookup.consumer().assign(&list).map_err(|error| call_error(&error, &what, self.lookup.brokers()))?;
        Ok(intake)
    }

    fn read_open(
        &mut self,
        intake: &mut Intake,
        open: &mut BTreeMap<i32, NextOffset>,
        each: &mut dyn FnMut(&RecordBlock) -> ControlFlow<()>,
    ) -> Result<(), ClientError> {
        let mut heard = self.clock.now();
        let mut events = Vec::new();
        while !open.is_empty() {
            self.lookup.hear();
            self.queue.consume(RECORDS, WAIT, &mut |raw| intake.take(raw, &mut events));
            intake.flush(&mut events);
            if let Some((partition, code, text)) = intake.errors.pop() {
                return Err(sentence(code, &text, &format!("reading partition {partition}"), self.lookup.brokers()));
            }
            if std::mem::take(&mut intake.heard) {
                heard = self.clock.now();
            } else if self.clock.now() - heard > self.lookup.max_wait() {
                let message = format!("nothing came from {} for {:?}", self.lookup.brokers(), self.lookup.max_wait());
                return Err(self.lookup.explain(ClientError::new(ErrorKind::TimedOut, message)));
            }
            for event in events.drain(..) {
                if hand_over(event, intake, open, each)?.is_break() {
                    return Ok(());
                }
            }
        }
        Ok(())
    }
}

fn hand_over(
    event: SourceEvent,
    intake: &mut Intake,
    open: &mut BTreeMap<i32, NextOffset>,
    each: &mut dyn FnMut(&RecordBlock) -> ControlFlow<()>,
) -> Result<ControlFlow<()>, ClientError> {
    let mut go_on = ControlFlow::Continue(());
    match event {
        SourceEvent::Records(block) => {
            let n = block.partition.partition;
            let last = block.records().last().map(|head| head.offset.next());
            if open.contains_key(&n) {
                go_on = each(&block);
            }
            if open.get(&n).is_some_and(|end| last >= Some(*end)) {
                open.remove(&n);
            }
            intake.recycle(block);
        }
        // The end may lie behind records that nobody gets: compacted ones, control records, aborted ones.
        SourceEvent::EndOfPartition { partition, .. } => {
            open.remove(&partition.partition);
        }
        SourceEvent::OutOfRange { partition, .. } => {
            let message = format!(
                "partition {partition} lost records while it was read: they were deleted, or its topic was made anew. Read \
                 it again"
            );
            return Err(ClientError::new(ErrorKind::OffsetOutOfRange, message));
        }
        // A reader without a group, which commits nothing, has no others.
        SourceEvent::Assigned { .. }
        | SourceEvent::Revoked(_)
        | SourceEvent::Lost(_)
        | SourceEvent::Committed { .. }
        | SourceEvent::Trouble(_)
        | SourceEvent::Recovered => {}
    }
    Ok(go_on)
}
