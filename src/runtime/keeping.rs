//! The conductor's part in keeping stores: whose entries are whose, and what a flush is put together from.

use std::sync::mpsc::SyncSender;

use super::{
    error::EngineError,
    executor::Command,
    keeper::KeeperOrder,
    starting::{Start, Started},
};
use crate::{
    clock::Instant,
    state::{Changes, Position, SourcePosition, SourceStart},
    topology::{
        CommitNumber, Delivery,
        changelog::{Flush, StoreId},
    },
    tuple::KeyGroups,
};

/// Where a store lives: the tasks of its component, by their executor and their index there.
#[derive(Clone, Debug)]
pub(crate) struct StoreHome {
    pub(crate) groups: KeyGroups,
    pub(crate) tasks: Vec<(usize, usize)>,
}

/// What the changelog and the executors have said for a start or a flush that is not complete yet.
#[derive(Debug)]
pub(crate) struct Keeping {
    orders: SyncSender<KeeperOrder>,
    homes: Vec<StoreHome>,
    executors: usize,
    start: Start,
    /// What the state was written with, once all entries were read.
    position: Option<Position>,
    restored: usize,
    keys: u64,
    confirmed: usize,
    changed: Vec<(StoreId, Changes)>,
    positions: Vec<SourcePosition>,
    positioned: usize,
}

impl Keeping {
    pub(crate) const fn new(
        orders: SyncSender<KeeperOrder>,
        homes: Vec<StoreHome>,
        executors: usize,
        delivery: Delivery,
    ) -> Self {
        Self {
            orders,
            homes,
            executors,
            start: Start::new(executors, delivery),
            position: None,
            restored: 0,
            keys: 0,
            confirmed: 0,
            changed: Vec::new(),
            positions: Vec::new(),
            positioned: 0,
        }
    }

    fn order(&self, order: KeeperOrder) {
        // If the changelog has ended, it has said so.
        drop(self.orders.send(order));
    }

    /// The spouts of an executor know where they begin.
    pub(super) fn begins_at(&mut self, starts: Vec<SourceStart>, now: Instant) {
        if self.start.begins_at(starts, now) {
            self.order(KeeperOrder::Restore);
        }
    }

    /// The executor that entries are for, and what it is to be told.
    pub(super) fn route(
        &mut self,
        store: StoreId,
        group: u16,
        entries: Changes,
    ) -> Result<(usize, Command), EngineError> {
        self.start.read(entries.len() as u64);
        let home = self.homes.get(store.0);
        let task = home.and_then(|home| home.tasks.get(home.groups.owner_of(group)?));
        match task.copied() {
            Some((executor, task)) => Ok((executor, Command::Restore { task, store, group, entries })),
            None => Err(EngineError::Refused(format!(
                "the changelog has entries of store {} in key group {group}, which this topology does not have",
                store.0
            ))),
        }
    }

    /// How much was read, for the log.
    pub(super) fn tell_remaining(&self, remaining: Option<u64>) {
        tracing::info!(read = self.start.entries(), remaining, "reading the stores back from the changelog");
    }

    /// The changelog was read to its end. The executors are to be asked what they have.
    pub(super) fn all_read(&mut self, position: Option<Position>) {
        self.position = position;
    }

    /// An executor has put all entries into its stores. How the start has ended, once all have.
    pub(super) fn restored(&mut self, keys: u64, now: Instant) -> Option<Started> {
        self.restored += 1;
        self.keys += keys;
        (self.restored == self.executors).then(|| self.start.restored(self.position.as_ref(), self.keys, now))
    }

    /// The spouts of an executor may go on from where they begin. True if those of all may.
    pub(super) const fn confirmed(&mut self) -> bool {
        self.confirmed += 1;
        self.confirmed == self.executors
    }

    /// An executor has handed over what has changed in its stores.
    pub(super) fn changed(&mut self, changes: Vec<(StoreId, Changes)>) {
        self.changed.extend(changes);
    }

    /// An executor has told where its spouts stand. Once all have, the flush goes to the changelog.
    pub(super) fn positions(&mut self, positions: Vec<SourcePosition>, number: CommitNumber) {
        self.positions.extend(positions);
        self.positioned += 1;
        if self.positioned < self.executors {
            return;
        }
        self.positioned = 0;
        let position = Position { commit: number.0, sources: std::mem::take(&mut self.positions) };
        let changes = std::mem::take(&mut self.changed);
        self.order(KeeperOrder::Write(Flush { position, changes }));
    }
}
