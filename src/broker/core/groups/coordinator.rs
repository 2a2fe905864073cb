//! All groups, and the requests of their members (Kafka's `GroupCoordinatorService`).

use kafka_protocol::{
    error::ResponseError,
    messages::{
        GroupId, HeartbeatRequest, HeartbeatResponse, JoinGroupRequest, LeaveGroupRequest, LeaveGroupResponse,
        SyncGroupRequest, SyncGroupResponse, TopicName,
    },
};

use super::{
    GroupOptions,
    group::{Group, full, join_error},
    leave::{leaving, left, unknown},
    member_ids::MemberIds,
    step::{Caller, Step, millis},
};
use crate::{
    broker::core::{
        agenda::{Agenda, Changing},
        request::Answers,
    },
    clock::Instant,
};

/// All groups. One is there once somebody has asked to join it or has committed for it, and until it is deleted or
/// expires.
#[derive(Debug)]
pub(in crate::broker::core) struct Groups {
    pub(super) options: GroupOptions,
    pub(super) groups: Agenda<GroupId, Group>,
    ids: MemberIds,
    /// When offsets expire next.
    expiry: Instant,
}

impl Groups {
    pub(in crate::broker::core) fn new(options: GroupOptions, seed: u64) -> Self {
        let expiry = Instant::ZERO + options.offsets_retention_check_interval;
        Self { options, groups: Agenda::new(), ids: MemberIds::new(seed), expiry }
    }

    /// Bytes that a group may take more; `None`: it is not there, and there is no room to make it.
    pub(super) fn room(&self, group: &GroupId) -> Option<usize> {
        self.groups.room(group, self.options.max_bytes, Group::default)
    }

    /// JoinGroup; the response comes when the generation is complete.
    pub(in crate::broker::core) fn join(
        &mut self,
        caller: &Caller,
        request: &JoinGroupRequest,
        now: Instant,
        answers: &mut Answers,
    ) {
        let room = self.room(&request.group_id);
        let mut step = Step { now, options: &self.options, room: room.unwrap_or(0), answers };
        let bounds = self.options.min_session_timeout..=self.options.max_session_timeout;
        let unknown = request.member_id.is_empty();
        let error = if request.group_id.is_empty() {
            ResponseError::InvalidGroupId
        } else if request.session_timeout_ms < 0 || !bounds.contains(&millis(request.session_timeout_ms)) {
            ResponseError::InvalidSessionTimeout
        } else if !unknown && !self.groups.contains_key(&request.group_id) {
            ResponseError::UnknownMemberId
        } else if room.is_none() {
            step.answer(caller.ticket, full());
            return;
        } else {
            let name = self.ids.draw(request.group_instance_id.as_ref().unwrap_or(&caller.client_id));
            let mut group = self.groups.change_or_insert(&request.group_id, Group::default);
            group.join(caller, request, name, &mut step);
            return;
        };
        step.answer(caller.ticket, join_error(request.member_id.clone(), error));
    }

    /// SyncGroup; the response comes when the leader has assigned.
    pub(in crate::broker::core) fn sync(
        &mut self,
        caller: &Caller,
        request: &SyncGroupRequest,
        now: Instant,
        answers: &mut Answers,
    ) {
        let room = self.room(&request.group_id).unwrap_or(0);
        let mut step = Step { now, options: &self.options, room, answers };
        match find(&mut self.groups, &request.group_id) {
            Ok(mut group) => group.sync(caller, request, &mut step),
            Err(error) => step.answer(caller.ticket, SyncGroupResponse::default().with_error_code(error.code())),
        }
    }

    /// Heartbeat.
    pub(in crate::broker::core) fn heartbeat(&mut self, request: &HeartbeatRequest, now: Instant) -> HeartbeatResponse {
        let outcome = find(&mut self.groups, &request.group_id).and_then(|mut group| group.heartbeat(request, now));
        HeartbeatResponse::default().with_error_code(outcome.err().map_or(0, |error| error.code()))
    }

    /// LeaveGroup.
    pub(in crate::broker::core) fn leave(
        &mut self,
        version: i16,
        request: &LeaveGroupRequest,
        now: Instant,
        answers: &mut Answers,
    ) -> LeaveGroupResponse {
        let mut step = Step { now, options: &self.options, room: 0, answers };
        let leaving = leaving(request, version);
        let members = match find(&mut self.groups, &request.group_id) {
            Ok(mut group) => group.leave(&leaving, &mut step),
            Err(ResponseError::UnknownMemberId) => unknown(&leaving),
            Err(error) => return LeaveGroupResponse::default().with_error_code(error.code()),
        };
        left(members, version)
    }

    /// A producer's transaction ends: what it has committed for a group counts now, or never does.
    pub(in crate::broker::core) fn end_transaction(&mut self, group: &GroupId, producer: i64, commit: bool) {
        if let Some(mut group) = self.groups.change(group) {
            group.offsets.end_transaction(producer, commit);
        }
    }

    /// Topics were deleted: what was committed for those that are not there any more goes with them.
    pub(in crate::broker::core) fn forget_deleted(&mut self, exists: impl Fn(&TopicName) -> bool) {
        self.groups.change_all(|group| group.offsets.keep_topics(&exists));
    }

    /// When [`Groups::tick`] is due.
    pub(in crate::broker::core) fn due(&self) -> Instant {
        self.groups.first_due().min(self.expiry)
    }

    /// Ends sessions and waits that are over, and forgets what is expired.
    pub(in crate::broker::core) fn tick(&mut self, now: Instant, answers: &mut Answers) {
        let mut step = Step { now, options: &self.options, room: 0, answers };
        for id in self.groups.due_until(now) {
            self.groups.change(&id).into_iter().for_each(|mut group| group.tick(&mut step));
        }
        if self.expiry <= now {
            self.expiry = now + self.options.offsets_retention_check_interval;
            self.expire(now);
        }
    }
}

/// A group with members; one that is not there has none.
fn find<'a>(
    groups: &'a mut Agenda<GroupId, Group>,
    id: &'a GroupId,
) -> Result<Changing<'a, GroupId, Group>, ResponseError> {
    if id.is_empty() {
        return Err(ResponseError::InvalidGroupId);
    }
    groups.change(id).ok_or(ResponseError::UnknownMemberId)
}
