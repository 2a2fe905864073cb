//! A cluster in memory for the changelog's tests: topics, transactions and scans, with every fault ordered by hand.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use super::{ChangelogClients, ChangelogClientsFactory};
use crate::kafka::client::{
    ClientError, ErrorKind,
    produce::ProduceBatch,
    scan::{ScanClient, ScanRecord},
    topics::{TopicFacts, TopicSpec, TopicsClient},
    transactions::TransactionClient,
};

/// Key and value.
pub(super) type Record = (Option<Vec<u8>>, Option<Vec<u8>>);

#[derive(Debug)]
pub(super) struct FakeTopic {
    pub(super) partitions: Vec<Vec<Record>>,
    pub(super) policy: Option<String>,
}

/// What becomes of a call of `commit`.
#[derive(Debug)]
pub(super) enum Fate {
    /// It goes on.
    Slow,
    /// It fails, and nothing was written.
    Fails(ErrorKind),
    /// It fails, and everything was written.
    LosesItsAnswer(ErrorKind),
}

#[derive(Debug, Default)]
pub(super) struct Cluster {
    pub(super) topics: BTreeMap<String, FakeTopic>,
    pub(super) made: Vec<TopicSpec>,
    /// The producer that has the identity.
    pub(super) holder: u64,
    /// Of the next calls of `commit`; success when there is none.
    pub(super) fates: VecDeque<Fate>,
    /// Records that a producer takes before it is polled.
    pub(super) room: Option<usize>,
    /// The next record is refused.
    pub(super) refuses: Option<ErrorKind>,
    /// Transactions that were committed: topic and partition of each record.
    pub(super) committed: Vec<Vec<(String, i32)>>,
    pub(super) closed: usize,
}

#[derive(Clone, Debug, Default)]
pub(super) struct FakeCluster(Arc<Mutex<Cluster>>);

impl FakeCluster {
    pub(super) fn get(&self) -> MutexGuard<'_, Cluster> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn put(&self, topic: &str, partition: usize, key: &[u8], value: Option<&[u8]>) {
        let mut cluster = self.get();
        let topic = cluster.topics.get_mut(topic).expect("the topic exists");
        topic.partitions[partition].push((Some(key.to_vec()), value.map(<[u8]>::to_vec)));
    }

    /// Deletes a topic's records.
    pub(super) fn empty(&self, topic: &str) {
        self.get().topics.get_mut(topic).expect("the topic exists").partitions.iter_mut().for_each(Vec::clear);
    }

    pub(super) fn clients(&self) -> ChangelogClientsFactory {
        let cluster = self.clone();
        Arc::new(move |_| {
            Ok(ChangelogClients {
                topics: Box::new(FakeTopics { cluster: cluster.clone(), asked: false }),
                producer: Box::new(FakeProducer {
                    cluster: cluster.clone(),
                    asked: false,
                    identity: 0,
                    unsent: 0,
                    open: None,
                }),
                scan: Box::new(FakeScan { cluster: cluster.clone(), topics: Vec::new(), only: None, unread: None }),
            })
        })
    }
}

fn failed(kind: ErrorKind) -> ClientError {
    ClientError::new(kind, "it was ordered to fail")
}

#[derive(Debug)]
struct FakeTopics {
    cluster: FakeCluster,
    asked: bool,
}

impl TopicsClient for FakeTopics {
    fn ensure(&mut self, topics: &[TopicSpec], _: Duration) -> Result<Option<Vec<TopicFacts>>, ClientError> {
        if !std::mem::replace(&mut self.asked, true) {
            return Ok(None);
        }
        let mut cluster = self.cluster.get();
        for spec in topics {
            if !cluster.topics.contains_key(&*spec.name) {
                let partitions = vec![Vec::new(); usize::try_from(spec.partitions).expect("not negative")];
                let setting = |name: &str| spec.settings.iter().find(|(n, _)| *n == name).map(|(_, v)| (*v).to_owned());
                let topic = FakeTopic { partitions, policy: setting("cleanup.policy") };
                cluster.topics.insert(spec.name.to_string(), topic);
                cluster.made.push(spec.clone());
            }
        }
        let fact = |spec: &TopicSpec| {
            let topic = &cluster.topics[&*spec.name];
            let partitions = i32::try_from(topic.partitions.len()).expect("few");
            TopicFacts { partitions, cleanup_policy: topic.policy.clone() }
        };
        Ok(Some(topics.iter().map(fact).collect()))
    }
}

