//! One group: what it is between two events (Kafka's `ClassicGroup`). `rebalance` moves it on.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use kafka_protocol::{
    error::ResponseError,
    messages::{
        GroupId, JoinGroupRequest, JoinGroupResponse, join_group_request::JoinGroupRequestProtocol,
        join_group_response::JoinGroupResponseMember,
    },
    protocol::StrBytes,
};

use super::{member::Member, offsets::Offsets, reload::Stored};
use crate::{broker::core::agenda::Kept, clock::Instant};

/// The protocols of a member, its favourite first.
fn names_of(member: &Member) -> impl Iterator<Item = &StrBytes> {
    member.protocols.iter().map(|(name, _)| name)
}

/// What a group waits for. Kafka's fifth state, `Dead`, is here a group that is not there.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
pub(super) enum State {
    /// Nobody is in it; its offsets may be.
    #[default]
    Empty,
    /// Members are to join anew.
    PreparingRebalance,
    /// All have joined; the leader is to say who gets what.
    CompletingRebalance,
    /// Everyone knows its part.
    Stable,
}

impl State {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Empty => "Empty",
            Self::PreparingRebalance => "PreparingRebalance",
            Self::CompletingRebalance => "CompletingRebalance",
            Self::Stable => "Stable",
        }
    }
}

/// An empty group got its first member: others may come meanwhile.
#[derive(Copy, Clone, Debug)]
pub(super) struct Gathering {
    /// How long it may still be prolonged.
    pub(super) remaining: Duration,
    /// Somebody came since the last look.
    pub(super) grew: bool,
}

#[derive(Debug)]
pub(super) struct Group {
    pub(super) state: State,
    pub(super) generation: i32,
    /// `consumer` for consumers; a group keeps it when its last member leaves.
    pub(super) protocol_type: Option<StrBytes>,
    /// The assignor of this generation.
    pub(super) protocol: Option<StrBytes>,
    pub(super) leader: Option<StrBytes>,
    pub(super) members: BTreeMap<StrBytes, Member>,
    /// The member that an instance is, by the instance's name.
    pub(super) statics: BTreeMap<StrBytes, StrBytes>,
    /// Names that were given out and whose members have not joined under them yet (KIP-394), until when they may.
    pub(super) pending: BTreeMap<StrBytes, Instant>,
    /// Who has not sent its sync in this generation.
    pub(super) unsynced: BTreeSet<StrBytes>,
    /// How a rebalance began that began from `Empty`.
    pub(super) gathering: Option<Gathering>,
    /// When the rebalance goes on without those that have not joined.
    pub(super) join_due: Instant,
    /// When those are given up that have not synced.
    pub(super) sync_due: Instant,
    /// When its last member left it.
    pub(super) emptied: Instant,
    pub(super) offsets: Offsets,
    /// What a coordinator finds again that has moved.
    pub(super) stored: Stored,
}

impl Default for Group {
    fn default() -> Self {
        Self {
            state: State::Empty,
            generation: 0,
            protocol_type: None,
            protocol: None,
            leader: None,
            members: BTreeMap::new(),
            statics: BTreeMap::new(),
            pending: BTreeMap::new(),
            unsynced: BTreeSet::new(),
            gathering: None,
            join_due: Instant::FAR_FUTURE,
            sync_due: Instant::FAR_FUTURE,
            emptied: Instant::ZERO,
            offsets: Offsets::default(),
            stored: Stored::default(),
        }
    }
}

impl Group {
    pub(super) fn is_leader(&self, member: &StrBytes) -> bool {
        self.leader.as_ref() == Some(member)
    }

    /// The one that asks is who it says: a member, and if it is an instance, the one that the group knows under this name.
    pub(super) fn validate(&self, member: &StrBytes, instance: Option<&StrBytes>) -> Result<(), ResponseError> {
        if let Some(instance) = instance {
            let known = self.statics.get(instance).ok_or(ResponseError::UnknownMemberId)?;
            if known != member {
                return Err(ResponseError::FencedInstanceId);
            }
        }
        if self.members.contains_key(member) { Ok(()) } else { Err(ResponseError::UnknownMemberId) }
    }

    /// Nobody is missing: neither a member nor one that has only got its name.
    pub(super) fn all_joined(&self) -> bool {
        self.pending.is_empty() && self.members.values().all(|member| member.joining.is_some())
    }

    /// The longest that any member asked for.
    pub(super) fn rebalance_timeout(&self) -> Duration {
        let longest = self.members.values().map(|member| member.rebalance_timeout).max();
        longest.unwrap_or(Duration::from_millis(1))
    }

    /// Whether a joining member has something in common with all that are there.
    pub(super) fn supports(&self, kind: &StrBytes, protocols: &[JoinGroupRequestProtocol]) -> bool {
        if self.state == State::Empty {
            return !kind.is_empty() && !protocols.is_empty();
        }
        if self.protocol_type.as_ref() != Some(kind) {
            return false;
        }
        let common = self.common_protocols();
        protocols.iter().any(|protocol| self.members.is_empty() || common.contains(&protocol.name))
    }

