//! The changelog in Kafka: one compacted topic a store, one transaction a flush
//! (`docs/design/0007-state-and-the-commit.md`).
//!
//! Files in reading order: `options` (whose changelog it is), `opening` (its topics), `restoring` (from records to
//! entries, and what must be there), `flushing` (from entries to a transaction); `looking` (a store from outside).

#[cfg(test)]
mod fake;
mod flushing;
mod looking;
mod opening;
mod options;
mod restoring;
#[cfg(test)]
mod tests;

use std::{sync::Arc, time::Duration};

use self::{flushing::Flushing, opening::Topics, restoring::Restoring};
use super::{
    client::{
        ClientError,
        scan::{ScanClient, ScanRecord},
        topics::TopicsClient,
        transactions::TransactionClient,
    },
    dead_letters::component_error,
};
use crate::{
    clock::Clock,
    topology::{
        CommitNumber, ComponentError, ComponentResult,
        changelog::{Changelog, ChangelogFactory, Flush, Restored, StoreFormat},
    },
};

pub use looking::{EntryRecord, StoreReader, StoreTopic};
pub use options::ChangelogOptions;

/// Records that one read of the restore takes: a few times as many as fit the cache would be slower.
const RECORDS: usize = 4096;

/// The clients that a changelog works with.
pub struct ChangelogClients {
    /// Makes its topics and looks at them.
    pub topics: Box<dyn TopicsClient>,
    /// Writes flushes.
    pub producer: Box<dyn TransactionClient>,
    /// Reads what was written.
    pub scan: Box<dyn ScanClient>,
}

impl std::fmt::Debug for ChangelogClients {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ChangelogClients").finish_non_exhaustive()
    }
}

/// Makes the clients of one generation's changelog.
pub type ChangelogClientsFactory =
    Arc<dyn Fn(&ChangelogOptions) -> Result<ChangelogClients, ClientError> + Send + Sync>;

/// What it is at.
enum Phase {
    /// The topics are made and looked at.
    Topics(Box<dyn TopicsClient>, Box<dyn ScanClient>),
    /// The predecessor is fenced.
    Identity(Box<dyn ScanClient>),
    /// Everything is read.
    Restoring(Box<dyn ScanClient>, Restoring),
    /// Flushes are written. `true`: the first one is still to say what the topics are.
    Writing(bool),
    /// An error was told, or `close` was called.
    Over,
}

/// Keeps the stores of a topology in Kafka, see [`Changelog`].
pub struct KafkaChangelog {
    options: ChangelogOptions,
    topics: Topics,
    phase: Phase,
    producer: Box<dyn TransactionClient>,
    flushing: Option<Flushing>,
    clock: Clock,
}

impl std::fmt::Debug for KafkaChangelog {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KafkaChangelog").field("topics", &self.topics).finish_non_exhaustive()
    }
}

impl KafkaChangelog {
    /// A changelog for these stores, the first of which has the position records. Does not wait for a broker.
    ///
    /// # Errors
    /// A name that no topic can have, a property that the client does not accept.
    pub fn new(
        options: ChangelogOptions,
        formats: &[StoreFormat],
        clients: &ChangelogClientsFactory,
        clock: Clock,
    ) -> ComponentResult<Self> {
        let topics = Topics::new(&options, formats)?;
        let ChangelogClients { topics: look, producer, scan } = clients(&options).map_err(component_error)?;
        Ok(Self { options, topics, phase: Phase::Topics(look, scan), producer, flushing: None, clock })
    }

    /// Makes one for each generation.
    #[must_use]
    pub fn factory(options: ChangelogOptions, clients: ChangelogClientsFactory, clock: Clock) -> ChangelogFactory {
        ChangelogFactory::new(move |formats| {
            Ok(Box::new(Self::new(options.clone(), formats, &clients, clock.clone())?))
        })
    }

