//! One group and what happens to it.

use std::{collections::BTreeMap, time::Duration};

use bytes::Bytes;
use kafka_protocol::{
    messages::{
        GroupId, HeartbeatRequest, JoinGroupRequest, JoinGroupResponse, LeaveGroupRequest, ResponseKind,
        SyncGroupRequest, SyncGroupResponse, TopicName, join_group_request::JoinGroupRequestProtocol,
        leave_group_request::MemberIdentity, sync_group_request::SyncGroupRequestAssignment,
    },
    protocol::StrBytes,
};

use crate::{
    broker::core::{
        Ticket,
        groups::{Caller, GroupOptions, Groups},
        request::Answers,
    },
    clock::Instant,
};

pub(super) const SESSION: Duration = Duration::from_secs(10);
pub(super) const REBALANCE: Duration = Duration::from_secs(60);

pub(super) fn text(text: &str) -> StrBytes {
    StrBytes::from_string(text.to_owned())
}

pub(super) fn group() -> GroupId {
    GroupId(text("g"))
}

pub(super) fn topic(name: &str) -> TopicName {
    TopicName(text(name))
}

/// What a join says, but for the name.
#[derive(Clone, Debug)]
pub(super) struct Join {
    pub(super) instance: Option<&'static str>,
    pub(super) version: i16,
    pub(super) protocols: Vec<(&'static str, &'static str)>,
    pub(super) session: Duration,
}

impl Default for Join {
    fn default() -> Self {
        Self { instance: None, version: 9, protocols: vec![("range", "")], session: SESSION }
    }
}

impl Join {
    pub(super) fn instance(instance: &'static str) -> Self {
        Self { instance: Some(instance), ..Self::default() }
    }

    pub(super) fn protocols(protocols: &[(&'static str, &'static str)]) -> Self {
        Self { protocols: protocols.to_vec(), ..Self::default() }
    }

    pub(super) fn request(&self, member: &str) -> JoinGroupRequest {
        let protocols = self.protocols.iter().map(|(name, metadata)| {
            JoinGroupRequestProtocol::default()
                .with_name(text(name))
                .with_metadata(Bytes::from_static(metadata.as_bytes()))
        });
        JoinGroupRequest::default()
            .with_group_id(group())
            .with_member_id(text(member))
            .with_group_instance_id(self.instance.map(text))
            .with_protocol_type(text("consumer"))
            .with_session_timeout_ms(i32::try_from(self.session.as_millis()).unwrap())
            .with_rebalance_timeout_ms(i32::try_from(REBALANCE.as_millis()).unwrap())
            .with_protocols(protocols.collect())
    }
}

pub(super) struct History {
    pub(super) groups: Groups,
    pub(super) now: Instant,
    next: u64,
    pub(super) answered: BTreeMap<Ticket, ResponseKind>,
}

impl History {
    pub(super) fn new() -> Self {
        Self::with(GroupOptions::default())
    }

    pub(super) fn with(options: GroupOptions) -> Self {
        Self { groups: Groups::new(options, 7), now: Instant::ZERO, next: 0, answered: BTreeMap::new() }
    }

    /// Calls, and keeps what is answered; every request has one response.
    pub(super) fn call<T>(&mut self, call: impl FnOnce(&mut Groups, Instant, &mut Answers) -> T) -> T {
        let mut answers = Answers::new();
        let result = call(&mut self.groups, self.now, &mut answers);
        for (ticket, response) in answers {
            assert!(self.answered.insert(ticket, response).is_none(), "answered twice: {ticket:?}");
        }
        result
    }

    pub(super) fn caller(&mut self, version: i16) -> Caller {
        self.next += 1;
        Caller { ticket: Ticket(self.next), version, client_id: text("c"), client_host: text("/h") }
    }

    pub(super) fn join(&mut self, member: &str, join: &Join) -> Ticket {
        let caller = self.caller(join.version);
        let request = join.request(member);
        self.call(|groups, now, answers| groups.join(&caller, &request, now, answers));
        caller.ticket
    }

