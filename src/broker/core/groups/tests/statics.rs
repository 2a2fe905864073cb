//! Static members (KIP-345).

use kafka_protocol::error::ResponseError;

use super::history::{History, Join, REBALANCE, SESSION};

/// Two instances, `a` the leader and `b`, in the stable generation 2.
fn two() -> (History, String, String) {
    let mut h = History::new();
    let first = h.join("", &Join::instance("a"));
    let a = h.leader(first);
    let second = h.join("", &Join::instance("b"));
    h.join(&a, &Join::instance("a"));
    let b = h.joined(second).unwrap().member_id.to_string();
    h.sync_all(&[a.clone(), b.clone()], 2);
    (h, a, b)
}

#[test]
fn instance_is_a_member_at_once() {
    let (h, a, b) = two();
    assert!(a.starts_with("a-") && b.starts_with("b-"), "{a} {b}");
    assert!(h.groups.due() < crate::clock::Instant::FAR_FUTURE);
}

#[test]
fn follower_that_restarts_keeps_its_part_and_nobody_rebalances() {
    let (mut h, a, b) = two();
    let back = h.join("", &Join::instance("b"));
    let joined = h.joined(back).unwrap().clone();
    assert_eq!((joined.error_code, joined.generation_id, joined.skip_assignment), (0, 2, false));
    assert_ne!(joined.member_id.as_str(), b);
    assert_eq!(h.heartbeat(&a, 2), 0);
    let synced = h.sync(&joined.member_id, 2, &[]);
    assert_eq!(&h.synced(synced).unwrap().assignment[..], b.as_bytes(), "what it had under its old name");
}

#[test]
fn leader_that_restarts_is_told_not_to_assign() {
    let (mut h, a, _) = two();
    let back = h.join("", &Join::instance("a"));
    let joined = h.joined(back).unwrap().clone();
    assert!(joined.skip_assignment && joined.members.len() == 2);
    assert_eq!(joined.leader, joined.member_id);
    let synced = h.sync(&joined.member_id, 2, &[]);
    assert_eq!(&h.synced(synced).unwrap().assignment[..], a.as_bytes());
}

#[test]
fn old_leader_that_restarts_takes_itself_for_a_follower() {
    let (mut h, a, _) = two();
    let back = h.join("", &Join { version: 8, ..Join::instance("a") });
    let joined = h.joined(back).unwrap();
    assert_eq!(joined.leader.as_str(), a);
    assert!(!joined.skip_assignment && joined.members.is_empty());
}

#[test]
fn old_name_of_an_instance_that_came_back_is_fenced() {
    let (mut h, _, b) = two();
    h.join("", &Join::instance("b"));
    let rejoin = h.join(&b, &Join::instance("b"));
    assert_eq!(h.join_code(rejoin), Some(ResponseError::FencedInstanceId.code()));
    assert_eq!(h.heartbeat(&b, 2), ResponseError::UnknownMemberId.code());
    assert_eq!(h.leave(&[(&b, Some("b"))]), [ResponseError::FencedInstanceId.code()]);
}

#[test]
fn request_that_waits_under_an_old_name_is_fenced() {
    let (mut h, a, _) = two();
    let waits = h.join(&a, &Join::instance("a"));
    assert_eq!(h.join_code(waits), None);
    h.join("", &Join::instance("a"));
    assert_eq!(h.join_code(waits), Some(ResponseError::FencedInstanceId.code()));
}

#[test]
fn instance_that_comes_back_with_another_protocol_starts_a_rebalance() {
    let mut h = History::new();
    let both = Join { instance: Some("a"), ..Join::protocols(&[("range", ""), ("sticky", "")]) };
    let first = h.join("", &both);
    let a = h.leader(first);
    h.sync(&a, 1, &[]);
    let swapped = Join { instance: Some("a"), ..Join::protocols(&[("sticky", ""), ("range", "")]) };
    let back = h.join("", &swapped);
    assert_eq!(h.joined(back).unwrap().generation_id, 2);
}

#[test]
fn instance_that_comes_back_before_the_assignment_starts_a_rebalance() {
    let (mut h, a, b) = two();
    h.join(&a, &Join::instance("a"));
    h.join(&b, &Join::instance("b"));
    let waits = h.sync(&a, 3, &[]);
    assert_eq!(h.sync_code(waits), Some(0), "the leader assigns");
    h.join(&a, &Join::instance("a"));
    h.join(&b, &Join::instance("b"));
    let back = h.join("", &Join::instance("b"));
    assert_eq!(h.join_code(back), None);
    assert_eq!(h.heartbeat(&a, 4), ResponseError::RebalanceInProgress.code());
}

#[test]
fn instance_that_does_not_join_anew_keeps_its_place_until_its_session_ends() {
    let (mut h, a, _) = two();
    let waits = h.join(&a, &Join::instance("a"));
    assert_eq!(h.join_code(waits), None);
    h.pass(SESSION);
    let joined = h.joined(waits).unwrap();
    assert_eq!((joined.generation_id, joined.members.len()), (3, 1), "its session ended before the rebalance did");
}

#[test]
fn rebalance_without_an_instance_leaves_it_in_the_group() {
    let mut h = History::new();
    let long = |instance| Join { session: REBALANCE * 4, ..Join::instance(instance) };
    let first = h.join("", &long("a"));
    let a = h.leader(first);
    let (_, waits) = h.arrive(&Join::default());
    h.pass(REBALANCE);
    let joined = h.joined(waits).unwrap();
    assert_eq!((joined.generation_id, joined.members.len()), (2, 2));
    assert_eq!(joined.leader, joined.member_id, "one that has joined leads");
    assert_eq!(h.heartbeat(&a, 2), 0);
}

#[test]
fn instance_that_stays_away_longer_than_its_session_is_given_up() {
    let (mut h, a, _) = two();
    for _ in 0..2 {
        h.pass(SESSION / 2);
        h.heartbeat(&a, 2);
    }
    assert_eq!(h.heartbeat(&a, 2), ResponseError::RebalanceInProgress.code());
    let rejoined = h.join(&a, &Join::instance("a"));
    assert_eq!(h.joined(rejoined).unwrap().members.len(), 1);
}

#[test]
fn admin_removes_an_instance_by_its_name() {
    let (mut h, a, _) = two();
    assert_eq!(h.leave(&[("", Some("b")), ("", Some("c"))]), [0, ResponseError::UnknownMemberId.code()]);
    assert_eq!(h.heartbeat(&a, 2), ResponseError::RebalanceInProgress.code());
}
