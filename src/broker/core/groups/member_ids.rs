//! The names that a group gives to its members.

use kafka_protocol::protocol::StrBytes;

/// A source of names that are never given twice: Kafka's are random UUIDs, these are drawn from a seed, so that the same
/// inputs give the same names.
#[derive(Debug)]
pub(super) struct MemberIds {
    state: u64,
}

impl MemberIds {
    pub(super) const fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// A new name; the prefix is the instance's or the client's own name, as Kafka's are.
    pub(super) fn draw(&mut self, prefix: &str) -> StrBytes {
        let bits = (u128::from(self.next()) << 64) | u128::from(self.next());
        StrBytes::from_string(format!(
            "{prefix}-{:08x}-{:04x}-{:04x}-{:04x}-{:012x}",
            bits >> 96,
            (bits >> 80) & 0xffff,
            (bits >> 64) & 0xffff,
            (bits >> 48) & 0xffff,
            bits & 0xffff_ffff_ffff
        ))
    }

    /// `SplitMix64`: a permutation of a counter, so it does not repeat.
    const fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let x = (self.state ^ (self.state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ (x >> 31)
    }
}
