//! A spout and its poller, stepped by hand in virtual time over the fake broker.

use std::{sync::Arc, time::Duration};

use crate::{
    ack::{AckMessage, Ledger},
    clock::Instant,
    kafka::{
        DeadLetterOptions, KafkaSpout, KafkaSpoutOptions,
        fake::{FakeBroker, FakeSink},
    },
    metrics::{DeadLetterReason, DuplicateOutcome, Metrics, ReplayReason},
    topology::{
        CommitNumber, CommitState, Companion, ComponentError, ComponentResult, Delivery, Ended, Ending, Failure,
        Grouping, Lane, Next, Output, OutputSettings, Owner, Reader, Router, Spout, SpoutOutput, Stream, StreamInfo,
        TaskContext, Trees, Waker,
    },
    tuple::{KeyGroups, RootId, StreamId, TaskId, Value},
};

/// A tuple that the spout has emitted.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Out {
    pub(super) root: RootId,
    edge: u64,
    pub(super) lineage: u64,
    pub(super) text: String,
}

pub(super) struct Bench {
    pub(super) broker: FakeBroker,
    pub(super) letters: FakeSink,
    pub(super) metrics: Metrics,
    pub(super) spout: KafkaSpout,
    pub(super) poller: Box<dyn Companion>,
    output: Output,
    trees: Trees,
    tracked: bool,
    pub(super) now: Instant,
    commits: u64,
}

fn context(delivery: Delivery, fields: usize) -> TaskContext {
    let stream = StreamInfo {
        id: StreamId(0),
        component: "lines".into(),
        name: "default".into(),
        fields: (0..fields).map(|i| format!("f{i}")).collect(),
    };
    TaskContext {
        topology: "test".into(),
        component: "lines".into(),
        index: 0,
        tasks: 1,
        delivery,
        inputs: Arc::from([]),
        outputs: Arc::from([stream]),
        stores: Arc::new([]),
        waker: Waker::default(),
    }
}

impl Bench {
    pub(super) fn new(broker: &FakeBroker, options: KafkaSpoutOptions) -> Self {
        Self::with(broker, options, Delivery::AtLeastOnce)
    }

    pub(super) fn with(broker: &FakeBroker, options: KafkaSpoutOptions, delivery: Delivery) -> Self {
        let (metrics, letters, width) = (Metrics::new("").unwrap(), FakeSink::default(), options.fields.len());
        let (source, sink) = (broker.clone(), letters.clone());
        let mut spout = KafkaSpout::new(
            options,
            Arc::new(move || Ok(Box::new(source.client()))),
            (DeadLetterOptions::default(), Arc::new(move || Ok(Box::new(sink.clone())))),
            metrics.clone(),
        );
        spout.open(&context(delivery, width)).unwrap();
        spout.activate();
        let poller = spout.companion().unwrap();
        let router = Router::new(&Grouping::Global, Vec::new(), 1, Vec::new(), &KeyGroups::new(64, 1));
        let lane = Lane::new(StreamId(0), TaskId(1), width);
        let stream = Stream { name: "default".into(), width, readers: vec![Reader { router, lanes: vec![lane] }] };
        let settings =
            OutputSettings { task: TaskId(0), batch_rows: 64, effects: false, lineage: true, pulse: Arc::default() };
        Self {
            broker: broker.clone(),
            letters,
            metrics,
            spout,
            poller,
            output: Output::new(vec![stream], 1, settings),
            trees: Trees::new(Ledger::new(0, 16), None),
            tracked: delivery.is_tracked(),
            now: Instant::ZERO,
            commits: 0,
        }
    }

    /// One step of the poller and one of the spout.
    pub(super) fn step(&mut self) -> (Vec<Out>, Next) {
        self.try_step().unwrap()
    }

    pub(super) fn try_step(&mut self) -> ComponentResult<(Vec<Out>, Next)> {
        let _step = self.poller.step(self.now, Duration::ZERO)?;
        self.emit()
    }

