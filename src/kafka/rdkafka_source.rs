//! The source client over librdkafka: a member of a consumer group.
//!
//! Two queues. The consumer's own holds what the group and the client say; each `poll` serves it first, so that
//! rebalances arrive and the client knows that it is alive. Records go to a queue of ours, which is read in batches.

use std::{collections::VecDeque, sync::Arc, thread, time::Duration};

use rdkafka::{
    TopicPartitionList,
    consumer::{BaseConsumer, Consumer, RebalanceProtocol},
    error::{KafkaError, RDKafkaErrorCode},
    message::{Headers as _, Message as _},
    topic_partition_list::Offset as Place,
};

use super::{
    native::{CommitQueue, RecordQueue, committed_metadata},
    client::{
        AssignedPartition, AssignmentEpoch, ClientError, Commit, CommitToken, Committed, ErrorKind,
        NextOffset, Offset, Position, RecordBlock, SourceClient, SourceEvent, TopicPartition,
        Watermarks,
    },
    commits::{Assignments, Commits, Next},
    intake::Intake,
    options::{SourceOptions, source_properties},
    rdkafka::{
        Context, Happening, call_error, code_of, config, creation_error, kind_of, native, sentence,
    },
    record::{NO_TIMESTAMP, push_header},
    subscription::Subscription,
    trouble::{TroubleWatch, connection_error},
};
use crate::clock::Clock;

/// How long one attempt to ask for committed offsets may take; it is repeated at the next poll.
const ASK_COMMITTED: Duration = Duration::from_secs(5);

/// How long a question whether a broker is back may take.
const PROBE: Duration = Duration::from_millis(100);

/// What the group wants and the logic above has not answered yet.
#[derive(Debug)]
enum Wish {
    Give { partitions: Vec<TopicPartition>, told: bool },
    Take { partitions: Vec<TopicPartition> },
}

/// A consumer group member, see [`SourceClient`].
pub struct RdkafkaSource {
    options: SourceOptions,
    subscription: Subscription,
    clock: Clock,
    // Before `consumer`: the queues are destroyed first.
    queue: RecordQueue<Context>,
    commit_queue: CommitQueue<Context>,
    consumer: Arc<BaseConsumer<Context>>,
    intake: Intake,
    commits: Commits,
    wishes: VecDeque<Wish>,
    last_epoch: u64,
    group_is_new: bool,
    connection: TroubleWatch,
    topics: TroubleWatch,
    /// Partitions that are being started again, until they are heard of. Stopping a partition ends its forwarding, at a
    /// moment that nobody tells, so it is renewed at each poll.
    restarting: Vec<TopicPartition>,
    /// Events that came outside of a poll.
    early: Vec<SourceEvent>,
    closed: bool,
}

impl std::fmt::Debug for RdkafkaSource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RdkafkaSource").field("wishes", &self.wishes).finish_non_exhaustive()
    }
}

impl RdkafkaSource {
    /// Makes the client and subscribes. Does not wait for a broker.
    ///
    /// # Errors
    /// A property, a topic name or pattern that the client does not accept.
    pub fn new(options: SourceOptions, clock: Clock) -> Result<Self, ClientError> {
        let config = config(&source_properties(&options));
        // For the sentence, which `create_with_context` would give with the value of a secret.
        drop(native(&config)?);
        let consumer: BaseConsumer<Context> =
            config.create_with_context(Context::default()).map_err(|error| creation_error(&error))?;
        let subscription = Subscription::new(&options.topics)?;
        let names: Vec<&str> = options.topics.iter().map(String::as_str).collect();
        consumer.subscribe(&names).map_err(|error| {
            ClientError::new(ErrorKind::Config, format!("cannot subscribe to {names:?}: {error}"))
        })?;
        let consumer = Arc::new(consumer);
        Ok(Self {
            queue: RecordQueue::new(Arc::clone(&consumer)),
            commit_queue: CommitQueue::new(Arc::clone(&consumer)),
            consumer,
            options,
            subscription,
            clock,
            intake: Intake::default(),
            commits: Commits::default(),
            wishes: VecDeque::new(),
            last_epoch: 0,
            group_is_new: true,
            connection: TroubleWatch::default(),
            topics: TroubleWatch::default(),
            restarting: Vec::new(),
            early: Vec::new(),
            closed: false,
        })
    }

