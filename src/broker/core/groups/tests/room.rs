//! What groups take together has a bound, and whoever is there already does not notice it.

use std::{collections::BTreeMap, time::Duration};

use bytes::Bytes;
use kafka_protocol::{
    error::{ParseResponseErrorCode as _, ResponseError},
    messages::{DeleteGroupsRequest, GroupId},
    protocol::StrBytes,
};
use proptest::{collection::vec, prelude::*};

use super::{
    super::{
        GroupOptions,
        group::Group,
        member::{Member, Protocol},
    },
    history::{History, Join, SESSION, group, topic},
};
use crate::{
    broker::core::{
        Ticket,
        sizes::{entries, map, text},
    },
    clock::Instant,
};

const FULL: i16 = ResponseError::GroupMaxSizeReached.code();
const TOO_LARGE: i16 = ResponseError::InvalidCommitOffsetSize.code();
const MAX_BYTES: usize = 60_000;

/// Longer than there is room for.
const LONG: &str = match str::from_utf8(&[b'x'; MAX_BYTES]) {
    Ok(text) => text,
    Err(_) => panic!(),
};

fn long(length: usize) -> &'static str {
    LONG.get(..length).unwrap()
}

fn saying(length: usize) -> Join {
    Join::protocols(&[("range", long(length))])
}

fn history() -> History {
    with(MAX_BYTES)
}

fn with(max_bytes: usize) -> History {
    History::with(GroupOptions { max_bytes, ..GroupOptions::default() })
}

impl History {
    fn taken(&self) -> usize {
        self.groups.groups.bytes()
    }

    /// Leaves room for so much more.
    fn narrow(&mut self, more: usize) {
        self.groups.options.max_bytes = self.taken() + more;
    }

    fn delete_group(&mut self) -> i16 {
        let request = DeleteGroupsRequest::default().with_groups_names(vec![group()]);
        self.groups.delete(&request).results[0].error_code
    }
}

#[test]
fn a_join_for_which_there_is_no_room_leaves_all_as_it_was() {
    let mut h = history();
    let member = h.stable(1).remove(0);
    let before = h.taken();
    let (version, session) = (3, SESSION);
    let new = h.join("", &Join { version, session, ..saying(30_000) });
    assert_eq!(h.joined(new).unwrap().member_id.as_str(), "");
    let grown = h.join(&member, &saying(30_000));
    assert_eq!((h.join_code(new), h.join_code(grown)), (Some(FULL), Some(FULL)));
    assert_eq!((h.taken(), h.heartbeat(&member, 1)), (before, 0));
}

#[test]
fn a_member_joins_anew_where_there_is_no_room_at_all() {
    let mut h = history();
    let member = h.stable(1).remove(0);
    h.narrow(0);
    let again = h.join(&member, &Join::default());
    assert_eq!(h.join_code(again), Some(0));
    h.sync_all(std::slice::from_ref(&member), 2);
    assert_eq!(h.heartbeat(&member, 2), 0);
    let first = h.join("", &Join { version: 3, ..Join::default() });
    assert_eq!(h.join_code(first), Some(FULL));
}

#[test]
fn an_instance_that_restarts_needs_no_room() {
    let mut h = history();
    let first = h.join("", &Join::instance("a"));
    let name = h.joined(first).unwrap().member_id.to_string();
    h.sync_all(std::slice::from_ref(&name), 1);
    h.narrow(0);
    let back = h.join("", &Join::instance("a"));
    assert_eq!(h.join_code(back), Some(0));
    let grown = h.join("", &Join { instance: Some("a"), ..saying(10) });
    assert_eq!(h.join_code(grown), Some(FULL));
}

#[test]
fn members_that_leave_make_room() {
    let mut h = history();
    let join = Join { version: 3, ..saying(15_000) };
    let large = h.join("", &join);
    let name = h.joined(large).unwrap().member_id.to_string();
    let another = h.join("", &join);
    assert_eq!(h.join_code(another), Some(FULL));
    assert_eq!(h.leave(&[(&name, None)]), [0]);
    let another = h.join("", &join);
    assert_eq!(h.join_code(another), Some(0));
}

#[test]
fn names_that_are_given_out_take_room_until_their_time_is_over() {
    let mut h = history();
    let given = |h: &mut History| {
        let name = |_| h.join("", &Join::default());
        let tickets: Vec<Ticket> = (0..1_000).map(name).collect();
        let code = |ticket: &Ticket| h.join_code(*ticket).unwrap();
        tickets.iter().map(code).take_while(|code| *code == ResponseError::MemberIdRequired.code()).count()
    };
    let first = given(&mut h);
    assert!((50..1_000).contains(&first), "{first}");
    assert_eq!(given(&mut h), 0);
    h.pass(SESSION);
    assert_eq!(given(&mut h), first);
}

