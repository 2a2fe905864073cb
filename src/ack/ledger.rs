//! The ledger of live tuple trees: open, begin, ack, fail, expire.

use std::collections::{BTreeMap, VecDeque};

use super::{
    AckMessage, LedgerCounters, Tick, Verdict,
    entry::{Ending, Entry, FREE},
};
use crate::tuple::RootId;

/// What a message did. Effects are the executions at components where a repeat would be seen.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
#[must_use = "a completed or failed tree is reported once"]
pub enum Outcome {
    /// The tree has open edges.
    Pending,
    /// The last open edge is closed: everything that descends from the root has been processed.
    Complete {
        /// Effects of the whole tree.
        effects: u64,
    },
    /// The tree failed. What it had in flight will come back as [`Outcome::Stale`].
    Failed {
        /// Effects so far: what a replay will repeat.
        effects: u64,
    },
    /// There is no such live tree; nothing has changed. [`super::StaleCounters`] has the reason.
    Stale {
        /// Effects of this message, in no tree's sum.
        effects: u64,
    },
}

/// The edge that the spout itself holds from `open` to `begin`. So an entry that waits for `begin` is not 0 either, and
/// acks that overtake `begin` need no case of their own. Any number would do that no tuple is likely to have.
const SPOUT_EDGE: u64 = 0x5354_4f52_4d47_4c53;

/// Live tuple trees of one executor (Storm: `daemon/Acker.java`, which keeps a hash map of 40-byte objects a task).
///
/// The ledger is owned by the executor whose spouts emit the roots. A spout asks for a root, emits its tuples, and then
/// says with [`Ledger::begin`] what it has emitted; acks may arrive before that.
///
/// Slots are used first in, first out: a slot rests as long as possible between two trees, so late messages still find
/// out *why* they are late, and a generation comes back after (slots x 2^32) trees rather than after 2^32 (an hour).
///
/// ```
/// use stormglass::ack::{AckMessage, Ledger, Outcome, Tick};
/// use stormglass::tuple::Edge;
///
/// let mut ledger = Ledger::new(0, 1024);
/// let now = Tick(0);
///
/// // A spout emits one line ...
/// let root = ledger.open(now).unwrap();
/// let line = Edge::root(42);
/// assert_eq!(ledger.begin(root, line.bits(), now), Outcome::Pending);
///
/// // ... a bolt splits it into two words and acks the line ...
/// let (one, two) = (line.child(0), line.child(1));
/// let split = AckMessage::done(root, line.bits() ^ one.bits() ^ two.bits(), 0);
/// assert_eq!(ledger.apply(&split, now), Outcome::Pending);
///
/// // ... and another counts them, in any order.
/// assert_eq!(ledger.apply(&AckMessage::done(root, two.bits(), 1), now), Outcome::Pending);
/// assert_eq!(ledger.apply(&AckMessage::done(root, one.bits(), 1), now), Outcome::Complete { effects: 2 });
/// assert_eq!(ledger.counters().acks, 3);
/// ```
#[derive(Debug)]
pub struct Ledger {
    shard: u16,
    entries: Vec<Entry>,
    /// Free slots, the one that has been free for longest first.
    free: VecDeque<u32>,
    /// Slots that are made before any is used again.
    capacity: usize,
    /// Slots that may be made at all.
    limit: usize,
    /// Effects of trees that have more than an entry can hold, by slot.
    spilled: BTreeMap<usize, u64>,
    counters: LedgerCounters,
}

impl Ledger {
    /// An empty ledger whose roots carry `shard`. It makes `capacity` slots before it uses one again (1,024 stay in the
    /// first-level cache), and more as long as all are taken, up to [`RootId::MAX_SLOTS`].
    ///
    /// # Panics
    /// If `shard` is not below [`RootId::MAX_SHARDS`].
    #[must_use]
    pub fn new(shard: u16, capacity: usize) -> Self {
        Self::with_limit(shard, capacity, RootId::MAX_SLOTS)
    }

    /// Like [`Ledger::new`], but never more than `limit` live trees.
    ///
    /// # Panics
    /// If `shard` is not below [`RootId::MAX_SHARDS`].
    #[must_use]
    pub fn with_limit(shard: u16, capacity: usize, limit: usize) -> Self {
        assert!(usize::from(shard) < RootId::MAX_SHARDS, "a root id has no room for shard {shard}");
        let limit = limit.min(RootId::MAX_SLOTS);
        let capacity = capacity.min(limit);
        Self {
            shard,
            capacity,
            limit,
            entries: Vec::with_capacity(capacity),
            free: VecDeque::with_capacity(capacity),
            spilled: BTreeMap::new(),
            counters: LedgerCounters::default(),
        }
    }

