//! What the spout hears from its poller: partitions that come and go, records, ends, answers.

use super::{
    KafkaSpout, Slot,
    channel::{Arrival, Change, Order, Read},
    commit_metadata::CommitMetadata,
    departure::Departure,
    gauges::PartitionGauges,
    offsets::Seq,
    partition::Partition,
    pending::MAX_SLOTS,
};
use crate::{
    kafka::client::{AssignmentEpoch, NextOffset, TopicPartition},
    metrics::ReplayReason,
    state::{CommittedStart, SourceStart},
    topology::{ComponentError, Delivery},
};

/// Records that wait in the spout for their first emission, at which no more blocks are taken.
const ENOUGH_WAITING: u64 = 4096;
/// Under at-most-once one batch waits for its commit while another is emitted.
const ENOUGH_WAITING_FOR_COMMIT: u64 = 65_536;

impl KafkaSpout {
    /// Hears what the poller says, as far as there is use for more records.
    pub(super) fn hear_news(&mut self) {
        if let Some(orders) = &mut self.orders {
            orders.pump();
        }
        self.hear_changes();
        while self.has_records() && self.wants_records() {
            let Some(records) = &mut self.records else { return };
            let Some(item) = self.early.take().or_else(|| records.pop().ok()) else { return };
            // What has changed before the poller sent this has changed here too.
            self.hear_changes();
            if item.epoch() > self.newest_epoch {
                // An assignment that is still on its way on the other side: dropped, these records would be lost.
                self.early = Some(item);
                return;
            }
            self.hear_records(item);
        }
    }

    /// Changes overtake records: the answer to a commit, or a revoke, must not wait behind records that nobody wants.
    fn hear_changes(&mut self) {
        while let Some(Ok(change)) = self.changes.as_mut().map(rtrb::Consumer::pop) {
            self.hear(change);
        }
    }

    /// Asked first: whether records are wanted takes a look at every partition.
    fn has_records(&self) -> bool {
        self.early.is_some() || self.records.as_ref().is_some_and(|records| !records.is_empty())
    }

    fn wants_records(&self) -> bool {
        let enough = match self.delivery {
            Delivery::AtMostOnce => ENOUGH_WAITING_FOR_COMMIT,
            Delivery::AtLeastOnce | Delivery::NoGuarantee => ENOUGH_WAITING,
        };
        let (mut waiting, mut bytes) = (0, 0);
        for partition in self.live() {
            // What a stuck partition holds must not keep the others from coming.
            let emittable = partition.emittable(self.options.max_ahead);
            let gated = partition.pending.unemitted() > 0 && partition.allowed.0 != u64::MAX;
            waiting += if gated { partition.pending.unemitted() } else { emittable };
            bytes += partition.pending.bytes();
        }
        waiting < enough && bytes < self.options.max_pending_bytes
    }

    fn hear_records(&mut self, item: Read) {
        match item {
            Read::Records(block) => {
                self.underway.take(block.memory());
                let slot = self.find(&block.partition).and_then(|at| self.slots.get_mut(at)?.as_mut());
                let back = match slot {
                    Some(slot) if slot.partition.epoch == block.epoch => {
                        let bytes = block.bytes().len();
                        let (records, back) = slot.partition.take(block);
                        slot.gauges.consumed(records, bytes);
                        back
                    }
                    _ => Some(block),
                };
                if let Some(block) = back {
                    self.order(Order::Recycle(block));
                }
            }
            Read::End { partition, epoch, next } => {
                let slot = self.find(&partition).and_then(|at| self.slots.get_mut(at)?.as_mut());
                if let Some(slot) = slot.filter(|slot| slot.partition.epoch == epoch) {
                    slot.partition.pass(next);
                }
            }
            Read::Anew { partition, epoch, end } => {
                let old = self.live().find(|held| held.id == partition && held.epoch == epoch);
                if let Some(was_paused) = old.map(|held| held.paused) {
                    if was_paused {
                        self.order(Order::Resume(partition.clone()));
                    }
                    self.take_out(&partition);
                    self.left.remove(&partition);
                    self.options.history.forget(&partition);
                    let arrival = Arrival { partition, committed: None, first: None, end };
                    self.arrive(arrival, epoch, ReplayReason::Restart);
                }
            }
        }
    }

    fn hear(&mut self, change: Change) {
        match change {
            Change::Assigned { partitions, epoch } => {
                let reason = if self.slots.is_empty() { ReplayReason::Restart } else { ReplayReason::Rebalance };
                (self.was_assigned, self.others_done) = (true, false);
                if let Some(late) = partitions.first().filter(|_| self.begun && self.options.keyed) {
                    let why = format!(
                        "partition {} came when the stores were restored already. The topology starts again, to find out \
                         whether what is committed of the partition belongs to the state",
                        late.partition
                    );
                    self.broken.get_or_insert(ComponentError::new(why));
                }
                self.newest_epoch = self.newest_epoch.max(epoch);
                for arrival in partitions {
                    self.arrive(arrival, epoch, reason);
                }
            }
            Change::Revoked(partitions) => {
                self.others_done = false;
                self.revoked(partitions);
            }
            // Nothing of what is in flight is awaited: it cannot be committed, so whoever has the partition repeats it.
            Change::Lost(partitions) => {
                self.others_done = false;
                self.end_if_keyed(&partitions, "was lost with this process's place in the group");
                for partition in &partitions {
                    self.leave(partition);
                }
                self.departures.push_back(Departure::lost());
            }
            Change::OthersDone => self.others_done = true,
            Change::Ends(ends) => {
                for (partition, end) in ends {
                    if let Some(slot) = self.find(&partition).and_then(|at| self.slots.get_mut(at)?.as_mut()) {
                        slot.partition.known_end = slot.partition.known_end.max(Some(end));
                    }
                }
            }
            Change::Committed { token, outcomes } => self.committed(token, &outcomes),
        }
    }

