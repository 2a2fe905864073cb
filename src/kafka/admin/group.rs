//! A consumer group seen from outside: who is in it, what it has committed, and moving that. Every call waits, with a
//! bound.

use std::time::Duration;

use rdkafka::{
    TopicPartitionList,
    consumer::{CommitMode, Consumer, ConsumerGroupMetadata},
    error::KafkaError,
    topic_partition_list::Offset as Place,
};

use super::lookup::Lookup;
use crate::kafka::{
    client::{ClientError, Committed, ErrorKind, NextOffset, TopicPartition, Watermarks},
    librdkafka::{offsets, shared::call_error, subscription::Subscription},
    options::{Connection, group_properties},
};

/// One group, whose offsets are looked at and moved without joining it.
pub struct GroupAdmin {
    lookup: Lookup,
    group: String,
}

impl std::fmt::Debug for GroupAdmin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("GroupAdmin").field("group", &self.group).finish_non_exhaustive()
    }
}

/// A member of a group, as the broker knows it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Member {
    /// Its `client.id`.
    pub client_id: String,
    /// The address that it connects from.
    pub host: String,
}

/// What a group is to commit for a partition.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Move {
    /// The partition.
    pub partition: TopicPartition,
    /// Where to read on.
    pub to: NextOffset,
    /// The text beside it.
    pub metadata: String,
}

impl GroupAdmin {
    /// A client whose calls wait at most `max_wait` each. Does not wait for a broker itself.
    ///
    /// # Errors
    /// A property that the client does not accept.
    pub fn new(connection: &Connection, group: &str, max_wait: Duration) -> Result<Self, ClientError> {
        let lookup = Lookup::new(&group_properties(connection, group), &connection.brokers, max_wait)?;
        Ok(Self { lookup, group: group.to_owned() })
    }

    /// All partitions of topics, which are names, or patterns that begin with `^`; sorted.
    ///
    /// # Errors
    /// A topic that is named does not exist, no broker answers, access is denied.
    pub fn partitions(&self, topics: &[String]) -> Result<Vec<TopicPartition>, ClientError> {
        let (client, subscription) = (self.lookup.consumer().client(), Subscription::new(topics)?);
        self.lookup.patiently(|max_wait| subscription.partitions(client, max_wait, self.lookup.brokers()))
    }

    /// Oldest record and end of every partition of a topic, in the order of the partitions.
    ///
    /// # Errors
    /// No such topic, no broker answers, access is denied.
    pub fn watermarks(&self, topic: &str) -> Result<Vec<Watermarks>, ClientError> {
        self.lookup.watermarks(topic)
    }

    /// The members that the group has now; none if it is empty or does not exist.
    ///
    /// # Errors
    /// No broker answers, access is denied.
    pub fn members(&self) -> Result<Vec<Member>, ClientError> {
        let what = format!("members of group {:?}", self.group);
        let found = self.lookup.consumer().fetch_group_list(Some(&self.group), self.lookup.max_wait());
        let list = self.lookup.answer(found.map_err(|error| self.failed(&error, &what)))?;
        let groups = list.groups().iter().filter(|group| group.name() == self.group);
        let members = groups.flat_map(|group| group.members());
        let member = |m: &rdkafka::groups::GroupMemberInfo| Member {
            client_id: m.client_id().to_owned(),
            host: m.client_host().trim_start_matches('/').to_owned(),
        };
        Ok(members.map(member).collect())
    }

    /// What the group has committed for each of these partitions, in their order; `None` if nothing.
    ///
    /// # Errors
    /// No broker answers, access is denied.
    pub fn committed(&self, partitions: &[TopicPartition]) -> Result<Vec<Option<Committed>>, ClientError> {
        let (consumer, max_wait) = (self.lookup.consumer(), self.lookup.max_wait());
        self.lookup.answer(offsets::committed(consumer, &self.group, partitions, max_wait, self.lookup.brokers()))
    }

    /// The first record of each of these partitions that is not older than `millis` since 1970, in their order; `None`
    /// if there is none.
    ///
    /// # Errors
    /// A partition does not exist, no broker answers, access is denied.
    pub fn offsets_at(
        &self,
        partitions: &[TopicPartition],
        millis: i64,
    ) -> Result<Vec<Option<NextOffset>>, ClientError> {
        let places = partitions.iter().map(|partition| (partition, Place::Offset(millis)));
        let list = offsets::list_of(places, self.lookup.brokers())?;
        let what = "offsets by time";
        let found = self.lookup.consumer().offsets_for_times(list, self.lookup.max_wait());
        let list = self.lookup.answer(found.map_err(|error| self.failed(&error, what)))?;
        let elements = list.elements();
        let offsets = elements.iter().map(|element| {
            element.error().map_err(|error| self.failed(&error, what))?;
            Ok(match element.offset() {
                Place::Offset(next) => Some(NextOffset(next)),
                _ => None,
            })
        });
        offsets.collect()
    }

    /// Commits for a group without members.
    ///
    /// # Errors
    /// The group has members (the broker refuses the commit of anybody else), no broker answers, access is denied.
    pub fn commit(&self, moves: &[Move]) -> Result<(), ClientError> {
        let what = format!("moving the offsets of group {:?}", self.group);
        let done = self.lookup.consumer().commit(&self.moves(moves)?, CommitMode::Sync);
        self.lookup.answer(done.map_err(|error| self.failed(&error, &what)))
    }

    /// The moves as a transaction takes them.
    pub(in crate::kafka) fn moves(&self, moves: &[Move]) -> Result<TopicPartitionList, ClientError> {
        let mut list = TopicPartitionList::new();
        for Move { partition, to, metadata } in moves {
            let mut element = list.add_partition(&partition.topic, partition.partition);
            let set = element.set_offset(Place::Offset(to.0));
            set.map_err(|error| self.failed(&error, &format!("partition {partition}")))?;
            if !metadata.is_empty() {
                element.set_metadata(metadata);
            }
        }
        Ok(list)
    }

    /// As whom a transaction commits offsets.
    pub(in crate::kafka) fn metadata(&self) -> Result<ConsumerGroupMetadata, ClientError> {
        self.lookup.consumer().group_metadata().ok_or_else(|| {
            ClientError::new(ErrorKind::Other, format!("the client does not know its group {:?}", self.group))
        })
    }

    fn failed(&self, error: &KafkaError, what: &str) -> ClientError {
        call_error(error, what, self.lookup.brokers())
    }
}
