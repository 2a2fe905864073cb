//! Lines into a topic, paced or as fast as the broker takes them.

use std::{sync::Arc, time::Duration};

use serde::Serialize;

use super::{input::Input, pace::Pace};
use crate::{
    clock::Clock,
    kafka::client::{DeliveryFailure, DeliveryReport, ProduceBatch, SinkClient, produce::ProduceRecord},
    service::exit::{Cause, Failure, OrFail as _},
};

/// Lines in one offer to the client.
const BATCH_LINES: u64 = 4096;
/// Bytes after which a batch is offered, however few lines it has.
const BATCH_BYTES: usize = 1 << 20;
/// Longest wait between two looks at the clock.
const TICK: Duration = Duration::from_millis(10);
/// Longest wait for the last acknowledgements.
const CLOSE: Duration = Duration::from_mins(1);

/// Where to and how fast.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    /// The topic.
    pub(crate) topic: Arc<str>,
    /// Its partitions, which take lines in turn.
    pub(crate) partitions: i32,
    /// Lines a second; `None`: as fast as possible.
    pub(crate) rate: Option<f64>,
}

/// What was sent.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub(crate) struct Sent {
    /// Lines handed to the client.
    pub(crate) lines: u64,
    /// Bytes of these lines.
    pub(crate) bytes: u64,
    /// Lines that the broker has acknowledged.
    pub(crate) acknowledged: u64,
    /// Lines that were not delivered.
    pub(crate) failed: u64,
}

/// Sends lines; made for one input and one target.
pub(crate) struct Sender<'a> {
    client: &'a mut dyn SinkClient,
    target: &'a Target,
    clock: &'a Clock,
    batch: ProduceBatch,
    line: Vec<u8>,
    sent: Sent,
    first_failure: Option<(DeliveryFailure, String)>,
}

impl<'a> Sender<'a> {
    pub(crate) fn new(client: &'a mut dyn SinkClient, target: &'a Target, clock: &'a Clock) -> Self {
        let batch = ProduceBatch::new(Arc::clone(&target.topic));
        Self { client, target, clock, batch, line: Vec::new(), sent: Sent::default(), first_failure: None }
    }

    /// Sends all of `input`; `wall_millis` is the time of day at the start, `show` is told how far it has come.
    ///
    /// # Errors
    /// If the file cannot be read, if the client gives up, or if lines were not delivered.
    pub(crate) fn send(
        mut self,
        input: &mut Input,
        wall_millis: i64,
        show: &mut dyn FnMut(&Sent),
    ) -> Result<Sent, Failure> {
        let start = self.clock.now();
        let pace = self.target.rate.map(|rate| Pace::new(start, rate));
        loop {
            let now = self.clock.now();
            let due = pace.map_or(BATCH_LINES, |pace| pace.due_by(now).saturating_sub(self.sent.lines));
            let more = self.fill(input, due, |n| {
                let planned = pace?.due(n).saturating_since(start);
                Some(wall_millis.saturating_add(i64::try_from(planned.as_millis()).ok()?))
            })?;
            self.offer()?;
            show(&self.sent);
            if !more {
                break;
            }
            if let Some(pace) = pace {
                self.client.flush_hint();
                let wait = pace.due(self.sent.lines).saturating_since(self.clock.now());
                self.poll(wait.min(TICK))?;
            }
        }
        self.finish()
    }

    /// Fills the batch with up to `lines` lines; false at the end of the input. A paced line has the time at which it
    /// was due as its timestamp.
    fn fill(&mut self, input: &mut Input, lines: u64, timestamp: impl Fn(u64) -> Option<i64>) -> Result<bool, Failure> {
        self.batch.clear();
        for _ in 0..lines.min(BATCH_LINES) {
            if self.batch.bytes().len() >= BATCH_BYTES {
                break;
            }
            if !input.next(&mut self.line).or_fail(Cause::Io)? {
                return Ok(false);
            }
            let n = self.sent.lines;
            let partition = i32::try_from(n % u64::from(self.target.partitions.max(1).unsigned_abs())).unwrap_or(0);
            let at = timestamp(n).unwrap_or(crate::kafka::client::record::NO_TIMESTAMP);
            let record = ProduceRecord { value: Some(&self.line), ..ProduceRecord::default() };
            self.batch.push_to(partition, at, &record);
            self.sent.lines += 1;
            self.sent.bytes += self.line.len() as u64;
        }
        Ok(true)
    }

    /// Gives the batch to the client, waiting for room.
    fn offer(&mut self) -> Result<(), Failure> {
        let mut from = 0;
        while from < self.batch.len() {
            let taken = self.client.produce(&self.batch, from);
            from += taken;
            self.poll(if taken == 0 { TICK } else { Duration::ZERO })?;
        }
        Ok(())
    }

    fn poll(&mut self, max_wait: Duration) -> Result<(), Failure> {
        let mut reports = Vec::new();
        self.client.poll(max_wait, &mut reports)?;
        self.take(reports)
    }

    fn take(&mut self, reports: Vec<DeliveryReport>) -> Result<(), Failure> {
        for report in reports {
            match report {
                DeliveryReport::Acked { records, .. } => self.sent.acknowledged += records,
                DeliveryReport::Failed(failed) => {
                    match failed.reason {
                        DeliveryFailure::Denied => return Err(Failure::new(Cause::Permission, failed.message)),
                        DeliveryFailure::Fatal => return Err(Failure::new(Cause::Unavailable, failed.message)),
                        DeliveryFailure::TooLarge | DeliveryFailure::RequestTooLarge | DeliveryFailure::GaveUp => {}
                    }
                    self.sent.failed += 1;
                    self.first_failure.get_or_insert((failed.reason, failed.message));
                }
                DeliveryReport::Trouble(trouble) => tracing::warn!("{}", trouble.message),
                DeliveryReport::Recovered => tracing::info!("brokers answer again"),
            }
        }
        Ok(())
    }

    fn finish(mut self) -> Result<Sent, Failure> {
        let mut reports = Vec::new();
        let closed = self.client.close(CLOSE, &mut reports);
        self.take(reports)?;
        closed?;
        match self.first_failure {
            None => Ok(self.sent),
            Some((reason, first)) => {
                let cause = if matches!(reason, DeliveryFailure::TooLarge | DeliveryFailure::RequestTooLarge) {
                    Cause::Data
                } else {
                    Cause::Unavailable
                };
                let message = format!(
                    "{} of {} lines were not delivered to {}; the first: {first}",
                    self.sent.failed, self.sent.lines, self.target.topic
                );
                Err(Failure::new(cause, message))
            }
        }
    }
}

#[cfg(test)]
#[path = "send_tests.rs"]
mod tests;