    fn brokers(&self) -> &str {
        &self.options.connection.brokers
    }

    /// Serves the consumer's own queue until it has nothing to say.
    fn serve(&mut self, events: &mut Vec<SourceEvent>) -> Result<(), ClientError> {
        loop {
            let mut fatal = false;
            match self.consumer.poll(Duration::ZERO) {
                None => {}
                // A record of a partition whose queue was not forwarded in time would come here; it is not lost.
                Some(Ok(message)) => {
                    let block = stray(&mut self.intake, &message);
                    events.extend(block.map(SourceEvent::Records));
                    continue;
                }
                Some(Err(error)) => fatal = matches!(error, KafkaError::MessageConsumptionFatal(_)),
            }
            let happenings = self.consumer.context().take();
            if fatal {
                return Err(self.fatal());
            }
            if happenings.is_empty() {
                return Ok(());
            }
            for happening in happenings {
                self.happened(happening, events);
            }
        }
    }

    fn fatal(&self) -> ClientError {
        let (code, text) = self
            .consumer
            .client()
            .fatal_error()
            .unwrap_or((RDKafkaErrorCode::Fatal, String::from("the client gave up")));
        let who = match &self.options.instance {
            Some(instance) => format!("member {instance:?} of group {:?}", self.options.group),
            None => format!("group {:?}", self.options.group),
        };
        sentence(code, &text, &who, self.brokers())
    }

    fn happened(&mut self, happening: Happening, events: &mut Vec<SourceEvent>) {
        match happening {
            Happening::Give(partitions) => {
                let partitions = self.shared(partitions);
                self.wishes.push_back(Wish::Give { partitions, told: false });
            }
            Happening::Take { partitions, lost } => {
                let partitions = self.shared(partitions);
                if lost {
                    partitions.iter().for_each(|partition| self.intake.remove(partition));
                }
                let told = partitions.clone();
                self.wishes.push_back(Wish::Take { partitions });
                events.push(if lost { SourceEvent::Lost(told) } else { SourceEvent::Revoked(told) });
            }
            Happening::Error(code, text) => self.error(code, &text, events),
            Happening::Logged => {}
        }
    }

    fn shared(&mut self, partitions: Vec<(String, i32)>) -> Vec<TopicPartition> {
        let shared = |(topic, partition): (String, i32)| TopicPartition {
            topic: self.intake.name(&topic),
            partition,
        };
        partitions.into_iter().map(shared).collect()
    }

    fn error(&mut self, code: RDKafkaErrorCode, text: &str, events: &mut Vec<SourceEvent>) {
        let now = self.clock.now();
        let kind = kind_of(code);
        let trouble = match kind {
            ErrorKind::Unavailable => {
                let error = connection_error(kind, text, self.brokers());
                if code == RDKafkaErrorCode::AllBrokersDown {
                    self.connection.suspect(error, now);
                } else {
                    self.connection.connection_failed(error);
                }
                None
            }
            ErrorKind::Authentication => {
                let error = connection_error(kind, text, self.brokers());
                self.connection.connection_failed(error.clone());
                self.connection.begin(&error, now)
            }
            ErrorKind::UnknownTopic | ErrorKind::Authorization => {
                let error = sentence(code, text, text, self.brokers());
                self.topics.begin(&error, now)
            }
            _ => {
                tracing::debug!(target: "librdkafka", %code, text);
                None
            }
        };
        events.extend(trouble.map(SourceEvent::Trouble));
    }

    fn recovered(&mut self, events: &mut Vec<SourceEvent>) {
        if self.connection.went_well() && !self.topics.is_on() {
            events.push(SourceEvent::Recovered);
        }
    }

