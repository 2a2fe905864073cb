//! Inputs as linear tokens: each is acked, failed or held, and a held one is acked or failed later, once.

use std::marker::PhantomData;

use super::{ComponentError, Output};
use crate::tuple::{Anchor, Batch, Edge, Tuple};

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

    /// Its tree fails.
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

/// What tracking knows of a held input.
#[derive(Debug)]
pub(super) struct HeldEntry {
    id: u64,
    /// The trees that the input belongs to, with its edge in each.
    pub(super) places: Vec<Anchor>,
    /// XOR of the edges of what was emitted anchored to it.
    pub(super) xor: u64,
    /// Descendants so far.
    pub(super) emitted: u32,
}

/// The inputs that one task holds. Few, so a vector: looking one up is a short scan.
#[derive(Debug, Default)]
pub(super) struct HeldTable {
    entries: Vec<HeldEntry>,
    last_id: u64,
}

impl HeldTable {
    fn hold(&mut self, tuple: &Tuple<'_>) -> u64 {
        self.last_id += 1;
        let row = tuple.row();
        let mut places = Vec::with_capacity(1 + tuple.anchors().len());
        if !row.root.is_none() {
            places.push(Anchor { root: row.root, edge: row.edge });
            places.extend(tuple.anchors());
        }
        self.entries.push(HeldEntry { id: self.last_id, places, xor: 0, emitted: 0 });
        self.last_id
    }

    pub(super) fn get_mut(&mut self, id: u64) -> Option<&mut HeldEntry> {
        // Ids only grow, so the entries are sorted.
        let at = self.entries.binary_search_by_key(&id, |entry| entry.id).ok()?;
        self.entries.get_mut(at)
    }

    /// The places at which a tuple hangs that is anchored to these inputs: one in each of their trees. Tells each
    /// input's share.
    ///
    /// Two inputs of one tree get an edge each, and the tuple hangs there by both together: with one edge for both, the
    /// inputs' acks would cancel it.
    pub(super) fn descend(&mut self, anchors: &[&Held], mut share: impl FnMut(u64, Edge)) -> Vec<Anchor> {
        let mut places: Vec<Anchor> = Vec::new();
        for held in anchors {
            let Some(entry) = self.get_mut(held.id) else { continue };
            let edge = entry.next_edge();
            share(held.id, edge);
            for place in &entry.places {
                match places.iter_mut().find(|p| p.root == place.root) {
                    Some(p) => p.edge = p.edge.and(edge),
                    None => places.push(Anchor { root: place.root, edge }),
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

impl HeldEntry {
    /// The edge of the input's next descendant.
    fn next_edge(&mut self) -> Edge {
        let base = self.places.first().map_or(Edge::UNTRACKED, |place| place.edge);
        let edge = base.child(self.emitted);
        self.emitted += 1;
        edge
    }
}
