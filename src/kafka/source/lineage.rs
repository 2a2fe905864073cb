//! Which record a tuple comes from, as 64 bits that are equal across replays, processes and versions.
//!
//! The scheme, never to be changed: `T` is FNV-1a (64 bits) of the topic's name in UTF-8. `P` is
//! `mix(T + G * (partition + 1))`, the lineage of the record at `offset` is `mix(P + G * (offset + 1))`; `mix` is the
//! finalizer of splitmix64, `G` is 0x9e3779b97f4a7c15, all arithmetic is modulo 2^64. Within a partition no two records
//! share a lineage.

use crate::{
    kafka::client::{Offset, TopicPartition},
    tuple::mix,
};

const GOLDEN_GAMMA: u64 = 0x9e37_79b9_7f4a_7c15;

/// What the lineages of one partition's records have in common.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct PartitionLineage(u64);

impl PartitionLineage {
    /// Of `partition`.
    #[must_use]
    pub fn of(partition: &TopicPartition) -> Self {
        let fnv = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        let topic = partition.topic.as_bytes().iter().fold(0xcbf2_9ce4_8422_2325, fnv);
        Self(mix(topic.wrapping_add(step(partition.partition.into()))))
    }

    /// The lineage of the record at `offset`.
    #[must_use]
    #[inline]
    pub const fn record(self, offset: Offset) -> u64 {
        mix(self.0.wrapping_add(step(offset.0)))
    }
}

#[inline]
const fn step(index: i64) -> u64 {
    GOLDEN_GAMMA.wrapping_mul(index.cast_unsigned().wrapping_add(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lineages_are_the_same_in_every_version() {
        let of = |topic, partition, offset| {
            PartitionLineage::of(&TopicPartition::new(topic, partition)).record(Offset(offset))
        };
        assert_eq!(of("lines", 0, 0), of("lines", 0, 0));
        let different = [of("lines", 0, 0), of("lines", 0, 1), of("lines", 1, 0), of("line", 0, 0)];
        let set: std::collections::BTreeSet<_> = different.into_iter().collect();
        assert_eq!(set.len(), 4);
        insta::assert_snapshot!(format!("{:016x}", of("lines", 3, 12_345)), @"8281f183e0a929eb");
    }
}
