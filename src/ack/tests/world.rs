//! Spouts, bolts and an unreliable way between them, with the ledger and the reference side by side.

use std::collections::BTreeMap;

use crate::{
    ack::{
        AckBuffer, AckMessage, Ledger, Outcome, Tick, Verdict,
        reference::{Letter, Part, Reference, State},
    },
    tuple::{Edge, RootId},
};

pub(super) const SHARD: u16 = 3;
/// Few slots, so that they are used again and again.
const CAPACITY: usize = 2;
const LIMIT: usize = 5;
const BUFFERS: usize = 3;
const TICK: Tick = Tick(7);

/// A tuple that some bolt has as an input.
#[derive(Debug)]
struct Tuple {
    id: Edge,
    /// Its edges in each of its trees.
    edges: BTreeMap<RootId, Vec<u64>>,
    /// XOR of the edges of what was anchored to it.
    emitted: u64,
    children: u32,
}

#[derive(Debug)]
pub(super) struct World {
    pub(super) ledger: Ledger,
    pub(super) reference: Reference,
    inputs: Vec<Tuple>,
    /// Roots of which the spout has not said `begin`, with the XOR of their edges.
    not_begun: Vec<(RootId, u64)>,
    /// What went into each buffer, unfolded.
    buffers: [(AckBuffer, Vec<Part>); BUFFERS],
    on_the_way: Vec<Letter>,
    delivered: Vec<Letter>,
    /// Trees that can never be done, for a message of theirs is lost.
    pub(super) doomed: Vec<RootId>,
    /// Messages into which several acks have folded.
    pub(super) folded: u64,
    lineage: u64,
}

impl World {
    pub(super) fn new() -> Self {
        Self {
            ledger: Ledger::with_limit(SHARD, CAPACITY, LIMIT),
            reference: Reference::default(),
            inputs: Vec::new(),
            not_begun: Vec::new(),
            buffers: Default::default(),
            on_the_way: Vec::new(),
            delivered: Vec::new(),
            doomed: Vec::new(),
            folded: 0,
            lineage: 0,
        }
    }

    /// A spout emits `tuples` for a new root.
    pub(super) fn open(&mut self, tuples: usize) {
        let full = self.reference.live() == LIMIT;
        let Some(root) = self.ledger.open(TICK) else {
            assert!(full, "refused below the limit");
            return;
        };
        assert!(!full, "opened above the limit");
        self.reference.open(root);
        self.lineage += 1;
        let spout = Edge::root(self.lineage);
        let mut xor = 0;
        for index in 0..tuples {
            let edge = spout.child(index as u32);
            self.reference.emit(root, edge.bits());
            xor ^= edge.bits();
            let edges = BTreeMap::from([(root, vec![edge.bits()])]);
            self.inputs.push(Tuple { id: edge, edges, emitted: 0, children: 0 });
        }
        self.not_begun.push((root, xor));
    }

    pub(super) fn begin(&mut self, which: usize) {
        let Some((root, xor)) = take(&mut self.not_begun, which) else { return };
        assert_eq!(self.ledger.begin(root, xor, TICK), self.reference.begin(root));
    }

    /// A bolt emits a tuple that is anchored to one or two of its inputs, which may share trees.
    pub(super) fn emit(&mut self, which: usize, other: Option<usize>) {
        let Some(count) = self.inputs.len().checked_sub(1) else { return };
        let mut anchors = vec![which % (count + 1)];
        anchors.extend(other.map(|other| other % (count + 1)).filter(|other| *other != anchors[0]));
        let mut edges: BTreeMap<RootId, Vec<u64>> = BTreeMap::new();
        let mut id: Option<Edge> = None;
        for anchor in anchors {
            let anchor = &mut self.inputs[anchor];
            let edge = anchor.id.child(anchor.children);
            anchor.children += 1;
            anchor.emitted ^= edge.bits();
            id = Some(id.map_or(edge, |id| Edge::root(id.bits().rotate_left(7) ^ edge.bits())));
            for root in anchor.edges.keys() {
                self.reference.emit(*root, edge.bits());
                edges.entry(*root).or_default().push(edge.bits());
            }
        }
        self.inputs.push(Tuple { id: id.unwrap(), edges, emitted: 0, children: 0 });
    }

    pub(super) fn ack(&mut self, which: usize, buffer: usize, effects: u32) {
        let Some(input) = take(&mut self.inputs, which) else { return };
        let (buffer, parts) = &mut self.buffers[buffer % BUFFERS];
        for (root, edges) in input.edges {
            let xor = edges.iter().fold(input.emitted, |xor, edge| xor ^ edge);
            buffer.ack(root, xor, effects);
            parts.push(Part::Ack { root, edges, effects });
        }
    }

    /// A bolt next to the ledger acks an input: nothing is on the way.
    pub(super) fn ack_here(&mut self, which: usize, effects: u16) {
        let Some(input) = take(&mut self.inputs, which) else { return };
        for (root, edges) in input.edges {
            let xor = edges.iter().fold(input.emitted, |xor, edge| xor ^ edge);
            let effects = u32::from(effects);
            let part = Part::Ack { root, edges, effects };
            let letter = Letter { message: AckMessage::done(root, xor, effects), parts: vec![part] };
            let outcome = self.ledger.ack(root, xor, effects as u16, TICK);
            assert_eq!(outcome, self.reference.deliver(&letter));
        }
    }

    pub(super) fn fail(&mut self, which: usize, buffer: usize, effects: u32) {
        let Some(input) = take(&mut self.inputs, which) else { return };
        let (buffer, parts) = &mut self.buffers[buffer % BUFFERS];
        for &root in input.edges.keys() {
            buffer.fail(root, effects);
            parts.push(Part::Fail { root, effects });
        }
    }

