//! What can be wrong with a topology: what, with which value, and what to do.

use std::{fmt, time::Duration};

use super::Grouping;

/// Every mistake in a topology, in the order of declaration.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BuildErrors {
    /// The topology's name.
    pub topology: String,
    /// The mistakes; at least one.
    pub errors: Vec<BuildError>,
}

impl fmt::Display for BuildErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mistakes = if self.errors.len() == 1 { "mistake" } else { "mistakes" };
        write!(f, "topology \"{}\" has {} {mistakes}:", self.topology, self.errors.len())?;
        self.errors.iter().try_for_each(|error| write!(f, "\n  - {error}"))
    }
}

impl std::error::Error for BuildErrors {}

/// A stream that a component reads.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ReadOf {
    /// `bolt` or `sink`.
    pub kind: &'static str,
    /// Who reads.
    pub reader: String,
    /// Whose stream.
    pub component: String,
    /// Which stream.
    pub stream: String,
}

impl fmt::Display for ReadOf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, reader, component, stream } = self;
        write!(f, "{kind} \"{reader}\" reads stream \"{stream}\" of \"{component}\"")
    }
}

/// A mistake in a topology.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum BuildError {
    /// A name that cannot stand in topic and metric names.
    #[error(
        "{what} \"{}\" cannot be named so: names stand in topics and metrics. Use 1 to {} letters, digits, - and _, \
         a letter first",
        name.escape_debug(),
        Self::MAX_NAME
    )]
    OddName {
        /// What has the name.
        what: String,
        /// The name.
        name: String,
    },
    /// Two components of one name.
    #[error("\"{name}\" is declared {times} times: give each component a name of its own")]
    DuplicateComponent {
        /// The name.
        name: String,
        /// How often.
        times: usize,
    },
    /// Two streams of one name.
    #[error(
        "\"{component}\" declares stream \"{stream}\" {times} times: keep one, or name the others with \
         .stream(name, fields)"
    )]
    DuplicateStream {
        /// The emitting component.
        component: String,
        /// The stream.
        stream: String,
        /// How often.
        times: usize,
    },
    /// A field without a name, or with one that cannot be shown.
    #[error("stream \"{stream}\" of \"{component}\" has a field named \"{}\": use letters", field.escape_debug())]
    OddField {
        /// The emitting component.
        component: String,
        /// The stream.
        stream: String,
        /// The field.
        field: String,
    },
    /// Two fields of one name.
    #[error("stream \"{stream}\" of \"{component}\" has field \"{field}\" {times} times: rename or remove the others")]
    DuplicateField {
        /// The emitting component.
        component: String,
        /// The stream.
        stream: String,
        /// The field.
        field: String,
        /// How often.
        times: usize,
    },
    /// A component without tasks.
    #[error("{kind} \"{component}\" has 0 tasks, so nothing would run: give it .tasks(1) or more")]
    NoTasks {
        /// Its kind.
        kind: &'static str,
        /// The component.
        component: String,
    },
    /// More tasks than key groups.
    #[error(
        "{kind} \"{component}\" has {tasks} tasks under a fields grouping but there are {key_groups} key groups, so \
         some would never get a tuple: use at most {key_groups} tasks, or key_groups({tasks}) before the app has state"
    )]
    TooManyTasks {
        /// Its kind.
        kind: &'static str,
        /// The component.
        component: String,
        /// Its tasks.
        tasks: u16,
        /// The topology's key groups.
        key_groups: u16,
    },
    /// No key groups.
    #[error("key_groups(0): keys need at least one group; leave it out for {}", crate::tuple::KeyGroups::DEFAULT_COUNT)]
    NoKeyGroups,
    /// Ticks without time between them.
    #[error("bolt \"{component}\" is ticked every {interval:?}: give it an interval above zero, or no .tick_every")]
    NoTickInterval {
        /// The component.
        component: String,
        /// The interval.
        interval: Duration,
    },
    /// A store whose name cannot stand in a topic's name.
    #[error(
        "store \"{}\" of \"{component}\" cannot be named so: a topic is named after it. Use 1 to {} letters a to z, \
         digits and -",
        store.escape_debug(),
        Self::MAX_NAME
    )]
    OddStoreName {
        /// The component.
        component: String,
        /// The store.
        store: String,
    },
    /// Two stores of one name.
    #[error("\"{component}\" declares store \"{store}\" {times} times: give each store a name of its own")]
    DuplicateStore {
        /// The component.
        component: String,
        /// The store.
        store: String,
        /// How often.
        times: usize,
    },
    /// Stores of two components that would be kept under one name: component and store, with a hyphen between.
    #[error(
        "store \"{store}\" of \"{component}\" and store \"{other_store}\" of \"{other}\" would both be kept as \
         \"{component}-{store}\": rename one of them"
    )]
    SameKeptName {
        /// One component.
        component: String,
        /// Its store.
        store: String,
        /// The other component.
        other: String,
        /// Its store.
        other_store: String,
    },
    /// A bolt with a store that gets tuples otherwise than by key.
    #[error(
        "{read} by {grouping} grouping, but \"{}\" has a store: the tuples of a key must all come to the task that has \
         the key. Use Grouping::fields([..]), or keep what is remembered outside of stores",
        read.reader
    )]
    StoreNotByKey {
        /// What is read.
        read: ReadOf,
        /// The grouping.
        grouping: &'static str,
    },
    /// Nothing emits.
    #[error("it has no spout, so nothing would happen: declare one with .spout(name, factory)")]
    NoSpout,
    /// A bolt or sink that reads nothing.
    #[error("{kind} \"{component}\" reads nothing, so nobody feeds it: add .reads(component, grouping)")]
    NotFed {
        /// Its kind.
        kind: &'static str,
        /// The component.
        component: String,
    },
    /// A spout that emits nothing.
    #[error("spout \"{component}\" declares no stream, so nobody can read it: add .fields([..])")]
    SilentSpout {
        /// The component.
        component: String,
    },
    /// A spout that reads or remembers as a bolt, or a sink that emits.
    #[error("{kind} \"{component}\" {misuse}")]
    Misused {
        /// Its kind.
        kind: &'static str,
        /// The component.
        component: String,
        /// What it does, and what to do instead.
        misuse: &'static str,
    },
    /// A component that is not there.
    #[error("{kind} \"{reader}\" reads \"{component}\", which is not declared; {}", instead(nearest.as_ref(), declared))]
    UnknownComponent {
        /// The reader's kind.
        kind: &'static str,
        /// Who reads.
        reader: String,
        /// Who is read.
        component: String,
        /// A declared component of a similar name.
        nearest: Option<String>,
        /// Components that emit.
        declared: Vec<String>,
    },
    /// A stream that is not there.
    #[error("{read}, which does not declare it; {}", streams(read, declared))]
    UnknownStream {
        /// What is read.
        read: ReadOf,
        /// The streams that there are.
        declared: Vec<String>,
    },
    /// A stream read twice by one component.
    #[error("{read} {times} times, so each of its tuples would come {times} times: keep one grouping")]
    ReadTwice {
        /// What is read.
        read: ReadOf,
        /// How often.
        times: usize,
    },
    /// A grouping by a field that is not there.
    #[error("{read} grouped by field \"{field}\", which it does not have; its fields: {}", list(declared))]
    UnknownField {
        /// What is read.
        read: ReadOf,
        /// The field.
        field: String,
        /// The stream's fields.
        declared: Vec<String>,
    },
    /// A key of no fields, or of too many, or of one twice.
    #[error("{read} by a {grouping} grouping {}", key_mistake(*fields))]
    BadKey {
        /// What is read.
        read: ReadOf,
        /// The grouping.
        grouping: &'static str,
        /// How many fields were given.
        fields: usize,
    },
    /// Direct grouping of a spout's stream.
    #[error("{read} by the direct grouping, but \"{}\" is a spout and only bolts emit to a task: use another grouping, or a bolt between the two", read.component)]
    DirectFromSpout {
        /// What is read.
        read: ReadOf,
    },
    /// Components that read each other in a ring.
    #[error("there is a cycle: {}. A tuple tree must end: cut one of these edges", ring(way))]
    Cycle {
        /// The components on it, each read by the next.
        way: Vec<String>,
    },
}

