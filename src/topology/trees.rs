//! The live trees of one executor: the ledger, and who emitted each root.

use std::collections::{HashMap, VecDeque};

use super::{ComponentError, MessageId, OutStream, Output};
use crate::{
    ack::{AckMessage, Expired, Ledger, Outcome, Tick, Timeouts},
    clock::Instant,
    tuple::{Edge, RootId, Value},
};

/// Who is told of a tree's end.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) enum Owner {
    /// The spout that the executor hosts at this index, and its name for the tree.
    Spout { task: usize, id: MessageId },
    /// The flush of the executor's tasks.
    Flush,
}

/// How a tree ended.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) enum Ending {
    /// Everything that descends from the root was worked on.
    Completed,
    /// A tuple of it failed, after so many executions that had an effect.
    Failed { effects: u64 },
    /// It made no progress for too long.
    TimedOut { effects: u64 },
    /// Nothing ended: these executions with an effect came after the end was told.
    Late { effects: u64 },
}

/// A tree's end.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) struct Ended {
    pub(crate) root: RootId,
    pub(crate) owner: Owner,
    pub(crate) ending: Ending,
}

/// The ledger of an executor with the owners of its trees.
#[derive(Debug)]
pub(crate) struct Trees {
    ledger: Ledger,
    /// Of the tree that uses a slot now, or used it last. Indexed by slot.
    owners: Vec<Owner>,
    timeouts: Option<Timeouts>,
    /// As the timeouts have it.
    tick: Tick,
    expired: Vec<Expired>,
    ended: Vec<Ended>,
    failed: FailedTrees,
}

/// Whose the trees were that failed lately: their last tuples may still be worked on, and have effects.
#[derive(Debug, Default)]
struct FailedTrees {
    owners: HashMap<RootId, Owner>,
    /// Oldest first.
    order: VecDeque<RootId>,
}

impl FailedTrees {
    /// Failed trees that are remembered. What comes later than so many failures is in the ledger's counters only.
    const MOST: usize = 1 << 16;

    fn note(&mut self, root: RootId, owner: Owner) {
        self.owners.insert(root, owner);
        self.order.push_back(root);
        if self.order.len() > Self::MOST
            && let Some(oldest) = self.order.pop_front()
        {
            self.owners.remove(&oldest);
        }
    }

    fn owner_of(&self, root: RootId) -> Option<Owner> {
        self.owners.get(&root).copied()
    }
}

impl Trees {
    pub(crate) fn new(ledger: Ledger, timeouts: Option<Timeouts>) -> Self {
        Self {
            ledger,
            owners: Vec::new(),
            tick: timeouts.as_ref().map_or(Tick(0), Timeouts::tick),
            timeouts,
            expired: Vec::new(),
            ended: Vec::new(),
            failed: FailedTrees::default(),
        }
    }

    /// A new tree; `None` if there are as many as there can be.
    pub(crate) fn open(&mut self, owner: Owner) -> Option<RootId> {
        let root = self.ledger.open(self.tick)?;
        if self.owners.len() <= root.slot() {
            self.owners.resize(root.slot() + 1, Owner::Flush);
        }
        if let Some(slot) = self.owners.get_mut(root.slot()) {
            *slot = owner;
        }
        Some(root)
    }

    /// The open trees of a spout.
    fn open_of(&self, spout: usize) -> impl Iterator<Item = MessageId> {
        let live = self.owners.iter().enumerate().filter(|(slot, _)| self.ledger.is_live(*slot));
        live.filter_map(move |(_, owner)| match *owner {
            Owner::Spout { task, id } if task == spout => Some(id),
            Owner::Spout { .. } | Owner::Flush => None,
        })
    }

    /// The root's edges were emitted; `xor` is all of them.
    pub(crate) fn begin(&mut self, root: RootId, xor: u64) {
        let outcome = self.ledger.begin(root, xor, self.tick);
        self.note(root, outcome);
    }

    /// Ends a tree that nothing was emitted for.
    #[expect(clippy::let_underscore_must_use, reason = "it is over, now or already before")]
    pub(crate) fn abandon(&mut self, root: RootId) {
        let _: Outcome = self.ledger.abandon(root);
    }

    /// An input was acked by a task of this executor. False, and nothing happens, if the tree is another's.
    #[inline]
    pub(crate) fn ack(&mut self, root: RootId, xor: u64, effects: u16) -> bool {
        if root.shard() != usize::from(self.ledger.shard()) {
            return false;
        }
        match self.ledger.ack(root, xor, effects, self.tick) {
            Outcome::Pending => {}
            outcome => self.note(root, outcome),
        }
        true
    }

    /// Messages from tasks.
    pub(crate) fn apply(&mut self, messages: impl IntoIterator<Item = AckMessage>) {
        for message in messages {
            match self.ledger.apply(&message, self.tick) {
                Outcome::Pending => {}
                outcome => self.note(message.root, outcome),
            }
        }
    }

