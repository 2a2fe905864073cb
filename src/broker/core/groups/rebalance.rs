//! How a group goes from one generation to the next. Method by method this follows Kafka's `GroupMetadataManager`.

use bytes::Bytes;
use kafka_protocol::{
    error::ResponseError,
    messages::{JoinGroupResponse, SyncGroupResponse},
    protocol::StrBytes,
};

use super::{
    group::{Gathering, Group, State, join_error},
    member::Member,
    step::Step,
};
use crate::clock::Instant;

impl Group {
    /// Something changed that asks for a rebalance: begins one, or sees whether the one that goes on is complete by it.
    pub(super) fn rebalance(&mut self, step: &mut Step<'_>) {
        if self.state == State::PreparingRebalance { self.try_complete_join(step) } else { self.prepare(step) }
    }

    /// Begins a rebalance: whoever waits for an assignment is to join anew, as all others learn by their heartbeats.
    pub(super) fn prepare(&mut self, step: &mut Step<'_>) {
        if self.state == State::CompletingRebalance {
            self.members.values_mut().for_each(|member| member.assignment = Bytes::new());
            self.answer_syncs(Some(ResponseError::RebalanceInProgress), step);
        }
        self.unsynced.clear();
        self.sync_due = Instant::FAR_FUTURE;
        let was = std::mem::replace(&mut self.state, State::PreparingRebalance);
        if was == State::Empty {
            self.gather(step);
        } else if self.all_joined() {
            self.complete_join(step);
        } else {
            self.join_due = step.now + self.rebalance_timeout();
        }
    }

    fn gather(&mut self, step: &mut Step<'_>) {
        let delay = step.options.initial_rebalance_delay;
        self.gathering = Some(Gathering { remaining: self.rebalance_timeout().saturating_sub(delay), grew: false });
        self.join_due = step.now + delay;
        if delay.is_zero() {
            self.complete_join(step);
        }
    }

    /// Completes the join if nobody is missing; while a new group gathers, only the time does.
    pub(super) fn try_complete_join(&mut self, step: &mut Step<'_>) {
        if self.state == State::PreparingRebalance && self.gathering.is_none() && self.all_joined() {
            self.complete_join(step);
        }
    }

    /// Goes on with those that have joined: the others are expelled, but static members, which keep their place until
    /// their session ends.
    fn complete_join(&mut self, step: &mut Step<'_>) {
        self.join_due = Instant::FAR_FUTURE;
        let missing = |member: &&Member| member.joining.is_none() && member.instance.is_none();
        let expelled: Vec<StrBytes> = self.members.values().filter(missing).map(|member| member.id.clone()).collect();
        for id in &expelled {
            self.expel(id, step);
        }
        if !self.elect_joined_leader() && !self.members.is_empty() {
            // Only static members, none of which came back: their sessions decide.
            self.join_due = step.now + self.rebalance_timeout();
            return;
        }
        self.gathering = None;
        self.unsynced.clear();
        self.generation += 1;
        self.protocol = self.select_protocol();
        if self.members.is_empty() {
            self.state = State::Empty;
            self.emptied = step.now;
            self.store();
            return;
        }
        self.state = State::CompletingRebalance;
        self.unsynced = self.members.keys().cloned().collect();
        self.sync_due = step.now + self.rebalance_timeout();
        let responses: Vec<JoinGroupResponse> = self.members.keys().map(|id| self.joined(id)).collect();
        for (member, response) in self.members.values_mut().zip(responses) {
            member.is_new = false;
            member.touch(step.now);
            if let Some(ticket) = member.joining.take() {
                step.answer(ticket, response);
            }
        }
    }

    /// The leader has spoken.
    pub(super) fn assign(&mut self, assignment: impl Fn(&StrBytes) -> Bytes, step: &mut Step<'_>) {
        for member in self.members.values_mut() {
            member.assignment = assignment(&member.id);
        }
        self.answer_syncs(None, step);
        self.state = State::Stable;
        self.store();
    }

    /// What the leader has said cannot be kept: all are told so and join anew (Kafka's `resetAndPropagateAssignmentWithError`).
    pub(super) fn fail_assignment(&mut self, step: &mut Step<'_>) {
        self.answer_syncs(Some(ResponseError::UnknownServerError), step);
        self.prepare(step);
    }

    fn answer_syncs(&mut self, error: Option<ResponseError>, step: &mut Step<'_>) {
        let (kind, protocol) = (self.protocol_type.clone(), self.protocol.clone());
        for member in self.members.values_mut() {
            let Some(ticket) = member.syncing.take() else { continue };
            member.touch(step.now);
            step.answer(ticket, synced(member, kind.clone(), protocol.clone(), error));
        }
    }

    /// Takes a member out and tells it so, if it waits for something.
    pub(super) fn expel(&mut self, id: &StrBytes, step: &mut Step<'_>) {
        if let Some(member) = self.remove(id) {
            dismiss(&member, ResponseError::UnknownMemberId, step);
        }
    }

    /// Does what is due.
    pub(super) fn tick(&mut self, step: &mut Step<'_>) {
        let now = step.now;
        let known = self.pending.len();
        self.pending.retain(|_, until| *until > now);
        if self.pending.len() < known && self.state == State::PreparingRebalance && self.all_joined() {
            self.complete_join(step);
        }
        let failed = |group: &Self| group.members.values().find(|member| member.due() <= now).map(|m| m.id.clone());
        while let Some(id) = failed(self) {
            self.expel(&id, step);
            if self.state != State::PreparingRebalance {
                self.prepare(step);
            } else if self.all_joined() {
                self.complete_join(step);
            }
        }
        if self.sync_due <= now {
            self.expel_unsynced(step);
        }
        if self.join_due <= now {
            self.end_of_join(step);
        }
    }

    fn expel_unsynced(&mut self, step: &mut Step<'_>) {
        self.sync_due = Instant::FAR_FUTURE;
        let unsynced = std::mem::take(&mut self.unsynced);
        for id in &unsynced {
            self.expel(id, step);
        }
        if !unsynced.is_empty() {
            self.prepare(step);
        }
    }

    fn end_of_join(&mut self, step: &mut Step<'_>) {
        let delay = step.options.initial_rebalance_delay;
        match &mut self.gathering {
            Some(gathering) if gathering.grew && !gathering.remaining.is_zero() => {
                gathering.grew = false;
                let more = delay.min(gathering.remaining);
                gathering.remaining -= more;
                self.join_due = step.now + more;
            }
            _ => self.complete_join(step),
        }
    }
}

/// Answers whatever a member waits for, for the last time.
pub(super) fn dismiss(member: &Member, error: ResponseError, step: &mut Step<'_>) {
    if let Some(ticket) = member.joining {
        let name = if error == ResponseError::UnknownMemberId { StrBytes::new() } else { member.id.clone() };
        step.answer(ticket, join_error(name, error));
    }
    if let Some(ticket) = member.syncing {
        step.answer(ticket, SyncGroupResponse::default().with_error_code(error.code()));
    }
}

/// What a member is told of its assignment.
pub(super) fn synced(
    member: &Member,
    kind: Option<StrBytes>,
    protocol: Option<StrBytes>,
    error: Option<ResponseError>,
) -> SyncGroupResponse {
    let response = SyncGroupResponse::default();
    match error {
        Some(error) => response.with_error_code(error.code()),
        None => {
            response.with_protocol_type(kind).with_protocol_name(protocol).with_assignment(member.assignment.clone())
        }
    }
}