    pub(super) fn touch(&mut self, which: usize, buffer: usize) {
        let Some(index) = which.checked_rem(self.inputs.len()) else { return };
        let (buffer, parts) = &mut self.buffers[buffer % BUFFERS];
        for &root in self.inputs[index].edges.keys() {
            buffer.touch(root);
            parts.push(Part::Touch { root });
        }
    }

    /// A buffer goes on its way.
    pub(super) fn flush(&mut self, buffer: usize) {
        let (buffer, parts) = &mut self.buffers[buffer % BUFFERS];
        let mut parts = std::mem::take(parts).into_iter().peekable();
        for message in buffer.drain() {
            let mut letter = Letter { message, parts: Vec::new() };
            let mut acks = 0;
            while let Some(part) = parts.next_if(|part| belongs(part, &message, acks)) {
                acks += u16::from(matches!(part, Part::Ack { .. }));
                letter.parts.push(part);
                if message.verdict == Verdict::Failed {
                    break;
                }
            }
            assert_eq!(acks, message.acks, "the message counts other acks than went into it");
            self.folded += u64::from(acks > 1);
            self.on_the_way.push(letter);
        }
        assert!(parts.next().is_none(), "the buffer swallowed an input");
    }

    pub(super) fn deliver(&mut self, which: usize) {
        let Some(letter) = take(&mut self.on_the_way, which) else { return };
        self.hand_over(&letter);
        self.delivered.push(letter);
    }

    /// A message once more. Not one for a live tree: XOR cannot see that, so tasks must make it impossible.
    pub(super) fn duplicate(&mut self, which: usize) {
        let Some(index) = which.checked_rem(self.delivered.len()) else { return };
        let letter = self.delivered[index].clone();
        let touch = letter.parts.iter().all(|part| matches!(part, Part::Touch { .. }));
        if touch || self.reference.state(letter.message.root) != Some(State::Live) {
            self.hand_over(&letter);
        }
    }

    pub(super) fn lose(&mut self, which: usize) {
        if let Some(letter) = take(&mut self.on_the_way, which)
            && letter.parts.iter().any(|part| !matches!(part, Part::Touch { .. }))
        {
            self.doomed.push(letter.message.root);
        }
    }

    /// A message for a root that was never given out.
    pub(super) fn forge(&mut self, kind: usize, which: usize, failed: bool) {
        let roots = self.reference.roots();
        let known = which.checked_rem(roots.len()).map_or(RootId::new(SHARD, 0, 1), |index| roots[index]);
        let slot = known.slot() as u32;
        let root = match kind % 5 {
            0 => RootId::NONE,
            1 => RootId::new(SHARD, slot, 0),
            2 => RootId::new(SHARD + 1, slot, known.generation()),
            3 => RootId::new(SHARD, LIMIT as u32, known.generation()),
            _ => RootId::new(SHARD, slot, known.generation() + 1_000_000),
        };
        let (message, part) = if failed {
            (AckMessage::failed(root, 1), Part::Fail { root, effects: 1 })
        } else {
            (AckMessage::done(root, 42, 1), Part::Ack { root, edges: vec![42], effects: 1 })
        };
        self.hand_over(&Letter { message, parts: vec![part] });
    }

    pub(super) fn give_up(&mut self, which: usize, expire: bool) {
        let roots = self.reference.roots();
        let Some(index) = which.checked_rem(roots.len()) else { return };
        let root = roots[index];
        let expected = self.reference.give_up(root);
        let counters = &mut self.reference.counters;
        let (outcome, counter) = if expire {
            (self.ledger.expire(root), &mut counters.expired)
        } else {
            (self.ledger.abandon(root), &mut counters.abandoned)
        };
        *counter += u64::from(expected != Outcome::Stale { effects: 0 });
        assert_eq!(outcome, expected);
    }

    fn hand_over(&mut self, letter: &Letter) {
        assert_eq!(self.ledger.apply(&letter.message, TICK), self.reference.deliver(letter));
    }

    /// All bolts ack what they have and everything arrives, in an order that `seed` decides.
    pub(super) fn run_out(&mut self, seed: u64) {
        let order = Edge::root(seed);
        let mut step = 0;
        let mut next = || {
            step += 1;
            order.child(step).bits() as usize
        };
        while !self.inputs.is_empty() {
            self.ack(next(), next(), 1);
        }
        (0..BUFFERS).for_each(|buffer| self.flush(buffer));
        while !(self.on_the_way.is_empty() && self.not_begun.is_empty()) {
            if next() % 4 == 0 {
                self.begin(next())
            } else {
                self.deliver(next())
            }
            self.check();
        }
    }

    pub(super) fn check(&self) {
        assert_eq!(self.ledger.live(), self.reference.live());
        assert_eq!(*self.ledger.counters(), self.reference.counters);
        let seen = self.ledger.counters();
        let ended = seen.completed + seen.failed + seen.expired + seen.abandoned;
        assert_eq!(seen.opened, ended + self.ledger.live() as u64);
    }
}

/// Whether `part` is one of those that have folded into `message`, of whose acks `found` are accounted for.
fn belongs(part: &Part, message: &AckMessage, found: u16) -> bool {
    let kind = match part {
        Part::Ack { .. } => message.verdict == Verdict::Done && found < message.acks,
        Part::Fail { .. } => message.verdict == Verdict::Failed,
        Part::Touch { .. } => message.verdict == Verdict::Done,
    };
    kind && part.root() == message.root
}

/// Takes one out at random.
fn take<T>(from: &mut Vec<T>, which: usize) -> Option<T> {
    which.checked_rem(from.len()).map(|index| from.swap_remove(index))
}