    /// Tells about given partitions once their committed offsets are known.
    fn tell_assigned(&mut self, events: &mut Vec<SourceEvent>) {
        let Some(Wish::Give { partitions, told: false }) = self.wishes.front() else { return };
        let partitions = partitions.clone();
        let asked = self.committed(&partitions).and_then(|committed| {
            let new = self.group_is_new && committed.iter().all(Option::is_none) && self.nothing_committed()?;
            Ok((committed, new))
        });
        let (committed, new) = match asked {
            Ok(answer) => answer,
            Err(error) => {
                let now = self.clock.now();
                events.extend(self.connection.begin(&error, now).map(SourceEvent::Trouble));
                return;
            }
        };
        self.group_is_new = new;
        self.recovered(events);
        if !partitions.is_empty() && self.topics.went_well() && !self.connection.is_on() {
            events.push(SourceEvent::Recovered);
        }
        self.last_epoch += 1;
        if let Some(Wish::Give { told, .. }) = self.wishes.front_mut() {
            *told = true;
        }
        events.push(SourceEvent::Assigned {
            partitions: partitions
                .into_iter()
                .zip(committed)
                .map(|(partition, committed)| AssignedPartition { partition, committed })
                .collect(),
            epoch: AssignmentEpoch(self.last_epoch),
            group_is_new: new,
        });
    }

    /// What the group committed for each of these partitions, in their order.
    fn committed(&self, partitions: &[TopicPartition]) -> Result<Vec<Option<Committed>>, ClientError> {
        if partitions.is_empty() {
            return Ok(Vec::new());
        }
        let list = list_of(partitions.iter().map(|p| (p, Place::Invalid)), self.brokers())?;
        let what = format!("committed offsets of group {:?}", self.options.group);
        let failed = |error: &KafkaError| call_error(error, &what, self.brokers());
        let list = self.consumer.committed_offsets(list, ASK_COMMITTED).map_err(|error| failed(&error))?;
        let metadata = committed_metadata(&list);
        list.elements()
            .iter()
            .zip(metadata)
            .map(|(element, metadata)| {
                element.error().map_err(|error| failed(&error))?;
                Ok(match element.offset() {
                    Place::Offset(next) => Some(Committed { next: NextOffset(next), metadata }),
                    _ => None,
                })
            })
            .collect()
    }

    /// Whether the group has no committed offset for any partition of its topics.
    fn nothing_committed(&self) -> Result<bool, ClientError> {
        let all = self.subscription.partitions(self.consumer.client(), ASK_COMMITTED, self.brokers())?;
        Ok(self.committed(&all)?.iter().all(Option::is_none))
    }
}

impl RdkafkaSource {
    /// Hears the answer to the commit on its way, and sends the one whose turn it is.
    fn serve_commits(&mut self, events: &mut Vec<SourceEvent>) {
        if let Some((whole, each)) = self.commit_queue.answer() {
            if whole.is_none() {
                self.recovered(events);
            }
            events.extend(self.commits.answered(whole, &each, &self.intake, &self.options.group));
        }
        loop {
            match self.commits.next(&self.intake) {
                Next::Nothing => return,
                Next::Tell(event) => events.push(event),
                Next::Send(values) => {
                    let list = commit_list(&values).map_err(|error| code_of(&error));
                    let Err(code) = list.and_then(|list| self.commit_queue.send(&list)) else { return };
                    events.extend(self.commits.answered(Some(code), &[], &self.intake, &self.options.group));
                }
            }
        }
    }

    /// Answers a [`Wish::Give`].
    fn give<'a>(
        &self,
        partitions: impl Iterator<Item = (&'a TopicPartition, Place)>,
    ) -> Result<(), ClientError> {
        let list = list_of(partitions, self.brokers())?;
        let done = match self.consumer.rebalance_protocol() {
            RebalanceProtocol::Cooperative => self.consumer.incremental_assign(&list),
            RebalanceProtocol::Eager | RebalanceProtocol::None => self.consumer.assign(&list),
        };
        done.map_err(|error| call_error(&error, "taking partitions", self.brokers()))
    }

