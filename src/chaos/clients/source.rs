//! The source port: a member of a group that reads what it is given.

use std::{collections::VecDeque, time::Duration};

use kafka_protocol::messages::{
    OffsetFetchRequest, OffsetFetchResponse, ResponseKind, offset_fetch_request::OffsetFetchRequestTopic,
};

use super::{
    LATER, LIST_OFFSETS, METADATA, OFFSET_FETCH, PATIENCE, by_topic,
    commits::Commits,
    error,
    fetching::{EARLIEST, Fetcher, Found, LATEST, ask_offsets, offsets},
    group::{Group, Happening, MemberOptions},
    metadata,
};
use crate::{
    chaos::{
        host::Host,
        link::{Call, Heard, Link},
    },
    clock::Instant,
    kafka::client::{
        AssignedPartition, AssignmentEpoch, ClientError, Commit, CommitToken, Committed, ErrorKind, NextOffset,
        Position, RecordBlock, SourceClient, SourceEvent, TopicPartition, Watermarks,
    },
};

/// What the group wants and the logic above has not answered yet.
#[derive(Debug)]
enum Wish {
    Give { partitions: Vec<TopicPartition>, told: bool },
    Take { partitions: Vec<TopicPartition>, lost: bool, told: bool },
}

/// What is asked about the partitions that were given.
#[derive(Debug)]
enum Asking {
    /// Which partitions there are: a group is new if nothing is committed for any of them.
    All(Call),
    Committed {
        call: Call,
        all: bool,
    },
}

/// What was asked about watermarks: both ends of each partition.
#[derive(Debug)]
struct Ends {
    asked: Instant,
    partitions: Vec<TopicPartition>,
    calls: [Call; 2],
    answers: [Option<Vec<(TopicPartition, i64)>>; 2],
}

/// A consumer group member, see [`SourceClient`].
#[derive(Debug)]
pub struct SimSource {
    host: Host,
    options: MemberOptions,
    group: Group,
    fetcher: Fetcher,
    commits: Commits,
    wishes: VecDeque<Wish>,
    happenings: Vec<Happening>,
    asking: Option<Asking>,
    everything: Vec<TopicPartition>,
    ask_at: Instant,
    any: Link,
    last_epoch: u64,
    group_is_new: bool,
    /// Questions about ends that are not told yet.
    ends: Vec<Ends>,
    /// The last question about what is committed, if it has no answer yet.
    committed: Option<(Vec<TopicPartition>, Call)>,
    polled: Instant,
}

impl SimSource {
    /// A member that joins when it is polled.
    #[must_use]
    pub fn new(options: MemberOptions, host: Host) -> Self {
        Self {
            group: Group::new(options.clone(), &host),
            fetcher: Fetcher::new(&host, options.fetch_wait),
            commits: Commits::new(options.ignores_epochs),
            wishes: VecDeque::new(),
            happenings: Vec::new(),
            asking: None,
            everything: Vec::new(),
            ask_at: Instant::ZERO,
            any: host.link(),
            last_epoch: 0,
            group_is_new: true,
            ends: Vec::new(),
            committed: None,
            polled: host.now(),
            host,
            options,
        }
    }

    /// Puts what the group has decided into the order in which it is to be answered.
    fn hear_group(&mut self, now: Instant) -> Result<(), ClientError> {
        let mut happenings = std::mem::take(&mut self.happenings);
        if now - self.polled > self.options.max_poll {
            self.group.overslept(&mut happenings);
        }
        self.polled = now;
        let settled = self.wishes.is_empty() && happenings.is_empty();
        let turned = self.group.turn(now, settled, &mut happenings);
        for happening in happenings.drain(..) {
            self.wishes.push_back(match happening {
                Happening::Give(partitions) => Wish::Give { partitions, told: false },
                Happening::Take { partitions, lost } => {
                    if lost {
                        // Nothing more comes of them, and nothing of them is committed.
                        self.fetcher.remove(&partitions);
                    }
                    Wish::Take { partitions, lost, told: false }
                }
            });
        }
        self.happenings = happenings;
        turned
    }

