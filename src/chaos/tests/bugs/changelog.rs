//! Bugs in the changelog.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use crate::{
    chaos::substitutes::Substitutes,
    topology::{
        CommitNumber, ComponentResult,
        changelog::{Changelog, Flush, Restored},
    },
};

#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(super) enum ChangelogBug {
    SaysDurableTooEarly,
    ForgetsAnEntryGroup,
}

struct BuggyChangelog {
    inner: Box<dyn Changelog>,
    bug: ChangelogBug,
    early: Option<CommitNumber>,
    later: VecDeque<Flush>,
    writing: bool,
    groups: u64,
}

impl Changelog for BuggyChangelog {
    fn open(&mut self, wait: Duration) -> ComponentResult<bool> {
        self.inner.open(wait)
    }

    fn restore(&mut self, wait: Duration) -> ComponentResult<Restored> {
        let restored = self.inner.restore(wait)?;
        if self.bug == ChangelogBug::ForgetsAnEntryGroup && matches!(restored, Restored::Entries { .. }) {
            self.groups += 1;
            if self.groups.is_multiple_of(3) {
                return Ok(Restored::Nothing);
            }
        }
        Ok(restored)
    }

    fn remaining(&self) -> Option<u64> {
        self.inner.remaining()
    }

    fn write(&mut self, flush: Flush) -> ComponentResult {
        if self.bug != ChangelogBug::SaysDurableTooEarly {
            return self.inner.write(flush);
        }
        self.early = Some(CommitNumber(flush.position.commit));
        self.later.push_back(flush);
        Ok(())
    }

    fn poll(&mut self, wait: Duration) -> ComponentResult<Option<CommitNumber>> {
        if self.bug != ChangelogBug::SaysDurableTooEarly {
            return self.inner.poll(wait);
        }
        if !self.writing
            && let Some(flush) = self.later.pop_front()
        {
            self.inner.write(flush)?;
            self.writing = true;
        }
        if self.writing && self.inner.poll(wait)?.is_some() {
            self.writing = false;
        }
        Ok(self.early.take())
    }

    fn close(&mut self, wait: Duration) {
        self.inner.close(wait);
    }
}

pub(super) fn changelog(bug: ChangelogBug) -> Substitutes {
    let around = move |inner| -> Box<dyn Changelog> {
        let (early, later) = (None, VecDeque::new());
        Box::new(BuggyChangelog { inner, bug, early, later, writing: false, groups: 0 })
    };
    Substitutes { changelog: Some(Arc::new(around)), ..Substitutes::default() }
}
