//! The port of whoever reads whole topics, once.

use std::{sync::Arc, time::Duration};

use kafka_protocol::messages::ResponseKind;

use super::{
    LATER, METADATA, PATIENCE,
    fetching::{Fetcher, Found},
    metadata,
};
use crate::{
    chaos::{
        host::Host,
        link::{Call, Heard, Link},
    },
    clock::Instant,
    kafka::client::{
        AssignmentEpoch, ClientError, ErrorKind, Position, TopicPartition,
        scan::{ScanClient, ScanRecord},
    },
};

/// Reads whole topics, see [`ScanClient`]. It keeps nothing open once it is at its end.
#[derive(Debug)]
pub struct SimScan {
    host: Host,
    any: Link,
    fetcher: Fetcher,
    topics: Vec<Arc<str>>,
    only: Option<i32>,
    asking: Option<Call>,
    ask_at: Instant,
    is_assigned: bool,
    patience: Duration,
    heard: Instant,
}

impl SimScan {
    /// A reader that gives up after hearing nothing for `patience`.
    #[must_use]
    pub fn new(patience: Duration, host: Host) -> Self {
        Self {
            any: host.link(),
            fetcher: Fetcher::new(&host, Duration::from_millis(10)),
            topics: Vec::new(),
            only: None,
            asking: None,
            ask_at: Instant::ZERO,
            is_assigned: false,
            patience,
            heard: host.now(),
            host,
        }
    }

    /// Asks for the partitions of the topics, and begins to read them.
    fn learn(&mut self, now: Instant) {
        let Some(call) = self.asking.take() else {
            if now >= self.ask_at && self.any.is_ready() {
                self.asking = Some(self.any.ask(METADATA, metadata::about(&self.topics).into(), PATIENCE));
            }
            return;
        };
        match self.any.hear(call) {
            Heard::Nothing => self.asking = Some(call),
            Heard::Answer(ResponseKind::Metadata(answer)) => {
                let found = metadata::counts(&answer);
                if self.topics.iter().any(|topic| !found.contains_key(&**topic)) {
                    self.ask_at = now + LATER;
                    return;
                }
                for topic in &self.topics {
                    let all = 0..found.get(&**topic).copied().unwrap_or(0);
                    for partition in all.filter(|p| self.only.is_none_or(|only| only == *p)) {
                        let partition = TopicPartition { topic: Arc::clone(topic), partition };
                        self.fetcher.add(partition, AssignmentEpoch(0), Position::Beginning);
                    }
                }
                self.is_assigned = true;
            }
            Heard::Answer(_) | Heard::Lost => self.ask_at = now + LATER,
        }
    }
}

impl ScanClient for SimScan {
    fn start(&mut self, topics: &[Arc<str>], only: Option<i32>) {
        self.topics = topics.to_vec();
        self.only = only;
        self.heard = self.host.now();
    }

    fn read(
        &mut self,
        max_records: usize,
        _: Duration,
        each: &mut dyn FnMut(&ScanRecord<'_>),
    ) -> Result<bool, ClientError> {
        self.host.call()?;
        let now = self.host.now();
        if !self.is_assigned {
            self.learn(now);
        }
        self.fetcher.turn(now);
        let (mut ended, mut read, mut any) = (Vec::new(), Vec::new(), false);
        let topics = &self.topics;
        self.fetcher.deliver(max_records, |partition, _, found| {
            any = true;
            match found {
                Found::End(_) => ended.push(partition.clone()),
                Found::Astray(_) => {}
                Found::Block(block) => {
                    let topic = topics.iter().position(|topic| *topic == partition.topic).unwrap_or(0);
                    for at in 0..block.len() {
                        let (key, value) = (block.key(at), block.value(at));
                        each(&ScanRecord { topic, partition: partition.partition, key, value });
                    }
                    read.push(block);
                }
            }
        });
        read.into_iter().for_each(|block| self.fetcher.recycle(block));
        self.fetcher.remove(&ended);
        if any {
            self.heard = now;
        } else if now - self.heard > self.patience {
            return Err(ClientError::new(ErrorKind::TimedOut, format!("nothing came for {:?}", self.patience)));
        }
        let done = self.is_assigned && self.fetcher.readings.is_empty();
        if done {
            self.fetcher.close();
            self.any.close();
        }
        Ok(done)
    }

    fn remaining(&self) -> Option<u64> {
        None
    }
}
