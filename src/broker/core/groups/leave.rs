//! LeaveGroup: the way out, for members themselves and for an admin that removes static members.

use kafka_protocol::{
    error::ResponseError,
    messages::{
        LeaveGroupRequest, LeaveGroupResponse, leave_group_request::MemberIdentity,
        leave_group_response::MemberResponse,
    },
};

use super::{
    group::{Group, State},
    step::Step,
};

/// From this version on one request takes several members out (KIP-345).
const SEVERAL: i16 = 3;

impl Group {
    pub(super) fn leave(&mut self, leaving: &[MemberIdentity], step: &mut Step<'_>) -> Vec<MemberResponse> {
        let outcomes: Vec<_> = leaving.iter().map(|member| self.leave_one(member, step)).collect();
        if outcomes.iter().any(Result::is_ok) && self.state != State::Empty {
            self.rebalance(step);
        }
        leaving.iter().zip(outcomes).map(|(member, outcome)| told(member, outcome.err())).collect()
    }

    fn leave_one(&mut self, leaving: &MemberIdentity, step: &mut Step<'_>) -> Result<(), ResponseError> {
        let instance = leaving.group_instance_id.as_ref();
        // An admin knows the instance and not the member.
        let id = if leaving.member_id.is_empty() {
            instance.and_then(|instance| self.statics.get(instance)).ok_or(ResponseError::UnknownMemberId)?.clone()
        } else {
            leaving.member_id.clone()
        };
        if self.pending.remove(&id).is_none() {
            self.validate(&id, instance)?;
            self.expel(&id, step);
        }
        Ok(())
    }
}

fn told(member: &MemberIdentity, error: Option<ResponseError>) -> MemberResponse {
    MemberResponse::default()
        .with_member_id(member.member_id.clone())
        .with_group_instance_id(member.group_instance_id.clone())
        .with_error_code(error.map_or(0, |error| error.code()))
}

/// Who is to leave: in versions before [`SEVERAL`] it is the request's one member.
pub(super) fn leaving(request: &LeaveGroupRequest, version: i16) -> Vec<MemberIdentity> {
    if version >= SEVERAL {
        return request.members.clone();
    }
    vec![MemberIdentity::default().with_member_id(request.member_id.clone())]
}

/// A group that is not there knows none of its members.
pub(super) fn unknown(leaving: &[MemberIdentity]) -> Vec<MemberResponse> {
    leaving.iter().map(|member| told(member, Some(ResponseError::UnknownMemberId))).collect()
}

/// The response of a version: before [`SEVERAL`] the one member's error is the request's.
pub(super) fn left(members: Vec<MemberResponse>, version: i16) -> LeaveGroupResponse {
    if version >= SEVERAL {
        return LeaveGroupResponse::default().with_members(members);
    }
    let error = members.iter().map(|member| member.error_code).find(|error| *error != 0);
    LeaveGroupResponse::default().with_error_code(error.unwrap_or(0))
}