    /// A new tree, held open by the spout until [`Ledger::begin`]; `None` if the limit of live trees is reached.
    #[must_use]
    #[inline]
    pub fn open(&mut self, tick: Tick) -> Option<RootId> {
        let make = self.free.is_empty() || self.entries.len() < self.capacity;
        let slot = if make { self.make_slot()? } else { self.free.pop_front()? };
        let entry = self.entries.get_mut(slot as usize)?;
        *entry = Entry::live(entry.next_generation(), SPOUT_EDGE, tick);
        self.counters.opened += 1;
        Some(RootId::new(self.shard, slot, entry.generation))
    }

    fn make_slot(&mut self) -> Option<u32> {
        if self.entries.len() == self.limit {
            return None;
        }
        let slot = u32::try_from(self.entries.len()).ok()?;
        self.entries.push(Entry::free(FREE, Ending::Done));
        Some(slot)
    }

    /// The spout has emitted all tuples of the root; `xor` is the XOR of their edges. It is 0 if nobody receives them,
    /// and then the tree is done at once (Storm: `__ack_init`, sent after the tuples).
    ///
    /// To be called once for each root. Acks may have come before it. If a bolt has failed the tree meanwhile, or it was
    /// abandoned, the outcome is [`Outcome::Stale`], and no counter of stale *messages* moves.
    #[inline]
    pub fn begin(&mut self, root: RootId, xor: u64, tick: Tick) -> Outcome {
        let Some(entry) = self.find(root) else {
            return Outcome::Stale { effects: 0 };
        };
        entry.xor ^= SPOUT_EDGE ^ xor;
        entry.progress = tick;
        if entry.xor == 0 { self.end(root, Ending::Done) } else { Outcome::Pending }
    }

    /// One input acked, `xor` being its edge XOR the edges of all tuples anchored to it: [`Ledger::apply`] of
    /// [`AckMessage::done`], for who stands next to the ledger and has no message to send.
    #[inline]
    pub fn ack(&mut self, root: RootId, xor: u64, effects: u16, tick: Tick) -> Outcome {
        let Some(entry) = self.find(root) else {
            return self.stale(&AckMessage::done(root, xor, u32::from(effects)));
        };
        let Some(effects_now) = entry.effects.checked_add(effects) else {
            return self.apply(&AckMessage::done(root, xor, u32::from(effects)), tick);
        };
        entry.effects = effects_now;
        entry.xor ^= xor;
        entry.progress = tick;
        let closed = entry.xor == 0;
        self.counters.messages += 1;
        self.counters.acks += 1;
        if closed { self.end(root, Ending::Done) } else { Outcome::Pending }
    }

    /// The executor that owns the trees.
    #[must_use]
    #[inline]
    pub const fn shard(&self) -> u16 {
        self.shard
    }

    /// Acks, a fail or a touch from a bolt.
    #[inline]
    pub fn apply(&mut self, message: &AckMessage, tick: Tick) -> Outcome {
        let root = message.root;
        let Some(entry) = self.find(root) else {
            return self.stale(message);
        };
        entry.xor ^= message.xor;
        entry.progress = tick;
        let effects = u64::from(entry.effects) + u64::from(message.effects);
        entry.effects = (effects & 0xffff) as u16;
        let closed = entry.xor == 0;
        self.counters.messages += 1;
        self.counters.acks += u64::from(message.acks);
        if effects > 0xffff {
            self.spill(root, effects & !0xffff);
        }
        match message.verdict {
            Verdict::Done if !closed => Outcome::Pending,
            Verdict::Done => self.end(root, Ending::Done),
            Verdict::Failed => self.end(root, Ending::Failed),
        }
    }

    /// Ends a tree that made no progress for too long; [`Outcome::Stale`] if it is no longer live.
    pub fn expire(&mut self, root: RootId) -> Outcome {
        self.end(root, Ending::Expired)
    }

    /// Ends a tree whose outcome nobody wants any more (its partition was revoked); [`Outcome::Stale`] if it is no
    /// longer live.
    pub fn abandon(&mut self, root: RootId) -> Outcome {
        self.end(root, Ending::Abandoned)
    }

