//! A member of a consumer group: joins, has partitions shared out if it leads, keeps its place by heartbeats, and notices when
//! it has lost it.

use std::{collections::BTreeMap, mem, sync::Arc, time::Duration};

use kafka_protocol::{
    error::ResponseError as E,
    messages::{
        FindCoordinatorRequest, GroupId, HeartbeatRequest, JoinGroupRequest, JoinGroupResponse, LeaveGroupRequest,
        MetadataRequest, ResponseKind, SyncGroupRequest, join_group_request::JoinGroupRequestProtocol,
        leave_group_request::MemberIdentity, sync_group_request::SyncGroupRequestAssignment,
    },
    protocol::StrBytes,
};

use super::{
    FIND_COORDINATOR, HEARTBEAT, JOIN_GROUP, LATER, LEAVE_GROUP, METADATA, PATIENCE, SYNC_GROUP, consumer_protocol,
    error, metadata, text,
};
use crate::{
    chaos::{
        host::Host,
        link::{Call, Heard, Link},
    },
    clock::Instant,
    kafka::client::{ClientError, ErrorKind, TopicPartition},
};

/// What a member reads, and as whom.
#[derive(Clone, Debug)]
pub struct MemberOptions {
    /// The group.
    pub group: String,
    /// Makes it a static member.
    pub instance: Option<String>,
    /// Topics by name.
    pub topics: Vec<Arc<str>>,
    /// Shares partitions by `cooperative-sticky`, else by `range` and eagerly.
    pub cooperative: bool,
    /// `session.timeout.ms`.
    pub session: Duration,
    /// `heartbeat.interval.ms`.
    pub heartbeat: Duration,
    /// `max.poll.interval.ms`, which is the rebalance timeout too.
    pub max_poll: Duration,
    /// `topic.metadata.refresh.interval.ms`.
    pub metadata_every: Duration,
    /// `fetch.wait.max.ms`.
    pub fetch_wait: Duration,
    /// Sends commits whatever assignment they were reached under, which no client of the product does.
    pub ignores_epochs: bool,
}

const CONSUMER: &str = "consumer";
/// How long librdkafka waits for the answer to its goodbye.
const LEAVING: Duration = Duration::from_secs(5);

/// What the group has decided about partitions.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Happening {
    /// They are given, in addition.
    Give(Vec<TopicPartition>),
    /// They are asked back, or lost already.
    Take { partitions: Vec<TopicPartition>, lost: bool },
}

#[derive(Debug)]
enum Stage {
    /// Who coordinates the group is not known.
    Unknown,
    Finding(Call),
    /// To join as soon as everything that was given and taken is answered.
    Outside,
    Joining(Call),
    /// The leader looks how many partitions there are.
    Counting(Call, Box<JoinGroupResponse>),
    Syncing(Call),
    Steady,
}

/// A member.
#[derive(Debug)]
pub(super) struct Group {
    options: MemberOptions,
    /// The way to the coordinator, and to any broker.
    pub(super) coordinator: Link,
    any: Link,
    id: StrBytes,
    generation: i32,
    protocol: StrBytes,
    stage: Stage,
    owned: Vec<TopicPartition>,
    heartbeat: Option<Call>,
    heartbeat_at: Instant,
    /// When the coordinator last said that this is a member.
    heard_at: Instant,
    /// Nothing is asked before.
    not_before: Instant,
    /// Join again when the wishes are answered.
    again: bool,
    /// Partitions by topic as they were when they were shared out, and the question how many there are now.
    counts: BTreeMap<String, i32>,
    looking: Option<Call>,
    look_at: Instant,
}

impl Group {
    pub(super) fn new(options: MemberOptions, host: &Host) -> Self {
        Self {
            options,
            coordinator: host.link(),
            any: host.link(),
            id: StrBytes::default(),
            generation: -1,
            protocol: StrBytes::default(),
            stage: Stage::Unknown,
            owned: Vec::new(),
            heartbeat: None,
            heartbeat_at: Instant::ZERO,
            heard_at: Instant::ZERO,
            not_before: Instant::ZERO,
            again: false,
            counts: BTreeMap::new(),
            looking: None,
            look_at: Instant::ZERO,
        }
    }

    /// Whom the group knows this member as.
    pub(super) fn identity(&self) -> (GroupId, i32, StrBytes, Option<StrBytes>) {
        (GroupId(text(&self.options.group)), self.generation, self.id.clone(), self.instance())
    }

    fn instance(&self) -> Option<StrBytes> {
        self.options.instance.as_deref().map(text)
    }