    /// Tells the oldest wish that is not answered, once there is all to be told about it.
    fn tell_wish(&mut self, now: Instant, events: &mut Vec<SourceEvent>) {
        match self.wishes.front_mut() {
            Some(Wish::Take { partitions, lost, told }) if !*told => {
                *told = true;
                let partitions = partitions.clone();
                events.push(if *lost { SourceEvent::Lost(partitions) } else { SourceEvent::Revoked(partitions) });
            }
            Some(Wish::Give { told: false, .. }) if now >= self.ask_at => self.tell_given(now, events),
            Some(_) | None => {}
        }
    }

    fn tell_given(&mut self, now: Instant, events: &mut Vec<SourceEvent>) {
        let Some(Wish::Give { partitions, .. }) = self.wishes.front() else { return };
        let partitions = partitions.clone();
        let asked = match self.asking.take() {
            None if partitions.is_empty() => Some((Vec::new(), self.group_is_new)),
            None => return self.ask_given(&partitions),
            Some(Asking::All(call)) => return self.hear_all(call, &partitions, now),
            Some(Asking::Committed { call, all }) => match self.group.coordinator.hear(call) {
                Heard::Nothing => {
                    self.asking = Some(Asking::Committed { call, all });
                    return;
                }
                Heard::Answer(ResponseKind::OffsetFetch(answer)) => {
                    let new = all && self.everything.iter().all(|p| committed(&answer, p).is_none());
                    let each: Vec<_> = partitions.iter().map(|p| committed(&answer, p)).collect();
                    (error(answer.error_code).is_none() && is_whole(&answer)).then_some((each, new))
                }
                Heard::Answer(_) | Heard::Lost => None,
            },
        };
        let Some((each, new)) = asked else {
            self.ask_at = now + LATER;
            return;
        };
        self.group_is_new = new;
        self.last_epoch += 1;
        if let Some(Wish::Give { told, .. }) = self.wishes.front_mut() {
            *told = true;
        }
        let partitions = partitions.into_iter().zip(each);
        events.push(SourceEvent::Assigned {
            partitions: partitions.map(|(partition, committed)| AssignedPartition { partition, committed }).collect(),
            epoch: AssignmentEpoch(self.last_epoch),
            group_is_new: new,
        });
    }

    fn ask_given(&mut self, partitions: &[TopicPartition]) {
        if self.group_is_new && self.any.is_ready() {
            let request = metadata::about(&self.options.topics);
            self.asking = Some(Asking::All(self.any.ask(METADATA, request.into(), PATIENCE)));
        } else if !self.group_is_new && self.group.coordinator.is_ready() {
            self.ask_committed(partitions, false);
        }
    }

    fn hear_all(&mut self, call: Call, given: &[TopicPartition], now: Instant) {
        match self.any.hear(call) {
            Heard::Nothing => self.asking = Some(Asking::All(call)),
            Heard::Answer(ResponseKind::Metadata(answer))
                if metadata::is_whole(&answer) && self.group.coordinator.is_ready() =>
            {
                let all = metadata::counts(&answer)
                    .into_iter()
                    .flat_map(|(topic, n)| (0..n).map(move |partition| TopicPartition::new(topic.as_str(), partition)));
                self.everything = all.chain(given.iter().cloned()).collect();
                self.everything.sort();
                self.everything.dedup();
                let everything = self.everything.clone();
                self.ask_committed(&everything, true);
            }
            Heard::Answer(_) | Heard::Lost => self.ask_at = now + LATER,
        }
    }

    fn ask_committed(&mut self, partitions: &[TopicPartition], all: bool) {
        let call = self.fetch_committed(partitions);
        self.asking = Some(Asking::Committed { call, all });
    }

    fn fetch_committed(&mut self, partitions: &[TopicPartition]) -> Call {
        let topics = by_topic(partitions.iter().map(|p| (&*p.topic, p.partition)))
            .into_iter()
            .map(|(topic, parts)| OffsetFetchRequestTopic::default().with_name(topic).with_partition_indexes(parts));
        let request = OffsetFetchRequest::default()
            .with_group_id(self.group.identity().0)
            .with_topics(Some(topics.collect()))
            .with_require_stable(true);
        self.group.coordinator.ask(OFFSET_FETCH, request.into(), PATIENCE)
    }

