//! What the process has used of the machine.

use std::time::Duration;

use nix::sys::resource::{UsageWho, getrusage};

/// CPU and memory of the process since its start.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
pub struct Usage {
    /// CPU time of all threads, in user and kernel mode.
    pub cpu: Duration,
    /// The largest resident set so far, in bytes.
    pub peak_memory_bytes: u64,
}

/// Asks the kernel; zeros if it does not answer.
#[must_use]
pub fn usage() -> Usage {
    let Ok(usage) = getrusage(UsageWho::RUSAGE_SELF) else {
        return Usage::default();
    };
    let span = |t: nix::sys::time::TimeVal| {
        let seconds = u64::try_from(t.tv_sec()).unwrap_or(0);
        let micros = u64::try_from(t.tv_usec()).unwrap_or(0);
        Duration::from_secs(seconds) + Duration::from_micros(micros)
    };
    // Linux counts kibibytes, macOS bytes.
    let unit = if cfg!(target_os = "macos") { 1 } else { 1024 };
    Usage {
        cpu: span(usage.user_time()) + span(usage.system_time()),
        peak_memory_bytes: u64::try_from(usage.max_rss()).unwrap_or(0).saturating_mul(unit),
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_running_process_has_used_memory() {
        assert!(super::usage().peak_memory_bytes > 100_000);
    }
}
