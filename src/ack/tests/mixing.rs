//! Edges of one tree must not cancel: a set of open edges whose XOR is 0 would complete the tree falsely.

use crate::{
    ack::{AckMessage, Ledger, Outcome, Tick},
    tuple::Edge,
};

/// True if some non-empty subset XORs to 0: linear dependence over GF(2), by elimination, so all subsets at once.
fn some_subset_cancels(edges: impl IntoIterator<Item = u64>) -> bool {
    // By highest bit.
    let mut basis = [0_u64; 64];
    edges.into_iter().any(|mut edge| {
        while edge != 0 {
            let pivot = &mut basis[edge.ilog2() as usize];
            if *pivot == 0 {
                *pivot = edge;
                return false;
            }
            edge ^= *pivot;
        }
        true
    })
}

/// What must not be done: edges that count up from a base.
fn counted(base: u64, fan_out: u32) -> impl Iterator<Item = u64> {
    (0..fan_out).map(move |index| base + u64::from(index))
}

fn hashed(parent: Edge, fan_out: u32) -> impl Iterator<Item = u64> {
    (0..fan_out).map(move |index| parent.child(index).bits())
}

#[test]
fn no_subset_of_a_node_s_children_cancels() {
    for offset in 0..10_000 {
        assert!(!some_subset_cancels(hashed(Edge::root(offset), 32)), "children of root {offset}");
    }
}

#[test]
fn no_subset_of_three_generations_cancels() {
    for offset in 0..2_000 {
        let root = Edge::root(offset);
        let family = (0..4).flat_map(|i| {
            let child = root.child(i);
            hashed(child, 6).chain([child.bits()])
        });
        assert!(!some_subset_cancels(family.chain([root.bits()])), "descendants of root {offset}");
    }
}

/// The test is alive: counted edges cancel from a fan-out of 7 on, wherever the base is.
#[test]
fn subsets_of_counted_edges_do_cancel() {
    for base in 1..10_000 {
        assert!(some_subset_cancels(counted(base, 7)), "base {base}");
    }
    assert!(some_subset_cancels(counted(4 * 1_000, 4)));
}

/// A bolt emits four tuples and acks its input. None of the four has been worked on.
fn after_split(children: impl Iterator<Item = u64>) -> Outcome {
    let (mut ledger, now, line) = (Ledger::new(0, 1), Tick(0), Edge::root(1).bits());
    let root = ledger.open(now).unwrap();
    assert_eq!(ledger.begin(root, line, now), Outcome::Pending);
    let xor = children.fold(line, |xor, child| xor ^ child);
    ledger.apply(&AckMessage::done(root, xor, 0), now)
}

#[test]
fn four_counted_edges_complete_a_tree_that_is_not_done_and_hashed_ones_do_not() {
    for k in 1..1_000 {
        assert_eq!(after_split(counted(4 * k, 4)), Outcome::Complete { effects: 0 });
        assert_eq!(after_split(hashed(Edge::root(4 * k), 4)), Outcome::Pending);
    }
}