    /// Those of `partitions` that are assigned.
    fn assigned_of(&self, partitions: &[TopicPartition]) -> Result<TopicPartitionList, ClientError> {
        let ours = partitions.iter().filter(|partition| self.intake.epoch(partition).is_some());
        list_of(ours.map(|partition| (partition, Place::Invalid)), self.brokers())
    }

    fn forward_again(&mut self) {
        let intake = &self.intake;
        self.restarting.retain(|partition| intake.epoch(partition).is_some());
        for partition in &self.restarting {
            if !self.queue.forward(&partition.topic, partition.partition) {
                tracing::debug!(%partition, "an assigned partition that cannot exist");
            }
        }
    }

    /// Asks whether a broker is there.
    fn probe(&mut self, events: &mut Vec<SourceEvent>) {
        let topic = self.options.topics.iter().find(|name| !name.starts_with('^'));
        if self.consumer.client().fetch_metadata(topic.map(String::as_str), PROBE).is_ok() {
            self.recovered(events);
        } else {
            let trouble = self.connection.probe_failed(self.clock.now());
            events.extend(trouble.map(SourceEvent::Trouble));
        }
    }

    /// `error`, or what was heard about the connection if that is why a call failed.
    fn explain(&mut self, error: ClientError) -> ClientError {
        let mut early = std::mem::take(&mut self.early);
        let served = self.serve(&mut early);
        self.early = early;
        match (served, error.kind) {
            (Err(fatal), _) => fatal,
            (Ok(()), ErrorKind::Unavailable | ErrorKind::TimedOut | ErrorKind::Other) => {
                self.connection.reason_or(error)
            }
            (Ok(()), _) => error,
        }
    }

    fn leave(&mut self, max_wait: Duration) -> Result<(), ClientError> {
        if std::mem::replace(&mut self.closed, true) {
            return Ok(());
        }
        self.consumer.context().close();
        // The group waits for these answers before it lets anybody leave.
        while let Some(wish) = self.wishes.pop_front() {
            let answered = match wish {
                Wish::Give { .. } => self.give(std::iter::empty()),
                Wish::Take { partitions } => {
                    self.wishes.push_front(Wish::Take { partitions });
                    self.unassign()
                }
            };
            answered?;
        }
        let failed = |error: &KafkaError| call_error(error, "leaving the group", &self.options.connection.brokers);
        self.consumer.close_queue().map_err(|error| failed(&error))?;
        let deadline = self.clock.now() + max_wait;
        while !self.consumer.closed() {
            if self.clock.now() >= deadline {
                let message = format!(
                    "group {:?} was not left within {max_wait:?}: its other members take over after {:?}",
                    self.options.group, self.options.session_timeout
                );
                return Err(ClientError::new(ErrorKind::TimedOut, message));
            }
            drop(self.consumer.poll(Duration::from_millis(10)));
        }
        Ok(())
    }
}

impl Drop for RdkafkaSource {
    /// The client's own end waits for the network without a bound, so one that has not left in time ends on a thread
    /// that nobody waits for.
    fn drop(&mut self) {
        if self.leave(Duration::from_secs(5)).is_ok() && self.consumer.closed() {
            return;
        }
        let consumer = Arc::clone(&self.consumer);
        let ended = thread::Builder::new().name("kafka-leaves".into()).spawn(move || {
            // The last handle is dropped here, after the queue of the source is gone.
            while Arc::strong_count(&consumer) > 1 {
                thread::sleep(Duration::from_millis(10));
            }
            drop(consumer);
        });
        if let Err(error) = ended {
            tracing::debug!(%error, "no thread for the end of a Kafka client");
        }
    }
}

impl Assignments for Intake {
    fn epoch_of(&self, partition: &TopicPartition) -> Option<AssignmentEpoch> {
        self.epoch(partition)
    }
}

