//! One member of a group (Kafka's `ClassicGroupMember`).

use std::time::Duration;

use bytes::Bytes;
use kafka_protocol::{messages::JoinGroupRequest, protocol::StrBytes};

use super::step::{Caller, millis};
use crate::{
    broker::core::{Ticket, sizes::text},
    clock::Instant,
};

/// How long a new member may wait for its first generation: it cannot heartbeat yet, and a client that has gone must not
/// hold up the group (Kafka's constant).
pub(super) const NEW_MEMBER_TIMEOUT: Duration = Duration::from_mins(5);

/// The name of something that a member can do, and the member's own metadata for it.
pub(super) type Protocol = (StrBytes, Bytes);

#[derive(Clone, Debug)]
pub(super) struct Member {
    pub(super) id: StrBytes,
    /// `group.instance.id`: a static member (KIP-345).
    pub(super) instance: Option<StrBytes>,
    pub(super) client_id: StrBytes,
    /// Where it is, as Java writes an address.
    pub(super) client_host: StrBytes,
    pub(super) session_timeout: Duration,
    pub(super) rebalance_timeout: Duration,
    /// What it can do, best first.
    pub(super) protocols: Vec<Protocol>,
    /// The bytes of those.
    protocols_size: usize,
    /// What the leader gave it in this generation.
    pub(super) assignment: Bytes,
    /// Its join that waits for the others.
    pub(super) joining: Option<Ticket>,
    /// Its sync that waits for the leader.
    pub(super) syncing: Option<Ticket>,
    /// It has seen no generation yet.
    pub(super) is_new: bool,
    /// When it is given up unless it is heard of.
    pub(super) expires: Instant,
}

impl Member {
    /// A member that was never in a generation.
    pub(super) fn new(id: StrBytes, caller: &Caller, request: &JoinGroupRequest, now: Instant) -> Self {
        let mut member = Self {
            id,
            instance: request.group_instance_id.clone(),
            client_id: caller.client_id.clone(),
            client_host: caller.client_host.clone(),
            session_timeout: Duration::ZERO,
            rebalance_timeout: Duration::ZERO,
            protocols: Vec::new(),
            protocols_size: 0,
            assignment: Bytes::new(),
            joining: None,
            syncing: None,
            is_new: true,
            expires: now + NEW_MEMBER_TIMEOUT,
        };
        member.update(request);
        member
    }

    /// Takes over what a join says about it.
    pub(super) fn update(&mut self, request: &JoinGroupRequest) {
        self.session_timeout = millis(request.session_timeout_ms);
        // Version 0 of the request has no rebalance timeout: the session's serves for both. A timeout of nothing would be
        // due for ever.
        let rebalance = millis(request.rebalance_timeout_ms);
        let given = if request.rebalance_timeout_ms < 0 { self.session_timeout } else { rebalance };
        self.rebalance_timeout = given.max(Duration::from_millis(1));
        self.protocols = protocols(request);
        let said = self.protocols.iter().map(|(name, metadata)| text(name.len()) + text(metadata.len()));
        self.protocols_size = size_of::<Protocol>() * self.protocols.len() + said.sum::<usize>();
    }

    /// It was heard of: its session begins anew.
    pub(super) fn touch(&mut self, now: Instant) {
        self.expires = now + self.session_timeout;
    }

    /// When it has failed. Who waits for the group cannot heartbeat, so only a new member's wait is bounded.
    pub(super) const fn due(&self) -> Instant {
        let waits = self.joining.is_some() || self.syncing.is_some();
        if waits && !self.is_new { Instant::FAR_FUTURE } else { self.expires }
    }

    /// Its metadata for a protocol; nothing if it does not have it.
    pub(super) fn metadata(&self, protocol: &str) -> Bytes {
        let found = self.protocols.iter().find(|(known, _)| known.as_str() == protocol);
        found.map_or_else(Bytes::new, |(_, metadata)| metadata.clone())
    }

    /// The bytes of all that it says and is told.
    pub(super) fn size(&self) -> usize {
        let names = [&self.id, &self.client_id, &self.client_host].map(|name| text(name.len()));
        let instance = self.instance.as_ref().map_or(0, |instance| text(instance.len()));
        names.iter().sum::<usize>() + instance + self.protocols_size + text(self.assignment.len())
    }
}

/// What a join says that its member can do, and nothing else that came with it.
pub(super) fn protocols(request: &JoinGroupRequest) -> Vec<Protocol> {
    request.protocols.iter().map(|protocol| (protocol.name.clone(), protocol.metadata.clone())).collect()
}
