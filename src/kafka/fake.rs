//! A broker in memory for tests: the client ports, with everything that goes wrong ordered by hand.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use super::client::{
    AssignedPartition, AssignmentEpoch, ClientError, Commit, CommitOutcome, CommitToken, Committed, Contents,
    DeliveryFailure, DeliveryReport, FailedRecord, FlushId, NextOffset, Offset, Position, ProduceBatch, RecordBlock,
    SinkClient, SourceClient, SourceEvent, TopicPartition, Watermarks, record::Headers,
};

#[derive(Clone, Debug)]
pub(super) struct FakeRecord {
    pub(super) offset: i64,
    pub(super) key: Option<Vec<u8>>,
    pub(super) value: Option<Vec<u8>>,
}

#[derive(Debug, Default)]
pub(super) struct FakePartition {
    pub(super) records: Vec<FakeRecord>,
    /// Offsets below were deleted.
    pub(super) low: i64,
    /// Behind the last offset, whatever it held.
    pub(super) end: i64,
}

/// What the brokers hold and what happens next, shared by a test and its clients.
#[derive(Debug, Default)]
pub(super) struct Broker {
    pub(super) topics: BTreeMap<TopicPartition, FakePartition>,
    pub(super) committed: BTreeMap<TopicPartition, Committed>,
    /// Every value that reached the broker, in order.
    pub(super) commits: Vec<(TopicPartition, i64)>,
    /// Outcomes of the next commits instead of success.
    pub(super) outcomes: VecDeque<CommitOutcome>,
    /// The longest metadata that is taken.
    pub(super) max_metadata: Option<usize>,
    /// Commits are not answered while this is set.
    pub(super) hold_commits: bool,
    pub(super) paused: Vec<TopicPartition>,
    pub(super) recycled: usize,
    pub(super) polls_without_records: usize,
    /// Questions that wait for the brokers.
    pub(super) asked: usize,
    /// Events to come, and for which member.
    events: VecDeque<(usize, SourceEvent)>,
    /// Members get only what is given to them.
    pub(super) shared: bool,
    /// Partitions that were revoked or lost, and by which member they were let go.
    pub(super) let_go: Vec<(usize, TopicPartition)>,
}

/// The broker as one member of the group sees it.
#[derive(Clone, Debug, Default)]
pub(super) struct FakeBroker {
    broker: Arc<Mutex<Broker>>,
    member: usize,
}

pub(super) fn tp(partition: i32) -> TopicPartition {
    TopicPartition::new("lines", partition)
}

impl FakeBroker {
    /// A broker whose first partition holds `lines` records.
    pub(super) fn with_lines(lines: usize) -> Self {
        let broker = Self::default();
        (0..lines).for_each(|i| broker.produce(0, Some(format!("line {i}").as_bytes())));
        broker
    }

    pub(super) fn get(&self) -> MutexGuard<'_, Broker> {
        self.broker.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The same broker, as another member sees it.
    pub(super) fn member(&self, member: usize) -> Self {
        Self { broker: Arc::clone(&self.broker), member }
    }

    pub(super) fn produce(&self, partition: i32, value: Option<&[u8]>) {
        let mut broker = self.get();
        let log = broker.topics.entry(tp(partition)).or_default();
        log.records.push(FakeRecord { offset: log.end, key: None, value: value.map(<[u8]>::to_vec) });
        log.end += 1;
    }

    /// An offset that no reader gets: a control record.
    pub(super) fn hole(&self, partition: i32) {
        self.get().topics.entry(tp(partition)).or_default().end += 1;
    }

    /// What this member's client says next.
    pub(super) fn says(&self, event: SourceEvent) {
        self.get().events.push_back((self.member, event));
    }

    /// This member is given partitions, with what the broker has committed for them.
    pub(super) fn gives(&self, partitions: &[TopicPartition]) {
        let of = |partition: &TopicPartition| AssignedPartition { partition: partition.clone(), committed: None };
        self.says(SourceEvent::Assigned {
            partitions: partitions.iter().map(of).collect(),
            epoch: AssignmentEpoch(0),
            group_is_new: false,
        });
    }

    /// Whether this member has heard everything that was said to it.
    pub(super) fn is_up_to_date(&self) -> bool {
        self.get().events.iter().all(|(to, _)| *to != self.member)
    }

