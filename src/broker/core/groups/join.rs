//! JoinGroup: the ways into a group.

use kafka_protocol::{error::ResponseError, messages::JoinGroupRequest, protocol::StrBytes};

use super::{
    group::{Group, State, accepts, full, join_error},
    member::{Member, protocols},
    rebalance::dismiss,
    step::{Caller, Step, millis},
};

/// From this version on a client without a name is given one first and joins under it (KIP-394): or every retry of a client
/// whose join takes long would leave a member behind.
const NAME_FIRST: i16 = 4;

/// From this version on a leader that came back can be told the members without being asked to assign (KIP-814).
const SKIP_ASSIGNMENT: i16 = 9;

impl Group {
    /// A client wants to be a member; `new_name` is for one that has no name yet.
    pub(super) fn join(
        &mut self,
        caller: &Caller,
        request: &JoinGroupRequest,
        new_name: StrBytes,
        step: &mut Step<'_>,
    ) {
        let unknown = request.member_id.is_empty();
        let refused = |error| join_error(request.member_id.clone(), error);
        if !accepts(self, request, step.options.max_size) {
            self.remove(&request.member_id);
            step.answer(caller.ticket, full());
        } else if !self.supports(&request.protocol_type, &request.protocols) {
            step.answer(caller.ticket, refused(ResponseError::InconsistentGroupProtocol));
        } else if unknown {
            self.join_new(caller, request, new_name, step);
        } else if self.pending.contains_key(&request.member_id) {
            self.admit(caller, request, request.member_id.clone(), step);
        } else if let Err(error) = self.validate(&request.member_id, request.group_instance_id.as_ref()) {
            step.answer(caller.ticket, refused(error));
        } else {
            self.rejoin(caller, request, step);
        }
    }

    fn join_new(&mut self, caller: &Caller, request: &JoinGroupRequest, name: StrBytes, step: &mut Step<'_>) {
        let instance = request.group_instance_id.as_ref();
        if let Some(old) = instance.and_then(|instance| self.statics.get(instance)).cloned() {
            self.replace(caller, request, (&old, name), step);
        } else if instance.is_none() && caller.version >= NAME_FIRST {
            if lacks_room(self.growth_by_name(&name), caller, step) {
                return;
            }
            self.pending.insert(name.clone(), step.now + millis(request.session_timeout_ms));
            step.answer(caller.ticket, join_error(name, ResponseError::MemberIdRequired));
        } else {
            self.admit(caller, request, name, step);
        }
    }

    fn admit(&mut self, caller: &Caller, request: &JoinGroupRequest, id: StrBytes, step: &mut Step<'_>) {
        let member = Member::new(id, caller, request, step.now);
        if lacks_room(self.growth_by_member(None, &member, &request.protocol_type), caller, step) {
            return;
        }
        if let Some(gathering) = &mut self.gathering {
            gathering.grew = true;
        }
        self.add(member, &request.protocol_type, caller.ticket);
        self.rebalance(step);
    }

    /// A member joins again: in a rebalance, because it was told to; otherwise it has lost a response, or wants a
    /// rebalance.
    fn rejoin(&mut self, caller: &Caller, request: &JoinGroupRequest, step: &mut Step<'_>) {
        let id = &request.member_id;
        let Some(member) = self.members.get_mut(id) else { return };
        let same = member.protocols == protocols(request);
        // A leader that joins a stable group wants one: it has seen a change of topics that changes no metadata.
        let informed = match self.state {
            State::PreparingRebalance | State::Empty => false,
            State::CompletingRebalance => same,
            State::Stable => same && !self.is_leader(id),
        };
        if informed {
            step.answer(caller.ticket, self.joined(id));
            return;
        }
        if lacks_room(self.growth_by_join((id, id), request), caller, step) {
            return;
        }
        self.wait_for_join(id, caller, request);
        self.rebalance(step);
    }

    /// How much larger the group is with what a member says now, under the name that it has then.
    fn growth_by_join(&self, (old, new): (&StrBytes, &StrBytes), request: &JoinGroupRequest) -> usize {
        let Some(before) = self.members.get(old) else { return 0 };
        let mut after = before.clone();
        after.id = new.clone();
        after.update(request);
        self.growth_by_member(Some(before), &after, &request.protocol_type)
    }

    /// Its join now waits. One that it sent before, over a connection that it has given up, is never answered: Kafka's
    /// coordinator forgets it too, and what came behind it over that connection is never worked on.
    fn wait_for_join(&mut self, id: &StrBytes, caller: &Caller, request: &JoinGroupRequest) {
        let Some(member) = self.members.get_mut(id) else { return };
        member.update(request);
        member.joining = Some(caller.ticket);
    }

    /// A static member came back without its name, after a restart: it takes its old place under a new one, and whoever
    /// still uses the old one is fenced. While the group is stable nobody else notices (KIP-345).
    fn replace(
        &mut self,
        caller: &Caller,
        request: &JoinGroupRequest,
        (old, new): (&StrBytes, StrBytes),
        step: &mut Step<'_>,
    ) {
        if lacks_room(self.growth_by_join((old, &new), request), caller, step) {
            return;
        }
        let leader_before = self.leader.clone();
        let Some(mut member) = self.members.remove(old) else { return };
        dismiss(&member, ResponseError::FencedInstanceId, step);
        member.id = new.clone();
        member.joining = None;
        member.syncing = None;
        member.is_new = false;
        member.touch(step.now);
        if let Some(instance) = member.instance.clone() {
            self.statics.insert(instance, new.clone());
        }
        self.members.insert(new.clone(), member);
        if self.is_leader(old) {
            self.leader = Some(new.clone());
        }
        if self.unsynced.remove(old) {
            self.unsynced.insert(new.clone());
        }
        self.wait_for_join(&new, caller, request);
        match self.state {
            State::Stable if self.protocol == self.select_protocol() => {
                self.welcome_back(&new, leader_before, caller, step);
            }
            // The leader may be assigning to the old name at this moment.
            _ => self.rebalance(step),
        }
    }

    fn welcome_back(&mut self, id: &StrBytes, leader_before: Option<StrBytes>, caller: &Caller, step: &mut Step<'_>) {
        let response = self.joined(id);
        let response = if caller.version >= SKIP_ASSIGNMENT {
            response.with_skip_assignment(self.is_leader(id))
        } else {
            // Under its old name the leader does not know itself, so it does not assign.
            response.with_leader(leader_before.unwrap_or_default()).with_members(Vec::new())
        };
        if let Some(member) = self.members.get_mut(id) {
            member.joining = None;
            step.answer(caller.ticket, response);
        }
        self.store();
    }
}

/// Whether the group would take more than it may; if so, the join is told. It changes nothing: a member stays what it was,
/// until its session ends.
fn lacks_room(growth: usize, caller: &Caller, step: &mut Step<'_>) -> bool {
    let lacks = growth > step.room;
    if lacks {
        step.answer(caller.ticket, full());
    }
    lacks
}
