//! Sees a call that does not come back. Pure: it is shown an executor's pulse from time to time.

use std::time::Duration;

use super::{error::EngineError, generation::Controls};
use crate::clock::Instant;

/// Watches one executor.
#[derive(Copy, Clone, Debug)]
struct Watchdog {
    limit: Duration,
    pulse: Option<(Instant, u64)>,
    stuck_for: Duration,
    last_look: Instant,
}

/// Watches all executors of a generation.
#[derive(Clone, Debug)]
pub(super) struct Watchdogs(Vec<Watchdog>);

impl Watchdogs {
    /// A call may last for `limit`.
    pub(super) fn new(executors: usize, limit: Duration, now: Instant) -> Self {
        Self(vec![Watchdog::new(limit, now); executors])
    }

    /// Looks at every executor.
    ///
    /// # Errors
    /// One hangs.
    pub(super) fn look(&mut self, control: &Controls, now: Instant) -> Result<(), EngineError> {
        for (watchdog, vitals) in self.0.iter_mut().zip(&*control.vitals) {
            let Some(stuck_for) = watchdog.look(now, vitals.step_began(), vitals.calls()) else {
                continue;
            };
            let task = vitals.calling().and_then(|task| control.names.get(task as usize));
            return Err(EngineError::Hung {
                component: task.map_or_else(|| "?".to_owned(), |name| name.to_string()),
                seconds: stuck_for.as_secs(),
            });
        }
        Ok(())
    }
}

/// The most that one look adds: what is longer was a stop of the whole process, in which no bolt could work.
const LONGEST_GAP: Duration = Duration::from_secs(1);

impl Watchdog {
    /// A call may last for `limit`.
    const fn new(limit: Duration, now: Instant) -> Self {
        Self { limit, pulse: None, stuck_for: Duration::ZERO, last_look: now }
    }

    /// Looks at the executor: when its present step began (`None` between steps), and how many calls it has finished.
    /// How long it has been in one call, if that is too long.
    fn look(&mut self, now: Instant, step_began: Option<Instant>, calls: u64) -> Option<Duration> {
        let gap = (now - self.last_look).min(LONGEST_GAP);
        self.last_look = now;
        let pulse = step_began.map(|began| (began, calls));
        if pulse.is_none() || pulse != self.pulse {
            self.pulse = pulse;
            self.stuck_for = Duration::ZERO;
            return None;
        }
        self.stuck_for += gap;
        (self.stuck_for >= self.limit).then_some(self.stuck_for)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Instant {
        Instant::from_nanos(ms * 1_000_000)
    }

    #[test]
    fn a_call_that_does_not_come_back_is_seen_after_the_limit() {
        let mut watchdog = Watchdog::new(Duration::from_secs(2), at(0));
        for ms in (0..2_000).step_by(500) {
            assert_eq!(watchdog.look(at(ms), Some(at(1)), 7), None, "{ms}");
        }
        assert_eq!(watchdog.look(at(2_000), Some(at(1)), 7), Some(Duration::from_secs(2)));
    }

    #[test]
    fn a_slow_batch_that_finishes_calls_is_no_hang() {
        let mut watchdog = Watchdog::new(Duration::from_secs(2), at(0));
        for n in 0..100 {
            assert_eq!(watchdog.look(at(n * 900), Some(at(1)), n), None);
        }
    }

    #[test]
    fn a_stop_of_the_whole_process_is_no_hang() {
        let mut watchdog = Watchdog::new(Duration::from_secs(2), at(0));
        assert_eq!(watchdog.look(at(10), Some(at(1)), 7), None);
        assert_eq!(watchdog.look(at(3_600_000), Some(at(1)), 7), None);
    }
}