    /// Goes on as far as it can now. `settled`: everything that was given and taken is answered.
    pub(super) fn turn(&mut self, now: Instant, settled: bool, out: &mut Vec<Happening>) -> Result<(), ClientError> {
        self.beat(now, settled, out)?;
        self.look(now);
        if now < self.not_before {
            return Ok(());
        }
        match mem::replace(&mut self.stage, Stage::Outside) {
            Stage::Unknown => self.find(),
            Stage::Finding(call) => self.found(call, now),
            Stage::Outside => self.join(settled),
            Stage::Joining(call) => self.joined(call, now, out)?,
            Stage::Counting(call, joined) => self.counted(call, joined, now),
            Stage::Syncing(call) => self.synced(call, now, out)?,
            Stage::Steady if self.again && settled => {
                self.again = false;
                self.leave_for_now(out);
            }
            Stage::Steady => self.stage = Stage::Steady,
        }
        Ok(())
    }

    fn find(&mut self) {
        if !self.any.is_ready() {
            self.stage = Stage::Unknown;
            return;
        }
        let request = FindCoordinatorRequest::default().with_key(text(&self.options.group));
        self.stage = Stage::Finding(self.any.ask(FIND_COORDINATOR, request.into(), PATIENCE));
    }

    fn found(&mut self, call: Call, now: Instant) {
        self.stage = match self.any.hear(call) {
            Heard::Nothing => Stage::Finding(call),
            Heard::Answer(ResponseKind::FindCoordinator(found)) if found.error_code == 0 => {
                // A member that knows its generation goes on where it was.
                if self.generation >= 0 { Stage::Steady } else { Stage::Outside }
            }
            Heard::Answer(_) | Heard::Lost => {
                self.not_before = now + LATER;
                Stage::Unknown
            }
        };
    }

    fn join(&mut self, settled: bool) {
        self.stage = Stage::Outside;
        if !settled || !self.coordinator.is_ready() {
            return;
        }
        self.again = false;
        let millis = |span: Duration| i32::try_from(span.as_millis()).unwrap_or(i32::MAX);
        let name = if self.options.cooperative { "cooperative-sticky" } else { "range" };
        let protocol = JoinGroupRequestProtocol::default()
            .with_name(StrBytes::from_static_str(name))
            .with_metadata(consumer_protocol::subscription(&self.options.topics, &self.owned, self.generation));
        let request = JoinGroupRequest::default()
            .with_group_id(GroupId(text(&self.options.group)))
            .with_session_timeout_ms(millis(self.options.session))
            .with_rebalance_timeout_ms(millis(self.options.max_poll))
            .with_member_id(self.id.clone())
            .with_group_instance_id(self.instance())
            .with_protocol_type(StrBytes::from_static_str(CONSUMER))
            .with_protocols(vec![protocol]);
        // The answer may wait for all other members.
        let patience = self.options.max_poll + PATIENCE;
        self.stage = Stage::Joining(self.coordinator.ask(JOIN_GROUP, request.into(), patience));
    }

    fn joined(&mut self, call: Call, now: Instant, out: &mut Vec<Happening>) -> Result<(), ClientError> {
        let answer = match self.coordinator.hear(call) {
            Heard::Nothing => {
                self.stage = Stage::Joining(call);
                return Ok(());
            }
            Heard::Answer(ResponseKind::JoinGroup(answer)) => answer,
            Heard::Answer(_) | Heard::Lost => {
                (self.stage, self.again) = (Stage::Unknown, true);
                return Ok(());
            }
        };
        match error(answer.error_code) {
            None => {
                (self.id, self.generation) = (answer.member_id.clone(), answer.generation_id);
                self.protocol = answer.protocol_name.clone().unwrap_or_default();
                self.heard_at = now;
                if answer.leader == answer.member_id && !answer.members.is_empty() {
                    self.stage =
                        Stage::Counting(self.any.ask(METADATA, self.ask_counts().into(), PATIENCE), answer.into());
                } else {
                    self.sync(Vec::new());
                }
            }
            Some(E::MemberIdRequired) => {
                self.id = answer.member_id;
                self.join(true);
            }
            Some(code) => self.fell_out(code, now, out)?,
        }
        Ok(())
    }

    fn ask_counts(&self) -> MetadataRequest {
        metadata::about(&self.options.topics)
    }

