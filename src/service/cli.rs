//! What can be typed.

#![allow(rustdoc::broken_intra_doc_links, reason = "help texts name configuration keys in brackets")]

use std::{ffi::OsStr, net::SocketAddr, num::NonZeroU16, path::PathBuf, str::FromStr, sync::LazyLock};

use clap::{
    Arg, ArgAction, Args, Parser, Subcommand, ValueEnum,
    builder::{PossibleValue, StringValueParser, TypedValueParser},
};
use clap_complete::Shell;

use super::{
    config::{FILE_VARIABLE, words_of},
    dead_letters::LetterId,
};
use crate::{broker::wire::TopicSpec, topology::Delivery};

/// `0.1.0 (librdkafka 2.12.1)`.
pub static VERSION: LazyLock<String> =
    LazyLock::new(|| format!("{} (librdkafka {})", env!("CARGO_PKG_VERSION"), crate::kafka::librdkafka_version()));

const AFTER: &str = "Precedence: flag > environment (STORMGLASS_SECTION__FIELD) > file > default.\n\
    Exit codes are those of sysexits.h: 1 the answer is no, 64 usage, 65 data, 66 no input, 69 unavailable, 70 software, \
    73 a file cannot be written, 74 I/O, 75 not done in time, 77 not allowed, 78 configuration.\n\
    The first SIGTERM, SIGINT or SIGHUP drains, the second SIGTERM or SIGINT stops at once.";

