//! Bugs in what a source says and is told.

use std::{sync::Arc, time::Duration};

use crate::{
    chaos::substitutes::Substitutes,
    kafka::client::{
        ClientError, Commit, CommitToken, NextOffset, Position, RecordBlock, SourceClient, SourceEvent, TopicPartition,
        Watermarks,
    },
};

#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(super) enum SourceBug {
    CommitsOneTooFar,
    StartsOneTooFar,
    DropsARevoke,
    AnswersARevokeItself,
    DropsABlock,
}

/// Whether a client may join its group by now.
pub(super) type MayJoin = Box<dyn FnMut() -> bool + Send>;

struct BuggySource {
    inner: Box<dyn SourceClient>,
    bug: Option<SourceBug>,
    blocks: u64,
    /// Nothing is polled before, and so nothing joins.
    may_join: Option<MayJoin>,
}

/// A source whose only bug is when it joins.
pub(super) fn joins_when(inner: Box<dyn SourceClient>, may_join: Option<MayJoin>) -> Box<dyn SourceClient> {
    Box::new(BuggySource { inner, bug: None, blocks: 0, may_join })
}

impl SourceClient for BuggySource {
    fn poll(&mut self, most: usize, wait: Duration, events: &mut Vec<SourceEvent>) -> Result<(), ClientError> {
        if self.may_join.as_mut().is_some_and(|may_join| !may_join()) {
            return Ok(());
        }
        self.may_join = None;
        self.inner.poll(most, wait, events)?;
        match self.bug {
            Some(SourceBug::DropsARevoke) => events.retain(|event| !matches!(event, SourceEvent::Revoked(_))),
            Some(SourceBug::AnswersARevokeItself) => {
                let before = events.len();
                events.retain(|event| !matches!(event, SourceEvent::Revoked(_)));
                (events.len()..before).try_for_each(|_| self.inner.unassign())?;
            }
            Some(SourceBug::DropsABlock) => events.retain(|event| {
                self.blocks += u64::from(matches!(event, SourceEvent::Records(_)));
                !matches!(event, SourceEvent::Records(_)) || !self.blocks.is_multiple_of(20)
            }),
            Some(SourceBug::CommitsOneTooFar | SourceBug::StartsOneTooFar) | None => {}
        }
        Ok(())
    }

    fn assign(&mut self, partitions: &[(TopicPartition, Position)]) -> Result<(), ClientError> {
        let further = |(partition, position): &(TopicPartition, Position)| match position {
            Position::At(next) if self.bug == Some(SourceBug::StartsOneTooFar) => {
                (partition.clone(), Position::At(NextOffset(next.0 + 1)))
            }
            position => (partition.clone(), *position),
        };
        let partitions: Vec<_> = partitions.iter().map(further).collect();
        self.inner.assign(&partitions)
    }

    fn unassign(&mut self) -> Result<(), ClientError> {
        self.inner.unassign()
    }

    fn pause(&mut self, partitions: &[TopicPartition]) -> Result<(), ClientError> {
        self.inner.pause(partitions)
    }

    fn resume(&mut self, partitions: &[TopicPartition]) -> Result<(), ClientError> {
        self.inner.resume(partitions)
    }

    fn seek(&mut self, partition: &TopicPartition, to: Position, wait: Duration) -> Result<(), ClientError> {
        self.inner.seek(partition, to, wait)
    }

    fn commit(&mut self, mut values: Vec<Commit>, token: CommitToken) {
        for value in &mut values {
            value.next.0 += i64::from(self.bug == Some(SourceBug::CommitsOneTooFar));
        }
        self.inner.commit(values, token);
    }

    fn partitions(&mut self, wait: Duration) -> Result<Vec<TopicPartition>, ClientError> {
        self.inner.partitions(wait)
    }

    fn watermarks(&mut self, partitions: &[TopicPartition], wait: Duration) -> Result<Vec<Watermarks>, ClientError> {
        self.inner.watermarks(partitions, wait)
    }

    fn committed(
        &mut self,
        partitions: &[TopicPartition],
        max_wait: Duration,
    ) -> Result<Vec<Option<NextOffset>>, ClientError> {
        self.inner.committed(partitions, max_wait)
    }

    fn recycle(&mut self, block: RecordBlock) {
        self.inner.recycle(block);
    }

    fn close(&mut self, wait: Duration) -> Result<(), ClientError> {
        self.inner.close(wait)
    }
}

pub(super) fn source(bug: SourceBug) -> Substitutes {
    let around = move |inner| -> Box<dyn SourceClient> {
        Box::new(BuggySource { inner, bug: Some(bug), blocks: 0, may_join: None })
    };
    Substitutes { source: Some(Arc::new(around)), ..Substitutes::default() }
}
