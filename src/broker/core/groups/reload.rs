//! What is left of a group when its coordinator moves: what Kafka had written down.

use std::collections::BTreeMap;

use kafka_protocol::{error::ResponseError, protocol::StrBytes};

use super::{
    coordinator::Groups,
    group::{Group, State},
    member::Member,
    rebalance::dismiss,
    step::Step,
};
use crate::{broker::core::request::Answers, clock::Instant};

/// A group as it was written down last: when its leader had assigned, when a static member came back, or when nobody was
/// left in it. A rebalance that goes on is not: members join anew, and its generation is given again.
#[derive(Clone, Debug, Default)]
pub(super) struct Stored {
    generation: i32,
    pub(super) protocol_type: Option<StrBytes>,
    protocol: Option<StrBytes>,
    leader: Option<StrBytes>,
    pub(super) members: BTreeMap<StrBytes, Member>,
    /// The bytes of the members.
    pub(super) size: usize,
}

impl Group {
    /// Writes it down.
    pub(super) fn store(&mut self) {
        let mut members = self.members.clone();
        for member in members.values_mut() {
            member.joining = None;
            member.syncing = None;
        }
        self.stored = Stored {
            generation: self.generation,
            protocol_type: self.protocol_type.clone(),
            protocol: self.protocol.clone(),
            leader: self.leader.clone(),
            members,
            size: self.members_size(),
        };
    }

    /// Finds it as it was written down, with every session beginning anew at `until`.
    fn reload(&mut self, until: Instant, step: &mut Step<'_>) {
        for member in self.members.values() {
            dismiss(member, ResponseError::NotCoordinator, step);
        }
        let stored = self.stored.clone();
        let offsets = std::mem::take(&mut self.offsets);
        let instance = |member: &Member| member.instance.clone().map(|instance| (instance, member.id.clone()));
        *self = Self {
            state: if stored.members.is_empty() { State::Empty } else { State::Stable },
            generation: stored.generation,
            protocol_type: stored.protocol_type.clone(),
            protocol: stored.protocol.clone(),
            leader: stored.leader.clone(),
            statics: stored.members.values().filter_map(instance).collect(),
            members: stored.members.clone(),
            emptied: self.emptied,
            offsets,
            stored,
            ..Self::default()
        };
        self.members.values_mut().for_each(|member| member.touch(until));
    }
}

impl Groups {
    /// The coordinator moves and is back at `until`: whoever waits is told NOT_COORDINATOR.
    pub(in crate::broker::core) fn reload(&mut self, until: Instant, answers: &mut Answers) {
        let options = self.options.clone();
        let mut step = Step { now: until, options: &options, room: 0, answers };
        self.groups.change_all(|group| group.reload(until, &mut step));
    }
}
