//! The ledger by example: each rule and each kind of stale message.

use crate::{
    ack::{AckMessage, Ledger, Outcome, StaleCounters, Tick},
    tuple::RootId,
};

const NOW: Tick = Tick(0);
const PENDING: Outcome = Outcome::Pending;

fn ledger() -> Ledger {
    Ledger::new(0, 4)
}

/// A tree with one open edge.
fn begun(ledger: &mut Ledger, edge: u64) -> RootId {
    let root = ledger.open(NOW).unwrap();
    assert_eq!(ledger.begin(root, edge, NOW), PENDING);
    root
}

fn ack(ledger: &mut Ledger, root: RootId, xor: u64) -> Outcome {
    ledger.apply(&AckMessage::done(root, xor, 1), NOW)
}

fn fail(ledger: &mut Ledger, root: RootId) -> Outcome {
    ledger.apply(&AckMessage::failed(root, 0), NOW)
}

fn stale(ledger: &Ledger) -> StaleCounters {
    ledger.counters().stale
}

#[test]
fn a_root_that_nobody_receives_is_done_at_once() {
    let mut ledger = ledger();
    let root = ledger.open(NOW).unwrap();
    assert_eq!(ledger.begin(root, 0, NOW), Outcome::Complete { effects: 0 });
    assert_eq!((ledger.live(), ledger.counters().completed), (0, 1));
}

#[test]
fn acks_may_come_before_begin() {
    let mut ledger = ledger();
    let root = ledger.open(NOW).unwrap();
    assert_eq!(ack(&mut ledger, root, 5), PENDING);
    assert_eq!(ack(&mut ledger, root, 9), PENDING);
    assert_eq!(ledger.begin(root, 5 ^ 9, NOW), Outcome::Complete { effects: 2 });
}

#[test]
fn a_touch_before_begin_completes_nothing() {
    let mut ledger = ledger();
    let root = ledger.open(NOW).unwrap();
    assert_eq!(ledger.apply(&AckMessage::touch(root), NOW), PENDING);
    assert_eq!(ledger.begin(root, 5, NOW), PENDING);
    assert_eq!((ledger.counters().messages, ledger.counters().acks), (1, 0));
}

#[test]
fn a_fail_ends_the_tree_at_once_and_reports_its_effects() {
    let mut ledger = ledger();
    let root = begun(&mut ledger, 1 ^ 2 ^ 4);
    assert_eq!(ack(&mut ledger, root, 1), PENDING);
    assert_eq!(ledger.apply(&AckMessage::failed(root, 4), NOW), Outcome::Failed { effects: 5 });
    assert_eq!((ledger.live(), ledger.counters().failed), (0, 1));
}

#[test]
fn a_tree_that_failed_before_begin_does_not_begin() {
    let mut ledger = ledger();
    let root = ledger.open(NOW).unwrap();
    assert_eq!(fail(&mut ledger, root), Outcome::Failed { effects: 0 });
    assert_eq!(ledger.begin(root, 7, NOW), Outcome::Stale { effects: 0 });
    assert_eq!((ledger.live(), stale(&ledger).total()), (0, 0));
}

#[test]
fn an_ack_or_fail_after_a_fail_is_counted_and_changes_nothing() {
    let mut ledger = ledger();
    let root = begun(&mut ledger, 1 ^ 2);
    assert_eq!(fail(&mut ledger, root), Outcome::Failed { effects: 0 });
    assert_eq!(ack(&mut ledger, root, 1), Outcome::Stale { effects: 1 });
    assert_eq!(fail(&mut ledger, root), Outcome::Stale { effects: 0 });
    assert_eq!(stale(&ledger), StaleCounters { after_fail: 2, ..StaleCounters::default() });
    assert_eq!((ledger.counters().failed, ledger.counters().acks), (1, 0));
}

#[test]
fn an_ack_of_an_expired_or_abandoned_tree_is_late() {
    let mut ledger = ledger();
    let (slow, revoked) = (begun(&mut ledger, 1), begun(&mut ledger, 2));
    assert_eq!(ledger.expire(slow), Outcome::Failed { effects: 0 });
    assert_eq!(ledger.abandon(revoked), Outcome::Failed { effects: 0 });
    assert_eq!(ledger.expire(slow), Outcome::Stale { effects: 0 });
    assert_eq!(ack(&mut ledger, slow, 1), Outcome::Stale { effects: 1 });
    assert_eq!(ack(&mut ledger, revoked, 2), Outcome::Stale { effects: 1 });
    assert_eq!(stale(&ledger), StaleCounters { late: 2, ..StaleCounters::default() });
    assert_eq!((ledger.counters().expired, ledger.counters().abandoned), (1, 1));
}

