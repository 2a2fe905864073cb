//! The scan client over librdkafka.

use std::{fmt, sync::Arc, thread, time::Duration};

use rdkafka::{TopicPartitionList, consumer::Consumer, error::RDKafkaErrorCode, topic_partition_list::Offset as Place};

use super::{
    native::{RawRecord, RecordQueue},
    shared::{Context, call_error, sentence},
};
use crate::{
    clock::{Clock, Instant},
    kafka::{
        admin::lookup::Lookup,
        client::{
            ClientError, ErrorKind,
            scan::{ScanClient, ScanRecord},
        },
        options::{Connection, scan_properties},
    },
};

/// The shortest time that a question is given.
const MOMENT: Duration = Duration::from_millis(1);

/// Reads whole topics, see [`ScanClient`].
pub struct RdkafkaScan {
    // Before `lookup`: its queue is destroyed first.
    queue: RecordQueue<Context>,
    lookup: Lookup,
    clock: Clock,
    /// When something was heard last. Nothing may come for the lookup's longest wait before reading counts as failed.
    heard: Instant,
    /// Topics whose partitions are not known yet, with their places in the list; the last comes first.
    unknown: Vec<(usize, Arc<str>)>,
    /// The one partition to read of each topic, `None`: all.
    only: Option<i32>,
    is_assigned: bool,
    places: Places,
}

impl fmt::Debug for RdkafkaScan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RdkafkaScan").field("open", &self.places.open).finish_non_exhaustive()
    }
}

/// Where the scan is.
#[derive(Default)]
struct Places {
    slots: Vec<Slot>,
    /// The client's handle of the record before, which is nearly always this one's too, and its slot.
    last: Option<((usize, i32), usize)>,
    /// Slots that are not at their end.
    open: usize,
    error: Option<(Arc<str>, i32, RDKafkaErrorCode, String)>,
}

struct Slot {
    topic: usize,
    name: Arc<str>,
    partition: i32,
    /// The client's handle of the topic, once a record has come.
    handle: Option<usize>,
    next: i64,
    is_open: bool,
}

impl RdkafkaScan {
    /// A client that gives up after hearing nothing for `patience`. Does not wait for a broker.
    ///
    /// # Errors
    /// A property that the client does not accept.
    pub fn new(connection: &Connection, patience: Duration, clock: Clock) -> Result<Self, ClientError> {
        let lookup = Lookup::new(&scan_properties(connection), &connection.brokers, patience)?;
        Ok(Self {
            queue: RecordQueue::new(Arc::clone(lookup.consumer())),
            lookup,
            heard: clock.now(),
            clock,
            unknown: Vec::new(),
            only: None,
            is_assigned: false,
            places: Places::default(),
        })
    }

    /// Asks for the partitions of the topics and then begins to read them; whether it has. A partition whose leader is not
    /// known when it is assigned waits for half a second (librdkafka 2.12), so this comes first.
    fn learn(&mut self, deadline: Instant) -> Result<bool, ClientError> {
        while let Some((topic, name)) = self.unknown.last() {
            // Forwarding makes the client's handle of the topic, which the answer then reaches.
            let possible = self.queue.forward(name, 0);
            let left = (deadline - self.clock.now()).max(MOMENT);
            let count = match self.lookup.partitions_within(name, left) {
                Ok(Some(count)) if possible => count,
                Ok(_) => {
                    let message = format!("topic {name:?} does not exist on {}", self.lookup.brokers());
                    return Err(ClientError::new(ErrorKind::UnknownTopic, message));
                }
                Err(error) if matches!(error.kind, ErrorKind::TimedOut | ErrorKind::Unavailable) => return Ok(false),
                Err(error) => return Err(error),
            };
            let wanted = |partition: &i32| self.only.is_none_or(|only| only == *partition);
            let wanted = (0..count).filter(wanted);
            for partition in wanted.filter(|partition| self.queue.forward(name, *partition)) {
                let (topic, name) = (*topic, Arc::clone(name));
                self.places.slots.push(Slot { topic, name, partition, handle: None, next: 0, is_open: true });
            }
            self.unknown.pop();
        }
        if !std::mem::replace(&mut self.is_assigned, true) {
            self.assign()?;
        }
        Ok(true)
    }