#[test]
fn a_group_for_which_there_is_no_room_is_not_made() {
    let mut h = with(100);
    let ticket = h.join("", &Join::default());
    assert_eq!(h.join_code(ticket), Some(FULL));
    assert_eq!(h.commit(("", -1), 0, 5, ""), TOO_LARGE);
    assert_eq!(h.commit_in_transaction(1, "", -1, 5), TOO_LARGE);
    assert_eq!((h.taken(), h.groups.groups.iter().count()), (0, 0));
}

#[test]
fn assignments_for_which_there_is_no_room_are_an_error_of_all_and_the_group_begins_anew() {
    let mut h = history();
    let members = h.stable(2);
    let join_all = |h: &mut History| {
        for member in &members {
            h.join(member, &Join::default());
        }
    };
    join_all(&mut h);
    let waits = h.sync(&members[1], 3, &[]);
    let leads = h.sync(&members[0], 3, &[(&members[1], LONG)]);
    let unknown = Some(ResponseError::UnknownServerError.code());
    assert_eq!((h.sync_code(leads), h.sync_code(waits)), (unknown, unknown));
    for member in &members {
        assert_eq!(h.heartbeat(member, 3), ResponseError::RebalanceInProgress.code());
    }
    join_all(&mut h);
    h.sync_all(&members, 4);
    assert_eq!([0, 1].map(|which| h.heartbeat(&members[which], 4)), [0, 0]);
}

#[test]
fn an_offset_for_which_there_is_no_room_is_refused_and_those_that_are_there_go_on() {
    let mut h = history();
    assert_eq!(h.commit(("", -1), 0, 5, "note"), 0);
    h.narrow(0);
    assert_eq!(h.commit(("", -1), 1, 5, ""), TOO_LARGE);
    assert_eq!(h.commit(("", -1), 0, 6, "notes"), TOO_LARGE);
    assert_eq!(h.commit_in_transaction(1, "", -1, 9), TOO_LARGE);
    assert_eq!((h.commit(("", -1), 0, 6, "done"), h.offset()), (0, 6));
    assert_eq!((h.commit(("", -1), 0, 7, ""), h.offset()), (0, 7));
}

#[test]
fn offsets_that_go_make_room() {
    let mut h = history();
    h.commit(("", -1), 0, 5, "");
    let one = h.taken();
    assert_eq!(h.commit(("", -1), 1, 5, long(4_000)), 0);
    assert_eq!(h.commit_in_transaction(1, "", -1, 9), 0);
    h.groups.forget_deleted(|_| false);
    assert!(h.taken() < one);
    h.commit(("", -1), 0, 5, "");
    assert_eq!((h.taken(), h.delete_group()), (one, 0));
    assert_eq!(h.taken(), 0);
    h.commit(("", -1), 0, 5, "");
    h.pass(GroupOptions::default().offsets_retention + GroupOptions::default().offsets_retention_check_interval);
    assert_eq!(h.taken(), 0);
}

#[test]
fn a_transaction_ends_where_there_is_no_room() {
    let mut h = history();
    assert_eq!(h.commit_in_transaction(1, "", -1, 9), 0);
    h.narrow(0);
    let before = h.taken();
    assert_eq!(h.commit_in_transaction(1, "", -1, 10), 0);
    h.groups.end_transaction(&group(), 1, true);
    assert!(h.taken() < before);
    assert_eq!(h.offset(), 10);
}

/// A client of a later version may say of its protocols what nobody here understands.
#[test]
fn what_is_not_understood_of_a_join_is_not_kept() {
    let mut h = history();
    let mut request = saying(10).request("");
    request.protocols[0].unknown_tagged_fields.insert(7, Bytes::from(LONG));
    let caller = h.caller(3);
    h.call(|groups, now, answers| groups.join(&caller, &request, now, answers));
    assert_eq!(h.join_code(caller.ticket), Some(0));
    let group = h.groups.groups.get(&group()).unwrap();
    let members: Vec<&Member> = group.members.values().collect();
    let protocol: Protocol = (StrBytes::from_static_str("range"), Bytes::from(long(10)));
    assert_eq!(members[0].protocols, [protocol]);
}

/// By a look at everything.
fn recount(name: &GroupId, group: &Group) -> usize {
    let members = recount_members(&group.members, group.protocol_type.as_ref());
    let stored = recount_members(&group.stored.members, group.stored.protocol_type.as_ref());
    let place = entries::<(GroupId, Group, Instant, GroupId)>(1) + text(name.len());
    let pending = map::<(StrBytes, Instant)>(group.pending.len());
    let given_out: usize = group.pending.keys().map(|name| text(name.len())).sum();
    place + 2 * members.max(stored) + pending + given_out + group.offsets.recount()
}

