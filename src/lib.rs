//! Stormglass: a stream processor for Kafka in the model of Apache Storm, in one process.
//!
//! A record that a spout reads becomes the root of a *tree*: every tuple that descends from it is an edge. When every
//! edge is acked the record is done, and only then may its offset be committed. This page is the model; `README.md` is
//! for users, `docs/design/` has the decisions with their reasons.
//!
//! # Words
//! The words are Storm's, Kafka's for what is Kafka's, and a few of our own. There are no synonyms.
//!
//! | word | meaning |
//! |---|---|
//! | topology | a graph of components: [`topology::TopologyBuilder`] declares it, [`topology::Plan`] is the checked one |
//! | spout | a component that tuples come from ([`topology::Spout`]) |
//! | bolt | a component that works on tuples ([`topology::Bolt`], [`topology::AckingBolt`]) |
//! | sink | a component that takes tuples out of the process ([`topology::Sink`]) |
//! | task | one instance of a component |
//! | executor | a thread that hosts tasks: a value with `step(now)`, and the thread is its driver |
//! | stream, field | what a component emits: a named sequence of tuples whose fields have names |
//! | grouping | which task of the reader gets a tuple ([`topology::Grouping`]) |
//! | tuple | one row of values, borrowed from its batch ([`tuple::Tuple`]) |
//! | batch | the unit between tasks: an arena of bytes and a row of fixed size per tuple ([`tuple::Batch`]) |
//! | tree | a root and everything that descends from it ([`tuple::RootId`]) |
//! | edge | 64 bits for one tuple in a tree ([`tuple::Edge`]) |
//! | anchor | the tie between what is emitted and the input that it descends from |
//! | ack, fail, hold | what becomes of an input: exactly one of the three |
//! | ledger | the live trees of one executor: an XOR of open edges each ([`ack::Ledger`]) |
//! | lineage | what a tuple *is*, in 64 bits that are equal when it is replayed: its edge |
//! | effect | an execution whose repetition would be seen outside; repeats of it are `duplicates` |
//! | frontier | per partition: everything below is done ([`kafka::source::offsets`]) |
//! | commit | freeze, flush by depth, deliver, commit what was frozen |
//! | generation | one life of all executors: an error of a part ends it, and the next starts from the last commit |
//!
//! # Down go the data, back go the acks
//! ```text
//!  Kafka ──records──> spout ──batches──> bolt ──batches──> bolt ──batches──> sink ──records──> Kafka
//!                     │  ▲                │                 │                 │                  │
//!           open root │  │ ack / fail     │ edge ^ edges    │                 │ "taken"          │
//!                     ▼  │                │ emitted         │                 │                  │
//!                    ledger <──acks───────┴─────────────────┴─────────────────┘                  │
//!                     │  (one message a root and batch, on paths that tuples cannot fill)        │
//!                     ▼                                                                          │
//!                  frontier ──freeze──> flush ──> deliver: every output acknowledged <───────────┘
//!                                                   │
//!  Kafka <──────────── offsets, as frozen ──────────┘
//! ```
//! A sink ends its edge when it has *taken* the tuple; the broker's acknowledgement gates the commit and not the tree.
//! Emitting never blocks: what a ring has no room for waits with its producer, and only spouts stop.
//!
//! # Folders, with ranks: a file imports lower ranks only
//! | rank | folder | what it is |
//! |---|---|---|
//! | 0 | [`clock`], [`metrics`] | time as an input; every exported metric in one table |
//! | 1 | [`mod@tuple`] | what flows: values, ids, batches |
//! | 2 | [`ack`] | is the tree done? pure |
//! | 2 | [`state`] | what a bolt remembers, and how a restart finds it again. Pure |
//! | 3 | [`topology`] | what the user draws, the ports to the outside |
//! | 4 | [`kafka`], [`runtime`], [`broker`] | the real client; executors, commits, supervision, the test kit; a small broker for demos, tests and simulation. None has heard of another |
//! | 5 | [`topologies`], [`audit`] | topologies with a name; the independent recount |
//! | 6 | [`chaos`] | the simulation: processes, broker and network under one clock, with faults drawn from a seed |
//! | 7 | [`service`] | command line, configuration, HTTP |
//!
//! # Reading order
//! [`topology`] (`bolt`, `spout`, `sink`: the contracts), [`mod@tuple`] (`id`), [`ack`] (`ledger`), then `topology/execution`
//! (one call from its input to its ack), `runtime/commit` and `runtime/executor`, [`kafka::source::offsets`] and `kafka/source`.
//! Each folder's first lines name its files in reading order and its invariants.

pub mod ack;
pub mod audit;
pub mod broker;
pub mod chaos;
pub mod clock;
pub mod kafka;
pub mod metrics;
pub mod runtime;
pub mod service;
pub mod state;
pub mod topologies;
pub mod topology;
pub mod tuple;

/// The examples of `README.md`, compiled with the tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct Readme;