    /// Whether all changelog topics can be used; `None`: not known yet.
    fn look(&self, client: &mut dyn TopicsClient, max_wait: Duration) -> ComponentResult<bool> {
        match client.ensure(self.topics.specs(), max_wait).map_err(component_error)? {
            Some(facts) => self.topics.check(&facts, &self.options.brokers).map(|()| true),
            None => Ok(false),
        }
    }
}

/// The contract's order of calls was broken, or a call came after an error.
fn out_of_order(call: &str) -> ComponentError {
    ComponentError::new(format!("the changelog was told to {call}, which it cannot do now"))
}

impl Changelog for KafkaChangelog {
    fn open(&mut self, max_wait: Duration) -> ComponentResult<bool> {
        match std::mem::replace(&mut self.phase, Phase::Over) {
            Phase::Topics(mut client, scan) => {
                let done = self.look(&mut *client, max_wait)?;
                self.phase = if done { Phase::Identity(scan) } else { Phase::Topics(client, scan) };
                Ok(false)
            }
            Phase::Identity(mut scan) => {
                let done = self.producer.init(self.topics.names(), max_wait).map_err(component_error)?;
                if done {
                    scan.start(self.topics.names(), None);
                    self.phase = Phase::Restoring(scan, Restoring::new(&self.topics));
                } else {
                    self.phase = Phase::Identity(scan);
                }
                Ok(done)
            }
            Phase::Restoring(..) | Phase::Writing(_) | Phase::Over => Err(out_of_order("open")),
        }
    }

    fn restore(&mut self, max_wait: Duration) -> ComponentResult<Restored> {
        let Phase::Restoring(mut scan, mut restoring) = std::mem::replace(&mut self.phase, Phase::Over) else {
            return Err(out_of_order("restore"));
        };
        if restoring.is_empty() && !restoring.read_all {
            let take = &mut |record: &ScanRecord<'_>| restoring.take(record);
            restoring.read_all = scan.read(RECORDS, max_wait, take).map_err(component_error)?;
            restoring.refused()?;
        }
        if let Some((store, group, entries)) = restoring.next() {
            self.phase = Phase::Restoring(scan, restoring);
            return Ok(Restored::Entries { store, group, entries });
        }
        if restoring.read_all {
            scan.end();
            let position = restoring.finish()?;
            self.phase = Phase::Writing(position.is_none());
            return Ok(Restored::Done(position));
        }
        self.phase = Phase::Restoring(scan, restoring);
        Ok(Restored::Nothing)
    }

    fn remaining(&self) -> Option<u64> {
        match &self.phase {
            Phase::Restoring(scan, _) => scan.remaining(),
            Phase::Writing(_) => Some(0),
            Phase::Topics(..) | Phase::Identity(_) | Phase::Over => None,
        }
    }

    fn write(&mut self, flush: Flush) -> ComponentResult {
        let (Phase::Writing(first), None) = (&mut self.phase, &self.flushing) else {
            return Err(out_of_order("write"));
        };
        let formats = std::mem::take(first).then(|| self.topics.formats());
        let flushing = Flushing::new(flush, &self.topics, formats.unwrap_or_default(), self.clock.now())?;
        self.producer.begin().map_err(component_error)?;
        self.flushing.insert(flushing).send(&mut *self.producer).map(drop).map_err(component_error)
    }

    fn poll(&mut self, max_wait: Duration) -> ComponentResult<Option<CommitNumber>> {
        let Some(flushing) = &mut self.flushing else {
            self.producer.poll(Duration::ZERO).map_err(component_error)?;
            return Ok(None);
        };
        let durable = flushing.step(&mut *self.producer, &self.options, &self.clock, max_wait)?;
        if durable.is_some() {
            self.flushing = None;
        }
        Ok(durable)
    }

    fn close(&mut self, max_wait: Duration) {
        self.phase = Phase::Over;
        self.producer.close(max_wait);
    }
}
