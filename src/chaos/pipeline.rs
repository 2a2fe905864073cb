//! What the simulated processes run: lines to words, with or without stores, between two topics, as the product is put
//! together, but for what is below the client ports.

use std::{
    num::NonZeroUsize,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use super::{
    clients::{MemberOptions, SimScan, SimSink, SimSource, SimTopics, SimTransactions},
    host::Host,
    substitutes::Substitutes,
};
use crate::{
    clock::Clock,
    kafka::{
        ChangelogOptions, Connection, DeadLetterOptions, Emit, KafkaChangelog, KafkaSink, KafkaSinkOptions, KafkaSpout,
        KafkaSpoutOptions, OutOfRange, SinkFactory, SinkOptions, SourceFactory, TransactionOptions,
        changelog::ChangelogClients, source::retry::RetryPolicy,
    },
    metrics::Metrics,
    runtime::EngineOptions,
    topologies::Split,
    topology::{
        Bolt, BuildErrors, ComponentError, ComponentResult, Factory, Grouping, Output, Plan, StoreHandle, TaskContext,
        TopologyBuilder,
        changelog::ChangelogFactory,
        declared::{SinkKind, SpoutKind},
    },
    tuple::{Tuple, Value},
};

/// The topics, and the group.
pub(super) const LINES: &str = "lines";
pub(super) const WORDS: &str = "words";
pub(super) const LETTERS: &str = "dead-letters";
pub(super) const GROUP: &str = "app";
/// The stores of the bolt that remembers.
pub(super) const REMEMBER: &str = "remember";
pub(super) const COUNTS: &str = "counts";
pub(super) const SEEN: &str = "seen";

/// How the processes of one run are made.
#[derive(Clone, Debug)]
pub(super) struct Make {
    /// The bolt that counts and remembers stands between words and sink.
    pub(super) stores: bool,
    /// Members are static.
    pub(super) is_static: bool,
    /// Members share partitions cooperatively.
    pub(super) cooperative: bool,
    /// Executors of a process, and tasks of a bolt.
    pub(super) executors: usize,
    /// Time between commits.
    pub(super) commit_interval: Duration,
    /// Live trees of a spout.
    pub(super) max_pending: usize,
    /// Tuples of a batch.
    pub(super) batch_rows: usize,
    /// Roots that a spout emits in one go.
    pub(super) spout_batch: usize,
}

/// After so long without progress a tree is replayed, a member is given up by its group, a hung call by its process.
pub(super) const TREE_TIMEOUT: Duration = Duration::from_secs(4);
pub(super) const SESSION: Duration = Duration::from_secs(4);
pub(super) const MAX_POLL: Duration = Duration::from_secs(8);
pub(super) const HANG: Duration = Duration::from_secs(2);

/// What the bolts of one life of a process are told to do wrong.
#[derive(Clone, Debug, Default)]
pub(super) struct Mischief {
    pub(super) words: Strikes,
    pub(super) remember: Strikes,
}

/// What one bolt is told to do wrong.
#[derive(Clone, Debug, Default)]
pub(super) struct Strikes {
    /// So many calls fail, and so many panic, counted down.
    pub(super) failures: Arc<AtomicU32>,
    pub(super) panics: Arc<AtomicU32>,
    /// So many calls did.
    struck: Arc<AtomicU32>,
}

impl Strikes {
    fn takes(&self, count: &AtomicU32) -> bool {
        let takes = count.load(Ordering::Relaxed) > 0 && count.fetch_sub(1, Ordering::Relaxed) > 0;
        self.struck.fetch_add(u32::from(takes), Ordering::Relaxed);
        takes
    }

    /// Calls that did something wrong.
    pub(super) fn struck(&self) -> u64 {
        self.struck.load(Ordering::Relaxed).into()
    }

    /// What is to go wrong now, after the work was done.
    fn strike(&self) -> ComponentResult {
        if self.takes(&self.panics) {
            // Without the words that a panic says to the terminal.
            std::panic::resume_unwind(Box::new("told to panic"));
        }
        if self.takes(&self.failures) { Err(ComponentError::new("told to fail")) } else { Ok(()) }
    }
}

/// Splits, and does as it is told.
struct Words {
    split: Split,
    mischief: Strikes,
}

impl Bolt for Words {
    fn prepare(&mut self, context: &TaskContext) -> ComponentResult {
        self.split.prepare(context)
    }

    fn execute(&mut self, input: &Tuple<'_>, out: &mut Output) -> ComponentResult {
        self.split.execute(input, out)?;
        self.mischief.strike()
    }
}

/// Counts words, and remembers the lineage of each: a loss cannot hide behind a repeat.
struct Remember {
    counts: StoreHandle<String, u64>,
    seen: StoreHandle<(String, u64), ()>,
    mischief: Strikes,
}

impl Bolt for Remember {
    fn prepare(&mut self, context: &TaskContext) -> ComponentResult {
        self.counts = context.store(COUNTS)?;
        self.seen = context.store(SEEN)?;
        Ok(())
    }

    fn execute(&mut self, input: &Tuple<'_>, out: &mut Output) -> ComponentResult {
        let Some(word) = input.str(0) else { return Err(ComponentError::permanent("no word")) };
        out.store(&self.counts).update(input.key(), word, |count| count.unwrap_or(0) + 1);
        out.store(&self.seen).put(input.key(), (word, input.lineage()), ());
        out.emit(&[Value::Str(word)]);
        self.mischief.strike()
    }
}

/// One life of a process, put together.
pub(super) struct Built {
    pub(super) plan: Plan,
    pub(super) options: EngineOptions,
}

/// Puts a process together. `number`: whose place among the processes it has.
pub(super) fn build(
    make: &Make,
    (host, clock, epoch_ms): (&Host, &Clock, i64),
    number: usize,
    (metrics, mischief): (&Metrics, &Mischief),
    substitutes: &Substitutes,
) -> Result<Built, BuildErrors> {
    let mut t = TopologyBuilder::new("simulated");
    let tasks = u16::try_from(make.executors).unwrap_or(1);
    let letters = DeadLetterOptions { topic: LETTERS.into(), ..DeadLetterOptions::default() };
    let sinks = sink_factory(host, epoch_ms, 10_000, substitutes);
    let alone = sink_factory(host, epoch_ms, 1, substitutes);

    let (source, options) = (source_factory(make, host, number, substitutes), spout_options(make));
    let (to, of, wrap) = ((letters.clone(), Arc::clone(&alone)), metrics.clone(), substitutes.clone());
    let spout =
        move || wrap.spout(Box::new(KafkaSpout::new(options.clone(), Arc::clone(&source), to.clone(), of.clone())));
    t.component::<SpoutKind>("lines", Factory::Spout(Arc::new(spout))).fields(["line"]);

    let of = mischief.words.clone();
    t.bolt("split", move || Words { split: Split::default(), mischief: of.clone() })
        .tasks(tasks)
        .reads("lines", Grouping::Shuffle)
        .fields(["word"]);
    let last = if make.stores { REMEMBER } else { "split" };
    if make.stores {
        let of = mischief.remember.clone();
        t.bolt(REMEMBER, move || Remember {
            counts: StoreHandle::default(),
            seen: StoreHandle::default(),
            mischief: of.clone(),
        })
        .tasks(tasks)
        .reads("split", Grouping::fields(["word"]))
        .fields(["word"])
        .store::<String, u64>(COUNTS)
        .store::<(String, u64), ()>(SEEN);
    }
    let (into, of) = (KafkaSinkOptions::new(WORDS, "word").emitting(Emit::Every), metrics.clone());
    let sink = move || {
        Box::new(KafkaSink::new(into.clone(), Arc::clone(&sinks), (letters.clone(), Arc::clone(&alone)), &of)) as _
    };
    t.component::<SinkKind>("words", Factory::Sink(Arc::new(sink)))
        .reads(last, Grouping::LocalOrShuffle)
        .writes_lineage();
    if make.stores {
        t.key_groups(4);
    }
    let plan = t.build()?;
    let changelog = make.stores.then(|| changelog(host, clock, epoch_ms, substitutes));
    Ok(Built { plan, options: engine(make, changelog) })
}

fn engine(make: &Make, changelog: Option<ChangelogFactory>) -> EngineOptions {
    EngineOptions {
        executors: NonZeroUsize::new(make.executors).unwrap_or(NonZeroUsize::MIN),
        batch_rows: make.batch_rows,
        spout_batch: make.spout_batch,
        max_pending: make.max_pending,
        tree_timeout: TREE_TIMEOUT,
        commit_interval: make.commit_interval,
        hang_timeout: HANG,
        drain_timeout: Duration::from_secs(10),
        restart_backoff: Duration::from_millis(200),
        changelog,
        ..EngineOptions::default()
    }
}

fn spout_options(make: &Make) -> KafkaSpoutOptions {
    KafkaSpoutOptions {
        keyed: make.stores,
        max_pending_records: make.max_pending,
        max_ahead: 512,
        poll_records: 256,
        revoke_timeout: Duration::from_secs(2),
        // What is deleted before it is read is counted, and the run goes on.
        out_of_range: OutOfRange::Skip,
        // Nothing is given up: a dead letter would be no loss, and here everything is to arrive.
        retry: RetryPolicy {
            max_retries: 1_000_000,
            backoff: Duration::from_millis(20),
            backoff_max: Duration::from_millis(500),
        },
        ..KafkaSpoutOptions::default()
    }
}

fn source_factory(make: &Make, host: &Host, number: usize, substitutes: &Substitutes) -> SourceFactory {
    let options = MemberOptions {
        group: GROUP.to_owned(),
        instance: make.is_static.then(|| format!("i{number}")),
        topics: vec![LINES.into()],
        cooperative: make.cooperative,
        session: SESSION,
        heartbeat: SESSION / 8,
        max_poll: MAX_POLL,
        metadata_every: Duration::from_secs(3),
        fetch_wait: Duration::from_millis(250),
        ignores_epochs: substitutes.ignores_epochs(),
    };
    let (host, wrap) = (host.clone(), substitutes.clone());
    Arc::new(move || Ok(wrap.source(Box::new(SimSource::new(options.clone(), host.clone())))))
}

fn sink_factory(host: &Host, epoch_ms: i64, request_records: u32, substitutes: &Substitutes) -> SinkFactory {
    let options = SinkOptions {
        delivery_timeout: Duration::from_secs(10),
        request_records,
        ..SinkOptions::new(Connection::default())
    };
    let (host, wrap) = (host.clone(), substitutes.clone());
    Arc::new(move || Ok(wrap.sink(Box::new(SimSink::new(&options, epoch_ms, host.clone())))))
}

fn changelog(host: &Host, clock: &Clock, epoch_ms: i64, substitutes: &Substitutes) -> ChangelogFactory {
    let options = ChangelogOptions::new("the simulated broker", GROUP, "0", SESSION);
    let (host, wrap) = (host.clone(), substitutes.clone());
    let clients = Arc::new(move |of: &ChangelogOptions| {
        let id = wrap.transactional_id(of.transactional_id(), host.id());
        let options = TransactionOptions {
            timeout: of.transaction_timeout,
            ..TransactionOptions::new(Connection::default(), id)
        };
        Ok(ChangelogClients {
            topics: Box::new(SimTopics::new(host.clone())),
            producer: Box::new(SimTransactions::new(&options, epoch_ms, host.clone())),
            scan: wrap.scan(Box::new(SimScan::new(Duration::from_secs(20), host.clone()))),
        })
    });
    let wrap = substitutes.clone();
    let factory = KafkaChangelog::factory(options, clients, clock.clone());
    ChangelogFactory::new(move |formats| Ok(wrap.changelog(factory.make(formats)?)))
}
