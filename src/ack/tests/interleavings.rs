//! The ledger against real trees, under random interleavings of everything that can happen.

use proptest::{collection::vec, prelude::*, strategy::ValueTree, test_runner::TestRunner};

use super::world::World;
use crate::ack::reference::State;

/// What happens next. Numbers choose one of what there is, modulo how many there are.
#[derive(Clone, Debug)]
enum Event {
    Open { tuples: usize },
    Begin(usize),
    Emit(usize, Option<usize>),
    Ack { which: usize, buffer: usize, effects: u32 },
    AckHere { which: usize, effects: u16 },
    Fail { which: usize, buffer: usize },
    Touch { which: usize, buffer: usize },
    Flush(usize),
    Deliver(usize),
    Duplicate(usize),
    Lose(usize),
    GiveUp { which: usize, expire: bool },
    Forge { kind: usize, which: usize, failed: bool },
}

fn happen(world: &mut World, event: &Event) {
    match *event {
        Event::Open { tuples } => world.open(tuples),
        Event::Begin(which) => world.begin(which),
        Event::Emit(which, other) => world.emit(which, other),
        Event::Ack { which, buffer, effects } => world.ack(which, buffer, effects),
        Event::AckHere { which, effects } => world.ack_here(which, effects),
        Event::Fail { which, buffer } => world.fail(which, buffer, 1),
        Event::Touch { which, buffer } => world.touch(which, buffer),
        Event::Flush(buffer) => world.flush(buffer),
        Event::Deliver(which) => world.deliver(which),
        Event::Duplicate(which) => world.duplicate(which),
        Event::Lose(which) => world.lose(which),
        Event::GiveUp { which, expire } => world.give_up(which, expire),
        Event::Forge { kind, which, failed } => world.forge(kind, which, failed),
    }
    world.check();
}

/// What every run has: trees that grow and are acked, in any order.
fn good_event() -> impl Strategy<Value = Event> {
    let which = || 0..1_000_usize;
    // Now and then more effects than fit into 16 bits of an entry, or 32 of a message.
    let effects = prop_oneof![8 => 0..3_u32, 1 => 60_000..70_000_u32, 1 => Just(u32::MAX)];
    prop_oneof![
        3 => (0..4_usize).prop_map(|tuples| Event::Open { tuples }),
        3 => which().prop_map(Event::Begin),
        6 => (which(), proptest::option::of(which())).prop_map(|(which, other)| Event::Emit(which, other)),
        8 => (which(), which(), effects).prop_map(|(which, buffer, effects)| Event::Ack { which, buffer, effects }),
        4 => (which(), prop_oneof![8 => 0..3_u16, 1 => 60_000..=u16::MAX])
            .prop_map(|(which, effects)| Event::AckHere { which, effects }),
        1 => (which(), which()).prop_map(|(which, buffer)| Event::Touch { which, buffer }),
        4 => which().prop_map(Event::Flush),
        10 => which().prop_map(Event::Deliver),
    ]
}

fn any_event() -> impl Strategy<Value = Event> {
    let which = || 0..1_000_usize;
    prop_oneof![
        16 => good_event(),
        1 => (which(), which()).prop_map(|(which, buffer)| Event::Fail { which, buffer }),
        3 => which().prop_map(Event::Duplicate),
        1 => which().prop_map(Event::Lose),
        1 => (which(), any::<bool>()).prop_map(|(which, expire)| Event::GiveUp { which, expire }),
        1 => (which(), which(), any::<bool>()).prop_map(|(kind, which, failed)| Event::Forge { kind, which, failed }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..ProptestConfig::default() })]

    /// After each message the ledger says what the reference says: complete exactly when the tree is done.
    #[test]
    fn the_ledger_agrees_with_real_trees_whatever_happens(events in vec(any_event(), 1..250), seed: u64) {
        let mut world = World::new();
        events.iter().for_each(|event| happen(&mut world, event));
        world.run_out(seed);
        for root in world.reference.roots() {
            let live = world.reference.state(root) == Some(State::Live);
            prop_assert!(!live || world.doomed.contains(&root), "{root:?} is open and nothing of it is under way");
        }
    }

    /// Without faults every tree is done in the end, once, and nothing is stale.
    #[test]
    fn every_tree_completes_if_nothing_goes_wrong(events in vec(good_event(), 1..250), seed: u64) {
        let mut world = World::new();
        events.iter().for_each(|event| happen(&mut world, event));
        world.run_out(seed);
        let seen = world.ledger.counters();
        prop_assert_eq!((seen.completed, seen.stale.total()), (seen.opened, 0));
    }
}

/// The tests above would prove nothing if random runs never came to the interesting places.
#[test]
fn random_interleavings_reach_every_counter() {
    let mut runner = TestRunner::deterministic();
    let mut reached = [0; 10];
    for _ in 0..200 {
        let mut world = World::new();
        let events = vec(any_event(), 250).new_tree(&mut runner).unwrap().current();
        events.iter().for_each(|event| happen(&mut world, event));
        let (seen, stale) = (world.ledger.counters(), world.ledger.counters().stale);
        let trees = [seen.completed, seen.failed, seen.expired, seen.abandoned, world.folded];
        let late = [stale.unknown, stale.old_generation, stale.after_fail, stale.late, stale.after_done];
        reached.iter_mut().zip(trees.iter().chain(&late)).for_each(|(sum, count)| *sum += count);
    }
    assert!(reached.iter().all(|count| *count >= 100), "{reached:?}");
}
