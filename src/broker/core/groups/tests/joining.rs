//! Dynamic members: how generations come about.

use std::time::Duration;

use kafka_protocol::error::ResponseError;

use super::{
    super::GroupOptions,
    history::{History, Join, REBALANCE, SESSION},
};

#[test]
fn client_without_a_name_is_given_one_and_joins_under_it() {
    let mut h = History::new();
    let first = h.join("", &Join::default());
    assert_eq!(h.join_code(first), Some(ResponseError::MemberIdRequired.code()));
    let name = h.joined(first).unwrap().member_id.to_string();
    assert!(name.starts_with("c-"), "{name}");
    let second = h.join(&name, &Join::default());
    let joined = h.joined(second).unwrap();
    assert_eq!((joined.error_code, joined.generation_id), (0, 1));
    assert_eq!(joined.leader.as_str(), name);
}

#[test]
fn old_client_is_a_member_at_once() {
    let mut h = History::new();
    let ticket = h.join("", &Join { version: 3, ..Join::default() });
    assert_eq!(h.joined(ticket).unwrap().generation_id, 1);
}

#[test]
fn name_that_was_never_given_is_unknown() {
    let mut h = History::new();
    let nowhere = h.join("someone", &Join::default());
    h.stable(1);
    let somewhere = h.join("someone", &Join::default());
    for ticket in [nowhere, somewhere] {
        assert_eq!(h.join_code(ticket), Some(ResponseError::UnknownMemberId.code()));
    }
}

#[test]
fn name_that_is_not_used_in_time_is_taken_back() {
    let mut h = History::new();
    let ticket = h.join("", &Join::default());
    let name = h.joined(ticket).unwrap().member_id.to_string();
    h.pass(SESSION);
    let late = h.join(&name, &Join::default());
    assert_eq!(h.join_code(late), Some(ResponseError::UnknownMemberId.code()));
}

#[test]
fn generation_begins_when_everyone_has_joined_anew() {
    let mut h = History::new();
    let old = h.stable(1).remove(0);
    let (new, waits) = h.arrive(&Join::default());
    assert_eq!(h.join_code(waits), None);
    assert_eq!(h.heartbeat(&old, 1), ResponseError::RebalanceInProgress.code());
    let rejoined = h.join(&old, &Join::default());
    let (leader, follower) = (h.joined(rejoined).unwrap(), h.joined(waits).unwrap());
    assert_eq!((leader.generation_id, follower.generation_id), (2, 2));
    assert_eq!((leader.leader.as_str(), follower.leader.as_str()), (old.as_str(), old.as_str()));
    let listed: Vec<&str> = leader.members.iter().map(|member| member.member_id.as_str()).collect();
    assert!(listed.len() == 2 && listed.contains(&new.as_str()) && listed.contains(&old.as_str()));
    assert!(follower.members.is_empty(), "only the leader sees the members");
}

#[test]
fn name_that_was_given_out_holds_up_a_rebalance() {
    let mut h = History::new();
    let old = h.stable(1).remove(0);
    let asked = h.join("", &Join::default());
    let rejoined = h.join(&old, &Join::default());
    assert_eq!(h.join_code(rejoined), None, "the one that asked for a name is waited for");
    let name = h.joined(asked).unwrap().member_id.to_string();
    assert_eq!(h.leave(&[(&name, None)]), [0]);
    assert_eq!(h.joined(rejoined).unwrap().generation_id, 2);
}

#[test]
fn assignment_reaches_whoever_asks_before_and_after_the_leader() {
    let mut h = History::new();
    let (leader, _) = h.arrive(&Join::default());
    let (follower, _) = h.arrive(&Join::default());
    let (third, _) = h.arrive(&Join::default());
    h.join(&leader, &Join::default());
    let before = h.sync(&follower, 2, &[]);
    assert_eq!(h.sync_code(before), None);
    let own = h.sync(&leader, 2, &[(&leader, "a"), (&follower, "b")]);
    let after = h.sync(&third, 2, &[]);
    for (ticket, expected) in [(own, "a"), (before, "b"), (after, "")] {
        let synced = h.synced(ticket).unwrap();
        assert_eq!((synced.error_code, &synced.assignment[..]), (0, expected.as_bytes()));
        assert_eq!(synced.protocol_name.as_deref(), Some("range"));
    }
}