/// Whether an event shows that a partition is being read.
fn is_about(event: &SourceEvent, partition: &TopicPartition) -> bool {
    match event {
        SourceEvent::Records(block) => block.partition == *partition,
        SourceEvent::EndOfPartition { partition: p, .. } | SourceEvent::OutOfRange { partition: p, .. } => p == partition,
        SourceEvent::Assigned { .. }
        | SourceEvent::Revoked(_)
        | SourceEvent::Lost(_)
        | SourceEvent::Committed { .. }
        | SourceEvent::Trouble(_)
        | SourceEvent::Recovered => false,
    }
}

fn misuse(what: &str) -> ClientError {
    ClientError::new(ErrorKind::Other, format!("a mistake in Stormglass: {what}"))
}

const fn place(position: Position) -> Place {
    match position {
        Position::Beginning => Place::Beginning,
        Position::End => Place::End,
        Position::At(NextOffset(next)) => Place::Offset(next),
    }
}

fn list_of<'a>(
    partitions: impl IntoIterator<Item = (&'a TopicPartition, Place)>,
    brokers: &str,
) -> Result<TopicPartitionList, ClientError> {
    let mut list = TopicPartitionList::new();
    for (partition, place) in partitions {
        list.add_partition_offset(&partition.topic, partition.partition, place)
            .map_err(|error| call_error(&error, &format!("partition {partition}"), brokers))?;
    }
    Ok(list)
}

fn commit_list(values: &[Commit]) -> Result<TopicPartitionList, KafkaError> {
    let mut list = TopicPartitionList::new();
    for Commit { partition, next, metadata, .. } in values {
        let mut element = list.add_partition(&partition.topic, partition.partition);
        element.set_offset(Place::Offset(next.0))?;
        if !metadata.is_empty() {
            element.set_metadata(metadata);
        }
    }
    Ok(list)
}

/// A record that came through the consumer's own queue, as a block of one.
fn stray(intake: &mut Intake, message: &rdkafka::message::BorrowedMessage<'_>) -> Option<RecordBlock> {
    let topic = intake.name(message.topic());
    let partition = TopicPartition { topic, partition: message.partition() };
    let epoch = intake.epoch(&partition)?;
    let mut headers = Vec::new();
    for header in message.headers().into_iter().flat_map(|headers| headers.iter()) {
        push_header(header.key.as_bytes(), header.value, &mut headers);
    }
    let mut block = RecordBlock::new(partition, epoch);
    let timestamp = message.timestamp().to_millis().unwrap_or(NO_TIMESTAMP);
    block.push(Offset(message.offset()), timestamp, message.key(), message.payload(), &headers);
    Some(block)
}

impl SourceClient for RdkafkaSource {
    fn poll(
        &mut self,
        max_records: usize,
        max_wait: Duration,
        events: &mut Vec<SourceEvent>,
    ) -> Result<(), ClientError> {
        let before = events.len();
        events.append(&mut self.early);
        self.serve(events)?;
        self.serve_commits(events);
        self.tell_assigned(events);
        let wait = if events.len() > before { Duration::ZERO } else { max_wait };
        self.forward_again();
        let intake = &mut self.intake;
        self.queue.consume(max_records.max(1), wait, &mut |raw| intake.take(raw, events));
        self.intake.flush(events);
        self.restarting.retain(|partition| !events.iter().any(|event| is_about(event, partition)));
        for (partition, code, text) in std::mem::take(&mut self.intake.errors) {
            let error = sentence(code, &text, &format!("reading partition {partition}"), self.brokers());
            events.extend(self.topics.begin(&error, self.clock.now()).map(SourceEvent::Trouble));
        }
        if std::mem::take(&mut self.intake.heard) {
            self.recovered(events);
        } else if self.connection.probe_due(self.clock.now()) {
            self.probe(events);
        }
        Ok(())
    }

    fn assign(&mut self, partitions: &[(TopicPartition, Position)]) -> Result<(), ClientError> {
        if !matches!(self.wishes.front(), Some(Wish::Give { told: true, .. })) {
            return Err(misuse("assign without an unanswered Assigned event"));
        }
        let epoch = AssignmentEpoch(self.last_epoch);
        for (partition, _) in partitions {
            if !self.queue.forward(&partition.topic, partition.partition) {
                return Err(ClientError::new(
                    ErrorKind::UnknownTopic,
                    format!("partition {partition} cannot exist: mend the topic's name"),
                ));
            }
            self.intake.add(partition.clone(), epoch);
        }
        self.wishes.pop_front();
        self.give(partitions.iter().map(|(partition, position)| (partition, place(*position))))
    }