    /// Asks what is committed, or hears the answer to the same question before.
    fn hear_committed(&mut self, partitions: &[TopicPartition]) -> Option<Vec<Option<NextOffset>>> {
        let asked = self.committed.take().filter(|(about, _)| about == partitions);
        let Some((_, call)) = asked else {
            if self.group.coordinator.is_ready() {
                self.committed = Some((partitions.to_vec(), self.fetch_committed(partitions)));
            }
            return None;
        };
        match self.group.coordinator.hear(call) {
            Heard::Nothing => {
                self.committed = Some((partitions.to_vec(), call));
                None
            }
            Heard::Answer(ResponseKind::OffsetFetch(answer))
                if error(answer.error_code).is_none() && is_whole(&answer) =>
            {
                Some(partitions.iter().map(|p| committed(&answer, p).map(|committed| committed.next)).collect())
            }
            Heard::Answer(_) | Heard::Lost => None,
        }
    }

    /// Asks for both ends of partitions, or hears the answer to an earlier question about the same ones.
    fn ask_ends(&mut self, partitions: &[TopicPartition]) -> Option<Vec<Watermarks>> {
        let now = self.host.now();
        // An old answer is none.
        self.ends.retain(|ends| now - ends.asked <= PATIENCE);
        if !self.ends.iter().any(|ends| ends.partitions == partitions) {
            if !self.any.is_ready() {
                return None;
            }
            let mut ask = |what| {
                let request = ask_offsets(partitions.iter().map(|p| (p, what)));
                self.any.ask(LIST_OFFSETS, request.into(), PATIENCE)
            };
            let calls = [ask(EARLIEST), ask(LATEST)];
            self.ends.push(Ends { asked: now, partitions: partitions.to_vec(), calls, answers: [None, None] });
        }
        let at = self.ends.iter().position(|ends| ends.partitions == partitions)?;
        let mut ends = self.ends.swap_remove(at);
        for (call, answer) in ends.calls.iter().zip(&mut ends.answers) {
            if answer.is_some() {
                continue;
            }
            match self.any.hear(*call) {
                Heard::Nothing => {
                    self.ends.push(ends);
                    return None;
                }
                Heard::Answer(ResponseKind::ListOffsets(found)) => {
                    let good = offsets(&found).filter(|(_, _, code, _)| *code == 0);
                    *answer = Some(good.map(|(topic, n, _, offset)| (TopicPartition::new(topic, n), offset)).collect());
                }
                Heard::Answer(_) | Heard::Lost => return None,
            }
        }
        let of = |which: &Option<Vec<(TopicPartition, i64)>>, partition: &TopicPartition| {
            which.iter().flatten().find(|(p, _)| p == partition).map(|(_, offset)| NextOffset(*offset))
        };
        let [low, high] = &ends.answers;
        let one = |p: &TopicPartition| Some(Watermarks { partition: p.clone(), low: of(low, p)?, high: of(high, p)? });
        partitions.iter().map(one).collect()
    }
}

/// What is committed for a partition.
fn committed(answer: &OffsetFetchResponse, partition: &TopicPartition) -> Option<Committed> {
    let topic = answer.topics.iter().find(|topic| *topic.name.0 == *partition.topic)?;
    let part = topic.partitions.iter().find(|part| part.partition_index == partition.partition)?;
    let metadata = part.metadata.as_deref().unwrap_or_default().to_owned();
    (part.committed_offset >= 0).then_some(Committed { next: NextOffset(part.committed_offset), metadata })
}

/// Whether no partition of the answer has an error: an offset that is still in a transaction, for example.
fn is_whole(answer: &OffsetFetchResponse) -> bool {
    answer.topics.iter().flat_map(|topic| &topic.partitions).all(|part| part.error_code == 0)
}

fn misuse(what: &str) -> ClientError {
    ClientError::new(ErrorKind::Other, format!("a mistake in Stormglass: {what}"))
}