#[test]
fn an_ack_of_a_tree_that_is_done_shows_a_double_ack() {
    let mut ledger = ledger();
    let root = begun(&mut ledger, 1);
    assert_eq!(ack(&mut ledger, root, 1), Outcome::Complete { effects: 1 });
    assert_eq!(ack(&mut ledger, root, 1), Outcome::Stale { effects: 1 });
    assert_eq!(stale(&ledger), StaleCounters { after_done: 1, ..StaleCounters::default() });
}

#[test]
fn an_ack_of_a_slot_s_former_tree_leaves_the_new_tree_alone() {
    let mut ledger = Ledger::new(0, 1);
    let old = begun(&mut ledger, 1);
    assert_eq!(fail(&mut ledger, old), Outcome::Failed { effects: 0 });
    let new = begun(&mut ledger, 1);
    assert_eq!(old.slot(), new.slot());
    assert_eq!(ack(&mut ledger, old, 1), Outcome::Stale { effects: 1 });
    assert_eq!(stale(&ledger), StaleCounters { old_generation: 1, ..StaleCounters::default() });
    assert_eq!(ack(&mut ledger, new, 1), Outcome::Complete { effects: 1 });
}

#[test]
fn roots_that_were_never_given_out_are_unknown() {
    let mut ledger = ledger();
    let live = begun(&mut ledger, 1);
    let freed = begun(&mut ledger, 2);
    assert_eq!(fail(&mut ledger, freed), Outcome::Failed { effects: 0 });
    let never = [
        RootId::NONE,
        RootId::new(1, 0, live.generation()),
        RootId::new(0, 2, 1),
        RootId::new(0, u32::MAX, 1),
        RootId::new(0, 0, live.generation() + 1),
        RootId::new(0, 1, 0),
        RootId::new(0, 1, freed.generation() + 1),
    ];
    for root in never {
        assert_eq!(ack(&mut ledger, root, 1), Outcome::Stale { effects: 1 }, "{root:?}");
        assert_eq!(ledger.begin(root, 1, NOW), Outcome::Stale { effects: 0 }, "{root:?}");
        assert_eq!(ledger.expire(root), Outcome::Stale { effects: 0 }, "{root:?}");
    }
    assert_eq!(stale(&ledger), StaleCounters { unknown: 7, ..StaleCounters::default() });
    assert_eq!(ledger.live(), 1);
}

#[test]
fn a_folded_stale_message_counts_its_acks_and_a_touch_counts_nothing() {
    let mut ledger = ledger();
    let root = begun(&mut ledger, 1);
    assert_eq!(fail(&mut ledger, root), Outcome::Failed { effects: 0 });
    let folded = AckMessage { acks: 12, ..AckMessage::done(root, 8, 3) };
    assert_eq!(ledger.apply(&folded, NOW), Outcome::Stale { effects: 3 });
    assert_eq!(ledger.apply(&AckMessage::touch(root), NOW), Outcome::Stale { effects: 0 });
    assert_eq!(stale(&ledger).after_fail, 12);
}

/// v ^ e ^ e = v. Nothing here can notice, which is why an input is a linear token of its task.
#[test]
fn a_double_ack_within_a_live_tree_is_invisible_and_leaves_it_open() {
    let mut ledger = ledger();
    let root = begun(&mut ledger, 1 ^ 2);
    assert_eq!(ack(&mut ledger, root, 1), PENDING);
    assert_eq!(ack(&mut ledger, root, 1), PENDING);
    assert_eq!(ack(&mut ledger, root, 2), PENDING);
    assert_eq!(stale(&ledger).total(), 0);
}

#[test]
fn slots_are_used_in_the_order_in_which_they_became_free() {
    let mut ledger = Ledger::new(0, 3);
    let roots: Vec<_> = (1..=3).map(|edge| begun(&mut ledger, edge)).collect();
    for root in [roots[2], roots[0], roots[1]] {
        assert_eq!(fail(&mut ledger, root), Outcome::Failed { effects: 0 });
    }
    let again: Vec<_> = (1..=3).map(|edge| begun(&mut ledger, edge).slot()).collect();
    assert_eq!(again, [2, 0, 1]);
}

