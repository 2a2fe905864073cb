//! The ledger: what tracking costs a word.

use std::{hint::black_box, time::Duration};

use criterion::{BatchSize, Criterion, Throughput};
use stormglass::{
    ack::{AckBuffer, AckMessage, Ledger, Outcome, Tick, Timeouts},
    clock::Instant,
    tuple::{Edge, RootId},
};

const WORDS: u32 = 12;
/// Trees in flight, a batch of lines.
const LINES: usize = 64;
const NOW: Tick = Tick(1);

/// All ledger benchmarks; each reports time and rate of one operation, not of one iteration.
pub(crate) fn benches(c: &mut Criterion) {
    tree(c);
    apply(c);
    fold(c);
    expire(c);
}

/// A tree of a line and its words from `open` to completion, with and without folding.
fn tree(c: &mut Criterion) {
    let line = Edge::root(7);
    let words: Vec<u64> = (0..WORDS).map(|i| line.child(i).bits()).collect();
    let all = words.iter().fold(0, |xor, word| xor ^ word);
    let mut group = c.benchmark_group("ledger/tree of 13 edges");
    group.throughput(Throughput::Elements(u64::from(WORDS) + 1));
    let mut ledger = Ledger::new(0, 1024);
    let split = |ledger: &mut Ledger| {
        let root = ledger.open(NOW).expect("far from the limit of live trees");
        assert_eq!(ledger.begin(root, black_box(line.bits()), NOW), Outcome::Pending);
        assert_eq!(ledger.apply(&AckMessage::done(root, line.bits() ^ all, 0), NOW), Outcome::Pending);
        root
    };
    group.bench_function("one message an ack", |b| {
        b.iter(|| {
            let root = split(&mut ledger);
            let mut last = Outcome::Pending;
            for word in &words {
                last = ledger.apply(&AckMessage::done(root, *word, 1), NOW);
            }
            assert_eq!(last, Outcome::Complete { effects: u64::from(WORDS) });
        });
    });
    let mut buffer = AckBuffer::with_capacity(LINES);
    group.bench_function("folded", |b| {
        b.iter(|| {
            let root = split(&mut ledger);
            for word in &words {
                buffer.ack(root, *word, 1);
            }
            let mut last = Outcome::Pending;
            for message in buffer.drain() {
                last = ledger.apply(&message, NOW);
            }
            assert_eq!(last, Outcome::Complete { effects: u64::from(WORDS) });
        });
    });
    // What the figure says only if it is true: every edge was applied.
    let seen = ledger.counters();
    assert_eq!(seen.acks, seen.completed * (u64::from(WORDS) + 1));
}

fn open_trees(ledger: &mut Ledger, trees: usize) -> Vec<RootId> {
    (0..trees)
        .map(|i| {
            let root = ledger.open(NOW).expect("far from the limit of live trees");
            assert_eq!(ledger.begin(root, Edge::root(i as u64).bits(), NOW), Outcome::Pending);
            root
        })
        .collect()
}

/// A message for a live tree that stays open.
fn apply(c: &mut Criterion) {
    let mut group = c.benchmark_group("ledger/apply");
    for (name, trees) in [("64 trees", LINES), ("100,000 trees", 100_000)] {
        let mut ledger = Ledger::new(0, trees);
        let roots = open_trees(&mut ledger, trees);
        let messages: Vec<_> = (0..8192_u32)
            .map(|i| {
                let root = roots[Edge::root(2).child(i).bits() as usize % trees];
                AckMessage::done(root, Edge::root(1).child(i).bits(), 0)
            })
            .collect();
        group.throughput(Throughput::Elements(messages.len() as u64));
        group.bench_function(name, |b| {
            b.iter(|| {
                for message in &messages {
                    assert_eq!(ledger.apply(message, NOW), Outcome::Pending);
                }
            });
        });
    }
}

/// Acks of a batch of lines, word after word, into a buffer.
fn fold(c: &mut Criterion) {
    let mut ledger = Ledger::new(0, LINES);
    let roots = open_trees(&mut ledger, LINES);
    let mut buffer = AckBuffer::with_capacity(LINES);
    let mut group = c.benchmark_group("ledger/fold");
    group.throughput(Throughput::Elements(LINES as u64 * u64::from(WORDS)));
    group.bench_function("12 acks a tree", |b| {
        b.iter(|| {
            for root in &roots {
                for word in 0..WORDS {
                    buffer.ack(*root, u64::from(word), 1);
                }
            }
            assert_eq!(buffer.len(), LINES);
            black_box(buffer.drain().next_back());
        });
    });
}

/// One look at all trees, which happens 16 times a timeout.
fn expire(c: &mut Criterion) {
    let mut ledger = Ledger::new(0, 100_000);
    assert_eq!(open_trees(&mut ledger, 100_000).len(), ledger.live());
    let mut group = c.benchmark_group("ledger/expire");
    group.throughput(Throughput::Elements(100_000));
    group.bench_function("100,000 trees, none due", |b| {
        b.iter_batched_ref(
            || Timeouts::new(Duration::from_secs(30), Instant::ZERO),
            |timeouts| timeouts.expire(&mut ledger, None, &mut Vec::new()),
            BatchSize::SmallInput,
        );
    });
}