    fn counted(&mut self, call: Call, joined: Box<JoinGroupResponse>, now: Instant) {
        match self.any.hear(call) {
            Heard::Nothing => self.stage = Stage::Counting(call, joined),
            Heard::Answer(ResponseKind::Metadata(answer)) if metadata::is_whole(&answer) => {
                self.counts = metadata::counts(&answer);
                self.look_at = now + self.options.metadata_every;
                let shares = consumer_protocol::share_out(&joined, &self.protocol, &self.counts);
                self.sync(shares);
            }
            Heard::Answer(_) | Heard::Lost => {
                // The others wait meanwhile.
                self.not_before = now + LATER;
                self.stage = if self.any.is_ready() {
                    Stage::Counting(self.any.ask(METADATA, self.ask_counts().into(), PATIENCE), joined)
                } else {
                    Stage::Outside
                };
            }
        }
    }

    fn sync(&mut self, assignments: Vec<SyncGroupRequestAssignment>) {
        let (group, generation, id, instance) = self.identity();
        let request = SyncGroupRequest::default()
            .with_group_id(group)
            .with_generation_id(generation)
            .with_member_id(id)
            .with_group_instance_id(instance)
            .with_protocol_type(Some(StrBytes::from_static_str(CONSUMER)))
            .with_protocol_name(Some(self.protocol.clone()))
            .with_assignments(assignments);
        let patience = self.options.max_poll + PATIENCE;
        self.stage = Stage::Syncing(self.coordinator.ask(SYNC_GROUP, request.into(), patience));
    }

    fn synced(&mut self, call: Call, now: Instant, out: &mut Vec<Happening>) -> Result<(), ClientError> {
        let answer = match self.coordinator.hear(call) {
            Heard::Nothing => {
                self.stage = Stage::Syncing(call);
                return Ok(());
            }
            Heard::Answer(ResponseKind::SyncGroup(answer)) => answer,
            Heard::Answer(_) | Heard::Lost => {
                // What was shared out is not known: the next generation tells it.
                (self.stage, self.again) = (Stage::Unknown, true);
                return Ok(());
            }
        };
        if let Some(code) = error(answer.error_code) {
            return self.fell_out(code, now, out);
        }
        (self.heard_at, self.heartbeat_at) = (now, now + self.options.heartbeat);
        self.stage = Stage::Steady;
        let mut ours = consumer_protocol::assigned(answer.assignment, &self.options.topics);
        ours.sort();
        let taken: Vec<_> = self.owned.iter().filter(|p| !ours.contains(p)).cloned().collect();
        let given: Vec<_> = ours.iter().filter(|p| !self.owned.contains(p)).cloned().collect();
        self.owned = ours;
        if taken.is_empty() {
            out.push(Happening::Give(given));
        } else {
            self.again = true;
            out.push(Happening::Take { partitions: taken, lost: false });
            if !given.is_empty() {
                out.push(Happening::Give(given));
            }
        }
        Ok(())
    }

    /// An answer to a join, a sync or a heartbeat that is an error.
    fn fell_out(&mut self, code: E, now: Instant, out: &mut Vec<Happening>) -> Result<(), ClientError> {
        self.stage = Stage::Outside;
        #[expect(clippy::wildcard_enum_match_arm, reason = "a few of Kafka's 130 codes")]
        match code {
            E::RebalanceInProgress => {}
            E::FencedInstanceId => {
                let message = format!("group {:?}: another process has this instance's name", self.options.group);
                return Err(ClientError::new(ErrorKind::Fenced, message));
            }
            E::UnknownMemberId => {
                self.id = StrBytes::default();
                self.lose(out);
            }
            E::IllegalGeneration => self.lose(out),
            E::NotCoordinator | E::CoordinatorNotAvailable | E::CoordinatorLoadInProgress => {
                (self.stage, self.not_before, self.again) = (Stage::Unknown, now + LATER, true);
            }
            _ => self.not_before = now + LATER,
        }
        Ok(())
    }

    /// What was ours may be others' by now.
    fn lose(&mut self, out: &mut Vec<Happening>) {
        self.generation = -1;
        let partitions = mem::take(&mut self.owned);
        if !partitions.is_empty() {
            out.push(Happening::Take { partitions, lost: true });
        }
    }

    /// Before it joins again: an eager member lets go of everything, a cooperative one of nothing.
    fn leave_for_now(&mut self, out: &mut Vec<Happening>) {
        self.stage = Stage::Outside;
        if !self.options.cooperative {
            let partitions = mem::take(&mut self.owned);
            if !partitions.is_empty() {
                out.push(Happening::Take { partitions, lost: false });
            }
        }
    }