    fn arrive(&mut self, arrival: Arrival, epoch: AssignmentEpoch, reason: ReplayReason) {
        self.leave(&arrival.partition);
        self.starts.push(self.start_of(&arrival));
        let free = self.slots.iter().position(Option::is_none);
        let at = free.unwrap_or(self.slots.len());
        if at >= MAX_SLOTS {
            self.broken = Some(ComponentError::permanent(format!("more than {MAX_SLOTS} partitions for one spout")));
            return;
        }
        if at == self.slots.len() {
            self.slots.push(None);
            self.next_seqs.push(Seq(0));
        }
        let first = self.next_seqs.get(at).copied().unwrap_or(Seq(0));
        let gated = self.delivery == Delivery::AtMostOnce;
        let gauges = PartitionGauges::new(&self.metrics, &arrival.partition);
        let mut partition = Partition::new(arrival, epoch, first, self.options.retry, gated);
        partition.started_before = partition.started_before.max(self.left.get(&partition.id).copied());
        partition.again_below = partition.started_before.max(self.options.history.emitted(&partition.id));
        partition.replay_reason = reason;
        if let Some(slot) = self.slots.get_mut(at) {
            *slot = Some(Slot { partition, gauges });
        }
    }

    /// Partitions are asked back: they are let go when what is in flight of them is done and committed.
    fn revoked(&mut self, partitions: Vec<TopicPartition>) {
        self.end_if_keyed(&partitions, "is asked back by the group");
        for id in &partitions {
            if let Some(Some(slot)) = self.find(id).and_then(|at| self.slots.get_mut(at)) {
                slot.partition.leaving = true;
            }
        }
        self.departures.push_back(Departure::revoked(partitions, self.now, self.options.revoke_timeout));
    }

    /// Stores do not go with the partitions whose records they hold: they are restored by whoever has them next.
    fn end_if_keyed(&mut self, partitions: &[TopicPartition], what: &str) {
        let held = partitions.iter().find(|id| self.find(id).is_some());
        if let Some(id) = held.filter(|_| self.options.keyed) {
            let why = format!(
                "partition {id} {what}, and the state of its records is here: a topology with stores runs in one \
                 process. It starts again, and finds out what is its own"
            );
            self.broken.get_or_insert(ComponentError::new(why));
        }
    }

    /// Lets go what has nothing more to wait for, in the order of the questions.
    pub(super) fn depart(&mut self) {
        while let Some(departure) = self.departures.front() {
            let is_settled = |id: &TopicPartition| self.live().find(|p| p.id == *id).is_none_or(Partition::is_settled);
            if !departure.is_over(self.now, self.answered, is_settled) {
                return;
            }
            for id in self.departures.pop_front().map(|departure| departure.partitions).unwrap_or_default() {
                self.leave(&id);
            }
            self.order(Order::Release);
        }
    }

    fn start_of(&self, Arrival { partition, committed, .. }: &Arrival) -> SourceStart {
        let committed = committed.as_ref().map(|committed| {
            let metadata = CommitMetadata::decode(&committed.metadata);
            let (commit, done) = metadata.map(|metadata| (metadata.commit.0, metadata.done)).unzip();
            CommittedStart { next: committed.next.0, done: done.unwrap_or_default(), commit }
        });
        let (topic, partition) = (partition.topic.to_string(), partition.partition);
        SourceStart { source: self.name.clone(), topic, partition, committed }
    }

    /// A partition is no longer read here.
    pub(super) fn leave(&mut self, id: &TopicPartition) {
        let Some((started, unfinished)) = self.take_out(id) else { return };
        self.has_left |= self.begun;
        if let Some(started) = started {
            self.left.insert(id.clone(), started);
            self.options.history.note(id, started);
        }
        if unfinished > 0 {
            self.metrics.left_unfinished().add(unfinished);
            tracing::warn!(
                topic = &*id.topic,
                partition = id.partition,
                records = unfinished,
                "records are not committed of a partition that leaves: whoever reads it next begins with them"
            );
        }
    }

    /// Forgets a partition. Says how far it was emitted, and how many records of it are unfinished.
    fn take_out(&mut self, id: &TopicPartition) -> Option<(Option<NextOffset>, u64)> {
        let at = self.find(id)?;
        let Slot { partition, gauges } = self.slots.get_mut(at).and_then(Option::take)?;
        if let Some(next) = self.next_seqs.get_mut(at) {
            *next = partition.frontier.next_seq();
        }
        drop(gauges);
        let found = (partition.started(), partition.unfinished());
        self.starts.retain(|start| *start.topic != *id.topic || start.partition != id.partition);
        self.metrics.forget_partition(&id.topic, id.partition);
        for round in [&mut self.round, &mut self.ahead].into_iter().flatten() {
            round.forget(|value| value.partition == *id);
        }
        self.ahead_allows.retain(|(slot, _)| *slot != at);
        for block in partition.pending.into_blocks() {
            self.order(Order::Recycle(block));
        }
        Some(found)
    }
}
