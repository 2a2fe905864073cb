//! How the engine runs.

use std::{num::NonZeroUsize, sync::OnceLock, thread::available_parallelism, time::Duration};

use crate::topology::{Delivery, changelog::ChangelogFactory};

/// Settings of the engine. Durations are on a monotonic clock.
#[derive(Clone, Debug)]
pub struct EngineOptions {
    /// The promise. Default at-least-once.
    pub delivery: Delivery,
    /// Threads that host tasks. Default: one for every two cores, at least one: the Kafka client's threads take the others,
    /// and a tuple that stays on its thread costs less (`cargo bench --bench alone`).
    pub executors: NonZeroUsize,
    /// Tuples at which a batch is sent on. Default 256.
    pub batch_rows: usize,
    /// Roots that a spout emits in one go. Default 64: with what they split into, they stay in the first-level cache.
    pub spout_batch: usize,
    /// Live trees per spout task; at the cap the spout waits. Default 16,384.
    pub max_pending: usize,
    /// A tree that has made no progress for so long is failed and replayed. Default 30 s.
    pub tree_timeout: Duration,
    /// Time between commits. Default 100 ms.
    pub commit_interval: Duration,
    /// How long a batch for another executor may wait to become full. Default 1 ms.
    pub flush_interval: Duration,
    /// A call that lasts longer is taken for hung: the generation ends without its thread. Default 60 s.
    pub hang_timeout: Duration,
    /// How long a stop waits for open trees, outputs and the last commit. Default 30 s.
    pub drain_timeout: Duration,
    /// First pause before a generation is started again; it doubles up to 30 s until a commit succeeds. Default 500 ms.
    pub restart_backoff: Duration,
    /// Keeps the stores of the topology outside the process. Default none: they are lost with it.
    pub changelog: Option<ChangelogFactory>,
}

impl Default for EngineOptions {
    fn default() -> Self {
        Self {
            delivery: Delivery::default(),
            executors: half_of_the_cores(),
            batch_rows: 256,
            spout_batch: 64,
            max_pending: 16_384,
            tree_timeout: Duration::from_secs(30),
            commit_interval: Duration::from_millis(100),
            flush_interval: Duration::from_millis(1),
            hang_timeout: Duration::from_secs(60),
            drain_timeout: Duration::from_secs(30),
            restart_backoff: Duration::from_millis(500),
            changelog: None,
        }
    }
}

fn half_of_the_cores() -> NonZeroUsize {
    // To find it out takes a dozen files of /proc and /sys.
    static HALF: OnceLock<NonZeroUsize> = OnceLock::new();
    *HALF.get_or_init(|| {
        let cores = available_parallelism().map_or(1, NonZeroUsize::get);
        NonZeroUsize::new(cores / 2).unwrap_or(NonZeroUsize::MIN)
    })
}