impl BuildError {
    /// Longest name of a component, in bytes: what is left of a topic's 249 for the names around it.
    pub const MAX_NAME: usize = 64;
}

fn list(names: &[String]) -> String {
    let quoted: Vec<_> = names.iter().map(|name| format!("\"{name}\"")).collect();
    if quoted.is_empty() { "none".to_owned() } else { quoted.join(", ") }
}

fn instead(nearest: Option<&String>, declared: &[String]) -> String {
    match nearest {
        Some(name) => format!("did you mean \"{name}\"?"),
        None => format!("what can be read: {}. Fix the name or declare it", list(declared)),
    }
}

fn streams(read: &ReadOf, declared: &[String]) -> String {
    let ReadOf { component, stream, .. } = read;
    if declared.is_empty() {
        return format!(
            "it emits nothing. Add .fields([..]) to \"{component}\" if it is a bolt; a sink is always an end"
        );
    }
    format!("declared: {}. Fix the name or add .stream(\"{stream}\", [..]) to \"{component}\"", list(declared))
}

fn key_mistake(fields: usize) -> String {
    let most = Grouping::MAX_KEY_FIELDS;
    match fields {
        0 => "without a field: name at least one, or use Grouping::Shuffle or Grouping::Global".to_owned(),
        n if n > most => format!("over {n} fields; a key has at most {most}: emit a composite field instead"),
        _ => "that names a field twice: name each once".to_owned(),
    }
}

fn ring(way: &[String]) -> String {
    let again = way.first().into_iter();
    let names: Vec<_> = way.iter().chain(again).map(|name| format!("\"{name}\"")).collect();
    names.join(" -> ")
}
