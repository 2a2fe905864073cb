//! Time as an input: pure code takes an [`Instant`], only this file reads the machine's clocks.

use std::{
    fmt,
    ops::{Add, Sub},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

/// A point on a monotonic clock: nanoseconds since the clock was made.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Instant(u64);

impl Instant {
    /// The clock's start.
    pub const ZERO: Self = Self(0);
    /// Later than every instant: the deadline of what is never due.
    pub const FAR_FUTURE: Self = Self(u64::MAX);

    /// The instant `nanos` nanoseconds after the clock's start.
    #[must_use]
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// Nanoseconds since the clock's start.
    #[must_use]
    pub const fn nanos(self) -> u64 {
        self.0
    }

    /// Time from `earlier` to `self`, zero if `earlier` is the later one.
    #[must_use]
    pub const fn saturating_since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Duration> for Instant {
    type Output = Self;

    /// Saturates at [`Instant::FAR_FUTURE`].
    fn add(self, span: Duration) -> Self {
        Self(self.0.saturating_add(u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)))
    }
}

impl Sub for Instant {
    type Output = Duration;

    /// Saturates at zero.
    fn sub(self, earlier: Self) -> Duration {
        self.saturating_since(earlier)
    }
}

impl fmt::Debug for Instant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", Duration::from_nanos(self.0))
    }
}

/// A source of time: the machine's, or one that a test moves by hand.
#[derive(Clone, Debug)]
pub enum Clock {
    /// The machine's monotonic clock, started when the value was made.
    System(std::time::Instant),
    /// A clock that stands still until [`Clock::advance`] is called; clones share it.
    Manual(Arc<AtomicU64>),
}

impl Clock {
    /// The machine's monotonic clock, starting now.
    #[must_use]
    #[expect(clippy::disallowed_methods, reason = "the one place that reads the machine's clock")]
    pub fn system() -> Self {
        Self::System(std::time::Instant::now())
    }

    /// A clock that stands at [`Instant::ZERO`] until it is advanced.
    #[must_use]
    pub fn manual() -> Self {
        Self::Manual(Arc::default())
    }

    /// The time now.
    #[must_use]
    pub fn now(&self) -> Instant {
        match self {
            Self::System(start) => Instant(u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX)),
            Self::Manual(nanos) => Instant(nanos.load(Ordering::Acquire)),
        }
    }

    /// Moves a manual clock forward; the machine's clock moves by itself.
    pub fn advance(&self, span: Duration) {
        if let Self::Manual(nanos) = self {
            nanos.fetch_add(u64::try_from(span.as_nanos()).unwrap_or(u64::MAX), Ordering::AcqRel);
        }
    }
}

/// Milliseconds since 1970 by the machine's wall clock, for timestamps that leave the process. It may jump; nothing
/// inside is decided by it.
#[must_use]
#[expect(clippy::disallowed_methods, reason = "the one place that reads the wall clock")]
pub fn wall_millis() -> i64 {
    std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .map_or(0, |d| i64::try_from(d.as_millis()).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manual_clock_moves_only_by_hand_and_for_all_its_clones() {
        let clock = Clock::manual();
        let seen_elsewhere = clock.clone();
        clock.advance(Duration::from_millis(5));
        assert_eq!(seen_elsewhere.now(), Instant::from_nanos(5_000_000));
    }

    #[test]
    fn arithmetic_on_instants_saturates() {
        assert_eq!(Instant::FAR_FUTURE + Duration::from_secs(1), Instant::FAR_FUTURE);
        assert_eq!(Instant::ZERO - Instant::from_nanos(7), Duration::ZERO);
    }
}
