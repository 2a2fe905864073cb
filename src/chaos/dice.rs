//! Chance, from the seed.

use rand::{RngExt as _, SeedableRng as _};
use rand_pcg::Pcg64Mcg;

/// A generator of numbers: the same for the same seed.
#[derive(Clone, Debug)]
pub struct Dice(Pcg64Mcg);

impl Dice {
    /// The numbers of one seed for one purpose: purposes do not disturb each other, so that a plan that has become shorter
    /// meets the same run.
    #[must_use]
    pub fn new(seed: u64, purpose: u64) -> Self {
        Self(Pcg64Mcg::seed_from_u64(seed ^ purpose.wrapping_mul(0x9e37_79b9_7f4a_7c15)))
    }

    /// A number from `low` up to and including `high`.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        self.0.random_range(low..=high.max(low))
    }

    /// A place in a list of `len`; 0 if it is empty.
    pub fn below(&mut self, len: usize) -> usize {
        self.0.random_range(0..len.max(1))
    }

    /// True once in `times`.
    pub fn once_in(&mut self, times: u64) -> bool {
        self.between(1, times) == 1
    }
}