    #[inline(never)]
    fn note(&mut self, root: RootId, outcome: Outcome) {
        let ending = match outcome {
            Outcome::Pending | Outcome::Stale { effects: 0 } => return,
            Outcome::Complete { .. } => Ending::Completed,
            Outcome::Failed { effects } => Ending::Failed { effects },
            Outcome::Stale { effects } => Ending::Late { effects },
        };
        self.end(root, ending);
    }

    fn end(&mut self, root: RootId, ending: Ending) {
        let owner = match ending {
            // Its slot may have another tree by now.
            Ending::Late { .. } => self.failed.owner_of(root),
            Ending::Completed | Ending::Failed { .. } | Ending::TimedOut { .. } => {
                self.owners.get(root.slot()).copied()
            }
        };
        // Without an owner it is a message from nowhere, or from long ago: the ledger has counted it.
        let Some(owner) = owner else { return };
        if matches!(ending, Ending::Failed { .. } | Ending::TimedOut { .. }) {
            self.failed.note(root, owner);
        }
        self.ended.push(Ended { root, owner, ending });
    }

    /// Moves time; ends the trees that are due. `oldest_queued` is asked for only if some may be.
    pub(crate) fn advance(&mut self, now: Instant, oldest_queued: impl FnOnce() -> Option<Instant>) {
        let Some(timeouts) = &mut self.timeouts else { return };
        let due = timeouts.advance(now);
        self.tick = timeouts.tick();
        if !due || self.ledger.live() == 0 {
            return;
        }
        timeouts.expire(&mut self.ledger, oldest_queued(), &mut self.expired);
        for expired in std::mem::take(&mut self.expired) {
            self.end(expired.root, Ending::TimedOut { effects: expired.effects });
        }
    }

    /// What has ended since the last look.
    pub(crate) fn take_ended(&mut self, spare: Vec<Ended>) -> Vec<Ended> {
        std::mem::replace(&mut self.ended, spare)
    }

    pub(crate) const fn has_ended(&self) -> bool {
        !self.ended.is_empty()
    }

    pub(crate) const fn ledger(&self) -> &Ledger {
        &self.ledger
    }
}

/// What a spout emits into: each tuple with a message id is the root of a tree.
#[derive(Debug)]
pub struct SpoutOutput<'a> {
    output: &'a mut Output,
    /// `None` where trees are not tracked.
    trees: Option<&'a mut Trees>,
    task: usize,
    emitted: usize,
    misuse: Option<ComponentError>,
}

impl<'a> SpoutOutput<'a> {
    pub(crate) const fn new(output: &'a mut Output, trees: Option<&'a mut Trees>, task: usize) -> Self {
        Self { output, trees, task, emitted: 0, misuse: None }
    }

    /// Emits the root of a tree on the first declared stream. `lineage` says what the tuple *is* (topic, partition,
    /// offset, hashed), equal when it is emitted again.
    ///
    /// Where trees are not tracked, `ack` is never called: what was emitted is out of the spout's hands.
    #[inline]
    pub fn emit(&mut self, id: MessageId, lineage: u64, values: &[Value<'_>]) {
        self.emit_on(OutStream::DEFAULT, id, lineage, values);
    }

    /// Emits the root of a tree on a stream.
    #[inline]
    pub fn emit_on(&mut self, stream: OutStream, id: MessageId, lineage: u64, values: &[Value<'_>]) {
        self.emitted += 1;
        let edge = Edge::root(lineage);
        let Some(trees) = &mut self.trees else {
            self.output.begin_root(RootId::NONE, edge);
            self.output.emit_on(stream, values);
            if let Err(error) = self.output.end_root() {
                self.misuse = Some(error);
            }
            return;
        };
        let Some(root) = trees.open(Owner::Spout { task: self.task, id }) else {
            self.misuse = Some(ComponentError::permanent("more trees in flight than there can be"));
            return;
        };
        self.output.begin_root(root, edge);
        self.output.emit_on(stream, values);
        match self.output.end_root() {
            Ok(xor) => trees.begin(root, xor),
            Err(error) => {
                trees.abandon(root);
                self.misuse = Some(error);
            }
        }
    }

    /// Emits outside every tree.
    pub fn emit_unanchored(&mut self, stream: OutStream, values: &[Value<'_>]) {
        self.emitted += 1;
        self.output.begin_unanchored();
        self.output.emit_unanchored(stream, values);
        if let Err(error) = self.output.end_root() {
            self.misuse = Some(error);
        }
    }

    /// True if trees are tracked.
    #[must_use]
    pub const fn is_tracked(&self) -> bool {
        self.trees.is_some()
    }

    /// Tuples emitted so far.
    pub(crate) const fn emitted(&self) -> usize {
        self.emitted
    }

    /// The spout's names for its trees that are open now, in no order.
    pub(crate) fn open_trees(&self) -> impl Iterator<Item = MessageId> {
        self.trees.iter().flat_map(|trees| trees.open_of(self.task))
    }

    /// Tuples emitted, and the first mistake made in emitting.
    pub(crate) fn finish(self) -> (usize, Option<ComponentError>) {
        (self.emitted, self.misuse)
    }
}
