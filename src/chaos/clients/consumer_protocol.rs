//! What members say to each other through their coordinator, which does not read it: what they want, and who gets what.

use std::{collections::BTreeMap, sync::Arc};

use bytes::{Buf as _, BufMut as _, Bytes, BytesMut};
use kafka_protocol::{
    messages::{
        ConsumerProtocolAssignment, ConsumerProtocolSubscription, JoinGroupResponse, TopicName,
        consumer_protocol_assignment, consumer_protocol_subscription, sync_group_request::SyncGroupRequestAssignment,
    },
    protocol::{Decodable as _, Encodable as _, StrBytes},
};

use super::{
    assignors::{Candidate, Place, cooperative_sticky, range},
    by_topic, text,
};
use crate::kafka::client::TopicPartition;

/// The version of the subscription, the first that tells the generation.
const SUBSCRIPTION: i16 = 2;
const ASSIGNMENT: i16 = 0;

/// What a member wants, and what it has.
pub(super) fn subscription(topics: &[Arc<str>], owned: &[TopicPartition], generation: i32) -> Bytes {
    let owned = by_topic(owned.iter().map(|p| (&*p.topic, p.partition))).into_iter().map(|(topic, parts)| {
        consumer_protocol_subscription::TopicPartition::default().with_topic(topic).with_partitions(parts)
    });
    let subscription = ConsumerProtocolSubscription::default()
        .with_topics(topics.iter().map(|topic| text(topic)).collect())
        .with_owned_partitions(owned.collect())
        .with_generation_id(generation);
    let mut out = BytesMut::new();
    out.put_i16(SUBSCRIPTION);
    // What does not fit the protocol would be found by the broker.
    drop(subscription.encode(&mut out, SUBSCRIPTION));
    out.freeze()
}

/// What the leader gives to each member, by the assignor that the group has chosen. `counts`: partitions by topic.
pub(super) fn share_out(
    joined: &JoinGroupResponse,
    assignor: &str,
    counts: &BTreeMap<String, i32>,
) -> Vec<SyncGroupRequestAssignment> {
    let candidates: Vec<_> = joined.members.iter().map(|m| candidate(&m.member_id, &m.metadata)).collect();
    let share = if assignor == "cooperative-sticky" { cooperative_sticky } else { range };
    let shares = share(&candidates, counts).into_iter().map(|(id, places)| {
        let topics = by_topic(places.iter().map(|(topic, partition)| (topic.as_str(), *partition)));
        let given = topics.into_iter().map(|(topic, partitions)| {
            consumer_protocol_assignment::TopicPartition::default().with_topic(topic).with_partitions(partitions)
        });
        let assignment = ConsumerProtocolAssignment::default().with_assigned_partitions(given.collect());
        let mut out = BytesMut::new();
        out.put_i16(ASSIGNMENT);
        drop(assignment.encode(&mut out, ASSIGNMENT));
        SyncGroupRequestAssignment::default().with_member_id(text(&id)).with_assignment(out.freeze())
    });
    shares.collect()
}

fn candidate(id: &StrBytes, metadata: &Bytes) -> Candidate {
    let mut bytes = metadata.clone();
    let version = if bytes.len() < 2 { SUBSCRIPTION } else { bytes.get_i16() };
    let subscription = ConsumerProtocolSubscription::decode(&mut bytes, version).unwrap_or_default();
    let owned = subscription.owned_partitions.iter();
    let places = |of: &consumer_protocol_subscription::TopicPartition| -> Vec<Place> {
        of.partitions.iter().map(|partition| (of.topic.0.to_string(), *partition)).collect()
    };
    Candidate { id: id.to_string(), owned: owned.flat_map(places).collect(), generation: subscription.generation_id }
}

/// What a member was given, of the topics that it knows.
pub(super) fn assigned(mut bytes: Bytes, topics: &[Arc<str>]) -> Vec<TopicPartition> {
    if bytes.len() < 2 {
        return Vec::new();
    }
    let version = bytes.get_i16();
    let assignment = ConsumerProtocolAssignment::decode(&mut bytes, version).unwrap_or_default();
    let all = assignment.assigned_partitions.into_iter();
    let each = all.flat_map(|of| of.partitions.into_iter().map(move |partition| (of.topic.clone(), partition)));
    let shared = |(topic, partition): (TopicName, i32)| {
        let known = topics.iter().find(|known| ***known == *topic.0);
        TopicPartition { topic: known.map_or_else(|| Arc::from(&*topic.0), Arc::clone), partition }
    };
    each.map(shared).collect()
}