#[test]
fn sync_in_another_generation_or_protocol_is_refused() {
    let mut h = History::new();
    let member = h.stable(1).remove(0);
    let late = h.sync(&member, 0, &[]);
    assert_eq!(h.sync_code(late), Some(ResponseError::IllegalGeneration.code()));
    let stranger = h.sync("someone", 1, &[]);
    assert_eq!(h.sync_code(stranger), Some(ResponseError::UnknownMemberId.code()));
    h.arrive(&Join::default());
    let meanwhile = h.sync(&member, 1, &[]);
    assert_eq!(h.sync_code(meanwhile), Some(ResponseError::RebalanceInProgress.code()));
}

#[test]
fn newcomer_ends_the_wait_for_an_assignment() {
    let mut h = History::new();
    let (leader, _) = h.arrive(&Join::default());
    let (follower, _) = h.arrive(&Join::default());
    h.join(&leader, &Join::default());
    let waits = h.sync(&follower, 2, &[]);
    h.arrive(&Join::default());
    assert_eq!(h.sync_code(waits), Some(ResponseError::RebalanceInProgress.code()));
}

#[test]
fn member_that_does_not_join_anew_in_time_is_expelled() {
    let mut h = History::new();
    let old = h.stable(1).remove(0);
    let (new, waits) = h.arrive(&Join::default());
    for _ in 0..11 {
        h.pass(REBALANCE / 12);
        assert_eq!(h.heartbeat(&old, 1), ResponseError::RebalanceInProgress.code());
    }
    assert_eq!(h.join_code(waits), None);
    h.pass(REBALANCE / 12);
    let joined = h.joined(waits).unwrap();
    assert_eq!((joined.generation_id, joined.leader.as_str(), joined.members.len()), (2, new.as_str(), 1));
    assert_eq!(h.heartbeat(&old, 2), ResponseError::UnknownMemberId.code());
}

#[test]
fn member_that_does_not_sync_in_time_is_expelled() {
    let mut h = History::new();
    let (leader, _) = h.arrive(&Join::default());
    let (silent, _) = h.arrive(&Join { session: REBALANCE * 3, ..Join::default() });
    h.join(&leader, &Join { session: REBALANCE * 3, ..Join::default() });
    h.sync(&leader, 2, &[]);
    assert_eq!(h.heartbeat(&silent, 2), 0);
    h.pass(REBALANCE);
    assert_eq!(h.heartbeat(&silent, 2), ResponseError::UnknownMemberId.code());
    assert_eq!(h.heartbeat(&leader, 2), ResponseError::RebalanceInProgress.code());
}

#[test]
fn follower_that_joins_unchanged_is_told_the_generation_and_the_leader_starts_a_new_one() {
    let mut h = History::new();
    let members = h.stable(2);
    let follower = h.join(&members[1], &Join::default());
    assert_eq!(h.joined(follower).unwrap().generation_id, 2);
    let leader = h.join(&members[0], &Join::default());
    assert_eq!(h.join_code(leader), None);
    let again = h.join(&members[1], &Join::default());
    assert_eq!(h.joined(leader).unwrap().generation_id, 3);
    assert_eq!(h.joined(again).unwrap().generation_id, 3);
}

#[test]
fn follower_that_reads_something_else_starts_a_rebalance() {
    let mut h = History::new();
    let members = h.stable(2);
    let changed = h.join(&members[1], &Join::protocols(&[("range", "other topics")]));
    assert_eq!(h.join_code(changed), None);
    assert_eq!(h.heartbeat(&members[0], 2), ResponseError::RebalanceInProgress.code());
}

#[test]
fn member_that_lost_the_response_to_its_join_is_told_again() {
    let mut h = History::new();
    let (name, first) = h.arrive(&Join::default());
    let again = h.join(&name, &Join::default());
    assert_eq!(h.joined(first), h.joined(again));
    let waits = h.sync(&name, 1, &[]);
    assert_eq!(h.sync_code(waits), Some(0));
}

