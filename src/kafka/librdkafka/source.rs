//! The source client over librdkafka: a member of a consumer group.
//!
//! Two queues. The consumer's own holds what the group and the client say; each `poll` serves it first, so that
//! rebalances arrive and the client knows that it is alive. Records go to a queue of ours, which is read in batches.

mod group;
mod lists;

use std::{collections::VecDeque, sync::Arc, time::Duration};

use rdkafka::{
    TopicPartitionList,
    consumer::{BaseConsumer, Consumer},
    error::{KafkaError, RDKafkaErrorCode},
    topic_partition_list::Offset as Place,
};

use self::{
    group::Wish,
    lists::{commit_list, is_about, place, stray},
};
use super::{
    commits::{Assignments, Commits, Next},
    intake::Intake,
    native::{CommitQueue, RecordQueue},
    offsets,
    shared::{Context, Happening, call_error, code_of, config, creation_error, kind_of, native, sentence},
    subscription::Subscription,
    trouble::{TroubleWatch, connection_error},
    unowned::Unowned,
};
use crate::{
    clock::Clock,
    kafka::{
        client::{
            AssignmentEpoch, ClientError, Commit, CommitToken, ErrorKind, NextOffset, Position, RecordBlock,
            SourceClient, SourceEvent, TopicPartition, Watermarks,
        },
        options::{SourceOptions, source_properties},
    },
};

/// How long a question whether a broker is back may take.
const PROBE: Duration = Duration::from_millis(100);

/// Where the client logs its one error: that it cannot be closed when it is dropped, because it is closed. The source
/// closes it first, and tells of a failure to.
pub const CLOSED_AGAIN_LOG_TARGET: &str = "rdkafka::consumer::base_consumer";

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
    /// Partitions that are paused. The client would keep them so beyond their assignment.
    paused: Vec<TopicPartition>,
    /// Events that came outside of a poll.
    early: Vec<SourceEvent>,
    /// Of a static member.
    unowned: Unowned,
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
        consumer
            .subscribe(&names)
            .map_err(|error| ClientError::new(ErrorKind::Config, format!("cannot subscribe to {names:?}: {error}")))?;
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
            paused: Vec::new(),
            early: Vec::new(),
            unowned: Unowned::default(),
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
        let shared = |(topic, partition): (String, i32)| TopicPartition { topic: self.intake.name(&topic), partition };
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
                    let Err(code) = list.and_then(|list| self.commit_queue.send(&list)) else {
                        return;
                    };
                    events.extend(self.commits.answered(Some(code), &[], &self.intake, &self.options.group));
                }
            }
        }
    }

    /// Those of `partitions` that are assigned.
    fn assigned_of(&self, partitions: &[TopicPartition]) -> Result<TopicPartitionList, ClientError> {
        let ours = partitions.iter().filter(|partition| self.intake.epoch(partition).is_some());
        offsets::list_of(ours.map(|partition| (partition, Place::Invalid)), self.brokers())
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
}

impl Assignments for Intake {
    fn epoch_of(&self, partition: &TopicPartition) -> Option<AssignmentEpoch> {
        self.epoch(partition)
    }
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
        self.look_for_unowned();
        let wait = if events.len() > before { Duration::ZERO } else { max_wait };
        self.forward_again();
        let intake = &mut self.intake;
        if max_records > 0 {
            self.queue.consume(max_records, wait, &mut |raw| intake.take(raw, events));
        }
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
        self.take_on(partitions)
    }

    fn unassign(&mut self) -> Result<(), ClientError> {
        self.let_go()
    }

    fn pause(&mut self, partitions: &[TopicPartition]) -> Result<(), ClientError> {
        let list = self.assigned_of(partitions)?;
        self.paused.extend(partitions.iter().filter(|partition| self.intake.epoch(partition).is_some()).cloned());
        self.consumer.pause(&list).map_err(|error| call_error(&error, "pausing partitions", self.brokers()))
    }

    fn resume(&mut self, partitions: &[TopicPartition]) -> Result<(), ClientError> {
        let list = self.assigned_of(partitions)?;
        self.paused.retain(|partition| !partitions.contains(partition));
        self.consumer.resume(&list).map_err(|error| call_error(&error, "resuming partitions", self.brokers()))
    }

    fn seek(&mut self, partition: &TopicPartition, to: Position, max_wait: Duration) -> Result<(), ClientError> {
        let list = offsets::list_of([(partition, place(to))], self.brokers())?;
        let done = self.consumer.seek_partitions(list, max_wait);
        let done = done.and_then(|list| list.elements().iter().try_for_each(|element| element.error()));
        match done {
            Err(error) if code_of(&error) == RDKafkaErrorCode::State && self.intake.epoch(partition).is_some() => {
                self.start_again(partition, to)
            }
            done => {
                self.intake.move_to(partition, to);
                done
            }
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
        let until = self.clock.now() + max_wait;
        let each = partitions.iter().map(|partition| {
            offsets::watermarks(&self.consumer, partition.clone(), until - self.clock.now(), self.brokers())
        });
        let all: Result<Vec<_>, ClientError> = each.collect();
        all.map_err(|error| self.explain(error))
    }

    fn committed(
        &mut self,
        partitions: &[TopicPartition],
        max_wait: Duration,
    ) -> Result<Vec<Option<NextOffset>>, ClientError> {
        let found = self.committed_within(partitions, max_wait).map_err(|error| self.explain(error))?;
        Ok(found.into_iter().map(|committed| committed.map(|committed| committed.next)).collect())
    }

    fn recycle(&mut self, block: RecordBlock) {
        self.intake.recycle(block);
    }

    fn close(&mut self, max_wait: Duration) -> Result<(), ClientError> {
        self.leave(max_wait)
    }
}
