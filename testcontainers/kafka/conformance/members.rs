//! Members of groups that nobody drives: each request exactly when a trial wants it.

use std::time::Duration;

use kafka_protocol::{
    messages::{
        FindCoordinatorRequest, GroupId, HeartbeatRequest, JoinGroupRequest, JoinGroupResponse, SyncGroupRequest,
        join_group_request::JoinGroupRequestProtocol,
    },
    protocol::StrBytes,
};
use libtest_mimic::Trial;
use rdkafka::types::RDKafkaErrorCode;

use super::{
    both,
    wire::{Wire, text},
};
use crate::broker::{Broker, eventually};

/// Versions of the requests of groups.
const JOIN: i16 = 5;
const SYNC: i16 = 3;
const HEARTBEAT: i16 = 3;

pub fn trials() -> Vec<Trial> {
    both!(of_a_join_that_is_sent_over_two_connections_only_the_later_is_answered)
}

/// The older connection hears nothing more, and what it has sent behind its join is never worked on.
fn of_a_join_that_is_sent_over_two_connections_only_the_later_is_answered(broker: &Broker) {
    let (topic, group) = (broker.topic("twice", 1, &[]), broker.unique("group"));
    let mut first = RawMember::join(broker, &group, &topic, 2_000);
    let mut older = Wire::connect(broker);
    let join = named(&mut older, join(&group, &topic, 30_000));
    older.tell(JOIN, &join).expect("an open connection");
    eventually("the first member hears of the second", || {
        first.heartbeat() == RDKafkaErrorCode::RebalanceInProgress as i16
    });
    let behind =
        HeartbeatRequest::default().with_group_id(join.group_id.clone()).with_member_id(join.member_id.clone());
    older.tell(HEARTBEAT, &behind).expect("an open connection");
    // The first member does not come again: its session ends the wait.
    let mut later = Wire::connect(broker);
    let answer = later.ask(JOIN, &join);
    assert_eq!((answer.error_code, answer.generation_id, &answer.leader), (0, 2, &join.member_id), "{answer:?}");
    older.stream.set_read_timeout(Some(Duration::from_millis(500))).expect("a timeout");
    assert_eq!(older.frame(), None, "an answer to the join that was sent again");
}

/// A member that says something when it is told to.
pub struct RawMember {
    wire: Wire,
    group: GroupId,
    id: StrBytes,
    generation: i32,
}

impl RawMember {
    /// The only member of a new group.
    pub fn join(broker: &Broker, group: &str, topic: &str, session_ms: i32) -> Self {
        let mut wire = Wire::connect(broker);
        let group_id = GroupId(text(group));
        eventually("there is a coordinator", || {
            let find = FindCoordinatorRequest::default().with_coordinator_keys(vec![group_id.0.clone()]);
            wire.ask(4, &find).coordinators[0].error_code == 0
        });
        let request = named(&mut wire, join(group, topic, session_ms));
        let JoinGroupResponse { error_code, leader, generation_id: generation, .. } = wire.ask(JOIN, &request);
        assert_eq!((error_code, &leader), (0, &request.member_id));
        let id = request.member_id;
        let request = SyncGroupRequest::default()
            .with_group_id(group_id.clone())
            .with_member_id(id.clone())
            .with_generation_id(generation);
        assert_eq!(wire.ask(SYNC, &request).error_code, 0);
        Self { wire, group: group_id, id, generation }
    }

    /// Says that it lives, and returns the error code.
    pub fn heartbeat(&mut self) -> i16 {
        let request = HeartbeatRequest::default()
            .with_group_id(self.group.clone())
            .with_member_id(self.id.clone())
            .with_generation_id(self.generation);
        self.wire.ask(HEARTBEAT, &request).error_code
    }
}

fn join(group: &str, topic: &str, session_ms: i32) -> JoinGroupRequest {
    // As ConsumerProtocolSubscription says: version 0, one topic, no user data.
    let length = i16::try_from(topic.len()).expect("a short name").to_be_bytes();
    let subscription = [&[0, 0, 0, 0, 0, 1], &length[..], topic.as_bytes(), &[0xff; 4]].concat();
    let range = JoinGroupRequestProtocol::default().with_name(text("range")).with_metadata(subscription.into());
    JoinGroupRequest::default()
        .with_group_id(GroupId(text(group)))
        .with_session_timeout_ms(session_ms)
        .with_rebalance_timeout_ms(10_000)
        .with_protocol_type(text("consumer"))
        .with_protocols(vec![range])
}

/// The join with the name that the coordinator gives to whoever has none (KIP-394).
fn named(wire: &mut Wire, join: JoinGroupRequest) -> JoinGroupRequest {
    let answer = wire.ask(JOIN, &join);
    assert_eq!(answer.error_code, RDKafkaErrorCode::MemberIdRequired as i16, "{answer:?}");
    join.with_member_id(answer.member_id)
}