    /// Partitions that were let go so far.
    pub(super) fn let_go(&self) -> Vec<TopicPartition> {
        self.get().let_go.iter().map(|(_, partition)| partition.clone()).collect()
    }

    pub(super) fn client(&self) -> FakeSource {
        FakeSource {
            broker: self.clone(),
            joined: false,
            gave: false,
            epoch: 0,
            held: BTreeMap::new(),
            asked_back: VecDeque::new(),
            unanswered: Vec::new(),
        }
    }
}

/// A partition that a member reads.
#[derive(Debug)]
struct Held {
    epoch: u64,
    at: i64,
    /// The end that was told.
    told: Option<i64>,
    /// It was told that the broker does not have the offset.
    astray: bool,
}

/// A member that gets what is given to it; if nothing is said of that beforehand, all partitions at once.
#[derive(Debug)]
pub(super) struct FakeSource {
    broker: FakeBroker,
    joined: bool,
    /// What was given last is not assigned yet.
    gave: bool,
    epoch: u64,
    held: BTreeMap<TopicPartition, Held>,
    asked_back: VecDeque<Vec<TopicPartition>>,
    unanswered: Vec<(Vec<Commit>, CommitToken)>,
}

impl FakeSource {
    fn assigned(&mut self, broker: &Broker, partitions: Vec<TopicPartition>) -> SourceEvent {
        self.epoch += 1;
        let of = |partition: TopicPartition| AssignedPartition {
            committed: broker.committed.get(&partition).cloned(),
            partition,
        };
        SourceEvent::Assigned {
            partitions: partitions.into_iter().map(of).collect(),
            epoch: AssignmentEpoch(self.epoch),
            group_is_new: broker.committed.is_empty(),
        }
    }

    fn hear(&mut self, broker: &mut Broker, events: &mut Vec<SourceEvent>) {
        let all = broker.topics.keys().cloned().collect();
        if !std::mem::replace(&mut self.joined, true) && !broker.shared {
            events.push(self.assigned(broker, all));
        }
        while let Some(at) = broker.events.iter().position(|(to, _)| *to == self.broker.member) {
            // Nothing is given before what was given and asked back is answered.
            let gives = matches!(broker.events[at].1, SourceEvent::Assigned { .. });
            if gives && (self.gave || !self.asked_back.is_empty()) {
                return;
            }
            self.gave |= gives;
            let Some((_, event)) = broker.events.remove(at) else { return };
            events.push(match event {
                SourceEvent::Assigned { partitions, .. } => {
                    self.assigned(broker, partitions.into_iter().map(|given| given.partition).collect())
                }
                SourceEvent::Revoked(partitions) => {
                    self.asked_back.push_back(partitions.clone());
                    SourceEvent::Revoked(partitions)
                }
                SourceEvent::Lost(partitions) => {
                    self.held.retain(|partition, _| !partitions.contains(partition));
                    self.asked_back.push_back(partitions.clone());
                    SourceEvent::Lost(partitions)
                }
                other => other,
            });
        }
    }

    fn answer(&mut self, broker: &mut Broker, events: &mut Vec<SourceEvent>) {
        if broker.hold_commits {
            return;
        }
        for (values, token) in self.unanswered.drain(..) {
            let mut outcomes = Vec::new();
            for value in values {
                let ours = self.held.get(&value.partition).is_some_and(|held| held.epoch == value.epoch.0);
                let outcome = if !ours {
                    CommitOutcome::Rebalanced
                } else if broker.max_metadata.is_some_and(|most| value.metadata.len() > most) {
                    CommitOutcome::MetadataTooLarge("too long".into())
                } else {
                    broker.outcomes.pop_front().unwrap_or(CommitOutcome::Done)
                };
                if outcome == CommitOutcome::Done {
                    broker.commits.push((value.partition.clone(), value.next.0));
                    broker.committed.insert(value.partition, Committed { next: value.next, metadata: value.metadata });
                }
                outcomes.push(outcome);
            }
            events.push(SourceEvent::Committed { token, outcomes });
        }
    }

