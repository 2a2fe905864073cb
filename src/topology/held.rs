//! Inputs as linear tokens: each is acked, failed or held, and a held one is acked or failed later, once.

use std::marker::PhantomData;

use super::{ComponentError, Output};
use crate::tuple::{Anchor, Batch, Edge, RootId, Tuple};

/// One input of an [`AckingBolt`](super::AckingBolt), to be given back as [`Handled`].
#[derive(Debug)]
pub struct Input<'a> {
    tuple: Tuple<'a>,
    batch: &'a Batch,
}

/// The proof that an input was dealt with. Only [`Input`] makes it, and it cannot outlive the call.
#[derive(Debug)]
#[must_use = "an input that is not given back fails"]
pub struct Handled<'a>(Fate, PhantomData<&'a ()>);

impl Handled<'_> {
    pub(crate) fn into_fate(self) -> Fate {
        self.0
    }
}

/// What becomes of an input.
#[derive(Debug)]
pub(crate) enum Fate {
    Ack,
    Fail(ComponentError),
    Hold(u64),
}

impl<'a> Input<'a> {
    pub(crate) const fn new(tuple: Tuple<'a>, batch: &'a Batch) -> Self {
        Self { tuple, batch }
    }

    /// The tuple.
    #[must_use]
    pub const fn tuple(&self) -> &Tuple<'a> {
        &self.tuple
    }

    /// Its branch of the tree is done, but for what was emitted anchored to it.
    pub fn ack(self) -> Handled<'a> {
        Handled(Fate::Ack, PhantomData)
    }

    /// Its trees fail. The call itself succeeds if it returns this: what it emitted is sent, and what it did to held
    /// inputs is in force. To discard them, return an error instead.
    pub fn fail(self, error: ComponentError) -> Handled<'a> {
        Handled(Fate::Fail(error), PhantomData)
    }

    /// Keeps the tuple for later; it goes on counting as in flight.
    pub fn hold(self, out: &mut Output) -> (Handled<'a>, Held) {
        let id = out.held.hold(&self.tuple);
        let held = Held { id, tuple: self.batch.detach(&self.tuple) };
        (Handled(Fate::Hold(id), PhantomData), held)
    }
}

/// An input that a bolt has kept: owned, neither copied nor cloned, to be given to [`Output::ack`] or [`Output::fail`].
#[derive(Debug)]
#[must_use = "a held input that is dropped is never acked: its tree times out"]
pub struct Held {
    id: u64,
    tuple: Batch,
}

impl Held {
    pub(super) const fn id(&self) -> u64 {
        self.id
    }

    pub(super) fn into_id(self) -> u64 {
        self.id
    }

    /// The tuple.
    ///
    /// # Panics
    /// Never: a held input has one tuple.
    #[must_use]
    pub fn tuple(&self) -> Tuple<'_> {
        #[expect(clippy::expect_used, reason = "detach puts one tuple in, nothing takes it out")]
        self.tuple.get(0).expect("a held input has one tuple")
    }
}

/// An input's place in one of its trees.
#[derive(Debug)]
pub(super) struct Place {
    pub(super) root: RootId,
    pub(super) edge: Edge,
    /// XOR of the edges of what was emitted anchored to it, in this tree.
    pub(super) xor: u64,
}

impl Place {
    pub(super) const fn new(anchor: Anchor) -> Self {
        Self { root: anchor.root, edge: anchor.edge, xor: 0 }
    }

    /// Where the `index`-th descendant hangs. Its edge comes from the edge in *this* tree: were it one edge in all
    /// trees, a tree could see the same edge twice, from a tuple and from its replay that was joined into it again.
    pub(super) fn child(&self, index: u32) -> Anchor {
        Anchor { root: self.root, edge: self.edge.child(index) }
    }

    /// The `index`-th descendant was emitted.
    pub(super) fn emitted(&mut self, index: u32) {
        self.xor ^= self.edge.child(index).bits();
    }
}