    fn assign(&mut self) -> Result<(), ClientError> {
        let failed = |error| call_error(&error, "reading a topic", self.lookup.brokers());
        let mut list = TopicPartitionList::new();
        for slot in &self.places.slots {
            list.add_partition_offset(&slot.name, slot.partition, Place::Beginning).map_err(failed)?;
        }
        self.places.open = self.places.slots.len();
        self.lookup.consumer().assign(&list).map_err(failed)
    }
}

impl Places {
    /// Takes what the client handed over: a record goes on, what stands in its place is noted.
    #[inline]
    fn take(&mut self, raw: &RawRecord<'_>, each: &mut dyn FnMut(&ScanRecord<'_>)) {
        let handle = (raw.topic_id, raw.partition);
        let at = match self.last {
            Some((last, at)) if last == handle => at,
            _ => match self.find(raw) {
                Some(at) => at,
                None => return,
            },
        };
        if raw.error.is_some() {
            self.take_error(at, raw);
            return;
        }
        let Some(slot) = self.slots.get_mut(at) else { return };
        slot.next = raw.offset + 1;
        each(&ScanRecord { topic: slot.topic, partition: slot.partition, key: raw.key, value: raw.value });
    }

    #[cold]
    fn find(&mut self, raw: &RawRecord<'_>) -> Option<usize> {
        let known = |slot: &Slot| slot.partition == raw.partition && slot.handle == Some(raw.topic_id);
        let at = self.slots.iter().position(known).or_else(|| {
            let name = raw.topic();
            self.slots.iter().position(|slot| slot.partition == raw.partition && *slot.name == *name)
        })?;
        self.slots.get_mut(at)?.handle = Some(raw.topic_id);
        self.last = Some(((raw.topic_id, raw.partition), at));
        Some(at)
    }

    #[cold]
    fn take_error(&mut self, at: usize, raw: &RawRecord<'_>) {
        let Some(slot) = self.slots.get_mut(at) else { return };
        match raw.error {
            // It may lie behind records that nobody gets: compacted ones, control records, aborted ones.
            Some(RDKafkaErrorCode::PartitionEOF) => {
                slot.next = raw.offset;
                self.open -= usize::from(std::mem::replace(&mut slot.is_open, false));
            }
            Some(code) => {
                let text = String::from_utf8_lossy(raw.value.unwrap_or_default()).into_owned();
                self.error = Some((Arc::clone(&slot.name), slot.partition, code, text));
            }
            None => {}
        }
    }
}

impl ScanClient for RdkafkaScan {
    fn start(&mut self, topics: &[Arc<str>], only: Option<i32>) {
        self.only = only;
        self.unknown = topics.iter().cloned().enumerate().rev().collect();
        self.heard = self.clock.now();
    }

    fn read(
        &mut self,
        max_records: usize,
        max_wait: Duration,
        each: &mut dyn FnMut(&ScanRecord<'_>),
    ) -> Result<bool, ClientError> {
        let deadline = self.clock.now() + max_wait;
        self.lookup.hear();
        let mut any = false;
        if self.learn(deadline)? {
            let left = deadline - self.clock.now();
            self.queue.consume(max_records, left, &mut |raw| {
                any = true;
                self.places.take(raw, each);
                true
            });
        }
        if let Some((name, partition, code, text)) = self.places.error.take() {
            let what = format!("reading partition {partition} of topic {name:?}");
            return Err(sentence(code, &text, &what, self.lookup.brokers()));
        }
        let now = self.clock.now();
        if any {
            self.heard = now;
        } else if now - self.heard > self.lookup.max_wait() {
            let message = format!("nothing came from {} for {:?}", self.lookup.brokers(), now - self.heard);
            return Err(self.lookup.explain(ClientError::new(ErrorKind::TimedOut, message)));
        }
        Ok(self.is_assigned && self.places.open == 0)
    }

    fn remaining(&self) -> Option<u64> {
        let left = |slot: &Slot| {
            let end = self.queue.known_end(&slot.name, slot.partition)?;
            Some(u64::try_from(end - slot.next).unwrap_or(0))
        };
        let all = || self.places.slots.iter().filter(|slot| slot.is_open).map(left).sum();
        self.is_assigned.then(all).flatten()
    }

    /// On a thread of its own: a consumer takes a tenth of a second for it, and a restart waits for its stores.
    fn end(self: Box<Self>) {
        // Where no thread can be had, it ends here.
        thread::Builder::new().name("kafka-scan-end".to_owned()).spawn(move || drop(self)).ok();
    }
}
