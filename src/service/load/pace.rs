//! When each line is due. Lines are due by the schedule, however late the ones before were: a slow broker shows as
//! latency and is not hidden by a slower load.

use std::time::Duration;

use crate::clock::Instant;

/// A schedule of so many lines a second.
#[derive(Copy, Clone, Debug)]
pub(crate) struct Pace {
    start: Instant,
    per_second: f64,
}

impl Pace {
    /// `per_second` lines from `start` on; it is above 0.
    pub(crate) const fn new(start: Instant, per_second: f64) -> Self {
        Self { start, per_second }
    }

    /// How many lines are due by `now`, counted from the first, which is due at the start.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "neither negative nor above 2^53")]
    pub(crate) fn due_by(&self, now: Instant) -> u64 {
        let seconds = now.saturating_since(self.start).as_secs_f64();
        (seconds * self.per_second).floor() as u64 + 1
    }

    /// When line `n` is due, counted from 0.
    #[expect(clippy::cast_precision_loss, reason = "fewer than 2^53 lines")]
    pub(crate) fn due(&self, n: u64) -> Instant {
        self.start + Duration::from_secs_f64(n as f64 / self.per_second)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_late_stays_due_by_the_schedule() {
        let start = Instant::from_nanos(1_000_000_000);
        let pace = Pace::new(start, 500.0);
        assert_eq!(pace.due_by(start), 1);
        assert_eq!(pace.due_by(start + Duration::from_secs(2)), 1001);
        assert_eq!(pace.due(1000), start + Duration::from_secs(2));
    }
}