    /// The protocols that all members know. A member may name thousands: each is looked at once.
    fn common_protocols(&self) -> BTreeSet<&StrBytes> {
        let mut members = self.members.values();
        let mut common: BTreeSet<_> = members.next().into_iter().flat_map(names_of).collect();
        for member in members {
            let known: BTreeSet<_> = names_of(member).collect();
            common.retain(|name| known.contains(name));
        }
        common
    }

    /// The protocol with the most votes: each member votes for the first of its own that all have.
    pub(super) fn select_protocol(&self) -> Option<StrBytes> {
        let common = self.common_protocols();
        let mut votes: BTreeMap<&StrBytes, usize> = BTreeMap::new();
        for member in self.members.values() {
            let vote = names_of(member).find(|name| common.contains(name));
            *votes.entry(vote?).or_default() += 1;
        }
        // `max_by_key` takes the last of equals, and equals should go to the first by name.
        votes.into_iter().rev().max_by_key(|(_, count)| *count).map(|(name, _)| name.clone())
    }

    pub(super) fn add(&mut self, mut member: Member, kind: &StrBytes, ticket: crate::broker::core::Ticket) {
        if let Some(instance) = &member.instance {
            self.statics.insert(instance.clone(), member.id.clone());
        }
        if self.members.is_empty() {
            self.protocol_type = Some(kind.clone());
        }
        self.leader.get_or_insert_with(|| member.id.clone());
        self.pending.remove(&member.id);
        member.joining = Some(ticket);
        self.members.insert(member.id.clone(), member);
    }

    /// Takes a member, or a name that was given out, out of everything. Its requests are the caller's to answer.
    pub(super) fn remove(&mut self, id: &StrBytes) -> Option<Member> {
        let member = self.members.remove(id);
        if let Some(instance) = member.as_ref().and_then(|member| member.instance.as_ref()) {
            self.statics.remove(instance);
        }
        if self.is_leader(id) {
            self.leader = self.members.keys().next().cloned();
        }
        self.pending.remove(id);
        self.unsynced.remove(id);
        member
    }

    /// Sees to it that the leader is one that has joined; `false` if nobody has.
    pub(super) fn elect_joined_leader(&mut self) -> bool {
        let joined = |member: &Member| member.joining.is_some();
        if self.leader.as_ref().and_then(|leader| self.members.get(leader)).is_some_and(joined) {
            return true;
        }
        let Some(other) = self.members.values().find(|member| joined(member)) else { return false };
        self.leader = Some(other.id.clone());
        true
    }

    /// What a member is told of the generation that it is in; the leader sees all members.
    pub(super) fn joined(&self, member: &StrBytes) -> JoinGroupResponse {
        let members = if self.is_leader(member) { self.listed() } else { Vec::new() };
        JoinGroupResponse::default()
            .with_generation_id(self.generation)
            .with_protocol_type(self.protocol_type.clone())
            .with_protocol_name(self.protocol.clone())
            .with_leader(self.leader.clone().unwrap_or_default())
            .with_member_id(member.clone())
            .with_members(members)
    }

    fn listed(&self) -> Vec<JoinGroupResponseMember> {
        let protocol = self.protocol.clone().unwrap_or_default();
        let listed = self.members.values().map(|member| {
            JoinGroupResponseMember::default()
                .with_member_id(member.id.clone())
                .with_group_instance_id(member.instance.clone())
                .with_metadata(member.metadata(&protocol))
        });
        listed.collect()
    }
}

impl Kept<GroupId> for Group {
    fn due(&self) -> Instant {
        let members = self.members.values().map(Member::due);
        members.chain(self.pending.values().copied()).fold(self.join_due.min(self.sync_due), Instant::min)
    }

    fn bytes(&self, name: &GroupId) -> usize {
        self.size(name)
    }
}

/// A join that came to nothing.
pub(super) fn join_error(member: StrBytes, error: ResponseError) -> JoinGroupResponse {
    JoinGroupResponse::default().with_member_id(member).with_error_code(error.code())
}

/// A join for which there is no room.
pub(super) fn full() -> JoinGroupResponse {
    join_error(StrBytes::new(), ResponseError::GroupMaxSizeReached)
}

/// Whether a group that has `members` of `max` takes this one.
pub(super) fn accepts(group: &Group, request: &JoinGroupRequest, max: usize) -> bool {
    let known = group.members.get(&request.member_id);
    match group.state {
        State::Empty => true,
        // Counted by those that have joined, so that the last to come back are the ones for whom there is no room.
        State::PreparingRebalance => {
            known.is_some_and(|member| member.joining.is_some())
                || group.members.values().filter(|member| member.joining.is_some()).count() < max
        }
        State::CompletingRebalance | State::Stable => known.is_some() || group.members.len() < max,
    }
}
