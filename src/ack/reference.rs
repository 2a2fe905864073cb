//! Trees as they are: the set of open edges of each. No XOR, no slots that are used again, no folding. The ledger has to
//! say the same as this, message for message.

use std::collections::{BTreeSet, HashMap};

use super::{AckMessage, LedgerCounters, Outcome, Verdict};
use crate::tuple::RootId;

/// One input that a bolt is through with, as far as one of its trees is concerned.
#[derive(Clone, Debug)]
pub(super) enum Part {
    /// Acked: these edges are closed. More than one if the input was anchored to several tuples of the tree.
    Ack {
        root: RootId,
        edges: Vec<u64>,
        effects: u32,
    },
    Fail {
        root: RootId,
        effects: u32,
    },
    Touch {
        root: RootId,
    },
}

impl Part {
    pub(super) const fn root(&self) -> RootId {
        match self {
            Self::Ack { root, .. } | Self::Fail { root, .. } | Self::Touch { root } => *root,
        }
    }
}

/// A message, and the inputs that have folded into it.
#[derive(Clone, Debug)]
pub(super) struct Letter {
    pub(super) message: AckMessage,
    pub(super) parts: Vec<Part>,
}

impl Letter {
    fn acks(&self) -> u64 {
        self.parts.iter().filter(|part| matches!(part, Part::Ack { .. })).count() as u64
    }

    fn inputs(&self) -> u64 {
        self.parts.iter().filter(|part| !matches!(part, Part::Touch { .. })).count() as u64
    }

    fn effects(&self) -> u64 {
        let of = |part: &Part| match part {
            Part::Ack { effects, .. } | Part::Fail { effects, .. } => u64::from(*effects),
            Part::Touch { .. } => 0,
        };
        self.parts.iter().map(of).sum()
    }
}

#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(super) enum State {
    Live,
    Done,
    Failed,
    GivenUp,
}

#[derive(Debug)]
struct Tree {
    state: State,
    /// The spout has not said `begin` yet.
    held_by_spout: bool,
    open: BTreeSet<u64>,
    effects: u64,
}

#[derive(Debug, Default)]
pub(super) struct Reference {
    trees: HashMap<RootId, Tree>,
    /// The last root of each slot.
    latest: HashMap<usize, RootId>,
    pub(super) counters: LedgerCounters,
}

impl Reference {
    pub(super) fn open(&mut self, root: RootId) {
        let tree = Tree { state: State::Live, held_by_spout: true, open: BTreeSet::new(), effects: 0 };
        assert!(self.trees.insert(root, tree).is_none(), "{root:?} was given out twice");
        if let Some(before) = self.latest.insert(root.slot(), root) {
            assert_ne!(self.state(before), Some(State::Live), "{root:?} took the slot of a live tree");
        }
        self.counters.opened += 1;
    }

    /// A tuple was emitted: from now on the tree has this open edge.
    pub(super) fn emit(&mut self, root: RootId, edge: u64) {
        assert!(self.trees.get_mut(&root).unwrap().open.insert(edge), "an edge twice in one tree");
    }

    pub(super) fn begin(&mut self, root: RootId) -> Outcome {
        let tree = self.trees.get_mut(&root).unwrap();
        if tree.state != State::Live {
            return Outcome::Stale { effects: 0 };
        }
        tree.held_by_spout = false;
        self.settle(root)
    }

    pub(super) fn deliver(&mut self, letter: &Letter) -> Outcome {
        let root = letter.message.root;
        let stale = &mut self.counters.stale;
        let counter = match self.trees.get(&root).map(|tree| tree.state) {
            None => &mut stale.unknown,
            Some(State::Live) => return self.apply(root, letter),
            Some(_) if self.latest[&root.slot()] != root => &mut stale.old_generation,
            Some(State::Done) => &mut stale.after_done,
            Some(State::Failed) => &mut stale.after_fail,
            Some(State::GivenUp) => &mut stale.late,
        };
        *counter += letter.inputs();
        Outcome::Stale { effects: letter.effects() }
    }

    fn apply(&mut self, root: RootId, letter: &Letter) -> Outcome {
        self.counters.messages += 1;
        self.counters.acks += letter.acks();
        let tree = self.trees.get_mut(&root).unwrap();
        tree.effects += letter.effects();
        for part in &letter.parts {
            let Part::Ack { edges, .. } = part else { continue };
            for edge in edges {
                assert!(tree.open.remove(edge), "the test acked an edge twice");
            }
        }
        if letter.message.verdict == Verdict::Failed {
            tree.state = State::Failed;
            self.counters.failed += 1;
            return Outcome::Failed { effects: tree.effects };
        }
        self.settle(root)
    }

    fn settle(&mut self, root: RootId) -> Outcome {
        let tree = self.trees.get_mut(&root).unwrap();
        if tree.held_by_spout || !tree.open.is_empty() {
            return Outcome::Pending;
        }
        tree.state = State::Done;
        self.counters.completed += 1;
        Outcome::Complete { effects: tree.effects }
    }

    /// The tree is given up by the spout's side; which counter that moves is the caller's.
    pub(super) fn give_up(&mut self, root: RootId) -> Outcome {
        let tree = self.trees.get_mut(&root).unwrap();
        if tree.state != State::Live {
            return Outcome::Stale { effects: 0 };
        }
        tree.state = State::GivenUp;
        Outcome::Failed { effects: tree.effects }
    }

    pub(super) fn state(&self, root: RootId) -> Option<State> {
        self.trees.get(&root).map(|tree| tree.state)
    }

    /// All roots ever given out, in an order that does not depend on a hasher.
    pub(super) fn roots(&self) -> Vec<RootId> {
        let mut roots: Vec<_> = self.trees.keys().copied().collect();
        roots.sort_by_key(|root| root.bits());
        roots
    }

    pub(super) fn live(&self) -> usize {
        self.trees.values().filter(|tree| tree.state == State::Live).count()
    }
}
