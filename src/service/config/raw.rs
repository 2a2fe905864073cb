//! The configuration as it stands in the file: every field with its meaning, unit, default and range.

use std::collections::BTreeMap;

use super::schema::{
    Field,
    Rule::{Any, OneOf, Range},
    section,
};

const HOUR_MS: u64 = 3_600_000;

section! { "",
    /// The whole file.
    Raw {
        /// Which topology to run.
        topology: String = "\"word-count\"", Any;
        /// What happens to records when something fails. `at-least-once`: nothing is lost, what is repeated is counted.
        /// `at-most-once`: nothing is repeated, what was in flight is lost. `no-guarantee`: records may be lost and
        /// repeated, for measurements. `exactly-once` comes in a later release.
        delivery: String = "\"at-least-once\"", Any;
        /// Options of the topology itself, which its page explains: of `word-count`, for example, `count_tasks`.
        topology_options: BTreeMap<String, String> = "{}", Any;
        /// Folder for what stays on this host between runs: the lock files by which two processes of one identity see each
        /// other. Empty: `$STATE_DIRECTORY` (systemd), else `$XDG_STATE_HOME/stormglass`, else
        /// `$HOME/.local/state/stormglass`, else `/var/lib/stormglass`.
        state_dir: String = "\"\"", Any;
    }
    nested {
        kafka: Kafka,
        source: Source,
        sink: Sink,
        engine: Engine,
        http: Http,
        log: Log,
    }
}

section! { "kafka",
    /// How to reach Kafka, and as whom.
    Kafka {
        /// Brokers to start from, as HOST:PORT; without a port it is 9092. One is enough, two survive the loss of one.
        brokers: Vec<String> = "[]", Any;
        /// Consumer group, under which offsets are committed. Empty: `stormglass-TOPOLOGY-OUTPUT`.
        group: String = "\"\"", Any;
        /// Identity of this process in its group (`group.instance.id`, KIP-345). A process that starts again within the
        /// session timeout has its partitions at once; a second one with the same identity ends the first. Empty: none,
        /// unless the topology has stores; then it is `0`.
        instance: String = "\"\"", Any;
        /// Time without a heartbeat after which the group gives a member's partitions to others, in milliseconds.
        session_timeout_ms: u64 = "45000", Range(1000, HOUR_MS);
        /// Name under which brokers log and limit this client.
        client_id: String = "\"stormglass\"", Any;
        /// Copies of each partition of a topic that is made: the output, the dead letters, the changelogs of stores. 0: the
        /// brokers' `default.replication.factor`.
        replication_factor: u64 = "0", Range(0, 100);
        /// Properties of librdkafka for every client. A secret is never written here: `"sasl.password_file" = "PATH"`
        /// reads it from a file that only its owner may read, `"sasl.password_env" = "NAME"` from the environment.
        properties: BTreeMap<String, String> = "{}", Any;
        /// The same for the consumer alone; wins over `properties`.
        consumer_properties: BTreeMap<String, String> = "{}", Any;
        /// The same for the producer alone; wins over `properties`.
        producer_properties: BTreeMap<String, String> = "{}", Any;
    }
}

section! { "source",
    /// What is read.
    Source {
        /// Topics to read. One that starts with `^` is a regular expression over the names of all topics.
        topics: Vec<String> = "[]", Any;
        /// What a record's value is: `text`, or `json` of which `json_pointer` selects the text.
        format: String = "\"text\"", OneOf(&["text", "json"]);
        /// Where the text stands in a JSON value (RFC 6901), as in `/message/body`. Empty: the value is a JSON string.
        json_pointer: String = "\"\"", Any;
        /// What to do with text that is no UTF-8: give the record to the dead-letter topic, or replace what is invalid.
        non_utf8: String = "\"dead-letter\"", OneOf(&["dead-letter", "lossy"]);
        /// What to do with a record whose value is null or empty: let it pass as an empty text, or give it to the
        /// dead-letter topic.
        empty: String = "\"pass\"", OneOf(&["pass", "dead-letter"]);
        /// Where to start in a partition for which the group has no offset yet.
        start: String = "\"earliest\"", OneOf(&["earliest", "latest"]);
        /// How the members of a group share partitions. `cooperative-sticky` moves those that must move; with the others
        /// every change stops all members. All members of a group must have the same.
        assignment: String = "\"cooperative-sticky\"", OneOf(&["cooperative-sticky", "range", "roundrobin"]);
        /// Longest time for which partitions that go to another member are drained, in milliseconds. What is in flight
        /// then, is repeated there.
        revoke_timeout_ms: u64 = "10000", Range(0, 120_000);
        /// What to do if a partition does not hold the offset that is to be read next, because its records were deleted
        /// before they were read, or its topic was made anew: `fail` ends the run, `skip` goes on with what there is and
        /// counts what is missing.
        out_of_range: String = "\"fail\"", OneOf(&["fail", "skip"]);
        /// How often a record that failed is emitted again before it goes to the dead-letter topic.
        max_retries: u64 = "3", Range(0, 1_000_000);
        /// Wait before the first retry, in milliseconds; it doubles with each further one.
        retry_backoff_ms: u64 = "100", Range(0, HOUR_MS);
        /// Longest wait between two retries, in milliseconds.
        retry_backoff_max_ms: u64 = "10000", Range(0, HOUR_MS);
        /// Topic for records that were given up. Empty: the output topic's name with `-dead-letters` behind it.
        dead_letter_topic: String = "\"\"", Any;
    }
}

