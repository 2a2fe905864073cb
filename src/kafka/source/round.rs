//! One commit from its freeze to the broker's answer. Pure.

use std::time::Duration;

use super::{commit_metadata::CommitMetadata, offsets::DoneOffsets};
use crate::{
    clock::Instant,
    kafka::client::{AssignmentEpoch, Commit, CommitOutcome, CommitToken, NextOffset, TopicPartition},
    topology::{CommitNumber, CommitState},
};

/// Pause before values are sent again that were not committed.
const SEND_AGAIN_AFTER: Duration = Duration::from_millis(200);

/// Where one partition stood when a commit was frozen.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Frozen {
    pub(super) partition: TopicPartition,
    pub(super) epoch: AssignmentEpoch,
    pub(super) done: DoneOffsets,
    /// No record from here on was emitted.
    pub(super) started: NextOffset,
    /// What the group was known to have committed.
    pub(super) committed: Option<NextOffset>,
    /// What stood beside the offset, if this is what was found and is committed again as it was.
    pub(super) text: Option<String>,
}

/// The values of one commit: exactly those that were frozen, never newer ones.
#[derive(Debug)]
pub(super) struct Round {
    pub(super) number: CommitNumber,
    /// Values without a final answer.
    values: Vec<Frozen>,
    /// The commit on its way, with the values' texts.
    sent: Option<(CommitToken, Vec<String>)>,
    send_at: Instant,
    refused: bool,
    pub(super) frozen_at: Instant,
}

/// What the answer to a commit means.
#[derive(Debug, Default)]
pub(super) struct Answer {
    /// These values are committed. What is done above an offset is here what the metadata had room for.
    pub(super) done: Vec<Frozen>,
    /// A sentence about values that will be sent again.
    pub(super) again: Option<String>,
    /// A sentence: the metadata must be shorter, then the same values are sent again.
    pub(super) too_large: Option<String>,
    /// A rebalance took partitions.
    pub(super) refused: bool,
    /// Nothing can be committed any more.
    pub(super) broken: Option<String>,
}

impl Round {
    pub(super) const fn new(number: CommitNumber, values: Vec<Frozen>, now: Instant) -> Self {
        Self { number, values, sent: None, send_at: Instant::FAR_FUTURE, refused: false, frozen_at: now }
    }

    pub(super) fn values(&self) -> &[Frozen] {
        &self.values
    }

    /// The commit may begin.
    pub(super) const fn begin(&mut self) {
        self.send_at = Instant::ZERO;
    }

    /// What is to be sent now, if anything, with metadata of at most `budget` bytes each.
    pub(super) fn due(
        &mut self,
        now: Instant,
        budget: usize,
        token: impl FnOnce() -> CommitToken,
    ) -> Option<(Vec<Commit>, CommitToken)> {
        if self.sent.is_some() || self.values.is_empty() || self.send_at > now {
            return None;
        }
        let (token, number) = (token(), self.number);
        let commits: Vec<_> = self.values.iter().map(|value| value.commit(number, budget)).collect();
        self.sent = Some((token, commits.iter().map(|commit| commit.metadata.clone()).collect()));
        Some((commits, token))
    }

    /// The answer, if `token` is of this commit.
    pub(super) fn answered(&mut self, token: CommitToken, outcomes: &[CommitOutcome], now: Instant) -> Option<Answer> {
        let (_, texts) = self.sent.take_if(|(sent, _)| *sent == token)?;
        self.send_at = now + SEND_AGAIN_AFTER;
        let mut answer = Answer::default();
        let mut again = Vec::new();
        for ((mut value, text), outcome) in std::mem::take(&mut self.values).into_iter().zip(texts).zip(outcomes) {
            match outcome {
                CommitOutcome::Done => {
                    value.done.above = CommitMetadata::decode(&text).map(|sent| sent.done).unwrap_or_default();
                    answer.done.push(value);
                }
                CommitOutcome::Retriable(why) => {
                    answer.again = Some(why.clone());
                    again.push(value);
                }
                CommitOutcome::MetadataTooLarge(why) if !text.is_empty() => {
                    answer.too_large = Some(why.clone());
                    self.send_at = now;
                    // What was found cannot be made shorter, and without it the offset is still true.
                    value.text = value.text.map(|_| String::new());
                    again.push(value);
                }
                CommitOutcome::Rebalanced => answer.refused = true,
                CommitOutcome::Fenced(why) | CommitOutcome::Refused(why) | CommitOutcome::MetadataTooLarge(why) => {
                    answer.broken = Some(why.clone());
                }
            }
        }
        self.values = again;
        self.refused |= answer.refused;
        Some(answer)
    }

    /// When values are sent again that were not committed, if there are any.
    pub(super) fn send_again_at(&self) -> Option<Instant> {
        (self.sent.is_none() && !self.values.is_empty()).then_some(self.send_at)
    }

    /// The values of a partition that has left are no longer ours to commit.
    pub(super) fn forget(&mut self, is_gone: impl Fn(&Frozen) -> bool) {
        // An answer on its way has one outcome for each value that was sent.
        if self.sent.is_none() {
            let before = self.values.len();
            self.values.retain(|value| !is_gone(value));
            self.refused |= self.values.len() < before;
        }
    }

    pub(super) fn state(&self) -> CommitState {
        match (self.values.is_empty(), self.refused) {
            (false, _) => CommitState::Pending,
            (true, true) => CommitState::Refused,
            (true, false) => CommitState::Done,
        }
    }
}

impl Frozen {
    fn commit(&self, commit: CommitNumber, budget: usize) -> Commit {
        let written = || CommitMetadata { commit, started: self.started, done: self.done.above.clone() }.encode(budget);
        Commit {
            partition: self.partition.clone(),
            epoch: self.epoch,
            next: self.done.next,
            metadata: self.text.clone().unwrap_or_else(written),
        }
    }
}
