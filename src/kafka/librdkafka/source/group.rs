//! The group's side: what it gives and takes, what it committed, how to leave it.

use std::{sync::Arc, thread, time::Duration};

use rdkafka::{
    TopicPartitionList,
    consumer::{Consumer, RebalanceProtocol},
    error::KafkaError,
    topic_partition_list::Offset as Place,
};

use super::{
    RdkafkaSource,
    lists::{misuse, place},
};
use crate::kafka::{
    client::{
        AssignedPartition, AssignmentEpoch, ClientError, Committed, ErrorKind, Position, SourceClient as _,
        SourceEvent, TopicPartition,
    },
    librdkafka::{offsets, shared::call_error, unowned::unowned},
};

/// How long one attempt to ask for committed offsets may take; it is repeated at the next poll.
const ASK_COMMITTED: Duration = Duration::from_secs(5);

/// How long each of the two questions may take whether partitions are nobody's.
const ASK_MEMBERS: Duration = Duration::from_secs(1);

/// What the group wants and the logic above has not answered yet.
#[derive(Debug)]
pub(super) enum Wish {
    Give { partitions: Vec<TopicPartition>, told: bool },
    Take { partitions: Vec<TopicPartition> },
}

impl RdkafkaSource {
    /// Tells about given partitions once their committed offsets are known.
    pub(super) fn tell_assigned(&mut self, events: &mut Vec<SourceEvent>) {
        let Some(Wish::Give { partitions, told: false }) = self.wishes.front() else {
            return;
        };
        let partitions = partitions.clone();
        let asked = self.committed_within(&partitions, ASK_COMMITTED).and_then(|committed| {
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
    pub(super) fn committed_within(
        &self,
        partitions: &[TopicPartition],
        max_wait: Duration,
    ) -> Result<Vec<Option<Committed>>, ClientError> {
        offsets::committed(&self.consumer, &self.options.group, partitions, max_wait, self.brokers())
    }

    /// Whether the group has no committed offset for any partition of its topics.
    fn nothing_committed(&self) -> Result<bool, ClientError> {
        let all = self.subscription.partitions(self.consumer.client(), ASK_COMMITTED, self.brokers())?;
        Ok(self.committed_within(&all, ASK_COMMITTED)?.iter().all(Option::is_none))
    }

    /// Answers a [`Wish::Give`].
    pub(super) fn take_on(&mut self, partitions: &[(TopicPartition, Position)]) -> Result<(), ClientError> {
        if !matches!(self.wishes.front(), Some(Wish::Give { told: true, .. })) {
            return Err(misuse("assign without an unanswered Assigned event"));
        }
        let epoch = AssignmentEpoch(self.last_epoch);
        for (partition, position) in partitions {
            if !self.queue.forward(&partition.topic, partition.partition) {
                return Err(ClientError::new(
                    ErrorKind::UnknownTopic,
                    format!("partition {partition} cannot exist: mend the topic's name"),
                ));
            }
            self.intake.add(partition.clone(), epoch);
            self.intake.move_to(partition, *position);
        }
        self.wishes.pop_front();
        if self.options.instance.is_some() {
            self.unowned.begin(self.clock.now());
        }
        self.give(partitions.iter().map(|(partition, position)| (partition, place(*position))))
    }

    /// Joins the group anew if it has left partitions to nobody.
    pub(super) fn look_for_unowned(&mut self) {
        let now = self.clock.now();
        if self.closed || !self.wishes.is_empty() || !self.unowned.is_due(now) {
            return;
        }
        // What cannot be asked now is asked later; whoever reads hears of the trouble otherwise.
        let seen = self.unowned_partitions().unwrap_or(None);
        if self.unowned.saw(seen.clone(), self.options.session_timeout, now) {
            tracing::info!(partitions = ?seen, "the group has left partitions to nobody: joining it anew");
            // A static member leaves its group by this alone.
            self.consumer.unsubscribe();
            let names: Vec<&str> = self.options.topics.iter().map(String::as_str).collect();
            if let Err(error) = self.consumer.subscribe(&names) {
                tracing::error!(%error, "cannot subscribe again to {names:?}");
            }
        }
    }

    /// The partitions of the topics that no member has; `None`: the group is not stable.
    fn unowned_partitions(&self) -> Result<Option<Vec<TopicPartition>>, ClientError> {
        let failed = |error: &KafkaError| call_error(error, "members of the group", self.brokers());
        let found = self.consumer.fetch_group_list(Some(&self.options.group), ASK_MEMBERS);
        let found = found.map_err(|error| failed(&error))?;
        let Some(group) = found.groups().iter().find(|group| group.state() == "Stable") else { return Ok(None) };
        let all = self.subscription.partitions(self.consumer.client(), ASK_MEMBERS, self.brokers())?;
        Ok(unowned(all, group.members().iter().filter_map(|member| member.assignment())))
    }

    /// Answers a [`Wish::Take`].
    pub(super) fn let_go(&mut self) -> Result<(), ClientError> {
        if !matches!(self.wishes.front(), Some(Wish::Take { .. })) {
            return Err(misuse("unassign without an unanswered Revoked or Lost event"));
        }
        let Some(Wish::Take { partitions }) = self.wishes.pop_front() else {
            return Ok(());
        };
        let (paused, others) =
            std::mem::take(&mut self.paused).into_iter().partition(|partition| partitions.contains(partition));
        self.paused = others;
        self.resume(&paused)?;
        partitions.iter().for_each(|partition| self.intake.remove(partition));
        let done = match self.consumer.rebalance_protocol() {
            RebalanceProtocol::Cooperative => {
                let list = offsets::list_of(partitions.iter().map(|p| (p, Place::Invalid)), self.brokers())?;
                self.consumer.incremental_unassign(&list)
            }
            RebalanceProtocol::Eager | RebalanceProtocol::None => self.consumer.unassign(),
        };
        done.map_err(|error| call_error(&error, "giving partitions back", self.brokers()))
    }

    /// Tells the client which partitions to read.
    fn give<'a>(&self, partitions: impl Iterator<Item = (&'a TopicPartition, Place)>) -> Result<(), ClientError> {
        let list = offsets::list_of(partitions, self.brokers())?;
        let done = match self.consumer.rebalance_protocol() {
            RebalanceProtocol::Cooperative => self.consumer.incremental_assign(&list),
            RebalanceProtocol::Eager | RebalanceProtocol::None => self.consumer.assign(&list),
        };
        done.map_err(|error| call_error(&error, "taking partitions", self.brokers()))
    }

    /// Starts a partition again that the client has stopped reading because its offset was gone; only an assignment does
    /// that. An eager protocol knows only whole assignments, so every partition is started again where it stands.
    pub(super) fn start_again(&mut self, partition: &TopicPartition, to: Position) -> Result<(), KafkaError> {
        self.intake.move_to(partition, to);
        if matches!(self.consumer.rebalance_protocol(), RebalanceProtocol::Cooperative) {
            let mut list = TopicPartitionList::new();
            list.add_partition_offset(&partition.topic, partition.partition, place(to))?;
            self.restarting.push(partition.clone());
            self.consumer.incremental_unassign(&list)?;
            return self.consumer.incremental_assign(&list);
        }
        let mut list = TopicPartitionList::new();
        for (partition, position) in self.intake.positions() {
            list.add_partition_offset(&partition.topic, partition.partition, place(position))?;
            self.restarting.push(partition.clone());
        }
        self.consumer.assign(&list)
    }

    pub(super) fn leave(&mut self, max_wait: Duration) -> Result<(), ClientError> {
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
                    self.let_go()
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