fn not_now(what: &str) -> ClientError {
    ClientError::new(ErrorKind::TimedOut, format!("no answer yet about {what}"))
}

impl SourceClient for SimSource {
    fn poll(&mut self, max_records: usize, _: Duration, events: &mut Vec<SourceEvent>) -> Result<(), ClientError> {
        self.host.call()?;
        let now = self.host.now();
        self.hear_group(now)?;
        self.commits.turn(&mut self.group, &self.fetcher, events);
        self.tell_wish(now, events);
        self.fetcher.turn(now);
        if max_records > 0 {
            self.fetcher.deliver(max_records, |partition, epoch, found| {
                let partition = partition.clone();
                events.push(match found {
                    Found::Block(block) => SourceEvent::Records(block),
                    Found::End(next) => SourceEvent::EndOfPartition { partition, epoch, next },
                    Found::Astray(next) => SourceEvent::OutOfRange { partition, epoch, next: Some(next) },
                });
            });
        }
        Ok(())
    }

    fn assign(&mut self, partitions: &[(TopicPartition, Position)]) -> Result<(), ClientError> {
        self.host.call()?;
        if !matches!(self.wishes.front(), Some(Wish::Give { told: true, .. })) {
            return Err(misuse("assign without an unanswered Assigned event"));
        }
        self.wishes.pop_front();
        for (partition, position) in partitions {
            self.fetcher.add(partition.clone(), AssignmentEpoch(self.last_epoch), *position);
        }
        Ok(())
    }

    fn unassign(&mut self) -> Result<(), ClientError> {
        self.host.call()?;
        if !matches!(self.wishes.front(), Some(Wish::Take { told: true, .. })) {
            return Err(misuse("unassign without an unanswered Revoked or Lost event"));
        }
        if let Some(Wish::Take { partitions, .. }) = self.wishes.pop_front() {
            self.fetcher.remove(&partitions);
        }
        Ok(())
    }

    fn pause(&mut self, partitions: &[TopicPartition]) -> Result<(), ClientError> {
        self.host.call()?;
        self.fetcher.pause(partitions, true);
        Ok(())
    }

    fn resume(&mut self, partitions: &[TopicPartition]) -> Result<(), ClientError> {
        self.host.call()?;
        self.fetcher.pause(partitions, false);
        Ok(())
    }

    fn seek(&mut self, partition: &TopicPartition, to: Position, _: Duration) -> Result<(), ClientError> {
        self.host.call()?;
        let found = self.fetcher.seek(partition, to);
        if found { Ok(()) } else { Err(misuse("seek in a partition that is not assigned")) }
    }

    fn commit(&mut self, values: Vec<Commit>, token: CommitToken) {
        // A commit of the dead goes nowhere.
        if self.host.call().is_ok() {
            self.commits.push(token, values);
        }
    }

    fn partitions(&mut self, _: Duration) -> Result<Vec<TopicPartition>, ClientError> {
        self.host.call()?;
        if self.everything.is_empty() { Err(not_now("partitions")) } else { Ok(self.everything.clone()) }
    }

    fn watermarks(&mut self, partitions: &[TopicPartition], _: Duration) -> Result<Vec<Watermarks>, ClientError> {
        self.host.call()?;
        self.ask_ends(partitions).ok_or_else(|| not_now("ends of partitions"))
    }

    fn committed(
        &mut self,
        partitions: &[TopicPartition],
        _: Duration,
    ) -> Result<Vec<Option<NextOffset>>, ClientError> {
        self.host.call()?;
        self.hear_committed(partitions).ok_or_else(|| not_now("committed offsets"))
    }

    fn recycle(&mut self, block: RecordBlock) {
        self.fetcher.recycle(block);
    }

    fn close(&mut self, _: Duration) -> Result<(), ClientError> {
        self.host.call()?;
        // What was committed and is not sent yet goes first.
        self.commits.turn(&mut self.group, &self.fetcher, &mut Vec::new());
        self.fetcher.close();
        self.any.close();
        self.group.close();
        Ok(())
    }
}
