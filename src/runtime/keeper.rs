//! The changelog's thread: opens it, reads the stores back, then writes one flush after the other.

use std::{
    sync::mpsc::{Receiver, RecvTimeoutError, SyncSender},
    time::Duration,
};

use super::executor::Report;
use crate::{
    clock::Instant,
    state::{Changes, Position},
    topology::{
        CommitNumber, Companion, CompanionStep, ComponentResult,
        changelog::{Changelog, Flush, Restored, StoreId},
    },
};

/// What the changelog's thread is told.
#[derive(Debug)]
pub(crate) enum KeeperOrder {
    /// Open the changelog and read it to its end.
    Restore,
    /// Write a flush.
    Write(Flush),
}

/// What the changelog's thread says.
#[derive(Debug)]
pub(crate) enum KeeperNews {
    /// Entries of one key group, on their way back into their store.
    Entries { store: StoreId, group: u16, entries: Changes },
    /// So many entries are still to be read, as far as is known.
    Remaining(Option<u64>),
    /// Everything was read: what the state was written with last.
    Restored(Option<Position>),
    /// The changelog is not ours to go on from: a sentence.
    Refused(String),
    /// A flush is durable.
    Durable(CommitNumber),
}

#[derive(Copy, Clone, PartialEq, Eq, Debug)]
enum Stage {
    Resting,
    Opening,
    Restoring,
    Writing,
}

/// Serves one changelog for one generation.
pub(crate) struct Keeper {
    changelog: Box<dyn Changelog>,
    orders: Receiver<KeeperOrder>,
    reports: SyncSender<Report>,
    stage: Stage,
    tell_remaining_at: Instant,
    now: Instant,
}

/// How often it is told how much is still to be read.
const TELL_EVERY: Duration = Duration::from_secs(2);

impl Keeper {
    pub(crate) const fn new(
        changelog: Box<dyn Changelog>,
        orders: Receiver<KeeperOrder>,
        reports: SyncSender<Report>,
    ) -> Self {
        Self { changelog, orders, reports, stage: Stage::Resting, tell_remaining_at: Instant::ZERO, now: Instant::ZERO }
    }

    fn tell(&self, news: KeeperNews) {
        // The supervisor hangs up only when it has given the generation up.
        drop(self.reports.send(Report::Changelog(news)));
    }

    fn take_order(&mut self, max_wait: Duration) -> ComponentResult<CompanionStep> {
        let order = if max_wait.is_zero() {
            self.orders.try_recv().ok()
        } else {
            match self.orders.recv_timeout(max_wait) {
                Ok(order) => Some(order),
                Err(RecvTimeoutError::Timeout) => None,
                Err(RecvTimeoutError::Disconnected) => return Ok(CompanionStep::Finished),
            }
        };
        match order {
            None => {}
            Some(KeeperOrder::Restore) => self.stage = Stage::Opening,
            Some(KeeperOrder::Write(flush)) => {
                self.changelog.write(flush)?;
                self.stage = Stage::Writing;
            }
        }
        Ok(CompanionStep::Continue)
    }

    fn restore(&mut self, max_wait: Duration) -> ComponentResult {
        match self.changelog.restore(max_wait)? {
            Restored::Entries { store, group, entries } => self.tell(KeeperNews::Entries { store, group, entries }),
            Restored::Nothing => {}
            Restored::Done(position) => {
                self.stage = Stage::Resting;
                self.tell(KeeperNews::Restored(position));
                return Ok(());
            }
        }
        if self.now >= self.tell_remaining_at {
            self.tell_remaining_at = self.now + TELL_EVERY;
            self.tell(KeeperNews::Remaining(self.changelog.remaining()));
        }
        Ok(())
    }

    /// A changelog that refuses before it was restored is of another app, or damaged: that is for the user to decide.
    fn refuse(&self, result: ComponentResult) -> ComponentResult<CompanionStep> {
        match result {
            Err(error) if error.is_refusal() => {
                self.tell(KeeperNews::Refused(error.to_string()));
                Ok(CompanionStep::Finished)
            }
            Err(error) => Err(error),
            Ok(()) => Ok(CompanionStep::Continue),
        }
    }
}

impl Companion for Keeper {
    fn name(&self) -> &str {
        "changelog"
    }

    fn step(&mut self, now: Instant, max_wait: Duration) -> ComponentResult<CompanionStep> {
        self.now = now;
        match self.stage {
            Stage::Resting => self.take_order(max_wait),
            Stage::Opening => {
                let opened = self.changelog.open(max_wait).map(|open| {
                    if open {
                        self.tell_remaining_at = now + TELL_EVERY;
                        self.stage = Stage::Restoring;
                    }
                });
                self.refuse(opened)
            }
            Stage::Restoring => {
                let restored = self.restore(max_wait);
                self.refuse(restored)
            }
            Stage::Writing => {
                if let Some(number) = self.changelog.poll(max_wait)? {
                    self.stage = Stage::Resting;
                    self.tell(KeeperNews::Durable(number));
                }
                Ok(CompanionStep::Continue)
            }
        }
    }

    fn close(&mut self, max_wait: Duration) {
        self.changelog.close(max_wait);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;
    use crate::topology::ComponentError;

    /// A changelog that does not open.
    struct Shut(ComponentError);

    impl Changelog for Shut {
        fn open(&mut self, _: Duration) -> ComponentResult<bool> {
            Err(self.0.clone())
        }

        fn restore(&mut self, _: Duration) -> ComponentResult<Restored> {
            unreachable!("it does not open")
        }

        fn remaining(&self) -> Option<u64> {
            None
        }

        fn write(&mut self, _: Flush) -> ComponentResult {
            unreachable!("it does not open")
        }

        fn poll(&mut self, _: Duration) -> ComponentResult<Option<CommitNumber>> {
            unreachable!("it does not open")
        }

        fn close(&mut self, _: Duration) {}
    }

    /// What the steps come to, and whether the run was refused.
    fn opened(error: ComponentError) -> (ComponentResult<CompanionStep>, bool) {
        let (orders, obeyed) = mpsc::sync_channel(1);
        let (told, news) = mpsc::sync_channel(8);
        let mut keeper = Keeper::new(Box::new(Shut(error)), obeyed, told);
        orders.send(KeeperOrder::Restore).unwrap();
        assert_eq!(keeper.step(Instant::ZERO, Duration::ZERO).unwrap(), CompanionStep::Continue);
        let step = keeper.step(Instant::ZERO, Duration::ZERO);
        let refused = news.try_iter().any(|report| matches!(report, Report::Changelog(KeeperNews::Refused(_))));
        (step, refused)
    }

    #[test]
    fn only_a_refusal_is_for_a_person_to_decide() {
        assert!(matches!(opened(ComponentError::refused("of another app")), (Ok(CompanionStep::Finished), true)));
        // Wrong rights are mended at the broker, not in the configuration.
        assert!(matches!(opened(ComponentError::permanent("access is denied")), (Err(_), false)));
        assert!(matches!(opened(ComponentError::new("no broker answers")), (Err(_), false)));
    }
}