    /// Keeps its place, and notices when it is gone. What is lost is told when nothing else is unanswered.
    fn beat(&mut self, now: Instant, settled: bool, out: &mut Vec<Happening>) -> Result<(), ClientError> {
        if let Some(call) = self.heartbeat {
            match self.coordinator.hear(call) {
                Heard::Nothing => {}
                Heard::Answer(ResponseKind::Heartbeat(answer)) => {
                    self.heartbeat = None;
                    return self.beaten(answer.error_code, now, settled, out);
                }
                Heard::Answer(_) | Heard::Lost => {
                    self.heartbeat = None;
                    if matches!(self.stage, Stage::Steady) {
                        self.stage = Stage::Unknown;
                    }
                }
            }
        }
        let is_member =
            self.generation >= 0 && matches!(self.stage, Stage::Steady | Stage::Unknown | Stage::Finding(_));
        if is_member && settled && now - self.heard_at >= self.options.session {
            // The coordinator has given its place away, if it is alive.
            self.stage = Stage::Unknown;
            self.again = true;
            self.lose(out);
        } else if matches!(self.stage, Stage::Steady)
            && self.heartbeat.is_none()
            && now >= self.heartbeat_at
            && self.coordinator.is_ready()
        {
            let (group, generation, id, instance) = self.identity();
            let request = HeartbeatRequest::default()
                .with_group_id(group)
                .with_generation_id(generation)
                .with_member_id(id)
                .with_group_instance_id(instance);
            self.heartbeat = Some(self.coordinator.ask(HEARTBEAT, request.into(), PATIENCE));
            self.heartbeat_at = now + self.options.heartbeat;
        }
        Ok(())
    }

    fn beaten(&mut self, code: i16, now: Instant, settled: bool, out: &mut Vec<Happening>) -> Result<(), ClientError> {
        match error(code) {
            None => self.heard_at = now,
            // An answer to a question of an earlier stage says nothing about this one.
            Some(_) if !matches!(self.stage, Stage::Steady) => {}
            Some(E::RebalanceInProgress) => {
                self.heard_at = now;
                self.again = true;
            }
            Some(E::UnknownMemberId | E::IllegalGeneration) if !settled => self.heartbeat_at = now + LATER,
            Some(code @ (E::UnknownMemberId | E::IllegalGeneration | E::FencedInstanceId)) => {
                self.fell_out(code, now, out)?;
            }
            Some(E::NotCoordinator | E::CoordinatorNotAvailable | E::CoordinatorLoadInProgress) => {
                (self.stage, self.not_before) = (Stage::Unknown, now + LATER);
            }
            Some(_) => {}
        }
        Ok(())
    }

    /// Looks from time to time whether there are as many partitions as were shared out.
    fn look(&mut self, now: Instant) {
        if let Some(call) = self.looking {
            match self.any.hear(call) {
                Heard::Nothing => {}
                Heard::Answer(ResponseKind::Metadata(answer)) => {
                    self.looking = None;
                    let found = metadata::counts(&answer);
                    let grew = found.iter().any(|(topic, n)| self.counts.get(topic).is_some_and(|old| n > old));
                    // Also where it only looks for its coordinator: it goes on as it was then.
                    self.again |= grew;
                    self.counts.extend(found);
                }
                Heard::Answer(_) | Heard::Lost => self.looking = None,
            }
        } else if matches!(self.stage, Stage::Steady) && now >= self.look_at && self.any.is_ready() {
            self.look_at = now + self.options.metadata_every;
            self.looking = Some(self.any.ask(METADATA, self.ask_counts().into(), PATIENCE));
        }
    }

    /// The caller was away for longer than the group waits.
    pub(super) fn overslept(&mut self, out: &mut Vec<Happening>) {
        // Nobody waits for the answer.
        let _call = self.leave();
        self.id = StrBytes::default();
        self.lose(out);
        (self.stage, self.again) = (Stage::Unknown, true);
    }

    /// Says goodbye. A static member does not: it comes back.
    fn leave(&mut self) -> Option<Call> {
        if self.options.instance.is_some() || self.id.is_empty() || !self.coordinator.is_ready() {
            return None;
        }
        let identity = MemberIdentity::default().with_member_id(self.id.clone());
        let group = GroupId(text(&self.options.group));
        let request = LeaveGroupRequest::default().with_group_id(group).with_members(vec![identity]);
        Some(self.coordinator.ask(LEAVE_GROUP, request.into(), PATIENCE))
    }

    /// Goes for good. The goodbye may have to wait for the answer to a join, which is as long in coming as the others are.
    pub(super) fn close(&mut self) {
        match self.leave() {
            Some(call) => self.coordinator.close_after(call, LEAVING),
            None => self.coordinator.close(),
        }
        self.any.close();
    }
}
