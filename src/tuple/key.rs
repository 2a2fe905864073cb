//! Where a key lives: its hash, and the key group that the hash names.

use std::{hint::select_unpredictable, ops::Range};

use super::Value;

/// The hash of a tuple's grouping key: computed once, when the tuple is emitted, and carried with the row to the state
/// look-up. Equal keys have equal hashes on every machine and in every version.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct KeyHash(pub u32);

impl KeyHash {
    /// The hash of a key made of `values`, in order.
    ///
    /// A key of one text or bytes value hashes as its bytes, so that it lands where Java's default partitioner would
    /// put a record with that key. Every other key hashes as the bytes of `write_part`, part after part.
    #[must_use]
    #[inline]
    pub fn of(values: &[Value<'_>]) -> Self {
        match values {
            [Value::Str(s)] => Self::of_bytes(s.as_bytes()),
            [Value::Bytes(b)] => Self::of_bytes(b),
            _ => Self::of_parts(values),
        }
    }

    /// The hash of a key that is one text or bytes value.
    #[must_use]
    #[inline]
    pub fn of_bytes(key: &[u8]) -> Self {
        Self(murmur2(key))
    }

    /// [`KeyHash::of_bytes`] of the first `len` bytes of `eight`, without a branch on how many there are: words of a text are
    /// now one, now two blocks of the hash long, which the processor cannot guess.
    #[must_use]
    #[inline]
    pub fn of_short(eight: [u8; 8], len: usize) -> Self {
        debug_assert!(len <= 8, "eight bytes hold no more");
        Self(murmur2_short(eight, len))
    }

    #[cold]
    fn of_parts(values: &[Value<'_>]) -> Self {
        let mut bytes = Vec::with_capacity(16 * values.len());
        for value in values {
            write_part(*value, &mut bytes);
        }
        Self(murmur2(&bytes))
    }
}

/// One part of a composite key: a kind byte, then the value; text and bytes have their length (4 bytes, big-endian)
/// before them, numbers are 8 bytes big-endian. Floats are their IEEE 754 bits, with -0 as 0 so that equal numbers are
/// equal keys.
fn write_part(value: Value<'_>, out: &mut Vec<u8>) {
    match value {
        Value::Null => out.push(0),
        Value::Bool(b) => out.extend([1, u8::from(b)]),
        Value::Int(i) => {
            out.push(2);
            out.extend(i.to_be_bytes());
        }
        Value::Float(x) => {
            out.push(3);
            out.extend((x + 0.0).to_bits().to_be_bytes());
        }
        Value::Str(s) => write_sized(4, s.as_bytes(), out),
        Value::Bytes(b) => write_sized(5, b, out),
    }
}

fn write_sized(kind: u8, bytes: &[u8], out: &mut Vec<u8>) {
    out.push(kind);
    out.extend(u32::try_from(bytes.len()).unwrap_or(u32::MAX).to_be_bytes());
    out.extend(bytes);
}

/// A fixed number of shards of keyed state, and who owns them: tasks own ranges of key groups, so the number of tasks
/// can change without a key changing its group (Flink's key groups).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KeyGroups {
    /// Key group → index of the owning task among the component's tasks.
    owner: Vec<u16>,
    /// The count less one, if that is a mask: a division costs more than all the rest of finding the owner.
    mask: Option<usize>,
}

impl KeyGroups {
    /// Key groups of an app that says nothing else. Each is a partition of every changelog, and costs a request of its own
    /// in every flush of a busy store: few are cheap, and no component can have more tasks than there are.
    pub const DEFAULT_COUNT: u16 = 16;

    /// `count` key groups spread in ranges over `tasks` tasks; the sizes of two ranges differ by one at most.
    /// Both are at least 1.
    #[must_use]
    pub fn new(count: u16, tasks: u16) -> Self {
        let (count, tasks) = (u32::from(count.max(1)), u32::from(tasks.max(1)));
        let owner = (0..count).map(|group| u16::try_from(group * tasks / count).unwrap_or(0)).collect();
        Self { owner, mask: count.is_power_of_two().then_some(count as usize - 1) }
    }

    /// The key group of a key: Kafka's `toPositive(murmur2(key)) % count`, so key group = changelog partition.
    #[must_use]
    #[inline]
    pub fn group(&self, key: KeyHash) -> usize {
        let positive = (key.0 & 0x7fff_ffff) as usize;
        match self.mask {
            Some(mask) => positive & mask,
            None => positive % self.owner.len(),
        }
    }

    /// The key groups that a task owns, by its index among the component's tasks; none if there is no such task.
    #[must_use]
    pub fn owned_by(&self, task: usize) -> Range<u16> {
        let bound = |below: usize| self.owner.partition_point(|owner| usize::from(*owner) < below) as u16;
        bound(task)..bound(task + 1)
    }

    /// The task, as an index among the component's tasks, that owns a key group.
    #[must_use]
    pub fn owner_of(&self, group: u16) -> Option<usize> {
        self.owner.get(usize::from(group)).copied().map(usize::from)
    }

