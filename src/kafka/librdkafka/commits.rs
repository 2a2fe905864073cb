//! Commits on their way: one at a time, in the order of the calls, fenced by the local assignment epoch.
//!
//! librdkafka commits with the group's *current* generation, so a commit prepared before a partition was lost and came
//! back would pass and go backwards. Here it is refused before it is sent.

use std::collections::VecDeque;

use rdkafka::error::RDKafkaErrorCode;

use super::native::PartitionResult;
use crate::kafka::client::{AssignmentEpoch, Commit, CommitOutcome, CommitToken, SourceEvent, TopicPartition};

/// Who knows which assignment of a partition is the current one.
pub(super) trait Assignments {
    fn epoch_of(&self, partition: &TopicPartition) -> Option<AssignmentEpoch>;
}

/// The commits that have no answer yet.
#[derive(Debug, Default)]
pub(super) struct Commits {
    waiting: VecDeque<(CommitToken, Vec<Commit>)>,
    sent: Option<(CommitToken, Vec<Commit>)>,
}

/// What to do next.
#[derive(Debug)]
#[must_use]
pub(super) enum Next {
    Nothing,
    /// Send these values; the answer goes to [`Commits::answered`].
    Send(Vec<Commit>),
    /// A commit of which nothing is to be sent is answered already.
    Tell(SourceEvent),
}

impl Commits {
    pub(super) fn push(&mut self, token: CommitToken, values: Vec<Commit>) {
        self.waiting.push_back((token, values));
    }

    /// The next commit to send, if none is on its way.
    pub(super) fn next(&mut self, assignments: &impl Assignments) -> Next {
        if self.sent.is_some() {
            return Next::Nothing;
        }
        let Some((token, values)) = self.waiting.pop_front() else {
            return Next::Nothing;
        };
        let current: Vec<Commit> = values.iter().filter(|value| is_current(value, assignments)).cloned().collect();
        if current.is_empty() {
            let outcomes = values.iter().map(|_| CommitOutcome::Rebalanced).collect();
            return Next::Tell(SourceEvent::Committed { token, outcomes });
        }
        self.sent = Some((token, values));
        Next::Send(current)
    }

    /// The answer of the broker to the commit on its way: an error of the whole, and of each partition.
    pub(super) fn answered(
        &mut self,
        whole: Option<RDKafkaErrorCode>,
        each: &[PartitionResult],
        assignments: &impl Assignments,
        group: &str,
    ) -> Option<SourceEvent> {
        let (token, values) = self.sent.take()?;
        let outcome = |value: &Commit| {
            let found =
                each.iter().find(|(topic, n, _)| *n == value.partition.partition && **topic == *value.partition.topic);
            match (whole, found) {
                // Not in the list: it was not sent, being of an earlier assignment.
                (None, None) => CommitOutcome::Rebalanced,
                (whole, found) => match found.and_then(|(_, _, code)| *code).or(whole) {
                    None => CommitOutcome::Done,
                    Some(code) => failure(code, value, is_current(value, assignments), group),
                },
            }
        };
        let outcomes = values.iter().map(outcome).collect();
        Some(SourceEvent::Committed { token, outcomes })
    }
}

fn is_current(value: &Commit, assignments: &impl Assignments) -> bool {
    assignments.epoch_of(&value.partition) == Some(value.epoch)
}

fn failure(code: RDKafkaErrorCode, value: &Commit, current: bool, group: &str) -> CommitOutcome {
    use RDKafkaErrorCode as E;
    let Commit { partition, next, .. } = value;
    let what = format!("commit of {partition} at {next} for group {group:?}");
    #[expect(clippy::wildcard_enum_match_arm, reason = "a few of librdkafka's 200 codes")]
    match code {
        E::FencedInstanceId => {
            CommitOutcome::Fenced(format!("{what}: another process with the same `instance` took over"))
        }
        E::OffsetMetadataTooLarge | E::InvalidCommitOffsetSize => CommitOutcome::MetadataTooLarge(format!(
            "{what}: the broker takes no metadata of {} bytes ({code}): raise its offset.metadata.max.bytes",
            value.metadata.len()
        )),
        E::TopicAuthorizationFailed | E::GroupAuthorizationFailed => {
            CommitOutcome::Refused(format!("{what}: access denied ({code}): allow this user to read topic and group"))
        }
        // An old generation is no failure while the partition is still ours: the next try has the new one.
        _ if !current => CommitOutcome::Rebalanced,
        _ => CommitOutcome::Retriable(format!("{what}: {code}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kafka::client::NextOffset;

    struct Ours(u64);

    impl Assignments for Ours {
        fn epoch_of(&self, partition: &TopicPartition) -> Option<AssignmentEpoch> {
            (partition.partition == 0).then_some(AssignmentEpoch(self.0))
        }
    }

    fn value(partition: i32, epoch: u64) -> Commit {
        Commit {
            partition: TopicPartition::new("t", partition),
            epoch: AssignmentEpoch(epoch),
            next: NextOffset(5),
            metadata: String::new(),
        }
    }

    fn outcomes(event: Option<SourceEvent>) -> (u64, Vec<CommitOutcome>) {
        match event {
            Some(SourceEvent::Committed { token, outcomes }) => (token.0, outcomes),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn one_commit_is_on_its_way_and_the_next_waits_for_its_answer() {
        let mut commits = Commits::default();
        commits.push(CommitToken(1), vec![value(0, 1)]);
        commits.push(CommitToken(2), vec![value(0, 1)]);
        assert!(matches!(commits.next(&Ours(1)), Next::Send(_)));
        assert!(matches!(commits.next(&Ours(1)), Next::Nothing));
        let answer = commits.answered(None, &[("t".into(), 0, None)], &Ours(1), "g");
        assert_eq!(outcomes(answer), (1, vec![CommitOutcome::Done]));
        assert!(matches!(commits.next(&Ours(1)), Next::Send(_)));
    }

    #[test]
    fn a_commit_of_an_earlier_assignment_is_never_sent() {
        let mut commits = Commits::default();
        commits.push(CommitToken(7), vec![value(0, 1)]);
        let Next::Tell(event) = commits.next(&Ours(2)) else { panic!("sent") };
        assert_eq!(outcomes(Some(event)), (7, vec![CommitOutcome::Rebalanced]));
    }

    #[test]
    fn what_was_left_out_of_a_commit_is_told_as_rebalanced() {
        let mut commits = Commits::default();
        commits.push(CommitToken(7), vec![value(1, 1), value(0, 1)]);
        let Next::Send(sent) = commits.next(&Ours(1)) else { panic!("not sent") };
        assert_eq!(sent, [value(0, 1)]);
        let answer = commits.answered(None, &[("t".into(), 0, None)], &Ours(1), "g");
        assert_eq!(outcomes(answer).1, [CommitOutcome::Rebalanced, CommitOutcome::Done]);
    }

    #[test]
    fn an_old_generation_is_retriable_only_while_the_partition_is_ours() {
        for (ours, retriable) in [(1, true), (2, false)] {
            let mut commits = Commits::default();
            commits.push(CommitToken(7), vec![value(0, 1)]);
            let _sent = commits.next(&Ours(1));
            let answer = commits.answered(Some(RDKafkaErrorCode::IllegalGeneration), &[], &Ours(ours), "g");
            let (_, outcomes) = outcomes(answer);
            assert_eq!(matches!(outcomes[0], CommitOutcome::Retriable(_)), retriable, "{outcomes:?}");
        }
    }
}