#[derive(Debug)]
struct FakeProducer {
    cluster: FakeCluster,
    asked: bool,
    identity: u64,
    /// Records since the last poll.
    unsent: usize,
    open: Option<Vec<(String, i32, Record)>>,
}

impl FakeProducer {
    fn is_holder(&self) -> Result<(), ClientError> {
        if self.cluster.get().holder == self.identity {
            return Ok(());
        }
        Err(ClientError::new(ErrorKind::Fenced, "another process with the same identity took over"))
    }

    fn apply(&mut self) {
        let mut cluster = self.cluster.get();
        let records = self.open.take().expect("a transaction is open");
        cluster.committed.push(records.iter().map(|(topic, partition, _)| (topic.clone(), *partition)).collect());
        for (topic, partition, record) in records {
            let topic = cluster.topics.get_mut(&topic).expect("the topic exists");
            topic.partitions[usize::try_from(partition).expect("a partition")].push(record);
        }
    }
}

impl TransactionClient for FakeProducer {
    fn init(&mut self, topics: &[Arc<str>], _: Duration) -> Result<bool, ClientError> {
        if !std::mem::replace(&mut self.asked, true) {
            return Ok(false);
        }
        let mut cluster = self.cluster.get();
        assert!(topics.iter().all(|topic| cluster.topics.contains_key(&**topic)), "an unknown topic");
        cluster.holder += 1;
        self.identity = cluster.holder;
        Ok(true)
    }

    fn begin(&mut self) -> Result<(), ClientError> {
        assert!(self.open.replace(Vec::new()).is_none(), "a transaction is open");
        Ok(())
    }

    fn produce(&mut self, batch: &ProduceBatch, from: usize) -> Result<usize, ClientError> {
        let mut cluster = self.cluster.get();
        if let Some(kind) = cluster.refuses.take() {
            return Err(failed(kind));
        }
        let room = cluster.room.map_or(usize::MAX, |room| room - self.unsent);
        let open = self.open.as_mut().expect("a transaction is open");
        let before = open.len();
        for row in batch.rows().iter().skip(from).take(room) {
            let (key, value, _) = batch.parts(row);
            open.push((batch.topic().to_string(), row.partition, (key.map(<[u8]>::to_vec), value.map(<[u8]>::to_vec))));
        }
        self.unsent += open.len() - before;
        Ok(open.len() - before)
    }

    fn poll(&mut self, _: Duration) -> Result<(), ClientError> {
        self.unsent = 0;
        Ok(())
    }

    fn commit(&mut self, _: Duration) -> Result<bool, ClientError> {
        self.is_holder()?;
        let fate = self.cluster.get().fates.pop_front();
        match fate {
            Some(Fate::Slow) => return Ok(false),
            Some(Fate::Fails(kind)) => return Err(failed(kind)),
            Some(Fate::LosesItsAnswer(kind)) => {
                self.apply();
                return Err(failed(kind));
            }
            None => self.apply(),
        }
        Ok(true)
    }

    fn close(&mut self, _: Duration) {
        self.cluster.get().closed += 1;
    }
}

#[derive(Debug)]
struct FakeScan {
    cluster: FakeCluster,
    topics: Vec<Arc<str>>,
    only: Option<i32>,
    unread: Option<VecDeque<(usize, i32, Record)>>,
}

impl ScanClient for FakeScan {
    fn start(&mut self, topics: &[Arc<str>], only: Option<i32>) {
        self.topics = topics.to_vec();
        self.only = only;
    }

    fn read(
        &mut self,
        max_records: usize,
        _: Duration,
        each: &mut dyn FnMut(&ScanRecord<'_>),
    ) -> Result<bool, ClientError> {
        let Some(unread) = &mut self.unread else {
            let cluster = self.cluster.get();
            let mut all = VecDeque::new();
            for (topic, name) in self.topics.iter().enumerate() {
                let partitions = (0..).zip(&cluster.topics[&**name].partitions);
                for (partition, records) in partitions.filter(|(n, _)| self.only.is_none_or(|only| only == *n)) {
                    all.extend(records.iter().map(|record| (topic, partition, record.clone())));
                }
            }
            self.unread = Some(all);
            return Ok(false);
        };
        for (topic, partition, (key, value)) in unread.drain(..max_records.min(unread.len())) {
            each(&ScanRecord { topic, partition, key: key.as_deref(), value: value.as_deref() });
        }
        Ok(unread.is_empty())
    }

    fn remaining(&self) -> Option<u64> {
        self.unread.as_ref().map(|unread| unread.len() as u64)
    }
}
