//! How the spout commits: exactly what was frozen, and under at-most-once before anything is emitted.

use super::{
    KafkaSpout,
    channel::Order,
    partition::Partition,
    round::{Frozen, Round},
};
use crate::{
    kafka::client::{CommitOutcome, CommitToken},
    topology::{CommitNumber, CommitState, ComponentError, Delivery},
};

impl KafkaSpout {
    fn next_token(tokens: &mut u64) -> CommitToken {
        *tokens += 1;
        CommitToken(*tokens)
    }

    /// Sends commits that are due.
    pub(super) fn send_commits(&mut self) {
        let (now, budget, tokens) = (self.now, self.metadata_budget, &mut self.tokens);
        let due =
            |round: &mut Option<Round>, tokens: &mut u64| round.as_mut()?.due(now, budget, || Self::next_token(tokens));
        for (values, token) in [due(&mut self.round, tokens), due(&mut self.ahead, tokens)].into_iter().flatten() {
            self.order(Order::Commit { values, token });
        }
    }

    pub(super) fn committed(&mut self, token: CommitToken, outcomes: &[CommitOutcome]) {
        let now = self.now;
        let of = |round: &mut Option<Round>| {
            round.as_mut().and_then(|r| Some((r.answered(token, outcomes, now)?, r.frozen_at)))
        };
        let Some((answer, frozen_at)) = of(&mut self.round).or_else(|| of(&mut self.ahead)) else { return };
        for value in &answer.done {
            let slot = self.find(&value.partition).and_then(|at| self.slots.get_mut(at)?.as_mut());
            if let Some(slot) = slot.filter(|slot| slot.partition.epoch == value.epoch) {
                slot.partition.committed = Some(value.done.clone());
                slot.partition.awaits_commit = false;
            }
        }
        if let Some(why) = &answer.too_large {
            self.metadata_budget /= 2;
            tracing::warn!(
                "{why}; it is sent again with at most {} bytes, so more is replayed after a crash",
                self.metadata_budget
            );
        }
        self.commit_gauges.answered(&answer, now - frozen_at);
        if let Some(why) = answer.broken {
            tracing::error!("{why}");
            self.broken = Some(ComponentError::permanent(why));
        }
        self.allow_ahead();
    }

    pub(super) fn mark_asked(&mut self, values: &[Frozen]) {
        for value in values {
            let slot = self.find(&value.partition).and_then(|at| self.slots.get_mut(at)?.as_mut());
            if let Some(slot) = slot {
                slot.partition.asked = Some(value.done.clone());
                slot.partition.awaits_commit = true;
            }
        }
    }

    /// At-most-once: commits what has come, so that it may be emitted then. One commit is on its way at a time, and
    /// what comes meanwhile goes into the next.
    pub(super) fn commit_ahead(&mut self) {
        if self.delivery != Delivery::AtMostOnce || self.ahead.is_some() {
            return;
        }
        let waits = |p: &Partition| p.frontier.next_seq() > p.allowed && !p.leaving;
        let values: Vec<_> = self.live().filter(|p| waits(p)).filter_map(Partition::freeze_ahead).collect();
        if values.is_empty() {
            return;
        }
        self.mark_asked(&values);
        let allows = self.slots.iter().enumerate().filter_map(|(at, slot)| Some((at, &slot.as_ref()?.partition)));
        self.ahead_allows = allows.filter(|(_, p)| waits(p)).map(|(at, p)| (at, p.frontier.next_seq())).collect();
        let mut round = Round::new(CommitNumber(0), values, self.now);
        round.begin();
        self.ahead = Some(round);
    }

    /// Lets go what was committed for at-most-once.
    pub(super) fn allow_ahead(&mut self) {
        if self.ahead.as_ref().is_none_or(|round| round.state() == CommitState::Pending) {
            return;
        }
        self.ahead = None;
        for (at, allowed) in self.ahead_allows.drain(..) {
            if let Some(Some(slot)) = self.slots.get_mut(at)
                && slot.partition.is_committed_as_asked()
            {
                slot.partition.allowed = allowed;
            }
        }
    }
}