    pub(super) fn sync(&mut self, member: &str, generation: i32, assignments: &[(&str, &str)]) -> Ticket {
        let caller = self.caller(5);
        let assignments = assignments.iter().map(|(member, given)| {
            SyncGroupRequestAssignment::default()
                .with_member_id(text(member))
                .with_assignment(Bytes::copy_from_slice(given.as_bytes()))
        });
        let request = SyncGroupRequest::default()
            .with_group_id(group())
            .with_member_id(text(member))
            .with_generation_id(generation)
            .with_assignments(assignments.collect());
        self.call(|groups, now, answers| groups.sync(&caller, &request, now, answers));
        caller.ticket
    }

    pub(super) fn heartbeat(&mut self, member: &str, generation: i32) -> i16 {
        let request = HeartbeatRequest::default()
            .with_group_id(group())
            .with_member_id(text(member))
            .with_generation_id(generation);
        self.call(|groups, now, _| groups.heartbeat(&request, now)).error_code
    }

    /// Members leave by their names, or by their instances' where the name is empty.
    pub(super) fn leave(&mut self, leaving: &[(&str, Option<&str>)]) -> Vec<i16> {
        let members = leaving.iter().map(|(member, instance)| {
            MemberIdentity::default().with_member_id(text(member)).with_group_instance_id(instance.map(text))
        });
        let request = LeaveGroupRequest::default().with_group_id(group()).with_members(members.collect());
        let response = self.call(|groups, now, answers| groups.leave(5, &request, now, answers));
        response.members.iter().map(|member| member.error_code).collect()
    }

    /// Time goes on, and what is due happens when it is due.
    pub(super) fn pass(&mut self, span: Duration) {
        let end = self.now + span;
        while self.groups.due() <= end {
            self.now = self.now.max(self.groups.due());
            self.call(|groups, now, answers| groups.tick(now, answers));
        }
        self.now = end;
    }

    pub(super) fn joined(&self, ticket: Ticket) -> Option<&JoinGroupResponse> {
        self.answered.get(&ticket).map(|response| match response {
            ResponseKind::JoinGroup(response) => response,
            other => panic!("not a join: {other:?}"),
        })
    }

    pub(super) fn synced(&self, ticket: Ticket) -> Option<&SyncGroupResponse> {
        self.answered.get(&ticket).map(|response| match response {
            ResponseKind::SyncGroup(response) => response,
            other => panic!("not a sync: {other:?}"),
        })
    }

    /// A join's error code; `None`: it waits.
    pub(super) fn join_code(&self, ticket: Ticket) -> Option<i16> {
        self.joined(ticket).map(|response| response.error_code)
    }

    pub(super) fn sync_code(&self, ticket: Ticket) -> Option<i16> {
        self.synced(ticket).map(|response| response.error_code)
    }

    /// Joins without a name and again with the one that is given; the name and the second join.
    pub(super) fn arrive(&mut self, join: &Join) -> (String, Ticket) {
        let ticket = self.join("", join);
        let name = self.joined(ticket).unwrap().member_id.to_string();
        (name.clone(), self.join(&name, join))
    }

    /// The one that is the leader by a join's response.
    pub(super) fn leader(&self, ticket: Ticket) -> String {
        self.joined(ticket).unwrap().leader.to_string()
    }

    /// A stable group of `count` dynamic members in generation `count`; its leader is the first.
    pub(super) fn stable(&mut self, count: usize) -> Vec<String> {
        let mut members: Vec<String> = Vec::new();
        for generation in 1..=i32::try_from(count).unwrap() {
            let (name, _) = self.arrive(&Join::default());
            for member in members.clone() {
                self.join(&member, &Join::default());
            }
            members.push(name);
            self.sync_all(&members.clone(), generation);
        }
        members
    }

    /// Everyone syncs; each is assigned its own name.
    pub(super) fn sync_all(&mut self, members: &[String], generation: i32) {
        let given: Vec<(&str, &str)> = members.iter().map(|member| (member.as_str(), member.as_str())).collect();
        for member in members.iter().rev() {
            self.sync(member, generation, &given);
        }
    }
}
