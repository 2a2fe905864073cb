//! Room for what partitions remember of their producers. Anybody can invent producers, so all of them together are bounded:
//! where there is no room for one more, one is forgotten that has been idle, as it would be by its expiry. It may go on
//! with any sequence then. The partition that has most of them forgets, so that who floods one partition is forgotten
//! there, and nobody elsewhere.

use std::collections::BTreeSet;

use kafka_protocol::{error::ResponseError, messages::TopicName};
use uuid::Uuid;

use super::{
    Logs,
    batch::Header,
    producers::{Count, Producers},
};

/// What all partitions remember together, known without asking them all.
#[derive(PartialEq, Eq, Debug, Default)]
pub(super) struct Remembered {
    bytes: usize,
    /// Partitions with producers that may be forgotten, by how many those are.
    idle: BTreeSet<(usize, Uuid, usize)>,
}

impl Remembered {
    /// Takes note of how many producers a partition knew, and how many it knows now. A partition has the id of its topic
    /// and its index.
    pub(super) fn note(&mut self, (topic, index): (Uuid, usize), before: Count, now: Count) {
        self.bytes = self.bytes - Producers::size(before.all) + Producers::size(now.all);
        if before.idle == now.idle {
            return;
        }
        self.idle.remove(&(before.idle, topic, index));
        if now.idle > 0 {
            self.idle.insert((now.idle, topic, index));
        }
    }

    #[cfg(test)]
    pub(super) const fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Logs {
    /// Makes room for the producer of a batch, if its partition does not know it yet.
    ///
    /// # Errors
    /// KAFKA_STORAGE_ERROR, as where there is no room for records, if every producer that could be forgotten for it has a
    /// transaction open.
    pub(super) fn make_room_for_producer(
        &mut self,
        topic: &TopicName,
        partition: i32,
        header: &Header,
    ) -> Result<(), ResponseError> {
        // What one takes depends on how many are left there.
        let growth = |logs: &Self| logs.partition(topic, partition).map_or(0, |log| log.producers.growth_by(header));
        loop {
            let more = growth(self);
            if more == 0 || self.remembered.bytes + more <= self.options.max_producer_bytes {
                return Ok(());
            }
            self.forget_producer().ok_or(ResponseError::KafkaStorageError)?;
        }
    }

    /// Forgets producers for whom there is no room: markers make them known without a question.
    pub(super) fn forget_producers(&mut self) {
        while self.remembered.bytes > self.options.max_producer_bytes && self.forget_producer().is_some() {}
    }

    /// Forgets one producer; `None`: there is none that may be.
    fn forget_producer(&mut self) -> Option<()> {
        let (_, id, index) = *self.remembered.idle.last()?;
        let partition = self.topics.get_mut(self.names.get(&id)?)?.partitions.get_mut(index)?;
        let before = partition.producers.count();
        partition.producers.forget_longest_idle();
        self.remembered.note((id, index), before, partition.producers.count());
        Some(())
    }
}
