//! Topologies by name: from a name and options to a topology, so that a config file can choose one.

use std::collections::BTreeMap;

use super::{EmitMode, split_words, word_count};
use crate::topology::{Factory, Sink, Spout, TopologyBuilder};

/// What stands at the two ends of a topology, given by whoever runs it.
#[derive(Clone, Debug)]
pub struct Ends {
    /// Makes a source of lines: one text field.
    pub source: Factory,
    /// How many tasks the source has; 1 by default.
    pub source_tasks: u16,
    /// Makes a sink of results.
    pub sink: Factory,
    /// How many tasks the sink has; 1 by default.
    pub sink_tasks: u16,
}

impl Ends {
    /// A source and a sink with one task each.
    pub fn new<S, K>(
        source: impl Fn() -> S + Send + Sync + 'static,
        sink: impl Fn() -> K + Send + Sync + 'static,
    ) -> Self
    where
        S: Spout + 'static,
        K: Sink + 'static,
    {
        Self { source: Factory::spout(source), source_tasks: 1, sink: Factory::sink(sink), sink_tasks: 1 }
    }
}

/// How a topology of the registry is to be.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TopologyOptions {
    /// The topology's own options, as they stand in the config file.
    pub values: BTreeMap<String, String>,
    /// The number of tasks where an option does not say it: as many as there are executors, say. 1 by default.
    pub parallelism: u16,
    /// Which results are emitted.
    pub emit: EmitMode,
}

impl Default for TopologyOptions {
    fn default() -> Self {
        Self { values: BTreeMap::new(), parallelism: 1, emit: EmitMode::default() }
    }
}

/// A topology that has a name.
#[derive(Debug)]
pub struct Known {
    /// Its name.
    pub name: &'static str,
    /// What it does, in one sentence.
    pub about: &'static str,
    /// The options that it has, all of them numbers of tasks.
    pub options: &'static [&'static str],
    draw: fn(&Numbers, EmitMode, Ends) -> TopologyBuilder,
}

/// Every topology that has a name.
pub const KNOWN: [Known; 2] = [
    Known {
        name: "word-count",
        about: "counts the words of all lines; writes each word with its count",
        options: &["split_tasks", "count_tasks"],
        draw: word_count::draw,
    },
    Known {
        name: "split-words",
        about: "writes each word of each line as a record",
        options: &["split_tasks"],
        draw: split_words::draw,
    },
];

/// Why there is no such topology.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum TopologyError {
    /// No topology has the name.
    #[error("there is no topology \"{name}\"; there are: {}", names())]
    Unknown {
        /// The name.
        name: String,
    },
    /// Options that it does not have, or whose values make no sense: each a sentence.
    #[error("topology \"{topology}\": {}", mistakes.join("; "))]
    Options {
        /// The topology.
        topology: &'static str,
        /// The mistakes.
        mistakes: Vec<String>,
    },
}

fn names() -> String {
    KNOWN.map(|known| format!("\"{}\"", known.name)).join(", ")
}

/// The topology called `name`, ready to be built.
///
/// # Errors
/// If there is none of that name, or its options are wrong (all mistakes at once).
pub fn topology(name: &str, options: &TopologyOptions, ends: Ends) -> Result<TopologyBuilder, TopologyError> {
    let known = known(name)?;
    let numbers = Numbers::read(known, &options.values, options.parallelism)?;
    Ok((known.draw)(&numbers, options.emit, ends))
}

/// Whether there is a topology called `name` with these options, whatever stands at its ends.
///
/// # Errors
/// See [`topology`].
pub fn check(name: &str, values: &BTreeMap<String, String>) -> Result<(), TopologyError> {
    Numbers::read(known(name)?, values, 1).map(drop)
}

fn known(name: &str) -> Result<&'static Known, TopologyError> {
    KNOWN.iter().find(|known| known.name == name).ok_or_else(|| TopologyError::Unknown { name: name.to_owned() })
}

/// A topology's options, read.
#[derive(Debug)]
pub(crate) struct Numbers {
    values: BTreeMap<&'static str, u16>,
    otherwise: u16,
}

impl Numbers {
    fn read(known: &Known, given: &BTreeMap<String, String>, otherwise: u16) -> Result<Self, TopologyError> {
        let (mut values, mut mistakes) = (BTreeMap::new(), Vec::new());
        for (key, value) in given {
            let option = known.options.iter().find(|option| *option == key);
            match (option, value.parse::<u16>()) {
                (Some(option), Ok(number)) if number > 0 => {
                    values.insert(*option, number);
                }
                (Some(_), _) => {
                    mistakes.push(format!("{key} = \"{value}\" is no number of tasks; use 1 to {}", u16::MAX));
                }
                (None, _) => mistakes.push(format!("it has no option \"{key}\"; it has: {}", known.options.join(", "))),
            }
        }
        if mistakes.is_empty() {
            return Ok(Self { values, otherwise: otherwise.max(1) });
        }
        Err(TopologyError::Options { topology: known.name, mistakes })
    }

    /// The option's value, or the parallelism.
    pub(super) fn of(&self, option: &str) -> u16 {
        self.values.get(option).copied().unwrap_or(self.otherwise)
    }
}