/// What tracking knows of a held input.
#[derive(Debug)]
pub(super) struct HeldEntry {
    id: u64,
    /// The trees that the input belongs to.
    pub(super) places: Vec<Place>,
    /// Tuples emitted anchored to the held input so far.
    emitted: u32,
}

impl HeldEntry {
    /// Index of the first descendant by [`Output::emit_anchored`]: far from those that are emitted while the input is
    /// executed, so that no two descendants share an edge.
    const FIRST_INDEX: u32 = 1 << 31;
}

/// The inputs that one task holds. Few, so a vector: looking one up is a short scan.
#[derive(Debug, Default)]
pub(super) struct HeldTable {
    entries: Vec<HeldEntry>,
    last_id: u64,
    /// Entries after this one were made by the present call.
    last_kept: u64,
}

impl HeldTable {
    fn hold(&mut self, tuple: &Tuple<'_>) -> u64 {
        self.last_id += 1;
        let row = tuple.row();
        let mut places = Vec::with_capacity(1 + tuple.anchors().len());
        if !row.root.is_none() {
            places.push(Place::new(Anchor { root: row.root, edge: row.edge }));
            places.extend(tuple.anchors().iter().map(|anchor| Place::new(*anchor)));
        }
        self.entries.push(HeldEntry { id: self.last_id, places, emitted: 0 });
        self.last_id
    }

    /// The call that held `id` has succeeded; `xors` is what it emitted, for each of the input's trees.
    pub(super) fn keep(&mut self, id: u64, xors: impl Iterator<Item = u64>) {
        self.last_kept = self.last_id;
        let Some(entry) = self.get_mut(id) else { return };
        entry.places.iter_mut().zip(xors).for_each(|(place, xor)| place.xor ^= xor);
    }

    /// The call has failed: what it held is not held.
    pub(super) fn forget_not_kept(&mut self) {
        let kept = self.entries.partition_point(|entry| entry.id <= self.last_kept);
        self.entries.truncate(kept);
    }

    /// A descendant of `id` was sent.
    pub(super) fn emitted(&mut self, id: u64, index: u32) {
        if let Some(entry) = self.get_mut(id) {
            entry.places.iter_mut().for_each(|place| place.emitted(index));
        }
    }

    /// The last descendant of `id` was taken back.
    pub(super) fn take_back(&mut self, id: u64) {
        if let Some(entry) = self.get_mut(id) {
            entry.emitted -= 1;
        }
    }

    pub(super) fn get_mut(&mut self, id: u64) -> Option<&mut HeldEntry> {
        // Ids only grow, so the entries are sorted.
        let at = self.entries.binary_search_by_key(&id, |entry| entry.id).ok()?;
        self.entries.get_mut(at)
    }

    /// The places at which a tuple hangs that is anchored to these inputs: one in each of their trees. Tells each
    /// input the index of its descendant.
    ///
    /// Two inputs of one tree get an edge each, and the tuple hangs there by both together: with one edge for both, the
    /// inputs' acks would cancel it.
    pub(super) fn descend(&mut self, anchors: &[&Held], mut tell: impl FnMut(u64, u32)) -> Vec<Anchor> {
        let mut places: Vec<Anchor> = Vec::new();
        for held in anchors {
            let Some(entry) = self.get_mut(held.id) else { continue };
            let index = HeldEntry::FIRST_INDEX + entry.emitted;
            entry.emitted += 1;
            tell(held.id, index);
            for child in entry.places.iter().map(|place| place.child(index)) {
                match places.iter_mut().find(|p| p.root == child.root) {
                    Some(p) => p.edge = p.edge.and(child.edge),
                    None => places.push(child),
                }
            }
        }
        places
    }

    pub(super) fn remove(&mut self, id: u64) -> Option<HeldEntry> {
        let at = self.entries.binary_search_by_key(&id, |entry| entry.id).ok()?;
        Some(self.entries.remove(at))
    }

    /// Everything that is held, when the instance that held it is gone.
    pub(super) fn take_all(&mut self) -> Vec<HeldEntry> {
        std::mem::take(&mut self.entries)
    }

    pub(super) const fn len(&self) -> usize {
        self.entries.len()
    }
}