/// A stream processor for Kafka: Storm's tuple trees, with every replay, duplicate and dead letter counted.
#[derive(Parser, Debug)]
#[command(name = "stormglass", version = VERSION.as_str(), after_help = AFTER, max_term_width = 100)]
pub struct Cli {
    /// What holds for every command.
    #[command(flatten)]
    pub global: Global,
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// Flags of every command.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Global options")]
pub struct Global {
    /// Configuration file (TOML)
    #[arg(short, long, value_name = "FILE", global = true, env = FILE_VARIABLE)]
    pub config: Option<PathBuf>,
    /// Set a field, as in --set engine.executors=2 (repeatable)
    #[arg(long, value_name = "PATH=VALUE", global = true)]
    pub set: Vec<String>,
    /// Set a property of librdkafka, as in -X security.protocol=SSL (repeatable)
    #[arg(short = 'X', value_name = "PROPERTY=VALUE", global = true)]
    pub property: Vec<String>,
    /// Brokers to start from, as HOST:PORT; without a port 9092 (comma list)
    #[arg(short, long, value_name = "HOST:PORT", global = true)]
    pub brokers: Option<String>,
    /// Print the configuration with the origin of each value, and stop
    #[arg(long, global = true)]
    pub print_config: bool,
    /// Print results as JSON
    #[arg(long, global = true)]
    pub json: bool,
    /// Form of messages on stderr
    #[arg(long, value_name = "FORMAT", value_parser = ["text", "json"], global = true)]
    pub log_format: Option<String>,
    /// More messages; twice: all
    #[arg(short, long, action = ArgAction::Count, global = true)]
    pub verbose: u8,
    /// Fewer messages and no progress line; twice: errors only
    #[arg(short, long, action = ArgAction::Count, global = true, conflicts_with = "verbose")]
    pub quiet: u8,
    /// Colours on stderr
    #[arg(long, value_name = "WHEN", default_value = "auto", global = true)]
    pub color: Color,
}

/// A text for which completions offer these words. What it may be, the configuration says, with all other mistakes.
#[derive(Copy, Clone, Debug)]
struct Offers(fn() -> Vec<&'static str>);

impl TypedValueParser for Offers {
    type Value = String;

    fn parse_ref(&self, command: &clap::Command, arg: Option<&Arg>, value: &OsStr) -> Result<String, clap::Error> {
        StringValueParser::new().parse_ref(command, arg, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new((self.0)().into_iter().map(PossibleValue::new)))
    }
}

const TOPOLOGIES: Offers = Offers(|| crate::topologies::KNOWN.iter().map(|known| known.name).collect());
const DELIVERIES: Offers = Offers(|| Delivery::ALL.map(Delivery::name).to_vec());
const FORMATS: Offers = Offers(|| words_of("source.format"));
const EMITS: Offers = Offers(|| words_of("sink.emit"));

/// A number that cannot be negative, and where no bound but the type's makes sense.
fn whole<T: FromStr>(text: &str) -> Result<T, &'static str> {
    text.parse().map_err(|_| "it is no whole number from 0 up")
}

/// When to use colours.
#[derive(ValueEnum, Copy, Clone, PartialEq, Eq, Debug, Default)]
pub enum Color {
    /// On a terminal, unless `NO_COLOR` is set.
    #[default]
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

/// The commands.
#[derive(Subcommand, Debug)]
pub enum Command {
    /// Run a topology from topic to topic
    Run(Run),
    /// Draw a topology
    Graph(Graph),
    /// Check the configuration, say every mistake, and stop
    Validate(Pipeline),
    /// Produce lines of words into a topic
    Load(Load),
    /// Recount input and output independently of the engine, and compare
    Audit(Audit),
    /// Move the offsets of a topology's group, and its state with them
    Reset(Reset),
    /// Look at records that were given up, and write them back
    DeadLetters(DeadLetters),
    /// Look into stores, as their changelogs hold them
    State(State),
    /// Run a small Kafka broker for demos and tests: it keeps everything in memory
    Broker(Broker),
    /// Simulate processes and a broker in which everything goes wrong, one run a seed
    Sim(Sim),
    /// Print completions for a shell
    Completions {
        /// Which shell
        shell: Shell,
    },
}

/// What a pipeline is made of; each flag sets one field of the configuration.
#[derive(Args, Clone, Debug, Default)]
pub struct Pipeline {
    /// Topic to read; repeatable, or a comma list, or ^REGEX [source.topics]
    #[arg(short, long, value_name = "TOPIC")]
    pub input: Vec<String>,
    /// Topic to write [sink.topic]
    #[arg(short, long, value_name = "TOPIC")]
    pub output: Option<String>,
    /// Which topology [topology]
    #[arg(short, long, value_name = "NAME", value_parser = TOPOLOGIES, hide_possible_values = true)]
    pub topology: Option<String>,
    /// Consumer group [kafka.group]
    #[arg(short, long, value_name = "GROUP")]
    pub group: Option<String>,
    /// at-least-once, at-most-once or no-guarantee [delivery]
    #[arg(short, long, value_name = "GUARANTEE", value_parser = DELIVERIES, hide_possible_values = true)]
    pub delivery: Option<String>,
    /// Topic for records that were given up [source.dead_letter_topic]
    #[arg(long, value_name = "TOPIC")]
    pub dead_letters: Option<String>,
    /// text or json [source.format]
    #[arg(long, value_name = "FORMAT", value_parser = FORMATS, hide_possible_values = true)]
    pub format: Option<String>,
    /// Where the text stands in a JSON value [source.json_pointer]
    #[arg(long, value_name = "POINTER")]
    pub json_pointer: Option<String>,
    /// every or latest-per-key [sink.emit]
    #[arg(long, value_name = "WHICH", value_parser = EMITS, hide_possible_values = true)]
    pub emit: Option<String>,
    /// Threads that execute tasks, 0: one for every two cores [engine.executors]
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub executors: Option<String>,
    /// Do not serve metrics and health [http.enabled]
    #[arg(long)]
    pub no_http: bool,
    /// Address for metrics and health [http.listen]
    #[arg(long, value_name = "IP:PORT", conflicts_with = "no_http")]
    pub http: Option<String>,
}

/// `run`.
#[derive(Args, Clone, Debug, Default)]
pub struct Run {
    /// What to run.
    #[command(flatten)]
    pub pipeline: Pipeline,
    /// Stop at the end offsets found at the start, when everything up to there is done and committed
    #[arg(long)]
    pub until_end: bool,
}

/// A language for pictures.
#[derive(ValueEnum, Copy, Clone, PartialEq, Eq, Debug, Default)]
pub enum GraphFormat {
    /// Lines for a terminal.
    #[default]
    Text,
    /// For Markdown pages.
    Mermaid,
    /// For Graphviz.
    Dot,
}

/// `graph`.
#[derive(Args, Clone, Debug)]
pub struct Graph {
    /// Which topology [topology]
    #[arg(short, long, value_name = "NAME", value_parser = TOPOLOGIES, hide_possible_values = true)]
    pub topology: Option<String>,
    /// How to draw it
    #[arg(short, long, value_name = "LANGUAGE", default_value = "text")]
    pub format: GraphFormat,
}

/// `load`.
#[derive(Args, Clone, Debug)]
#[command(group = clap::ArgGroup::new("what").required(true).args(["lines", "file"]))]
pub struct Load {
    /// Topic to produce into; made if absent
    #[arg(short, long)]
    pub topic: String,
    /// How many generated lines
    #[arg(short = 'n', long, value_name = "N", value_parser = whole::<u64>, allow_negative_numbers = true)]
    pub lines: Option<u64>,
    /// Produce the lines of this file instead; -: of the standard input
    #[arg(short, long, value_name = "FILE")]
    pub file: Option<PathBuf>,
    /// Lines a second; without it as fast as possible
    #[arg(short, long, value_name = "LINES/S", allow_negative_numbers = true)]
    pub rate: Option<f64>,
    /// Words a line
    #[arg(short, long, value_name = "N", default_value_t = 12, value_parser = clap::value_parser!(u32).range(1..=1_000_000), allow_negative_numbers = true)]
    pub words: u32,
    /// Distinct words
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..=50_000_000), allow_negative_numbers = true)]
    pub vocabulary: u32,
    /// Exponent of Zipf's law: how much more frequent frequent words are; 0: all alike
    #[arg(long, value_name = "S", default_value_t = 1.0, allow_negative_numbers = true)]
    pub zipf: f64,
    /// Put one word into each line that occurs in no other
    #[arg(long)]
    pub unique_ids: bool,
    /// The same seed gives the same lines, byte for byte
    #[arg(long, value_name = "SEED", default_value_t = 1, value_parser = whole::<u64>, allow_negative_numbers = true)]
    pub seed: u64,
    /// Partitions of the topic, if it is made [default: 4]
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000), allow_negative_numbers = true)]
    pub partitions: Option<u32>,
}

