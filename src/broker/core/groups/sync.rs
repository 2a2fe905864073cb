//! SyncGroup and Heartbeat: a member within its generation.

use std::collections::BTreeMap;

use kafka_protocol::{
    error::ResponseError,
    messages::{HeartbeatRequest, SyncGroupRequest, SyncGroupResponse},
    protocol::StrBytes,
};

use super::{
    group::{Group, State},
    rebalance::synced,
    step::{Caller, Step},
};
use crate::clock::Instant;

impl Group {
    /// A member asks for its part. Who asks before the leader has spoken waits.
    pub(super) fn sync(&mut self, caller: &Caller, request: &SyncGroupRequest, step: &mut Step<'_>) {
        if let Err(error) = self.may_sync(request) {
            step.answer(caller.ticket, SyncGroupResponse::default().with_error_code(error.code()));
            return;
        }
        self.unsynced.remove(&request.member_id);
        if self.unsynced.is_empty() {
            self.sync_due = Instant::FAR_FUTURE;
        }
        let (kind, protocol) = (self.protocol_type.clone(), self.protocol.clone());
        let Some(member) = self.members.get_mut(&request.member_id) else { return };
        if self.state == State::Stable {
            step.answer(caller.ticket, synced(member, kind, protocol, None));
            return;
        }
        // One that it sent before is never answered, as a join that is sent again.
        member.syncing = Some(caller.ticket);
        if self.is_leader(&request.member_id) {
            let given: BTreeMap<_, _> =
                request.assignments.iter().map(|given| (&given.member_id, &given.assignment)).collect();
            if self.growth_by_assignment(|member| given.get(member).map_or(0, |given| given.len())) <= step.room {
                self.assign(|member| given.get(member).copied().cloned().unwrap_or_default(), step);
            } else {
                self.fail_assignment(step);
            }
        }
    }

    fn may_sync(&self, request: &SyncGroupRequest) -> Result<(), ResponseError> {
        let differs = |said: &Option<StrBytes>, ours: &Option<StrBytes>| said.is_some() && said != ours;
        self.validate(&request.member_id, request.group_instance_id.as_ref())?;
        if request.generation_id != self.generation {
            Err(ResponseError::IllegalGeneration)
        } else if differs(&request.protocol_type, &self.protocol_type)
            || differs(&request.protocol_name, &self.protocol)
        {
            Err(ResponseError::InconsistentGroupProtocol)
        } else if self.state == State::PreparingRebalance {
            Err(ResponseError::RebalanceInProgress)
        } else {
            Ok(())
        }
    }

    /// A member lives; it is told if it is to join anew.
    pub(super) fn heartbeat(&mut self, request: &HeartbeatRequest, now: Instant) -> Result<(), ResponseError> {
        self.validate(&request.member_id, request.group_instance_id.as_ref())?;
        if request.generation_id != self.generation {
            return Err(ResponseError::IllegalGeneration);
        }
        self.touch(&request.member_id, now);
        if self.state == State::PreparingRebalance { Err(ResponseError::RebalanceInProgress) } else { Ok(()) }
    }

    /// A member was heard of.
    pub(super) fn touch(&mut self, id: &StrBytes, now: Instant) {
        if let Some(member) = self.members.get_mut(id) {
            member.touch(now);
        }
    }
}
