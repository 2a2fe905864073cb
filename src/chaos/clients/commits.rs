//! Commits on their way: one at a time, in the order of the calls, fenced by the local assignment epoch.

use std::collections::VecDeque;

use kafka_protocol::{
    error::ResponseError as E,
    messages::{
        OffsetCommitRequest, OffsetCommitResponse, ResponseKind,
        offset_commit_request::{OffsetCommitRequestPartition, OffsetCommitRequestTopic},
    },
};

use super::{OFFSET_COMMIT, PATIENCE, by_topic, error, fetching::Fetcher, group::Group, text};
use crate::{
    chaos::link::{Call, Heard},
    kafka::client::{Commit, CommitOutcome, CommitToken, SourceEvent},
};

/// The commits that have no answer yet.
#[derive(Debug, Default)]
pub(super) struct Commits {
    waiting: VecDeque<(CommitToken, Vec<Commit>)>,
    sent: Option<(CommitToken, Vec<Commit>, Call)>,
    ignores_epochs: bool,
}

impl Commits {
    pub(super) fn new(ignores_epochs: bool) -> Self {
        Self { ignores_epochs, ..Self::default() }
    }

    pub(super) fn push(&mut self, token: CommitToken, values: Vec<Commit>) {
        self.waiting.push_back((token, values));
    }

    /// Hears the answer to the commit on its way, and sends the one whose turn it is.
    pub(super) fn turn(&mut self, group: &mut Group, fetcher: &Fetcher, events: &mut Vec<SourceEvent>) {
        let ignores = self.ignores_epochs;
        let is_current = |value: &Commit| ignores || fetcher.epoch(&value.partition) == Some(value.epoch);
        if let Some((token, values, call)) = self.sent.take() {
            let answer = match group.coordinator.hear(call) {
                Heard::Nothing => {
                    self.sent = Some((token, values, call));
                    return;
                }
                Heard::Answer(ResponseKind::OffsetCommit(answer)) => Some(answer),
                Heard::Answer(_) | Heard::Lost => None,
            };
            let outcome = |value: &Commit| match answer.as_ref().map(|answer| code(answer, value)) {
                None if is_current(value) => CommitOutcome::Retriable("no answer".into()),
                // It was not sent, being of an earlier assignment.
                None | Some(None) => CommitOutcome::Rebalanced,
                Some(Some(code)) => outcome(code, is_current(value)),
            };
            events.push(SourceEvent::Committed { token, outcomes: values.iter().map(outcome).collect() });
        }
        while self.sent.is_none() {
            let Some((token, values)) = self.waiting.pop_front() else { return };
            let current: Vec<_> = values.iter().filter(|value| is_current(value)).collect();
            let refused = if current.is_empty() {
                CommitOutcome::Rebalanced
            } else if !group.coordinator.is_ready() {
                CommitOutcome::Retriable("no coordinator".into())
            } else {
                let call = group.coordinator.ask(OFFSET_COMMIT, request(group, &current).into(), PATIENCE);
                self.sent = Some((token, values, call));
                return;
            };
            let outcomes = values.iter().map(|value| match is_current(value) {
                true => refused.clone(),
                false => CommitOutcome::Rebalanced,
            });
            events.push(SourceEvent::Committed { token, outcomes: outcomes.collect() });
        }
    }
}

/// With the group's current generation, as librdkafka does.
fn request(group: &Group, values: &[&Commit]) -> OffsetCommitRequest {
    let (id, generation, member, instance) = group.identity();
    let topics = by_topic(values.iter().map(|value| {
        let part = OffsetCommitRequestPartition::default().with_partition_index(value.partition.partition);
        let part = part.with_committed_offset(value.next.0).with_committed_leader_epoch(-1);
        (&*value.partition.topic, part.with_committed_metadata(Some(text(&value.metadata))))
    }));
    let topics = topics
        .into_iter()
        .map(|(topic, parts)| OffsetCommitRequestTopic::default().with_name(topic).with_partitions(parts));
    OffsetCommitRequest::default()
        .with_group_id(id)
        .with_generation_id_or_member_epoch(generation)
        .with_member_id(member)
        .with_group_instance_id(instance)
        .with_topics(topics.collect())
}

/// The error code of a value; `None` if the answer does not name it.
fn code(answer: &OffsetCommitResponse, value: &Commit) -> Option<i16> {
    let topic = answer.topics.iter().find(|topic| *topic.name.0 == *value.partition.topic)?;
    let part = topic.partitions.iter().find(|part| part.partition_index == value.partition.partition)?;
    Some(part.error_code)
}

fn outcome(code: i16, current: bool) -> CommitOutcome {
    match error(code) {
        None => CommitOutcome::Done,
        Some(E::FencedInstanceId) => CommitOutcome::Fenced("another process has this instance's name".into()),
        Some(E::OffsetMetadataTooLarge | E::InvalidCommitOffsetSize) => {
            CommitOutcome::MetadataTooLarge("the broker takes no such metadata".into())
        }
        Some(_) if !current => CommitOutcome::Rebalanced,
        Some(code) => CommitOutcome::Retriable(format!("{code:?}")),
    }
}
