//! Offsets and groups that nobody needs any more (`offsets.retention.minutes`; Kafka's `OffsetExpirationCondition`, KIP-211).

use super::{
    coordinator::Groups,
    group::{Group, State},
    offsets::Committed,
};
use crate::clock::Instant;

impl Groups {
    /// Forgets the offsets that are expired, and then the groups of which nothing is left.
    pub(super) fn expire(&mut self, now: Instant) {
        let retention = self.options.offsets_retention;
        self.groups.retain(|group| {
            group.expire_offsets(|since| now.saturating_since(since) >= retention);
            !group.is_abandoned()
        });
    }
}

impl Group {
    /// Offsets expire with their group: from when its last member left, or for who never was in a group from when it
    /// committed. While there are members, those of topics that none of them reads do.
    fn expire_offsets(&mut self, expired: impl Fn(Instant) -> bool) {
        let since: &dyn Fn(&Committed) -> Instant = match (&self.protocol_type, self.state) {
            (Some(_), State::Empty) => &|_| self.emptied,
            (Some(_), State::Stable) if self.is_of_consumers() => &|committed| committed.at,
            (Some(_), _) => return,
            (None, _) => &|committed| committed.at,
        };
        let mut offsets = std::mem::take(&mut self.offsets);
        let subscribed = self.subscribed();
        offsets.expire(|topic, committed| expired(since(committed)) && !subscribed.reads(topic));
        self.offsets = offsets;
    }

    fn is_abandoned(&self) -> bool {
        self.state == State::Empty && self.pending.is_empty() && self.offsets.is_empty()
    }
}