section! { "sink",
    /// What is written.
    Sink {
        /// Topic to write to.
        topic: String = "\"\"", Any;
        /// Which results become records: `every` one (each then carries its lineage in headers), or the
        /// `latest-per-key` within the flush interval.
        emit: String = "\"latest-per-key\"", OneOf(&["every", "latest-per-key"]);
    }
}

section! { "engine",
    /// How the topology is executed.
    Engine {
        /// Threads that execute tasks. 0: one for every two cores.
        executors: u64 = "0", Range(0, 1024);
        /// Records of one spout task whose trees may be open at a time. More hides more latency and costs memory.
        max_pending_records: u64 = "16384", Range(1, 16_777_216);
        /// Bytes of such records. The limit that is reached first counts.
        max_pending_bytes: u64 = "16777216", Range(1024, 1_099_511_627_776);
        /// Time without any progress after which a tree has failed, in milliseconds. Longer than the slowest tuple.
        tree_timeout_ms: u64 = "30000", Range(10, 24 * HOUR_MS);
        /// Time between two commits, in milliseconds: how much is repeated, or lost, after a crash.
        commit_interval_ms: u64 = "100", Range(1, HOUR_MS);
        /// Longest time that a tuple waits for its batch to fill, in milliseconds.
        flush_interval_ms: u64 = "1", Range(0, 60_000);
        /// Time in one call after which a bolt is taken to hang, in milliseconds.
        hang_timeout_ms: u64 = "60000", Range(100, 24 * HOUR_MS);
        /// Longest time that a stop waits for what is in flight, in milliseconds. A second signal does not wait.
        drain_timeout_ms: u64 = "30000", Range(0, HOUR_MS);
        /// Tuples in one batch. A batch should fit the first-level cache.
        batch_rows: u64 = "256", Range(1, 65_536);
        /// Records that a spout emits in one go. With what they split into they should fit the first-level cache.
        spout_batch: u64 = "64", Range(1, 65_536);
        /// First pause before the engine starts again after an error, in milliseconds; it doubles up to 30 s until a
        /// commit succeeds.
        restart_backoff_ms: u64 = "500", Range(1, HOUR_MS);
    }
}

section! { "http",
    /// Metrics and health.
    Http {
        /// Whether to serve `/metrics`, `/livez`, `/readyz` and `/version`.
        enabled: bool = "true", Any;
        /// Address to listen on. Anything but loopback shows metrics to the network.
        listen: String = "\"127.0.0.1:9464\"", Any;
    }
}

section! { "log",
    /// Messages on stderr.
    Log {
        /// The least important messages that are shown.
        level: String = "\"info\"", OneOf(&["error", "warn", "info", "debug", "trace"]);
        /// `text` for people, `json` for machines: one object a line.
        format: String = "\"text\"", OneOf(&["text", "json"]);
    }
}

/// The sections in the order of the reference: name, what it is about, fields.
pub(crate) const SECTIONS: &[(&str, &str, &[Field])] = &[
    ("", "", Raw::FIELDS),
    ("kafka", "How to reach Kafka, and as whom.", Kafka::FIELDS),
    ("source", "What is read.", Source::FIELDS),
    ("sink", "What is written.", Sink::FIELDS),
    ("engine", "How the topology is executed.", Engine::FIELDS),
    ("http", "Metrics and health.", Http::FIELDS),
    ("log", "Messages on stderr.", Log::FIELDS),
];

/// All fields.
pub(crate) fn fields() -> impl Iterator<Item = &'static Field> {
    SECTIONS.iter().flat_map(|(_, _, fields)| fields.iter())
}

/// The words that the field at `path` takes; none if it takes any.
pub(crate) fn words_of(path: &str) -> Vec<&'static str> {
    fields().find(|field| field.path() == path).map_or_else(Vec::new, |field| match field.rule {
        OneOf(words) => words.to_vec(),
        Any | Range(..) => Vec::new(),
    })
}
