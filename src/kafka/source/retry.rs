//! When a failed record comes again, and when it is given up. Pure.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use super::offsets::Seq;
use crate::{clock::Instant, metrics::ReplayReason};

/// How often, and how long after a failure.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct RetryPolicy {
    /// Deliveries after the first: `k` means `k + 1` deliveries in all. Default 3.
    pub max_retries: u32,
    /// Pause after the first failure; it doubles with each further one. Default 10 ms.
    pub backoff: Duration,
    /// The longest pause. Default 10 s.
    pub backoff_max: Duration,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self { max_retries: 3, backoff: Duration::from_millis(10), backoff_max: Duration::from_secs(10) }
    }
}

impl RetryPolicy {
    /// The pause after the `failures`-th failure, counted from 1: never shorter than the one before.
    #[must_use]
    pub fn pause(&self, failures: u32) -> Duration {
        // Storm's `Math.pow` cast to long overflows at failure 44 and makes a hot loop; saturating never does.
        let doubled = 2_u32.checked_pow(failures.saturating_sub(1)).unwrap_or(u32::MAX);
        self.backoff.saturating_mul(doubled).min(self.backoff_max)
    }
}

/// What becomes of a record that has failed.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
#[must_use]
pub enum Verdict {
    /// It is emitted again.
    Retry {
        /// Not before.
        at: Instant,
    },
    /// No replay can cure it.
    Permanent,
    /// It was delivered `max_retries + 1` times.
    Exhausted,
}

#[derive(Copy, Clone, Debug)]
struct Failed {
    times: u32,
    last: ReplayReason,
}

/// The failed records of one partition.
#[derive(Clone, Debug)]
pub struct Retries {
    policy: RetryPolicy,
    failed: BTreeMap<Seq, Failed>,
    due: BTreeSet<(Instant, Seq)>,
}

impl Retries {
    /// None yet.
    #[must_use]
    pub const fn new(policy: RetryPolicy) -> Self {
        Self { policy, failed: BTreeMap::new(), due: BTreeSet::new() }
    }

    /// A record has failed.
    pub fn fail(&mut self, now: Instant, seq: Seq, retriable: bool, reason: ReplayReason) -> Verdict {
        let failed = self.failed.entry(seq).or_insert(Failed { times: 0, last: reason });
        failed.times = failed.times.saturating_add(1);
        failed.last = reason;
        if !retriable {
            return Verdict::Permanent;
        }
        if failed.times > self.policy.max_retries {
            return Verdict::Exhausted;
        }
        let at = now + self.policy.pause(failed.times);
        self.due.insert((at, seq));
        Verdict::Retry { at }
    }

    /// How often a record was delivered and failed.
    #[must_use]
    pub fn failures(&self, seq: Seq) -> u32 {
        self.failed.get(&seq).map_or(0, |failed| failed.times)
    }

    /// A record is done.
    #[inline]
    pub fn forget(&mut self, seq: Seq) {
        if !self.failed.is_empty() {
            self.failed.remove(&seq);
        }
    }

    /// A record that is to be emitted again now, and why: the longest due first.
    pub fn pop_due(&mut self, now: Instant) -> Option<(Seq, ReplayReason)> {
        let &(at, seq) = self.due.first()?;
        if at > now {
            return None;
        }
        self.due.pop_first();
        let reason = self.failed.get(&seq).map_or(ReplayReason::Fail, |failed| failed.last);
        Some((seq, reason))
    }

    /// When the next record is due.
    #[must_use]
    pub fn next_due(&self) -> Option<Instant> {
        self.due.first().map(|(at, _)| *at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn backoff_is_monotone_to_its_cap_for_a_thousand_failures() {
        let policy = RetryPolicy { backoff: Duration::from_millis(2), ..RetryPolicy::default() };
        let pauses: Vec<_> = (1..=1000).map(|n| policy.pause(n)).collect();
        assert!(pauses.is_sorted());
        assert_eq!(pauses[0], Duration::from_millis(2));
        assert_eq!(pauses[1], Duration::from_millis(4));
        assert_eq!(pauses[999], policy.backoff_max);
    }

    #[test]
    fn k_retries_are_exactly_k_plus_one_deliveries() {
        for k in [0, 1, 3] {
            let mut retries = Retries::new(RetryPolicy { max_retries: k, ..RetryPolicy::default() });
            let mut deliveries = 1;
            while let Verdict::Retry { at } = retries.fail(Instant::ZERO, Seq(7), true, ReplayReason::Fail) {
                assert_eq!(retries.pop_due(at), Some((Seq(7), ReplayReason::Fail)));
                deliveries += 1;
            }
            assert_eq!(deliveries, k + 1);
            assert_eq!(retries.failures(Seq(7)), k + 1);
        }
    }

    #[test]
    fn a_permanent_failure_is_never_retried_and_others_come_when_they_are_due() {
        let mut retries = Retries::new(RetryPolicy::default());
        assert_eq!(retries.fail(Instant::ZERO, Seq(1), false, ReplayReason::Fail), Verdict::Permanent);
        let Verdict::Retry { at } = retries.fail(Instant::ZERO, Seq(2), true, ReplayReason::Timeout) else {
            panic!("given up")
        };
        assert_eq!(retries.pop_due(Instant::ZERO), None);
        assert_eq!(retries.next_due(), Some(at));
        assert_eq!(retries.pop_due(at), Some((Seq(2), ReplayReason::Timeout)));
        retries.forget(Seq(2));
        assert_eq!((retries.failures(Seq(2)), retries.next_due()), (0, None));
    }
}
