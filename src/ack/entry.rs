//! One slot of the ledger: a live tree, or the memory of the last one.

use super::Tick;

/// The generation that no tree has.
pub(super) const FREE: u32 = 0;

/// How the last tree of a free slot ended.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(super) enum Ending {
    Done,
    Failed,
    Expired,
    Abandoned,
}

/// 16 bytes, so four to a cache line.
#[derive(Copy, Clone, Debug)]
pub(super) struct Entry {
    /// Live: XOR of all open edges, never 0. Free: the last tree's [`Ending`] (high half) and generation (low half).
    pub(super) xor: u64,
    /// Live: the tree's generation. Free: [`FREE`].
    pub(super) generation: u32,
    /// Live: when the tree last made progress.
    pub(super) progress: Tick,
    /// Live: the tree's effects, low 16 bits.
    pub(super) effects: u16,
}

const _: () = assert!(size_of::<Entry>() == 16);

impl Entry {
    pub(super) const fn live(generation: u32, xor: u64, progress: Tick) -> Self {
        Self { xor, generation, progress, effects: 0 }
    }

    pub(super) const fn free(last: u32, ending: Ending) -> Self {
        let xor = (ending as u64) << 32 | last as u64;
        Self { xor, generation: FREE, progress: Tick(0), effects: 0 }
    }

    /// The generation for the next tree in this slot, if it is free: one more than the last, around and past [`FREE`].
    pub(super) const fn next_generation(&self) -> u32 {
        match self.last_generation().checked_add(1) {
            Some(next) => next,
            None => FREE + 1,
        }
    }

    /// The last tree that was given this slot, live or ended.
    pub(super) const fn last_generation(&self) -> u32 {
        if self.generation == FREE { (self.xor & 0xffff_ffff) as u32 } else { self.generation }
    }

    /// How the last tree ended, `None` if it is live.
    pub(super) const fn ending(&self) -> Option<Ending> {
        if self.generation != FREE {
            return None;
        }
        const FAILED: u64 = Ending::Failed as u64;
        const EXPIRED: u64 = Ending::Expired as u64;
        const ABANDONED: u64 = Ending::Abandoned as u64;
        Some(match self.xor >> 32 {
            FAILED => Ending::Failed,
            EXPIRED => Ending::Expired,
            ABANDONED => Ending::Abandoned,
            _ => Ending::Done,
        })
    }
}
