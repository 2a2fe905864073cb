//! The last offset of each key, as compaction asks for it. A digest stands for the key, as in Kafka's `SkimpyOffsetMap`:
//! keys that unpack to gigabytes take no more than short ones.

use std::{
    collections::HashMap,
    hash::{BuildHasher as _, RandomState},
};

/// Two hashes with keys of their own: that two keys have the same digest is as likely as to guess 128 bits.
type Digest = [u64; 2];

/// The last offset of each key.
#[derive(Debug, Default)]
pub(super) struct Latest {
    offsets: HashMap<Digest, i64>,
    hashes: [RandomState; 2],
}

impl Latest {
    /// A record of the key stands there; those that were noted before come before it.
    pub(super) fn note(&mut self, key: &[u8], offset: i64) {
        self.offsets.insert(self.digest(key), offset);
    }

    /// Where the last record of the key stands; `None` if none was noted.
    pub(super) fn of(&self, key: &[u8]) -> Option<i64> {
        self.offsets.get(&self.digest(key)).copied()
    }

    fn digest(&self, key: &[u8]) -> Digest {
        self.hashes.each_ref().map(|hash| hash.hash_one(key))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_offset_that_was_noted_last_stands(noted in prop::collection::vec((prop::collection::vec(0..3_u8, 0..4), any::<i64>()), 0..60)) {
            let (mut latest, mut naive) = (Latest::default(), BTreeMap::new());
            for (key, offset) in &noted {
                latest.note(key, *offset);
                naive.insert(key.clone(), *offset);
            }
            for key in noted.iter().map(|(key, _)| key).chain([&b"another".to_vec()]) {
                prop_assert_eq!(latest.of(key), naive.get(key).copied());
            }
        }
    }
}