fn recount_members(members: &BTreeMap<StrBytes, Member>, kind: Option<&StrBytes>) -> usize {
    let count = members.len();
    let places = map::<(StrBytes, Member)>(count) + map::<(StrBytes, StrBytes)>(count) + map::<StrBytes>(count);
    let said = members.values().map(|member| {
        let protocols = member
            .protocols
            .iter()
            .map(|(name, metadata)| size_of::<Protocol>() + text(name.len()) + text(metadata.len()));
        let texts = [&member.id, &member.client_id, &member.client_host].map(|name| text(name.len()));
        let instance = member.instance.as_ref().map_or(0, |instance| text(instance.len()));
        protocols.sum::<usize>() + texts.iter().sum::<usize>() + instance + text(member.assignment.len())
    });
    places + said.sum::<usize>() + kind.map_or(0, |kind| text(kind.len()))
}

#[derive(Clone, Debug)]
enum Event {
    Join(usize, usize),
    Sync(usize, usize),
    Leave(usize),
    Commit(usize, i32, usize),
    CommitInTransaction(i64),
    EndTransaction(i64, bool),
    DeleteGroup,
    DeleteTopic,
    Move,
    Pass(u64),
}

fn event() -> impl Strategy<Value = Event> {
    let client = || 0..CLIENTS.len();
    let length = || prop_oneof![Just(0_usize), Just(100), Just(3_000), Just(20_000)];
    prop_oneof![
        12 => (client(), length()).prop_map(|(client, length)| Event::Join(client, length)),
        6 => (client(), length()).prop_map(|(client, length)| Event::Sync(client, length)),
        2 => client().prop_map(Event::Leave),
        6 => (client(), 0..2_i32, 0..4_000_usize).prop_map(|(client, part, note)| Event::Commit(client, part, note)),
        3 => (0..4_i64).prop_map(Event::CommitInTransaction),
        2 => (0..4_i64, any::<bool>()).prop_map(|(producer, commit)| Event::EndTransaction(producer, commit)),
        1 => Just(Event::DeleteGroup),
        1 => Just(Event::DeleteTopic),
        1 => Just(Event::Move),
        3 => (0..20_000_u64).prop_map(Event::Pass),
    ]
}

/// The instances of clients, of those that have one.
const CLIENTS: [Option<&str>; 5] = [None, None, None, Some("x"), Some("y")];

struct World {
    history: History,
    /// Name and generation of each client.
    clients: Vec<(String, i32)>,
    joins: Vec<Option<Ticket>>,
}

impl World {
    fn happen(&mut self, event: &Event) {
        let h = &mut self.history;
        match *event {
            Event::Join(which, length) => {
                let join = Join { instance: CLIENTS[which], ..saying(length) };
                self.joins[which] = Some(h.join(&self.clients[which].0, &join));
            }
            Event::Sync(which, length) => {
                let (name, generation) = &self.clients[which];
                h.sync(name, *generation, &[(name, long(length))]);
            }
            Event::Leave(which) => {
                let (name, _) = std::mem::take(&mut self.clients[which]);
                h.leave(&[(&name, CLIENTS[which])]);
            }
            Event::Commit(which, partition, note) => {
                let (name, generation) = &self.clients[which];
                let generation = if name.is_empty() { -1 } else { *generation };
                h.commit((name, generation), partition, 5, long(note));
            }
            Event::CommitInTransaction(producer) => drop(h.commit_in_transaction(producer, "", -1, 7)),
            Event::EndTransaction(producer, commit) => h.groups.end_transaction(&group(), producer, commit),
            Event::DeleteGroup => drop(h.delete_group()),
            Event::DeleteTopic => h.groups.forget_deleted(|name| *name != topic("t")),
            Event::Move => h.call(|groups, now, answers| groups.reload(now, answers)),
            Event::Pass(ms) => h.pass(Duration::from_millis(ms)),
        }
        for (client, join) in self.clients.iter_mut().zip(&self.joins) {
            let Some(response) = join.and_then(|join| self.history.joined(join)) else { continue };
            match response.error_code.err() {
                None => *client = (response.member_id.to_string(), response.generation_id),
                Some(ResponseError::MemberIdRequired) => client.0 = response.member_id.to_string(),
                Some(ResponseError::GroupMaxSizeReached) => {}
                Some(_) => *client = (String::new(), 0),
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_groups_take_is_counted_right_and_has_its_bound(events in vec(event(), 1..80)) {
        let clients = vec![(String::new(), 0); CLIENTS.len()];
        let mut world = World { history: history(), clients, joins: vec![None; CLIENTS.len()] };
        for event in &events {
            world.happen(event);
            let groups = &world.history.groups.groups;
            prop_assert_eq!(groups.bytes(), groups.iter().map(|(name, group)| recount(name, group)).sum::<usize>());
            prop_assert!(groups.bytes() <= MAX_BYTES, "{} bytes after {event:?}", groups.bytes());
        }
    }
}