#[test]
fn all_slots_of_the_capacity_are_used_before_one_is_used_again() {
    let mut ledger = Ledger::new(0, 3);
    let slots: Vec<_> = (0..5)
        .map(|_| {
            let root = begun(&mut ledger, 1);
            assert_eq!(ack(&mut ledger, root, 1), Outcome::Complete { effects: 1 });
            root.slot()
        })
        .collect();
    assert_eq!(slots, [0, 1, 2, 0, 1]);
}

#[test]
fn a_ledger_grows_to_its_limit_and_opens_again_when_a_tree_ends() {
    let mut ledger = Ledger::with_limit(0, 1, 3);
    let roots: Vec<_> = (1..=3).map(|edge| begun(&mut ledger, edge)).collect();
    assert_eq!(ledger.open(NOW), None);
    assert_eq!(ledger.counters().opened, 3);
    assert_eq!(ack(&mut ledger, roots[1], 2), Outcome::Complete { effects: 1 });
    assert_eq!(begun(&mut ledger, 9).slot(), roots[1].slot());
    assert_eq!((ledger.live(), ledger.slots()), (3, 3));
    assert_eq!(Ledger::with_limit(0, 0, 0).open(NOW), None);
}

#[test]
fn the_last_slot_that_a_root_id_can_hold_is_the_last_one_given() {
    let mut ledger = Ledger::new(1023, usize::MAX);
    let mut last = RootId::NONE;
    while let Some(root) = ledger.open(NOW) {
        last = root;
    }
    assert_eq!((last.slot(), last.shard(), ledger.live()), (RootId::MAX_SLOTS - 1, 1023, RootId::MAX_SLOTS));
    assert_eq!(ledger.begin(last, 0, NOW), Outcome::Complete { effects: 0 });
}

#[test]
#[should_panic(expected = "no room for shard 1024")]
fn a_shard_that_a_root_id_cannot_hold_is_refused() {
    drop(Ledger::new(1024, 1));
}

#[test]
fn generations_go_around_past_zero() {
    let mut ledger = Ledger::new(0, 1);
    let first = begun(&mut ledger, 1);
    assert_eq!(fail(&mut ledger, first), Outcome::Failed { effects: 0 });
    ledger.set_last_generation(u32::MAX - 1);
    let last = begun(&mut ledger, 1);
    assert_eq!(last.generation(), u32::MAX);
    assert_eq!(ack(&mut ledger, last, 1), Outcome::Complete { effects: 1 });
    let next = begun(&mut ledger, 1);
    assert_eq!(next.generation(), 1);
    // Older, though the number is higher.
    assert_eq!(ack(&mut ledger, last, 1), Outcome::Stale { effects: 1 });
    assert_eq!(stale(&ledger), StaleCounters { old_generation: 1, ..StaleCounters::default() });
}

#[test]
fn effects_beyond_an_entry_s_sixteen_bits_are_exact() {
    let mut ledger = Ledger::new(0, 1);
    let root = begun(&mut ledger, 1);
    for _ in 0..200_000 {
        assert_eq!(ledger.apply(&AckMessage::done(root, 0, 1), NOW), PENDING);
    }
    assert_eq!(ledger.apply(&AckMessage::done(root, 0, u32::MAX), NOW), PENDING);
    let all = 200_000 + u64::from(u32::MAX) + 7;
    assert_eq!(ledger.apply(&AckMessage::done(root, 1, 7), NOW), Outcome::Complete { effects: all });
    // And none of it stays for the next tree of the slot.
    let next = begun(&mut ledger, 1);
    assert_eq!(ack(&mut ledger, next, 1), Outcome::Complete { effects: 1 });
}

#[test]
fn spilled_effects_are_reported_by_fail_and_expiry_too() {
    for fails in [true, false] {
        let mut ledger = ledger();
        let root = begun(&mut ledger, 1);
        assert_eq!(ledger.apply(&AckMessage::done(root, 2, 65_536), NOW), PENDING);
        let outcome = if fails { fail(&mut ledger, root) } else { ledger.expire(root) };
        assert_eq!(outcome, Outcome::Failed { effects: 65_536 });
    }
}
