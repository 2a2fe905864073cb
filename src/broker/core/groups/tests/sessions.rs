//! Sessions, and coordinators that move.

use std::time::Duration;

use kafka_protocol::error::ResponseError;

use super::history::{History, Join, SESSION};

#[test]
fn heartbeat_tells_whether_one_is_a_member_of_this_generation() {
    let mut h = History::new();
    assert_eq!(h.heartbeat("someone", 0), ResponseError::UnknownMemberId.code());
    let member = h.stable(1).remove(0);
    assert_eq!(h.heartbeat(&member, 1), 0);
    assert_eq!(h.heartbeat(&member, 0), ResponseError::IllegalGeneration.code());
    assert_eq!(h.heartbeat(&member, 2), ResponseError::IllegalGeneration.code());
    assert_eq!(h.heartbeat("someone", 1), ResponseError::UnknownMemberId.code());
}

#[test]
fn member_that_is_not_heard_of_is_given_up_and_one_that_is_lives() {
    let mut h = History::new();
    let members = h.stable(2);
    h.pass(SESSION / 2);
    assert_eq!(h.heartbeat(&members[1], 2), 0);
    h.pass(SESSION / 2);
    assert_eq!(h.heartbeat(&members[0], 2), ResponseError::UnknownMemberId.code());
    assert_eq!(h.heartbeat(&members[1], 2), ResponseError::RebalanceInProgress.code());
}

#[test]
fn group_of_which_nobody_is_heard_is_empty() {
    let mut h = History::new();
    h.stable(3);
    h.pass(SESSION);
    let (_, ticket) = h.arrive(&Join::default());
    assert_eq!(h.joined(ticket).unwrap().members.len(), 1);
}

#[test]
fn member_that_waits_does_not_have_to_be_heard_of() {
    let mut h = History::new();
    let members = h.stable(2);
    let waits = h.join(&members[0], &Join::default());
    for _ in 0..3 {
        h.pass(SESSION * 9 / 10);
        assert_eq!(h.heartbeat(&members[1], 2), ResponseError::RebalanceInProgress.code());
    }
    assert_eq!(h.join_code(waits), None);
    h.join(&members[1], &Join::default());
    assert_eq!(h.join_code(waits), Some(0));
}

#[test]
fn newcomer_that_waits_for_five_minutes_is_told_to_ask_again() {
    let mut h = History::new();
    let patient = Join { session: Duration::from_mins(20), ..Join::default() };
    let first = h.join("", &Join { version: 3, ..patient.clone() });
    let old = h.leader(first);
    // The rebalance takes as long as its slowest member asks for.
    let mut slow = patient.request("");
    slow.rebalance_timeout_ms = 600_000;
    slow.member_id = super::history::text(&old);
    slow.protocols[0].metadata = bytes::Bytes::from_static(b"changed");
    let caller = crate::broker::core::groups::Caller {
        ticket: crate::broker::core::Ticket(1_000),
        version: 9,
        client_id: super::history::text("c"),
        client_host: super::history::text("/h"),
    };
    h.call(|groups, now, answers| groups.join(&caller, &slow, now, answers));
    h.sync(&old, 2, &[]);
    let (_, waits) = h.arrive(&patient);
    h.pass(Duration::from_mins(5));
    assert_eq!(h.join_code(waits), Some(ResponseError::UnknownMemberId.code()));
}

#[test]
fn coordinator_that_moves_finds_the_group_as_it_was_written_down() {
    let mut h = History::new();
    let members = h.stable(2);
    let waits = h.join(&members[0], &Join::default());
    h.call(|groups, now, answers| groups.reload(now, answers));
    assert_eq!(h.join_code(waits), Some(ResponseError::NotCoordinator.code()));
    assert_eq!(h.heartbeat(&members[0], 2), 0, "the rebalance is forgotten, the generation before it is not");
    let synced = h.sync(&members[1], 2, &[]);
    assert_eq!(&h.synced(synced).unwrap().assignment[..], members[1].as_bytes());
}

#[test]
fn group_whose_assignment_was_not_made_is_empty_after_a_move() {
    let mut h = History::new();
    let (name, _) = h.arrive(&Join::default());
    h.call(|groups, now, answers| groups.reload(now, answers));
    assert_eq!(h.heartbeat(&name, 1), ResponseError::UnknownMemberId.code());
    let (_, ticket) = h.arrive(&Join::default());
    assert_eq!(
        h.joined(ticket).unwrap().generation_id,
        1,
        "the generation that nobody had seen complete is given again"
    );
}
