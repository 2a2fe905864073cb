//! A store that remembers which tuples it has seen, over real kills: what is lost cannot hide behind what is repeated.

use std::{collections::BTreeSet, process::ExitCode, sync::Arc};

use libtest_mimic::Trial;
use nix::sys::signal::Signal;
use rand::{RngExt as _, SeedableRng as _};
use rand_pcg::Pcg64Mcg;
use stormglass::{
    clock::Clock,
    kafka::{
        ChangelogConnections, ChangelogOptions, Connection, DeadLetterOptions, KafkaChangelog, KafkaSpout,
        KafkaSpoutOptions, RdkafkaSink, RdkafkaSource, SinkFactory, SinkOptions, SourceFactory, SourceOptions,
    },
    metrics::Metrics,
    runtime::{EngineOptions, StopHandle, run},
    topologies::Split,
    topology::{Bolt, ComponentResult, Grouping, Output, StoreHandle, TaskContext, TopologyBuilder},
    tuple::Tuple,
};

use crate::{
    broker::{Broker, eventually},
    process::{Process, number, stormglass},
    trials,
};

/// The first argument of this binary where it is to be the program under test.
pub const PROGRAM: &str = "remember-lineages";

pub fn trials() -> Vec<Trial> {
    trials!(shared: a_store_of_lineages_that_is_killed_misses_none)
}

/// Remembers each word with the lineage of its tuple, which is the same when its line is replayed.
#[derive(Default)]
struct Remember {
    seen: StoreHandle<(String, u64), ()>,
}

impl Bolt for Remember {
    fn prepare(&mut self, context: &TaskContext) -> ComponentResult {
        self.seen = context.store("seen")?;
        Ok(())
    }

    fn execute(&mut self, input: &Tuple<'_>, out: &mut Output) -> ComponentResult {
        let word = input.str(0).unwrap_or_default();
        out.store(&self.seen).put(input.key(), (word, input.lineage()), ());
        Ok(())
    }
}

/// `BROKERS INPUT GROUP UNTIL_END`: the program that is killed.
pub fn program(arguments: &[String]) -> ExitCode {
    let [brokers, input, group, until_end] = arguments else { return ExitCode::from(64) };
    let clock = Clock::system();
    let kafka = Connection { brokers: brokers.clone(), ..Connection::default() };
    let metrics = Metrics::new("").expect("metrics");
    let read = SourceOptions {
        instance: Some("0".to_owned()),
        ..SourceOptions::new(kafka.clone(), group.clone(), vec![input.clone()])
    };
    let connections = ChangelogConnections { admin: kafka.clone(), consumer: kafka.clone(), producer: kafka.clone() };
    let changelog = ChangelogOptions::new(brokers, group, "0", read.session_timeout);
    let changelog = KafkaChangelog::factory(changelog, connections.clients(clock.clone()), clock.clone());
    let of_source = clock.clone();
    let source: SourceFactory = Arc::new(move || Ok(Box::new(RdkafkaSource::new(read.clone(), of_source.clone())?)));
    let of_letters = clock.clone();
    let letters: SinkFactory =
        Arc::new(move || Ok(Box::new(RdkafkaSink::new(&SinkOptions::new(kafka.clone()), of_letters.clone())?)));
    let letters = (DeadLetterOptions { topic: format!("{input}-dead").as_str().into(), ..Default::default() }, letters);
    let options = KafkaSpoutOptions { until_end: until_end == "true", keyed: true, ..KafkaSpoutOptions::default() };

    let mut t = TopologyBuilder::new("lineages");
    let m = metrics.clone();
    t.spout("lines", move || KafkaSpout::new(options.clone(), Arc::clone(&source), letters.clone(), m.clone()))
        .fields(["line"]);
    t.bolt("split", Split::default).reads("lines", Grouping::LocalOrShuffle).fields(["word"]);
    t.bolt("remember", Remember::default)
        .tasks(4)
        .reads("split", Grouping::fields(["word"]))
        .store::<(String, u64), ()>("seen");
    let plan = t.build().expect("a topology");
    let options = EngineOptions { changelog: Some(changelog), ..EngineOptions::default() };
    match run(&plan, &options, &metrics, &clock, &StopHandle::default()) {
        Ok(_) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn start(broker: &Broker, input: &str, group: &str, until_end: bool) -> Process {
    let this = std::env::current_exe().expect("this binary");
    Process::start_program(&this, &[PROGRAM, broker.bootstrap(), input, group, &until_end.to_string()])
}

/// What is in the store: a line for each word and lineage.
fn seen(broker: &Broker, group: &str) -> BTreeSet<String> {
    let scan = stormglass(broker, "state", &["--group", group, "scan"]).succeeded();
    scan.stdout.lines().map(str::to_owned).collect()
}

fn a_store_of_lineages_that_is_killed_misses_none(broker: &Broker) {
    let (seed, kills) = (number("SEED", 1), number("KILLS", 5));
    let mut rng = Pcg64Mcg::seed_from_u64(seed);
    let lines = 12_000 * kills;
    let input = broker.topic("lines", 4, &[]);
    let (count, brokers) = (lines.to_string(), broker.bootstrap());
    let flags = ["load", "--brokers", brokers, "--topic", &input, "--lines", &count, "--words", "5"];
    let lines_come = Process::start(&[&flags[..], &["--unique-ids", "--rate", "4000"]].concat());
    let (killed, whole) = (broker.unique("killed"), broker.unique("whole"));
    let committed = || broker.committed(&killed, &input).into_iter().flatten().sum::<i64>();
    for _ in 0..kills {
        let before = committed();
        let mut run = start(broker, &input, &killed, false);
        let enough = before + rng.random_range(100..=8_000_i64).min(i64::try_from(lines).expect("few") / 2);
        eventually("it has committed more", || {
            assert!(run.is_running(), "{}", run.stderr());
            committed() >= enough.min(i64::try_from(lines).expect("few"))
        });
        run.signal(Signal::SIGKILL);
        assert_eq!(run.wait().code, None);
    }
    lines_come.wait().succeeded();
    for group in [&killed, &whole] {
        start(broker, &input, group, true).wait().succeeded();
    }
    let (killed, whole) = (seen(broker, &killed), seen(broker, &whole));
    assert_eq!(whole.len() as u64, 5 * lines, "each word of each line has a lineage of its own");
    let missing: Vec<_> = whole.difference(&killed).collect();
    assert!(missing.is_empty(), "seed {seed}: {} lineages are missing, {:?}", missing.len(), missing.first());
    let invented = killed.difference(&whole).count();
    assert_eq!(invented, 0, "seed {seed}: a replay has other lineages");
    eprintln!("seed {seed}: {kills} kills, {} lineages, none is missing", whole.len());
}
