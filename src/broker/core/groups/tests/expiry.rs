//! What is forgotten, and when.

use std::time::Duration;

use super::{
    super::GroupOptions,
    history::{History, group},
};

const RETENTION: Duration = Duration::from_secs(60);
/// From one look at what is expired to the next.
const LOOK: Duration = Duration::from_secs(5);

fn history() -> History {
    History::with(GroupOptions {
        offsets_retention: RETENTION,
        offsets_retention_check_interval: LOOK,
        ..GroupOptions::default()
    })
}

impl History {
    fn is_there(&self) -> bool {
        self.groups.groups.contains_key(&group())
    }
}

#[test]
fn an_offset_outlives_the_last_member_by_its_retention() {
    let mut h = history();
    let member = h.stable(1).remove(0);
    assert_eq!(h.commit((&member, 1), 0, 5, ""), 0);
    for _ in 0..20 {
        h.pass(LOOK);
        assert_eq!(h.heartbeat(&member, 1), 0);
    }
    assert_eq!(h.offset(), 5, "its group has a member");
    h.leave(&[(&member, None)]);
    h.pass(RETENTION - LOOK);
    assert_eq!(h.offset(), 5);
    h.pass(2 * LOOK);
    assert_eq!((h.offset(), h.is_there()), (-1, false));
}

#[test]
fn an_offset_of_who_never_joins_outlives_its_commit_by_its_retention() {
    let mut h = history();
    for offset in 0..3 {
        assert_eq!(h.commit(("", -1), 0, offset, ""), 0);
        h.pass(RETENTION - LOOK);
        assert_eq!(h.offset(), offset);
    }
    h.pass(2 * LOOK);
    assert_eq!((h.offset(), h.is_there()), (-1, false));
}

#[test]
fn an_empty_group_without_offsets_is_forgotten_at_the_next_look() {
    let mut h = history();
    let member = h.stable(1).remove(0);
    h.leave(&[(&member, None)]);
    assert!(h.is_there());
    h.pass(LOOK);
    assert!(!h.is_there());
    assert_eq!(h.stable(1).len(), 1, "it begins anew");
}

#[test]
fn what_an_open_transaction_commits_keeps_a_group() {
    let mut h = history();
    assert_eq!(h.commit_in_transaction(1, "", -1, 7), 0);
    h.pass(2 * RETENTION);
    h.groups.end_transaction(&group(), 1, true);
    assert_eq!(h.offset(), 7);
    h.pass(LOOK);
    assert!(!h.is_there(), "it counts from when it was written");
}
