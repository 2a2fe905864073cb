//! A source with its tuples given, and a sink that takes everything.

use std::collections::{BTreeMap, VecDeque};

use super::Row;
use crate::{
    clock::Instant,
    topology::{ComponentResult, Failure, InFlight, MessageId, Next, Sink, Spout, SpoutOutput},
    tuple::{Tuple, mix},
};

/// Emits the rows given, each the root of a tree, and again when its tree fails (Storm's `FixedTupleSpout`).
#[derive(Clone, Debug)]
pub struct MockSpout {
    rows: Vec<Row>,
    due: VecDeque<usize>,
    /// Row -> how often it may be emitted again.
    retries: BTreeMap<usize, usize>,
    max_retries: usize,
    open: usize,
}

impl MockSpout {
    /// Emits these rows in order; each is emitted again up to three times.
    #[must_use]
    pub fn new(rows: Vec<Row>) -> Self {
        let due = (0..rows.len()).collect();
        Self { rows, due, retries: BTreeMap::new(), max_retries: 3, open: 0 }
    }

    /// How often a row is emitted again when its tree fails.
    #[must_use]
    pub const fn max_retries(mut self, times: usize) -> Self {
        self.max_retries = times;
        self
    }
}

impl Spout for MockSpout {
    fn next(&mut self, _: Instant, budget: usize, out: &mut SpoutOutput<'_>) -> ComponentResult<Next> {
        if self.due.is_empty() {
            return Ok(if self.open == 0 { Next::Exhausted } else { Next::Idle { until: None } });
        }
        for at in self.due.drain(..budget.min(self.due.len())) {
            let values: Vec<_> = self.rows.get(at).into_iter().flatten().map(|v| v.as_value()).collect();
            out.emit(MessageId(at as u64), mix(at as u64 + 1), &values);
            self.open += usize::from(out.is_tracked());
        }
        Ok(Next::Emitted)
    }

    fn ack(&mut self, _: MessageId) {
        self.open = self.open.saturating_sub(1);
    }

    fn fail(&mut self, _: Instant, id: MessageId, _: Failure<'_>, _: u64) {
        self.open = self.open.saturating_sub(1);
        let Ok(at) = usize::try_from(id.0) else { return };
        let retries = self.retries.entry(at).or_default();
        if *retries < self.max_retries {
            *retries += 1;
            self.due.push_back(at);
        }
    }
}

/// Takes every tuple and keeps nothing: the test kit sees what it is sent.
#[derive(Copy, Clone, Debug, Default)]
pub struct MockSink;

impl Sink for MockSink {
    fn write(&mut self, _: &Tuple<'_>) -> ComponentResult {
        Ok(())
    }

    fn flush(&mut self, _: Instant) -> ComponentResult {
        Ok(())
    }

    fn poll(&mut self, _: Instant) -> ComponentResult<InFlight> {
        Ok(InFlight { records: 0 })
    }
}