/// What an output topic holds.
#[derive(ValueEnum, Copy, Clone, PartialEq, Eq, Debug, Default)]
pub enum AuditKind {
    /// Counts: the key is a word, the value its count in decimal, and the last value of a key stands.
    #[default]
    Counts,
    /// Occurrences: every record is one occurrence of the word that is its value.
    Records,
}

/// `audit`.
#[derive(Args, Clone, Debug)]
pub struct Audit {
    /// Topic that was read; repeatable
    #[arg(short, long, value_name = "TOPIC", required = true)]
    pub input: Vec<String>,
    /// Topic that was written
    #[arg(short, long, value_name = "TOPIC")]
    pub output: String,
    /// What the output holds
    #[arg(short, long, value_name = "KIND", default_value = "counts")]
    pub kind: AuditKind,
    /// Topic of given-up records, which the output need not hold: those of the input; a letter of reason too_large is an
    /// output, whose word the output lacks
    #[arg(long, value_name = "TOPIC")]
    pub dead_letters: Option<String>,
    /// Input values are JSON, and their text stands here
    #[arg(long, value_name = "POINTER")]
    pub json_pointer: Option<String>,
    /// How many differing words to list
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = whole::<usize>, allow_negative_numbers = true)]
    pub limit: usize,
    /// Also print this many most frequent words of the output
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = whole::<usize>, allow_negative_numbers = true)]
    pub top: usize,
}