    /// Live trees.
    #[must_use]
    pub fn live(&self) -> usize {
        self.entries.len() - self.free.len()
    }

    /// Slots made so far: the most trees that were live at once, or the capacity once that many were opened.
    #[must_use]
    pub fn slots(&self) -> usize {
        self.entries.len()
    }

    /// What the ledger has seen.
    #[must_use]
    pub const fn counters(&self) -> &LedgerCounters {
        &self.counters
    }

    /// Whether a tree is live in `slot`.
    #[must_use]
    pub fn is_live(&self, slot: usize) -> bool {
        self.entries.get(slot).is_some_and(|entry| entry.generation != FREE)
    }

    /// The tree in `slot` and for how many ticks it has made no progress. To be asked for every slot at least once in
    /// `2^16 - longest` ticks: an idle time above `longest` is set back to it, so that it cannot wrap to a short one.
    pub(super) fn idle(&mut self, slot: usize, now: Tick, longest: u16) -> Option<(RootId, u16)> {
        let entry = self.entries.get_mut(slot).filter(|entry| entry.generation != FREE)?;
        let mut idle = now.since(entry.progress);
        if idle > longest {
            idle = longest;
            entry.progress = now.before(longest);
        }
        Some((RootId::new(self.shard, u32::try_from(slot).ok()?, entry.generation), idle))
    }

    #[inline]
    fn find(&mut self, root: RootId) -> Option<&mut Entry> {
        let entry = self.entries.get_mut(root.slot())?;
        let same = entry.generation == root.generation() && root.shard() == usize::from(self.shard);
        // The last test is for a root that was never given out and would match a free slot.
        (same && root.generation() != FREE).then_some(entry)
    }

    /// Out of line, so that [`Ledger::apply`] stays small enough to be inlined into an executor's loop.
    #[inline(never)]
    fn end(&mut self, root: RootId, ending: Ending) -> Outcome {
        let Some(entry) = self.find(root) else {
            return Outcome::Stale { effects: 0 };
        };
        let mut effects = u64::from(entry.effects);
        *entry = Entry::free(root.generation(), ending);
        self.free.push_back((root.slot() & (RootId::MAX_SLOTS - 1)) as u32);
        if !self.spilled.is_empty() {
            effects += self.spilled.remove(&root.slot()).unwrap_or(0);
        }
        let (counter, outcome) = match ending {
            Ending::Done => (&mut self.counters.completed, Outcome::Complete { effects }),
            Ending::Failed => (&mut self.counters.failed, Outcome::Failed { effects }),
            Ending::Expired => (&mut self.counters.expired, Outcome::Failed { effects }),
            Ending::Abandoned => (&mut self.counters.abandoned, Outcome::Failed { effects }),
        };
        *counter += 1;
        outcome
    }

    /// Effects above the 16 bits of an entry: a tree of 65,536 words comes here once.
    #[cold]
    fn spill(&mut self, root: RootId, effects: u64) {
        *self.spilled.entry(root.slot()).or_default() += effects;
    }

    #[cold]
    fn stale(&mut self, message: &AckMessage) -> Outcome {
        let stale = &mut self.counters.stale;
        let root = message.root;
        let ours = root.shard() == usize::from(self.shard) && root.generation() != FREE;
        let counter = match self.entries.get(root.slot()).filter(|_| ours) {
            None => &mut stale.unknown,
            // Generations wrap, so "older" is half the circle.
            Some(slot) => match (slot.last_generation().wrapping_sub(root.generation()), slot.ending()) {
                (0, Some(Ending::Done)) => &mut stale.after_done,
                (0, Some(Ending::Failed)) => &mut stale.after_fail,
                (0, Some(Ending::Expired | Ending::Abandoned)) => &mut stale.late,
                (1..=0x7fff_ffff, _) => &mut stale.old_generation,
                _ => &mut stale.unknown,
            },
        };
        *counter += message.inputs();
        Outcome::Stale { effects: u64::from(message.effects) }
    }
}

#[cfg(test)]
impl Ledger {
    /// Makes the longest free slot go on after `generation`.
    pub(super) fn set_last_generation(&mut self, generation: u32) {
        if let Some(entry) = self.free.front().and_then(|slot| self.entries.get_mut(*slot as usize)) {
            *entry = Entry::free(generation, Ending::Done);
        }
    }
}
