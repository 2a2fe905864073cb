//! What a run did, in one object: what `run --json` prints at its end.

use std::{fmt, time::Duration};

use serde::Serialize;

use super::progress::{counted, grouped};
use crate::metrics::process;

/// What a run did. Counts are of the whole process, over all its generations.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub struct Summary {
    /// Records that were read, each counted once for each time it was read from the broker.
    pub records: u64,
    /// Tuples that bolts and sinks have executed.
    pub executed: u64,
    /// Trees that completed.
    pub acked: u64,
    /// Trees that failed because a bolt or sink said so.
    pub failed: u64,
    /// Trees that failed because they made no progress.
    pub timed_out: u64,
    /// Records that were emitted again.
    pub replayed: u64,
    /// Records that were given up and written to the dead-letter topic.
    pub dead_lettered: u64,
    /// Effects that were repeated and can be seen outside.
    pub duplicates: u64,
    /// Commits that the broker has confirmed.
    pub commits: u64,
    /// How often the generation was started again from the last commit.
    pub restarts: u64,
    /// Trees that were open when a stop was asked for.
    pub open_at_stop: u64,
    /// Records that came again after a start and may be in the stores twice: an upper bound. `None` without stores: nothing
    /// says then how far the last process had come.
    pub possible_repeats: Option<u64>,
    /// Entries that were read back into the stores.
    pub restored_keys: u64,
    /// How long that took, in seconds.
    pub restore_seconds: f64,
    /// CPU time of all threads, in seconds.
    pub cpu_seconds: f64,
    /// Time from start to end, in seconds.
    pub wall_seconds: f64,
    /// The largest resident set, in bytes.
    pub peak_memory_bytes: u64,
}

impl Summary {
    /// Adds what the machine says: CPU, memory, and the time that the run took.
    #[must_use]
    pub fn with_usage(self, wall: Duration) -> Self {
        let usage = process::usage();
        Self {
            cpu_seconds: usage.cpu.as_secs_f64(),
            wall_seconds: wall.as_secs_f64(),
            peak_memory_bytes: usage.peak_memory_bytes,
            ..self
        }
    }
}

/// For people.
impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}, {} executed; trees: {} acked, {} failed, {} timed out; {} replayed, {} dead-lettered, {}; {}; {:.1} s, \
             {:.1} CPU s, {} MB",
            counted(self.records, "record"),
            counted(self.executed, "tuple"),
            grouped(self.acked),
            grouped(self.failed),
            grouped(self.timed_out),
            counted(self.replayed, "record"),
            grouped(self.dead_lettered),
            counted(self.duplicates, "duplicate"),
            counted(self.commits, "commit"),
            self.wall_seconds,
            self.cpu_seconds,
            self.peak_memory_bytes / 1_000_000
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn people_read_one_line() {
        let summary = Summary {
            records: 1,
            executed: 1_300,
            acked: 1,
            commits: 1,
            possible_repeats: Some(0),
            ..Summary::default()
        };
        insta::assert_snapshot!(summary, @"1 record, 1,300 tuples executed; trees: 1 acked, 0 failed, 0 timed out; 0 records replayed, 0 dead-lettered, 0 duplicates; 1 commit; 0.0 s, 0.0 CPU s, 0 MB");
    }

    #[test]
    fn the_object_has_the_fields_that_scripts_rely_on() {
        let summary = Summary { possible_repeats: Some(0), ..Summary::default() };
        let json = serde_json::to_value(summary.with_usage(Duration::from_secs(2))).unwrap();
        for field in [
            "records",
            "executed",
            "acked",
            "failed",
            "timed_out",
            "replayed",
            "dead_lettered",
            "duplicates",
            "commits",
            "possible_repeats",
            "restored_keys",
            "restore_seconds",
            "cpu_seconds",
            "wall_seconds",
            "peak_memory_bytes",
        ] {
            assert!(json.get(field).is_some_and(serde_json::Value::is_number), "{field}");
        }
    }
}
