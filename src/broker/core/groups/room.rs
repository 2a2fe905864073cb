//! What a group takes, in bytes, and how much more it would take. What becomes of what is there already never makes it
//! larger: so nobody who has found room is ever without it.

use kafka_protocol::{messages::GroupId, protocol::StrBytes};

use super::{group::Group, member::Member};
use crate::{
    broker::core::sizes::{entries, map, text},
    clock::Instant,
};

/// So many members that say so much in all; `kind`: the length of their protocol type.
const fn members(count: usize, said: usize, kind: usize) -> usize {
    let places = map::<(StrBytes, Member)>(count) + map::<(StrBytes, StrBytes)>(count) + map::<StrBytes>(count);
    places + said + text(kind)
}

impl Group {
    /// All of it, under its name.
    pub(super) fn size(&self, name: &GroupId) -> usize {
        let place = entries::<(GroupId, Self, Instant, GroupId)>(1) + text(name.len());
        let given_out = self.pending.keys().map(|name| text(name.len())).sum::<usize>();
        let pending = map::<(StrBytes, Instant)>(self.pending.len()) + given_out;
        place + self.twice(self.members_size()) + pending + self.offsets.size()
    }

    /// Its members, as they are.
    pub(super) fn members_size(&self) -> usize {
        members(self.members.len(), self.said(), self.kind())
    }

    fn kind(&self) -> usize {
        self.protocol_type.as_ref().map_or(0, |kind| kind.len())
    }

    fn said(&self) -> usize {
        self.members.values().map(Member::size).sum()
    }

    /// Members count twice, as they are written down too, or will be. What outlives a member that has gone, the name of the
    /// protocol and what was written down, is counted by that.
    fn twice(&self, members: usize) -> usize {
        2 * members.max(self.stored.size)
    }

    fn growth(&self, members: usize) -> usize {
        self.twice(members).saturating_sub(self.twice(self.members_size()))
    }

    /// By a member in the place of one that is there, or of none; `kind`: its protocol type.
    pub(super) fn growth_by_member(&self, before: Option<&Member>, after: &Member, kind: &StrBytes) -> usize {
        let count = self.members.len() + usize::from(before.is_none());
        let said = self.said() + after.size() - before.map_or(0, Member::size);
        self.growth(members(count, said, kind.len()))
    }

    /// By a name that is given out.
    pub(super) fn growth_by_name(&self, name: &StrBytes) -> usize {
        let count = self.pending.len();
        map::<(StrBytes, Instant)>(count + 1) - map::<(StrBytes, Instant)>(count) + text(name.len())
    }

    /// By assignments of these lengths.
    pub(super) fn growth_by_assignment(&self, length: impl Fn(&StrBytes) -> usize) -> usize {
        let change = |member: &Member| member.size() - text(member.assignment.len()) + text(length(&member.id));
        let said = self.members.values().map(change).sum();
        self.growth(members(self.members.len(), said, self.kind()))
    }
}
