//! Reads a whole topic once: from its beginning to the end that it has at the start. For the audit and for tools; it
//! belongs to no group and leaves no trace on the broker.

use std::{collections::BTreeMap, ops::ControlFlow, sync::Arc, time::Duration};

use rdkafka::{
    TopicPartitionList,
    consumer::{BaseConsumer, Consumer},
    topic_partition_list::Offset as Place,
};

use super::{
    client::{
        AssignmentEpoch, ClientError, ErrorKind, NextOffset, RecordBlock, SourceEvent, TopicPartition, Watermarks,
    },
    intake::Intake,
    native::RecordQueue,
    options::{Connection, reader_properties},
    rdkafka::{Context, Happening, call_error, config, creation_error, kind_of, native, partition_count, sentence},
    trouble::{TroubleWatch, connection_error},
};
use crate::clock::Clock;

/// How many records and how long one poll may take.
const RECORDS: usize = 4096;
const WAIT: Duration = Duration::from_millis(100);

/// A reader of whole topics, as far as they are committed (`read_committed`).
pub struct TopicReader {
    // Before `consumer`: its queue is destroyed first.
    queue: RecordQueue<Context>,
    consumer: Arc<BaseConsumer<Context>>,
    brokers: String,
    clock: Clock,
    /// How long nothing may come before reading counts as failed.
    patience: Duration,
    connection: TroubleWatch,
}

impl std::fmt::Debug for TopicReader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TopicReader").field("brokers", &self.brokers).finish_non_exhaustive()
    }
}

impl TopicReader {
    /// A reader that gives up after hearing nothing for `patience`. Does not wait for a broker itself.
    ///
    /// # Errors
    /// A property that the client does not accept.
    pub fn new(connection: &Connection, patience: Duration, clock: Clock) -> Result<Self, ClientError> {
        let config = config(&reader_properties(connection));
        drop(native(&config)?);
        let consumer: BaseConsumer<Context> =
            config.create_with_context(Context::default()).map_err(|error| creation_error(&error))?;
        let consumer = Arc::new(consumer);
        Ok(Self {
            queue: RecordQueue::new(Arc::clone(&consumer)),
            consumer,
            brokers: connection.brokers.clone(),
            clock,
            patience,
            connection: TroubleWatch::default(),
        })
    }

    /// Oldest record and end of every partition of a topic, in the order of the partitions.
    ///
    /// # Errors
    /// No such topic, no broker answers, access is denied.
    pub fn watermarks(&mut self, topic: &str) -> Result<Vec<Watermarks>, ClientError> {
        let found = self.ask_watermarks(topic);
        found.map_err(|error| {
            self.hear();
            match error.kind {
                ErrorKind::Unavailable | ErrorKind::TimedOut | ErrorKind::Other => self.connection.reason_or(error),
                _ => error,
            }
        })
    }

    fn ask_watermarks(&self, topic: &str) -> Result<Vec<Watermarks>, ClientError> {
        let (client, brokers) = (self.consumer.client(), self.brokers.as_str());
        let count = partition_count(client, topic, self.patience, brokers)?.ok_or_else(|| {
            let message = format!("topic {topic:?} does not exist on {brokers}: make the topic, or mend its name");
            ClientError::new(ErrorKind::UnknownTopic, message)
        })?;
        let name: Arc<str> = topic.into();
        let ends = |n| {
            let partition = TopicPartition { topic: Arc::clone(&name), partition: n };
            let (low, high) = client
                .fetch_watermarks(topic, n, self.patience)
                .map_err(|error| call_error(&error, &format!("ends of partition {partition}"), brokers))?;
            Ok(Watermarks { partition, low: NextOffset(low), high: NextOffset(high) })
        };
        (0..count).map(ends).collect()
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
        let stopped = self.consumer.unassign();
        read?;
        stopped.map_err(|error| call_error(&error, &format!("reading topic {topic:?}"), &self.brokers))?;
        Ok(ends)
    }

    fn start(&self, topic: &str, partitions: impl Iterator<Item = i32>) -> Result<Intake, ClientError> {
        let what = format!("reading topic {topic:?}");
        let mut intake = Intake::default();
        let mut list = TopicPartitionList::new();
        let name = intake.name(topic);
        for partition in partitions {
            let added = list.add_partition_offset(topic, partition, Place::Beginning);
            added.map_err(|error| call_error(&error, &what, &self.brokers))?;
            if self.queue.forward(topic, partition) {
                intake.add(TopicPartition { topic: Arc::clone(&name), partition }, AssignmentEpoch(0));
            }
        }
        self.consumer.assign(&list).map_err(|error| call_error(&error, &what, &self.brokers))?;
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
            self.hear();
            self.queue.consume(RECORDS, WAIT, &mut |raw| intake.take(raw, &mut events));
            intake.flush(&mut events);
            if let Some((partition, code, text)) = intake.errors.pop() {
                return Err(sentence(code, &text, &format!("reading partition {partition}"), &self.brokers));
            }
            if std::mem::take(&mut intake.heard) {
                heard = self.clock.now();
            } else if self.clock.now() - heard > self.patience {
                let message = format!("nothing came from {} for {:?}", self.brokers, self.patience);
                return Err(self.connection.reason_or(ClientError::new(ErrorKind::TimedOut, message)));
            }
            for event in events.drain(..) {
                if hand_over(event, intake, open, each)?.is_break() {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// Serves the client's own events: remembers why a connection failed.
    fn hear(&mut self) {
        loop {
            drop(self.consumer.poll(Duration::ZERO));
            let happenings = self.consumer.context().take();
            if happenings.is_empty() {
                return;
            }
            self.remember(happenings);
        }
    }

    fn remember(&mut self, happenings: Vec<Happening>) {
        for happening in happenings {
            if let Happening::Error(code, text) = happening
                && matches!(kind_of(code), ErrorKind::Unavailable | ErrorKind::Authentication)
                && code != rdkafka::error::RDKafkaErrorCode::AllBrokersDown
            {
                self.connection.connection_failed(connection_error(kind_of(code), &text, &self.brokers));
            }
        }
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
        SourceEvent::OutOfRange { message, .. } => {
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