    fn read(&mut self, broker: &Broker, max_records: usize, events: &mut Vec<SourceEvent>) {
        for (partition, held) in &mut self.held {
            if broker.paused.contains(partition) {
                continue;
            }
            let Some(log) = broker.topics.get(partition) else { continue };
            let epoch = AssignmentEpoch(held.epoch);
            if !(log.low..=log.end).contains(&held.at) {
                if !std::mem::replace(&mut held.astray, true) {
                    let (partition, next) = (partition.clone(), Some(NextOffset(held.at)));
                    events.push(SourceEvent::OutOfRange { partition, epoch, next });
                }
                continue;
            }
            let mut block = RecordBlock::new(partition.clone(), epoch);
            for record in log.records.iter().filter(|r| r.offset >= held.at).take(max_records) {
                block.push(Offset(record.offset), 7, record.key.as_deref(), record.value.as_deref(), b"");
            }
            held.at = block.records().last().map_or(held.at, |r| r.offset.0 + 1);
            if !block.is_empty() {
                events.push(SourceEvent::Records(block));
            }
            let all = log.records.last().is_none_or(|r| r.offset < held.at);
            if all && held.told.replace(log.end) != Some(log.end) {
                held.at = held.at.max(log.end);
                let (partition, next) = (partition.clone(), NextOffset(log.end));
                events.push(SourceEvent::EndOfPartition { partition, epoch, next });
            }
        }
    }
}

impl SourceClient for FakeSource {
    fn poll(&mut self, max_records: usize, _: Duration, events: &mut Vec<SourceEvent>) -> Result<(), ClientError> {
        let shared = self.broker.clone();
        let mut broker = shared.get();
        self.hear(&mut broker, events);
        self.answer(&mut broker, events);
        if max_records == 0 {
            broker.polls_without_records += 1;
        } else {
            self.read(&broker, max_records, events);
        }
        Ok(())
    }

    fn assign(&mut self, partitions: &[(TopicPartition, Position)]) -> Result<(), ClientError> {
        self.gave = false;
        let broker = self.broker.get();
        for (partition, position) in partitions {
            let at = match position {
                Position::Beginning => broker.topics.get(partition).map_or(0, |log| log.low),
                Position::End => broker.topics.get(partition).map_or(0, |log| log.end),
                Position::At(next) => next.0,
            };
            self.held.insert(partition.clone(), Held { epoch: self.epoch, at, told: None, astray: false });
        }
        Ok(())
    }

    fn unassign(&mut self) -> Result<(), ClientError> {
        let gone = self.asked_back.pop_front().expect("something was asked back");
        let mut broker = self.broker.get();
        for partition in &gone {
            self.held.remove(partition);
        }
        broker.paused.retain(|partition| !gone.contains(partition));
        broker.let_go.extend(gone.into_iter().map(|partition| (self.broker.member, partition)));
        Ok(())
    }

    fn pause(&mut self, partitions: &[TopicPartition]) -> Result<(), ClientError> {
        self.broker.get().paused.extend_from_slice(partitions);
        Ok(())
    }

    fn resume(&mut self, partitions: &[TopicPartition]) -> Result<(), ClientError> {
        self.broker.get().paused.retain(|p| !partitions.contains(p));
        Ok(())
    }

    fn seek(&mut self, partition: &TopicPartition, to: Position, _: Duration) -> Result<(), ClientError> {
        let held = self.held.get_mut(partition).expect("it is assigned");
        let Position::At(next) = to else { panic!("not to {to:?}") };
        (held.at, held.told, held.astray) = (next.0, None, false);
        Ok(())
    }

    fn commit(&mut self, values: Vec<Commit>, token: CommitToken) {
        self.unanswered.push((values, token));
    }

    fn partitions(&mut self, _: Duration) -> Result<Vec<TopicPartition>, ClientError> {
        let mut broker = self.broker.get();
        broker.asked += 1;
        Ok(broker.topics.keys().cloned().collect())
    }

    fn watermarks(&mut self, partitions: &[TopicPartition], _: Duration) -> Result<Vec<Watermarks>, ClientError> {
        let mut broker = self.broker.get();
        broker.asked += 1;
        let one = |p: &TopicPartition| Watermarks {
            partition: p.clone(),
            low: NextOffset(broker.topics.get(p).map_or(0, |log| log.low)),
            high: NextOffset(broker.topics.get(p).map_or(0, |log| log.end)),
        };
        Ok(partitions.iter().map(one).collect())
    }