    fn unassign(&mut self) -> Result<(), ClientError> {
        if !matches!(self.wishes.front(), Some(Wish::Take { .. })) {
            return Err(misuse("unassign without an unanswered Revoked or Lost event"));
        }
        let Some(Wish::Take { partitions }) = self.wishes.pop_front() else { return Ok(()) };
        partitions.iter().for_each(|partition| self.intake.remove(partition));
        let done = match self.consumer.rebalance_protocol() {
            RebalanceProtocol::Cooperative => {
                let list = list_of(partitions.iter().map(|p| (p, Place::Invalid)), self.brokers())?;
                self.consumer.incremental_unassign(&list)
            }
            RebalanceProtocol::Eager | RebalanceProtocol::None => self.consumer.unassign(),
        };
        done.map_err(|error| call_error(&error, "giving partitions back", self.brokers()))
    }

    fn pause(&mut self, partitions: &[TopicPartition]) -> Result<(), ClientError> {
        let list = self.assigned_of(partitions)?;
        self.consumer.pause(&list).map_err(|error| call_error(&error, "pausing partitions", self.brokers()))
    }

    fn resume(&mut self, partitions: &[TopicPartition]) -> Result<(), ClientError> {
        let list = self.assigned_of(partitions)?;
        self.consumer.resume(&list).map_err(|error| call_error(&error, "resuming partitions", self.brokers()))
    }

    fn seek(
        &mut self,
        partition: &TopicPartition,
        to: Position,
        max_wait: Duration,
    ) -> Result<(), ClientError> {
        let list = list_of([(partition, place(to))], self.brokers())?;
        let done = self.consumer.seek_partitions(list.clone(), max_wait);
        let done = done.and_then(|list| list.elements().iter().try_for_each(|element| element.error()));
        match done {
            // The client has stopped reading a partition whose offset is gone; only an assignment starts it again.
            Err(error) if code_of(&error) == RDKafkaErrorCode::State && self.intake.epoch(partition).is_some() => {
                self.restarting.push(partition.clone());
                let stopped = self.consumer.incremental_unassign(&list);
                stopped.and_then(|()| self.consumer.incremental_assign(&list))
            }
            done => done,
        }
        .map_err(|error| call_error(&error, &format!("seeking in partition {partition}"), self.brokers()))
    }

    fn commit(&mut self, values: Vec<Commit>, token: CommitToken) {
        self.commits.push(token, values);
        let mut early = std::mem::take(&mut self.early);
        self.serve_commits(&mut early);
        self.early = early;
    }

    fn partitions(&mut self, max_wait: Duration) -> Result<Vec<TopicPartition>, ClientError> {
        let all = self.subscription.partitions(self.consumer.client(), max_wait, self.brokers());
        all.map_err(|error| self.explain(error))
    }

    fn watermarks(
        &mut self,
        partitions: &[TopicPartition],
        max_wait: Duration,
    ) -> Result<Vec<Watermarks>, ClientError> {
        let each = partitions.iter().map(|partition| {
            let (low, high) = self
                .consumer
                .fetch_watermarks(&partition.topic, partition.partition, max_wait)
                .map_err(|error| call_error(&error, &format!("ends of partition {partition}"), self.brokers()))?;
            Ok(Watermarks { partition: partition.clone(), low: NextOffset(low), high: NextOffset(high) })
        });
        let all: Result<Vec<_>, ClientError> = each.collect();
        all.map_err(|error| self.explain(error))
    }

    fn recycle(&mut self, block: RecordBlock) {
        self.intake.recycle(block);
    }

    fn close(&mut self, max_wait: Duration) -> Result<(), ClientError> {
        self.leave(max_wait)
    }
}
