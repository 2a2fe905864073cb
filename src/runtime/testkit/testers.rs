//! One component under hostile schedules.

use std::time::Duration;

use super::{MockSink, MockSpout, Observed, Row, Violation, complete, course::Schedule, violation};
use crate::{
    state::{StateKey, StateValue},
    topology::{
        AckingBolt, Bolt, DeclaredStore, Factory, Grouping, Sink, Spout, TopologyBuilder,
        declared::{BoltKind, SinkKind, SpoutKind},
    },
};

const INPUT: &str = "input";
const TESTED: &str = "tested";

/// Schedules whose runs must not differ.
const EQUAL: [(&str, Schedule); 3] = [
    ("one tuple at a time", Schedule { budget: 1, ..Schedule::FRIENDLY }),
    ("one-slot outboxes", Schedule { batch_rows: 1, ..Schedule::FRIENDLY }),
    ("one tuple at a time and one-slot outboxes", Schedule { budget: 1, batch_rows: 1, ..Schedule::FRIENDLY }),
];

/// Runs a bolt over inputs of one stream (called `default`, of a component called `input`).
#[derive(Clone, Debug)]
pub struct BoltTester {
    factory: Factory,
    fields: Vec<String>,
    streams: Vec<(String, Vec<String>)>,
    stores: Vec<DeclaredStore>,
    grouping: Grouping,
    tick: Option<Duration>,
    same: bool,
}

impl BoltTester {
    /// A bolt whose inputs have these fields.
    pub fn new<T: Bolt + 'static, S: Into<String>>(
        factory: impl Fn() -> T + Send + Sync + 'static,
        fields: impl IntoIterator<Item = S>,
    ) -> Self {
        Self::of(Factory::bolt(factory), fields)
    }

    /// A bolt that acks its inputs itself.
    pub fn acking<T: AckingBolt + 'static, S: Into<String>>(
        factory: impl Fn() -> T + Send + Sync + 'static,
        fields: impl IntoIterator<Item = S>,
    ) -> Self {
        Self::of(Factory::acking_bolt(factory), fields)
    }

    fn of<S: Into<String>>(factory: Factory, fields: impl IntoIterator<Item = S>) -> Self {
        let fields = fields.into_iter().map(Into::into).collect();
        let (streams, stores) = (Vec::new(), Vec::new());
        Self { factory, fields, streams, stores, grouping: Grouping::Shuffle, tick: None, same: true }
    }

    /// Declares a stream that the bolt emits; `default` is the usual name.
    #[must_use]
    pub fn emits<S: Into<String>>(mut self, stream: &str, fields: impl IntoIterator<Item = S>) -> Self {
        self.streams.push((stream.to_owned(), fields.into_iter().map(Into::into).collect()));
        self
    }

    /// Declares a store of the bolt; its inputs must then be grouped by fields. [`Observed::entries`] shows what it holds
    /// at the end.
    #[must_use]
    pub fn store<K: StateKey, V: StateValue>(mut self, name: &str) -> Self {
        self.stores.push(DeclaredStore::new::<K, V>(name));
        self
    }

    /// How its inputs are grouped; shuffle unless said here. Only a key's hash is seen of it: there is one task.
    #[must_use]
    pub fn grouped(mut self, grouping: Grouping) -> Self {
        self.grouping = grouping;
        self
    }

    /// Ticks the bolt: while inputs are held and nothing else happens, and once at the end.
    #[must_use]
    pub const fn tick_every(mut self, interval: Duration) -> Self {
        self.tick = Some(interval);
        self
    }

    /// Says that what is emitted may depend on how inputs are batched. Otherwise that is a violation.
    #[must_use]
    pub const fn may_differ(mut self) -> Self {
        self.same = false;
        self
    }

    /// Runs the bolt over `inputs` under every schedule; what it did under the friendly one.
    ///
    /// # Errors
    /// The first contract that was broken.
    pub fn run(&self, inputs: &[Row]) -> Result<Observed, Violation> {
        let friendly = self.under(inputs, Schedule::FRIENDLY)?;
        for (name, schedule) in EQUAL {
            let hostile = self.under(inputs, schedule)?;
            if self.same && hostile != friendly {
                let what = format!("behaves differently under {name}: {hostile:?} instead of {friendly:?}");
                return Err(violation("Bolt 2", TESTED, &what));
            }
        }
        let replay = Schedule { replay: true, budget: 1, ..Schedule::FRIENDLY };
        let replayed = self.under(inputs, replay)?;
        if replayed.acked < friendly.acked {
            let what = format!("acks {} inputs that come again, of {}", replayed.acked, friendly.acked);
            return Err(violation("Bolt 4", TESTED, &what));
        }
        let fresh = self.under(inputs, Schedule { fresh: true, budget: 1, ..Schedule::FRIENDLY })?;
        if fresh.acked + fresh.failed + (fresh.held as u64) < inputs.len() as u64 {
            let what = "loses inputs when an instance takes another's place";
            return Err(violation("Bolt 3", TESTED, what));
        }
        Ok(friendly)
    }

    fn under(&self, inputs: &[Row], schedule: Schedule) -> Result<Observed, Violation> {
        let mut t = TopologyBuilder::new("bolt-test");
        let rows = inputs.to_vec();
        t.spout(INPUT, move || MockSpout::new(rows.clone())).fields(self.fields.clone());
        let mut bolt = t.component::<BoltKind>(TESTED, self.factory.clone());
        bolt.reads(INPUT, self.grouping.clone());
        for (stream, fields) in &self.streams {
            bolt.stream(stream, fields.clone());
        }
        for store in &self.stores {
            bolt.declare_store(store.clone());
        }
        if let Some(interval) = self.tick {
            bolt.tick_every(interval);
        }
        Ok(complete::run(t, schedule)?.of(TESTED))
    }
}