    /// The task, as an index among the component's tasks, that owns a key.
    #[must_use]
    #[inline]
    pub fn owner(&self, key: KeyHash) -> usize {
        self.owner.get(self.group(key)).copied().map_or(0, usize::from)
    }
}

/// The multiplier and the seed of Kafka's murmur2.
const M: u32 = 0x5bd1_e995;
const SEED: u32 = 0x9747_b28c;

/// Takes four bytes into the hash.
#[inline]
const fn mix_in(hash: u32, four: u32) -> u32 {
    let k = four.wrapping_mul(M);
    hash.wrapping_mul(M) ^ (k ^ k >> 24).wrapping_mul(M)
}

#[inline]
const fn finish(hash: u32) -> u32 {
    let hash = (hash ^ hash >> 13).wrapping_mul(M);
    hash ^ hash >> 15
}

/// [`murmur2`] of the first `len` bytes.
#[inline]
#[expect(clippy::cast_possible_truncation, reason = "halves, and a length of 8 at most")]
fn murmur2_short(eight: [u8; 8], len: usize) -> u32 {
    let all = u64::from_le_bytes(eight);
    let (low, high) = (all as u32, (all >> 32) as u32);
    let none = SEED ^ len as u32;
    let one = mix_in(none, low);
    let hash = select_unpredictable(len >= 4, one, none);
    let hash = select_unpredictable(len == 8, mix_in(one, high), hash);
    let tail = select_unpredictable(len >= 4, high, low) & !(u32::MAX << (8 * (len % 4)));
    finish(select_unpredictable(len.is_multiple_of(4), hash, (hash ^ tail).wrapping_mul(M)))
}

/// Kafka's murmur2 (`org.apache.kafka.common.utils.Utils.murmur2`), with its seed.
#[must_use]
#[inline]
pub fn murmur2(data: &[u8]) -> u32 {
    #[expect(clippy::cast_possible_truncation, reason = "Java's int length wraps in the same way")]
    let mut h = SEED ^ data.len() as u32;
    let mut words = data.chunks_exact(4);
    for word in &mut words {
        let &[a, b, c, d] = word else { continue };
        h = mix_in(h, u32::from_le_bytes([a, b, c, d]));
    }
    let rest = data.len() % 4;
    let tail = match data {
        // The last four bytes, of which the first were hashed already: a loop over one, two or three bytes is one that
        // the processor guesses wrong.
        [.., a, b, c, d] => u64::from(u32::from_le_bytes([*a, *b, *c, *d])) >> (8 * (4 - rest)),
        short => short.iter().rev().fold(0, |tail, byte| tail << 8 | u64::from(*byte)),
    };
    #[expect(clippy::cast_possible_truncation, reason = "three bytes at most")]
    let with_tail = (h ^ tail as u32).wrapping_mul(M);
    finish(if rest == 0 { h } else { with_tail })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn murmur2_equals_the_values_in_kafkas_own_test() {
        // org.apache.kafka.common.utils.UtilsTest.testMurmur2
        let known: [(&[u8], i32); 7] = [
            (b"21", -973_932_308),
            (b"foobar", -790_332_482),
            (b"a-little-bit-long-string", -985_981_536),
            (b"a-little-bit-longer-string", -1_486_304_829),
            (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58_897_971),
            (b"abc", 479_470_107),
            (b"", 275_646_681),
        ];
        for (data, hash) in known {
            assert_eq!(murmur2(data).cast_signed(), hash, "{}", String::from_utf8_lossy(data));
        }
    }

    #[test]
    fn a_short_key_hashes_alike_with_whatever_behind_it() {
        let text = b"glass and more of it";
        for start in 0..8 {
            for len in 0..=8 {
                let eight = text[start..].first_chunk().copied().unwrap();
                assert_eq!(
                    KeyHash::of_short(eight, len),
                    KeyHash::of_bytes(&text[start..start + len]),
                    "{start} {len}"
                );
            }
        }
    }

    #[test]
    fn every_task_owns_a_range_of_key_groups_and_every_group_has_one_owner() {
        for tasks in [1, 2, 3, 7, 64] {
            let groups = KeyGroups::new(64, tasks);
            assert!(groups.owner.is_sorted());
            for task in 0..usize::from(tasks) + 1 {
                let owned = (0..64).filter(|group| groups.owner_of(*group) == Some(task));
                assert!(groups.owned_by(task).eq(owned), "{task} of {tasks}");
            }
            let owners: std::collections::BTreeSet<_> = groups.owner.iter().collect();
            assert_eq!(owners.len(), usize::from(tasks));
        }
    }

    #[test]
    fn composite_keys_do_not_run_into_each_other() {
        let ab_c = KeyHash::of(&[Value::Str("ab"), Value::Str("c")]);
        let a_bc = KeyHash::of(&[Value::Str("a"), Value::Str("bc")]);
        assert_ne!(ab_c, a_bc);
        assert_eq!(KeyHash::of(&[Value::Float(0.0)]), KeyHash::of(&[Value::Float(-0.0)]));
        assert_ne!(KeyHash::of(&[Value::Null]), KeyHash::of(&[Value::Int(0)]));
    }
}