/// `dead-letters`.
#[derive(Args, Clone, Debug)]
pub struct DeadLetters {
    /// The dead-letter topic [source.dead_letter_topic]
    #[arg(short, long, value_name = "TOPIC", global = true)]
    pub dead_letters: Option<String>,
    /// The output topic, after which the dead-letter topic is named if nothing else is said [sink.topic]
    #[arg(short, long, value_name = "TOPIC", global = true)]
    pub output: Option<String>,
    /// What to do.
    #[command(subcommand)]
    pub action: DeadLetterAction,
}

/// What to do with dead letters.
#[derive(Subcommand, Clone, Debug)]
pub enum DeadLetterAction {
    /// List them, oldest first: where each came from, who gave it up and why
    List(DeadLetterList),
    /// Show one whole: headers, key and value
    Show(DeadLetterShow),
    /// Write records back to where they came from: each once, whatever happens
    Replay(DeadLetterReplay),
}

/// `dead-letters list`.
#[derive(Args, Clone, Debug)]
pub struct DeadLetterList {
    /// Only records of this topic
    #[arg(short, long, value_name = "TOPIC")]
    pub topic: Option<String>,
    /// Only letters since then: 2026-11-29T20:20:20Z, or -1h for an hour ago
    #[arg(short, long, value_name = "TIME", allow_hyphen_values = true)]
    pub since: Option<String>,
    /// Only the newest ones, so many
    #[arg(short = 'n', long, value_name = "N", value_parser = whole::<usize>, allow_negative_numbers = true)]
    pub limit: Option<usize>,
}

/// `dead-letters show`.
#[derive(Args, Clone, Debug)]
pub struct DeadLetterShow {
    /// Which one, as the list names it
    #[arg(value_name = "[PARTITION:]OFFSET")]
    pub letter: LetterId,
}

/// `dead-letters replay`.
#[derive(Args, Clone, Debug)]
#[command(group = clap::ArgGroup::new("which").required(true).args(["letters", "all"]))]
pub struct DeadLetterReplay {
    /// Replay this letter; repeatable
    #[arg(long = "offset", value_name = "[PARTITION:]OFFSET")]
    pub letters: Vec<LetterId>,
    /// Replay every letter that was not replayed yet
    #[arg(short, long)]
    pub all: bool,
    /// Write them to this topic instead of where they came from
    #[arg(long, value_name = "TOPIC")]
    pub to: Option<String>,
    /// Replay what was replayed before, too
    #[arg(long)]
    pub again: bool,
    /// Do it: without this flag it is only said what would be done
    #[arg(long)]
    pub execute: bool,
}

/// `reset`.
#[derive(Args, Clone, Debug)]
pub struct Reset {
    /// The topology whose group it is.
    #[command(flatten)]
    pub pipeline: Pipeline,
    /// Where to: earliest, latest, a time (2026-11-29T20:20:20Z, or -1h for an hour ago), or offsets as
    /// TOPIC:PARTITION:OFFSET,...
    #[arg(long, value_name = "WHERE", allow_hyphen_values = true)]
    pub to: String,
    /// Let a topology with state begin with nothing at that place
    #[arg(long)]
    pub discard_state: bool,
    /// Do it: without this flag it is only said what would be done
    #[arg(long)]
    pub execute: bool,
}

/// `state`.
#[derive(Args, Clone, Debug)]
pub struct State {
    /// Consumer group of the app [kafka.group]
    #[arg(short, long, value_name = "GROUP", global = true)]
    pub group: Option<String>,
    /// The topology, after which the group is named if nothing else is said [topology]
    #[arg(short, long, value_name = "NAME", global = true)]
    pub topology: Option<String>,
    /// The output topic, after which the group is named if nothing else is said [sink.topic]
    #[arg(short, long, value_name = "TOPIC", global = true)]
    pub output: Option<String>,
    /// What to do.
    #[command(subcommand)]
    pub action: StateAction,
}

/// What to do with state.
#[derive(Subcommand, Clone, Debug)]
pub enum StateAction {
    /// List the stores: types, entries, bytes
    List,
    /// Print the value of a key
    Get(StateGet),
    /// Print keys and values in the order of keys
    Scan(StateScan),
}