    pub(super) fn emit(&mut self) -> ComponentResult<(Vec<Out>, Next)> {
        let trees = self.tracked.then_some(&mut self.trees);
        let mut out = SpoutOutput::new(&mut self.output, trees, 0);
        let next = self.spout.next(self.now, 64, &mut out)?;
        assert!(out.finish().1.is_none());
        self.output.seal_lanes(|_, _| true);
        let mut outs = Vec::new();
        for batch in self.output.take_sealed() {
            outs.extend(batch.tuples_from(0).map(|t| {
                Out {
                    root: t.row().root,
                    edge: t.row().edge.bits(),
                    lineage: t.lineage(),
                    text: t
                        .values()
                        .map(|v| if v == Value::Null { "null".into() } else { v.to_string() })
                        .collect::<Vec<_>>()
                        .join("|"),
                }
            }));
        }
        Ok((outs, next))
    }

    /// Everything that comes without acking or time going by.
    pub(super) fn drain(&mut self) -> Vec<Out> {
        let mut all = Vec::new();
        for _ in 0..20 {
            all.extend(self.step().0);
        }
        all
    }

    pub(super) fn after(&mut self, span: Duration) -> Vec<Out> {
        self.now = self.now + span;
        self.drain()
    }

    pub(super) fn ack(&mut self, out: &Out) {
        self.trees.apply([AckMessage::done(out.root, out.edge, 1)]);
        self.settle(None);
    }

    pub(super) fn fail(&mut self, out: &Out, error: &ComponentError) {
        self.trees.apply([AckMessage::failed(out.root, 2)]);
        self.settle(Some(error));
    }

    fn settle(&mut self, error: Option<&ComponentError>) {
        let text = error.map(ToString::to_string).unwrap_or_default();
        for Ended { owner, ending, .. } in self.trees.take_ended(Vec::new()) {
            let Owner::Spout { id, .. } = owner else { continue };
            match ending {
                Ending::Completed => self.spout.ack(id),
                Ending::Failed { effects } => {
                    let retriable = error.is_none_or(ComponentError::is_retriable);
                    let failure = Failure::Failed { component: "split", error: &text, retriable };
                    self.spout.fail(self.now, id, failure, effects);
                }
                Ending::TimedOut { effects } => self.spout.fail(self.now, id, Failure::TimedOut, effects),
                Ending::Late { effects } => self.spout.late_effects(id, effects),
            }
        }
    }

    pub(super) fn freeze(&mut self) -> CommitNumber {
        self.commits += 1;
        self.spout.freeze(CommitNumber(self.commits));
        CommitNumber(self.commits)
    }

    /// Commits what was frozen and waits for the answer.
    pub(super) fn commit(&mut self, number: CommitNumber) -> CommitState {
        self.spout.commit(number).unwrap();
        self.commit_state()
    }

    pub(super) fn commit_state(&mut self) -> CommitState {
        let mut state = CommitState::Pending;
        for _ in 0..5 {
            let _step = self.poller.step(self.now, Duration::ZERO).unwrap();
            state = self.spout.commit_state(self.now).unwrap();
            if state != CommitState::Pending {
                break;
            }
        }
        state
    }

    pub(super) fn commit_now(&mut self) -> CommitState {
        let number = self.freeze();
        self.commit(number)
    }

    pub(super) fn committed(&self, partition: i32) -> Option<i64> {
        self.broker.get().committed.get(&crate::kafka::fake::tp(partition)).map(|committed| committed.next.0)
    }

    pub(super) fn replayed(&self) -> u64 {
        ReplayReason::ALL.iter().map(|reason| self.metrics.replayed(*reason).get()).sum()
    }

    pub(super) fn duplicates(&self) -> u64 {
        self.metrics.duplicates(DuplicateOutcome::Visible).get()
    }

    pub(super) fn dead(&self, reason: DeadLetterReason) -> u64 {
        self.metrics.dead_letters(reason).get()
    }
}

pub(super) fn texts(outs: &[Out]) -> Vec<&str> {
    outs.iter().map(|out| out.text.as_str()).collect()
}