    fn committed(
        &mut self,
        partitions: &[TopicPartition],
        _: Duration,
    ) -> Result<Vec<Option<NextOffset>>, ClientError> {
        let mut broker = self.broker.get();
        broker.asked += 1;
        Ok(partitions.iter().map(|p| broker.committed.get(p).map(|committed| committed.next)).collect())
    }

    fn recycle(&mut self, _: RecordBlock) {
        self.broker.get().recycled += 1;
    }

    fn close(&mut self, _: Duration) -> Result<(), ClientError> {
        Ok(())
    }
}

/// A record as the fake sink client was given it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Sent {
    pub(super) topic: String,
    pub(super) key: Option<String>,
    pub(super) value: Option<String>,
    pub(super) headers: Vec<(String, String)>,
    pub(super) flush: FlushId,
}

impl Sent {
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(n, _)| n == name).map(|(_, value)| value.as_str())
    }
}

/// A record that fails, and why.
#[derive(Debug)]
struct Refused {
    reason: DeliveryFailure,
    key: Option<Vec<u8>>,
    contents: Contents,
}

#[derive(Debug, Default)]
pub(super) struct Producer {
    pub(super) sent: Vec<Sent>,
    /// Sent and not acknowledged.
    waiting: VecDeque<(FlushId, Option<Refused>)>,
    /// Nothing is acknowledged while this is set.
    pub(super) hold: bool,
    /// The most that is in flight.
    pub(super) capacity: Option<usize>,
    /// Values longer than this are too large.
    pub(super) max_part: Option<usize>,
    /// The next record fails like this.
    pub(super) fail_next: Option<DeliveryFailure>,
}

#[derive(Clone, Debug, Default)]
pub(super) struct FakeSink(Arc<Mutex<Producer>>);

impl FakeSink {
    pub(super) fn get(&self) -> MutexGuard<'_, Producer> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

impl SinkClient for FakeSink {
    fn produce(&mut self, batch: &ProduceBatch, from: usize) -> usize {
        let mut producer = self.get();
        let room = producer.capacity.map_or(usize::MAX, |c| c.saturating_sub(producer.waiting.len()));
        let mut taken = 0;
        for row in batch.rows().iter().skip(from).take(room) {
            let (key, value, headers) = batch.parts(row);
            let large =
                producer.max_part.is_some_and(|max| [key, value].into_iter().flatten().any(|part| part.len() > max));
            let failure = if large { Some(DeliveryFailure::TooLarge) } else { producer.fail_next.take() };
            if failure.is_none() {
                producer.sent.push(Sent {
                    topic: batch.topic().to_string(),
                    key: key.map(text),
                    value: value.map(text),
                    headers: Headers::decode(headers).map(|(n, v)| (text(n), text(v.unwrap_or_default()))).collect(),
                    flush: row.flush,
                });
            }
            let refused = failure.map(|reason| {
                let contents = Contents { value: value.map(<[u8]>::to_vec), headers: headers.to_vec() };
                Refused { reason, key: key.map(<[u8]>::to_vec), contents }
            });
            producer.waiting.push_back((row.flush, refused));
            taken += 1;
        }
        taken
    }

    fn poll(&mut self, _: Duration, reports: &mut Vec<DeliveryReport>) -> Result<(), ClientError> {
        let mut producer = self.get();
        if producer.hold {
            return Ok(());
        }
        for (flush, refused) in std::mem::take(&mut producer.waiting) {
            reports.push(match refused {
                None => DeliveryReport::Acked { flush, records: 1 },
                Some(Refused { reason, key, contents }) => DeliveryReport::Failed(Box::new(FailedRecord {
                    flush,
                    tag: 0,
                    topic: "counts".into(),
                    key,
                    value_len: contents.value.as_ref().map_or(0, Vec::len),
                    reason,
                    message: "it was not delivered".into(),
                    contents: Some(contents),
                })),
            });
        }
        Ok(())
    }

    fn in_flight(&self) -> usize {
        self.get().waiting.len()
    }

    fn flush_hint(&mut self) {}

    fn close(&mut self, _: Duration, _: &mut Vec<DeliveryReport>) -> Result<(), ClientError> {
        Ok(())
    }
}
