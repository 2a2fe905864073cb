//! One commit from its freeze to the broker's answer. Pure.

use std::time::Duration;

use super::client::{Commit, CommitOutcome, CommitToken};
use crate::{
    clock::Instant,
    topology::{CommitNumber, CommitState},
};

/// Pause before values are sent again that were not committed.
const SEND_AGAIN_AFTER: Duration = Duration::from_millis(200);

/// The values of one commit: exactly those that were frozen, never newer ones.
#[derive(Debug)]
pub(super) struct Round {
    pub(super) number: CommitNumber,
    /// Values without a final answer.
    values: Vec<Commit>,
    sent: Option<CommitToken>,
    send_at: Instant,
    refused: bool,
    pub(super) frozen_at: Instant,
}

/// What the answer to a commit means.
#[derive(Debug, Default)]
pub(super) struct Answer {
    /// These values are committed.
    pub(super) done: Vec<Commit>,
    /// A sentence about values that will be sent again.
    pub(super) again: Option<String>,
    /// A rebalance took partitions.
    pub(super) refused: bool,
    /// Nothing can be committed any more.
    pub(super) broken: Option<String>,
}

impl Round {
    pub(super) const fn new(number: CommitNumber, values: Vec<Commit>, now: Instant) -> Self {
        Self { number, values, sent: None, send_at: Instant::FAR_FUTURE, refused: false, frozen_at: now }
    }

    pub(super) fn values(&self) -> &[Commit] {
        &self.values
    }

    /// The commit may begin.
    pub(super) const fn begin(&mut self) {
        self.send_at = Instant::ZERO;
    }

    /// What is to be sent now, if anything.
    pub(super) fn due(
        &mut self,
        now: Instant,
        token: impl FnOnce() -> CommitToken,
    ) -> Option<(Vec<Commit>, CommitToken)> {
        if self.sent.is_some() || self.values.is_empty() || self.send_at > now {
            return None;
        }
        let token = token();
        self.sent = Some(token);
        Some((self.values.clone(), token))
    }

    /// The answer, if `token` is of this commit.
    pub(super) fn answered(&mut self, token: CommitToken, outcomes: &[CommitOutcome], now: Instant) -> Option<Answer> {
        if self.sent != Some(token) {
            return None;
        }
        self.sent = None;
        self.send_at = now + SEND_AGAIN_AFTER;
        let mut answer = Answer::default();
        let mut again = Vec::new();
        for (value, outcome) in std::mem::take(&mut self.values).into_iter().zip(outcomes) {
            match outcome {
                CommitOutcome::Done => answer.done.push(value),
                CommitOutcome::Retriable(why) => {
                    answer.again = Some(why.clone());
                    again.push(value);
                }
                CommitOutcome::Rebalanced => answer.refused = true,
                CommitOutcome::Fenced(why) | CommitOutcome::Refused(why) => answer.broken = Some(why.clone()),
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
    pub(super) fn forget(&mut self, is_gone: impl Fn(&Commit) -> bool) {
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