/// `state get`.
#[derive(Args, Clone, Debug)]
pub struct StateGet {
    /// The key, as `scan` prints it
    #[arg(allow_hyphen_values = true)]
    pub key: String,
    /// Which store, if there are several
    #[arg(short, long, value_name = "COMPONENT/STORE")]
    pub store: Option<String>,
}

/// `state scan`.
#[derive(Args, Clone, Debug)]
pub struct StateScan {
    /// Only keys that begin with this, as they are printed
    #[arg(short, long, value_name = "TEXT")]
    pub prefix: Option<String>,
    /// Only the first ones, so many
    #[arg(short = 'n', long, value_name = "N", value_parser = whole::<usize>, allow_negative_numbers = true)]
    pub limit: Option<usize>,
    /// Which store, if there are several
    #[arg(short, long, value_name = "COMPONENT/STORE")]
    pub store: Option<String>,
}

/// `broker`.
#[derive(Args, Clone, Debug)]
pub struct Broker {
    /// Address to listen on; port 0: any free one, which is printed
    #[arg(short, long, value_name = "IP:PORT", default_value = "127.0.0.1:9092")]
    pub listen: SocketAddr,
    /// Let other machines in: anybody who reaches the address may read and write everything
    #[arg(long)]
    pub allow_remote: bool,
    /// Host that clients are told to connect to, if it is not the address
    #[arg(long, value_name = "HOST", value_parser = host)]
    pub advertise: Option<String>,
    /// Make a topic at the start; repeatable
    #[arg(short, long = "topic", value_name = "NAME[:PARTITIONS]")]
    pub topics: Vec<TopicSpec>,
    /// Bytes of records that are kept; what is over it is refused, as by a broker whose disk is full
    #[arg(short, long, value_name = "BYTES", default_value_t = 1 << 30, value_parser = clap::value_parser!(u64).range(1 << 20..), allow_negative_numbers = true)]
    pub memory: u64,
    /// End when the standard input does: with the process that started the broker
    #[arg(long)]
    pub until_stdin_ends: bool,
    /// Connections at a time; one more is closed at once
    #[arg(long, value_name = "N", default_value_t = 900, value_parser = clap::value_parser!(u32).range(1..=1_000_000), allow_negative_numbers = true)]
    pub max_connections: u32,
    /// Largest request, in bytes; Kafka's socket.request.max.bytes
    #[arg(long, value_name = "BYTES", default_value_t = 100 << 20, value_parser = clap::value_parser!(u32).range(1_024..=(256 << 20)), allow_negative_numbers = true)]
    pub max_request: u32,
}

/// `sim`.
#[derive(Args, Copy, Clone, Debug)]
pub struct Sim {
    /// The first seed: the same one makes the same run
    #[arg(short, long, value_name = "N", default_value_t = 0)]
    pub seed: u64,
    /// How many seeds
    #[arg(short = 'n', long, value_name = "M", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..))]
    pub count: u64,
    /// Runs at a time; what is said is the same for any number [default: one a core]
    #[arg(short, long, value_name = "N")]
    pub jobs: Option<NonZeroU16>,
    /// Print what happens
    #[arg(long)]
    pub trace: bool,
    /// Records that are fed in
    #[arg(long, value_name = "N", default_value_t = 2_000, value_parser = clap::value_parser!(u32).range(1..))]
    pub records: u32,
    /// Things that go wrong
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(..=100_000))]
    pub faults: u32,
    /// Print the whole plan of a run that fails, and not a short one that fails too
    #[arg(long)]
    pub keep_plan: bool,
}

/// A host's name or address, as far as a client could look it up.
fn host(text: &str) -> Result<String, String> {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_' | ':');
    if text.is_empty() || text.len() > 253 || !text.chars().all(fits) {
        return Err("is no name or address of a host".to_owned());
    }
    Ok(text.to_owned())
}
