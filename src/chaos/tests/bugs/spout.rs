//! Bugs in what a spout is told of its trees and commits.

use std::sync::Arc;

use crate::{
    chaos::substitutes::Substitutes,
    clock::Instant,
    state::{SourcePosition, SourceStart},
    topology::{
        CommitNumber, CommitState, Companion, ComponentResult, Failure, MessageId, Next, Spout, SpoutOutput,
        TaskContext,
    },
};

#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(super) enum SpoutBug {
    ForgetsAnAck,
    TakesAFailureForAnAck,
    CommitsWhatIsNewerThanTheFlush,
    TellsNoEffectsOfAFailure,
    TellsOfNothingStarted,
}

struct BuggySpout {
    inner: Box<dyn Spout>,
    bug: SpoutBug,
    acks: u64,
}

impl Spout for BuggySpout {
    fn open(&mut self, context: &TaskContext) -> ComponentResult {
        self.inner.open(context)
    }

    fn next(&mut self, now: Instant, budget: usize, out: &mut SpoutOutput<'_>) -> ComponentResult<Next> {
        self.inner.next(now, budget, out)
    }

    fn poll(&mut self, now: Instant) -> ComponentResult {
        self.inner.poll(now)
    }

    fn ack(&mut self, id: MessageId) {
        self.acks += 1;
        if self.bug != SpoutBug::ForgetsAnAck || !self.acks.is_multiple_of(700) {
            self.inner.ack(id);
        }
    }

    fn fail(&mut self, now: Instant, id: MessageId, failure: Failure<'_>, effects: u64) {
        if self.bug == SpoutBug::TakesAFailureForAnAck {
            self.inner.ack(id);
        } else {
            let effects = if self.bug == SpoutBug::TellsNoEffectsOfAFailure { 0 } else { effects };
            self.inner.fail(now, id, failure, effects);
        }
    }

    fn late_effects(&mut self, id: MessageId, effects: u64) {
        self.inner.late_effects(id, effects);
    }

    fn activate(&mut self) {
        self.inner.activate();
    }

    fn deactivate(&mut self) {
        self.inner.deactivate();
    }

    fn freeze(&mut self, number: CommitNumber) {
        self.inner.freeze(number);
    }

    fn begins_at(&mut self, now: Instant) -> ComponentResult<Option<Vec<SourceStart>>> {
        self.inner.begins_at(now)
    }

    fn confirms(&mut self, now: Instant) -> ComponentResult<bool> {
        self.inner.confirms(now)
    }

    fn frozen(&mut self) -> ComponentResult<Vec<SourcePosition>> {
        let mut frozen = self.inner.frozen()?;
        if self.bug == SpoutBug::TellsOfNothingStarted {
            frozen.iter_mut().for_each(|source| source.started = source.next);
        }
        Ok(frozen)
    }

    fn commit(&mut self, number: CommitNumber) -> ComponentResult {
        if self.bug == SpoutBug::CommitsWhatIsNewerThanTheFlush {
            self.inner.freeze(number);
        }
        self.inner.commit(number)
    }

    fn commit_state(&mut self, now: Instant) -> ComponentResult<CommitState> {
        self.inner.commit_state(now)
    }

    fn companion(&mut self) -> Option<Box<dyn Companion>> {
        self.inner.companion()
    }

    fn close(&mut self) {
        self.inner.close();
    }
}

pub(super) fn spout(bug: SpoutBug) -> Substitutes {
    let around = move |inner| -> Box<dyn Spout> { Box::new(BuggySpout { inner, bug, acks: 0 }) };
    Substitutes { spout: Some(Arc::new(around)), ..Substitutes::default() }
}