#[test]
fn of_a_join_that_is_repeated_only_the_last_is_answered() {
    let mut h = History::new();
    h.stable(1);
    let (name, before) = h.arrive(&Join::default());
    let after = h.join(&name, &Join::default());
    h.pass(REBALANCE);
    assert_eq!((h.join_code(before), h.join_code(after)), (None, Some(0)));
}

#[test]
fn protocol_is_the_one_that_most_prefer_of_those_that_all_have() {
    let mut h = History::new();
    let joins = [
        Join::protocols(&[("sticky", ""), ("range", ""), ("rare", "")]),
        Join::protocols(&[("range", ""), ("sticky", "")]),
        Join::protocols(&[("other", ""), ("range", ""), ("sticky", "")]),
    ];
    let first = h.join("", &Join { version: 3, ..joins[0].clone() });
    let leader = h.leader(first);
    let (_, _) = h.arrive(&joins[1]);
    let (_, last) = h.arrive(&joins[2]);
    h.join(&leader, &joins[0]);
    let joined = h.joined(last).unwrap();
    assert_eq!((joined.generation_id, joined.protocol_name.as_deref()), (2, Some("range")));
}

#[test]
fn member_with_nothing_in_common_is_refused() {
    let mut h = History::new();
    h.stable(1);
    for join in [Join::protocols(&[("sticky", "")]), Join::protocols(&[])] {
        let ticket = h.join("", &join);
        assert_eq!(h.join_code(ticket), Some(ResponseError::InconsistentGroupProtocol.code()));
    }
}

#[test]
fn session_timeout_has_bounds() {
    let mut h = History::new();
    for session in [Duration::from_millis(999), Duration::from_millis(1_800_001)] {
        let ticket = h.join("", &Join { session, ..Join::default() });
        assert_eq!(h.join_code(ticket), Some(ResponseError::InvalidSessionTimeout.code()));
    }
}

#[test]
fn full_group_takes_nobody_more() {
    let mut h = History::with(GroupOptions { max_size: 2, ..GroupOptions::default() });
    let members = h.stable(2);
    let third = h.join("", &Join::default());
    assert_eq!(h.join_code(third), Some(ResponseError::GroupMaxSizeReached.code()));
    assert_eq!(h.heartbeat(&members[0], 2), 0, "and its members do not notice");
}

#[test]
fn new_group_gathers_members_while_they_come() {
    let delay = Duration::from_secs(3);
    let mut h = History::with(GroupOptions { initial_rebalance_delay: delay, ..GroupOptions::default() });
    let (_, first) = h.arrive(&Join::default());
    h.pass(delay / 2);
    let (_, second) = h.arrive(&Join::default());
    h.pass(delay / 2);
    assert_eq!(h.join_code(first), None, "somebody came, so others may");
    h.pass(delay);
    assert_eq!(h.joined(first).unwrap().members.len(), 2);
    assert_eq!(h.joined(second).unwrap().generation_id, 1);
}

#[test]
fn last_member_leaves_an_empty_group_with_one_generation_more() {
    let mut h = History::new();
    let member = h.stable(1).remove(0);
    assert_eq!(h.leave(&[(&member, None)]), [0]);
    let (_, ticket) = h.arrive(&Join::default());
    assert_eq!(h.joined(ticket).unwrap().generation_id, 3);
}

#[test]
fn member_that_leaves_makes_the_others_join_anew() {
    let mut h = History::new();
    let members = h.stable(2);
    assert_eq!(h.leave(&[(&members[0], None), ("someone", None)]), [0, ResponseError::UnknownMemberId.code()]);
    assert_eq!(h.heartbeat(&members[1], 2), ResponseError::RebalanceInProgress.code());
    let ticket = h.join(&members[1], &Join::default());
    assert_eq!(h.leader(ticket), members[1]);
}

#[test]
fn member_that_is_removed_while_it_waits_is_told() {
    let mut h = History::new();
    h.stable(1);
    let (name, waits) = h.arrive(&Join::default());
    assert_eq!(h.leave(&[(&name, None)]), [0]);
    assert_eq!(h.join_code(waits), Some(ResponseError::UnknownMemberId.code()));
}
