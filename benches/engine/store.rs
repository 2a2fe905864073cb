//! The store: what it costs to count a word through the port, beside a table that can do nothing but count.

use std::hint::black_box;

use criterion::{Criterion, Throughput};
use stormglass::{
    state::{Key, MemoryStore, Store},
    tuple::{KeyGroups, KeyHash, mix},
};

use super::counts::Counts;

const WORDS: usize = 10_000;

/// Words as they come: the small numbers often, each with its hash.
fn words() -> Vec<(KeyHash, String)> {
    let word = |n: u64| {
        let uniform = mix(n) as f64 / u64::MAX as f64;
        // Zipf's law over 10,000 words, by its inverse: the logarithm of the rank is uniform.
        let rank = (WORDS as f64).powf(uniform) as u64;
        let word = format!("{:x}", mix(rank) >> (32 + rank % 24));
        (KeyHash::of_bytes(word.as_bytes()), word)
    };
    (0..100_000).map(word).collect()
}

/// Both benchmarks; each reports time and rate of one word.
pub(crate) fn benches(c: &mut Criterion) {
    let words = words();
    let groups = KeyGroups::new(64, 1);
    let mut group = c.benchmark_group("store/count a word");
    group.throughput(Throughput::Elements(words.len() as u64));
    let mut counts = Counts::default();
    group.bench_function("table of counts", |b| {
        b.iter(|| {
            for (hash, word) in &words {
                black_box(counts.add(*hash, word).expect("fits"));
            }
        });
    });
    let mut store: Box<dyn Store> = black_box(Box::new(MemoryStore::new()));
    let mut call = 0;
    group.bench_function("store in memory", |b| {
        b.iter(|| {
            for (hash, word) in &words {
                call += 1;
                let key = Key { group: groups.group(*hash) as u16, bytes: word.as_bytes(), hint: *hash };
                let found = store.find(&key).expect("is read");
                let count = |value: &[u8]| u64::from_be_bytes(value.try_into().expect("a count")) + 1;
                let written = match found.map(|(place, value)| (place, count(value))) {
                    Some((place, count)) => store.put_at(call, place, &black_box(count).to_be_bytes()),
                    None => store.put(call, &key, &1_u64.to_be_bytes()),
                };
                written.expect("is written");
            }
        });
    });
    assert_eq!(store.len(), counts.len(), "both have counted the same words");
}
