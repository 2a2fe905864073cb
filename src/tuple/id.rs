//! Identities: where a tuple runs, which tree it belongs to, and which edge of the tree it is.

use std::fmt;

/// A live tuple tree: an index into the ledger of one executor, not a key to look up.
///
/// Bits: shard (10, the executor whose spout emitted the root) | slot (22) | generation (32). The generation tells a
/// tree from an earlier one in the same slot; it is never 0, so the value 0 is free to mean "no tree".
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct RootId(u64);

impl RootId {
    /// No tree: an unanchored tuple.
    pub const NONE: Self = Self(0);
    /// Executors that can own trees.
    pub const MAX_SHARDS: usize = 1 << 10;
    /// Trees that one executor can have in flight.
    pub const MAX_SLOTS: usize = 1 << 22;

    /// The tree in `slot` of `shard`. Bits beyond the field widths are cut off.
    #[must_use]
    pub const fn new(shard: u16, slot: u32, generation: u32) -> Self {
        let shard = (shard as u64) & (Self::MAX_SHARDS as u64 - 1);
        let slot = (slot as u64) & (Self::MAX_SLOTS as u64 - 1);
        Self(shard << 54 | slot << 32 | generation as u64)
    }

    /// True for [`RootId::NONE`].
    #[must_use]
    pub const fn is_none(self) -> bool {
        self.0 == 0
    }

    /// The executor that owns the tree.
    #[must_use]
    pub const fn shard(self) -> usize {
        (self.0 >> 54) as usize
    }

    /// The tree's slot in its owner's ledger.
    #[must_use]
    pub const fn slot(self) -> usize {
        (self.0 >> 32) as usize & (Self::MAX_SLOTS - 1)
    }

    /// Which of the trees that have used the slot this is.
    #[must_use]
    pub const fn generation(self) -> u32 {
        (self.0 & 0xffff_ffff) as u32
    }

    /// The packed form.
    #[must_use]
    pub const fn bits(self) -> u64 {
        self.0
    }
}

impl fmt::Debug for RootId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_none() {
            return f.write_str("no root");
        }
        write!(f, "root {}/{}#{}", self.shard(), self.slot(), self.generation())
    }
}

/// The finalizer of splitmix64 (Steele, Lea, Flood 2014): a bijection of 64 bits in which every output bit depends on
/// every input bit. Non-linear over XOR, so edges of siblings do not cancel (base + index and xorshift do).
#[must_use]
#[inline]
pub const fn mix(x: u64) -> u64 {
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// An edge of a tuple tree, never 0: the value that the ledger XORs.
///
/// A child's edge is the next output of a splitmix64 stream seeded with its parent's edge, and a root's edge comes from
/// what the root *is* (topic, partition, offset). So an edge is the hash of a tuple's path through the topology and
/// equal when the record is replayed: it is the tuple's lineage as well.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Edge(u64);

/// 2^64 divided by the golden ratio: the step of splitmix64.
const GOLDEN_GAMMA: u64 = 0x9e37_79b9_7f4a_7c15;

impl Edge {
    /// The edge of a tuple that is not tracked and whose lineage nobody asked for.
    pub const UNTRACKED: Self = Self(1);

    /// The edge that stands for a root itself, from the root's lineage.
    #[must_use]
    #[inline]
    pub const fn root(lineage: u64) -> Self {
        Self::non_zero(mix(lineage.wrapping_add(GOLDEN_GAMMA)))
    }

    /// The edge of this tuple's `index`-th descendant.
    #[must_use]
    #[inline]
    pub fn child(self, index: u32) -> Self {
        #[cfg(test)]
        if let Some(make) = substituted::MAKE.get() {
            return Self::non_zero(make(self.0, index));
        }
        let step = GOLDEN_GAMMA.wrapping_mul(index as u64 + 1);
        Self::non_zero(mix(self.0.wrapping_add(step)))
    }

    /// Both edges at once: what a tuple hangs by that has two anchors in one tree.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self::non_zero(self.0 ^ other.0)
    }

    /// The 64 bits that are XORed, and that stand for the lineage.
    #[must_use]
    #[inline]
    pub const fn bits(self) -> u64 {
        self.0
    }

    #[inline]
    const fn non_zero(bits: u64) -> Self {
        // An edge of 0 would be invisible to XOR.
        Self(if bits == 0 { GOLDEN_GAMMA } else { bits })
    }
}

impl fmt::Debug for Edge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "edge {:016x}", self.0)
    }
}

macro_rules! index {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
        pub struct $name(pub u32);

        impl $name {
            /// The id as an index.
            #[must_use]
            #[inline]
            pub const fn index(self) -> usize {
                self.0 as usize
            }
        }
    };
}

index!(
    /// A component (spout, bolt or sink) of a topology, in the order of declaration.
    ComponentId
);
index!(
    /// A task (an instance of a component), numbered over the whole topology.
    TaskId
);
index!(
    /// A stream, numbered over the whole topology.
    StreamId
);

/// Other edges than ours: how a deliberate bug comes into the tests of everything that is above.
#[cfg(test)]
pub(crate) mod substituted {
    use std::cell::Cell;

    /// From the parent's edge and the child's index.
    type Make = fn(u64, u32) -> u64;

    thread_local! {
        pub(super) static MAKE: Cell<Option<Make>> = const { Cell::new(None) };
    }

    /// As long as it lives, edges are made by another function in this thread.
    #[derive(Debug)]
    pub(crate) struct Substituted(());

    impl Drop for Substituted {
        fn drop(&mut self) {
            MAKE.set(None);
        }
    }

    pub(crate) fn substitute_edges(make: Make) -> Substituted {
        MAKE.set(Some(make));
        Substituted(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_root_gives_back_what_it_was_made_of() {
        let root = RootId::new(1023, 4_194_303, u32::MAX);
        assert_eq!((root.shard(), root.slot(), root.generation()), (1023, 4_194_303, u32::MAX));
    }

    #[test]
    fn edges_are_equal_across_replays_and_differ_along_every_path() {
        let path = |a, b| Edge::root(7).child(a).child(b);
        assert_eq!(path(3, 4), path(3, 4));
        assert_ne!(path(3, 4), path(4, 3));
        assert_ne!(Edge::root(7).child(0), Edge::root(8).child(0));
    }
}