/// Runs a sink over inputs of one stream (called `default`, of a component called `input`).
#[derive(Clone, Debug)]
pub struct SinkTester {
    factory: Factory,
    fields: Vec<String>,
}

impl SinkTester {
    /// A sink whose inputs have these fields.
    pub fn new<T: Sink + 'static, S: Into<String>>(
        factory: impl Fn() -> T + Send + Sync + 'static,
        fields: impl IntoIterator<Item = S>,
    ) -> Self {
        Self { factory: Factory::sink(factory), fields: fields.into_iter().map(Into::into).collect() }
    }

    /// Writes `inputs` under every schedule, then flushes and polls; what the sink did under the friendly one. What it
    /// has written is for the test to look up where the factory has put it: once for each schedule, and twice for the
    /// one that replays.
    ///
    /// # Errors
    /// The first contract that was broken.
    pub fn run(&self, inputs: &[Row]) -> Result<Observed, Violation> {
        let friendly = self.under(inputs, Schedule::FRIENDLY)?;
        for (name, schedule) in EQUAL {
            let hostile = self.under(inputs, schedule)?;
            if (hostile.acked, hostile.failed) != (friendly.acked, friendly.failed) {
                let what = format!("behaves differently under {name}: {hostile:?} instead of {friendly:?}");
                return Err(violation("Sink 2", TESTED, &what));
            }
        }
        self.under(inputs, Schedule { replay: true, budget: 1, ..Schedule::FRIENDLY })?;
        Ok(friendly)
    }

    fn under(&self, inputs: &[Row], schedule: Schedule) -> Result<Observed, Violation> {
        let mut t = TopologyBuilder::new("sink-test");
        let rows = inputs.to_vec();
        t.spout(INPUT, move || MockSpout::new(rows.clone())).fields(self.fields.clone());
        t.component::<SinkKind>(TESTED, self.factory.clone()).reads(INPUT, Grouping::Shuffle);
        Ok(complete::run(t, schedule)?.of(TESTED))
    }
}

/// Runs a spout until it is exhausted, or has been idle for long, and acks what it emits.
#[derive(Clone, Debug)]
pub struct SpoutTester {
    factory: Factory,
    streams: Vec<(String, Vec<String>)>,
}

impl SpoutTester {
    /// A spout that emits `fields` on the stream called `default`.
    pub fn new<T: Spout + 'static, S: Into<String>>(
        factory: impl Fn() -> T + Send + Sync + 'static,
        fields: impl IntoIterator<Item = S>,
    ) -> Self {
        let fields = fields.into_iter().map(Into::into).collect();
        Self { factory: Factory::spout(factory), streams: vec![("default".to_owned(), fields)] }
    }

    /// Runs it at full budget, at a budget of one, and with each of its trees failed once; what it did at full budget.
    ///
    /// # Errors
    /// The first contract that was broken.
    pub fn run(&self) -> Result<Observed, Violation> {
        let friendly = self.under(Schedule::FRIENDLY)?;
        let slow = self.under(Schedule { budget: 1, ..Schedule::FRIENDLY })?;
        if slow.emitted != friendly.emitted {
            let what = format!("emits {:?} on a budget of 1 instead of {:?}", slow.emitted, friendly.emitted);
            return Err(violation("Spout 3", TESTED, &what));
        }
        self.under(Schedule { replay: true, budget: 3, ..Schedule::FRIENDLY })?;
        Ok(friendly)
    }

    fn under(&self, schedule: Schedule) -> Result<Observed, Violation> {
        let mut t = TopologyBuilder::new("spout-test");
        let mut spout = t.component::<SpoutKind>(TESTED, self.factory.clone());
        for (stream, fields) in &self.streams {
            spout.stream(stream, fields.clone());
        }
        t.sink("out", || MockSink).reads(TESTED, Grouping::Shuffle);
        Ok(complete::run(t, schedule)?.of(TESTED))
    }
}
