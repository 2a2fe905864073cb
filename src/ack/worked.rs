//! Time as the timeouts count it: in ticks, and without the gaps in which the process did not run.

use std::time::Duration;

use crate::clock::Instant;

/// A number of ticks of worked time, wrapping. Two of them compare by how far they are apart, never by size.
///
/// ```
/// use stormglass::ack::Tick;
///
/// assert_eq!(Tick(3).since(Tick(u16::MAX)), 4);
/// ```
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Tick(pub u16);

impl Tick {
    /// Ticks from `earlier` to `self`; right as long as they are less than 2^16 apart.
    #[must_use]
    #[inline]
    pub const fn since(self, earlier: Self) -> u16 {
        self.0.wrapping_sub(earlier.0)
    }

    /// The tick `ticks` before this one.
    #[must_use]
    #[inline]
    pub const fn before(self, ticks: u16) -> Self {
        Self(self.0.wrapping_sub(ticks))
    }
}

/// Maps a monotonic clock to time in which the process worked.
///
/// A gap between two calls that is longer than the bound means that the process was stopped or the machine was
/// suspended (SIGSTOP, a paused virtual machine, a debugger). Nobody could have made progress meanwhile, so the gap
/// counts as the bound and no more. A caller that is merely slow loses only what is above the bound.
///
/// ```
/// use std::time::Duration;
/// use stormglass::{ack::WorkedTime, clock::Instant};
///
/// let mut worked = WorkedTime::new(Duration::from_secs(5), Instant::ZERO);
/// let at = |seconds| Instant::ZERO + Duration::from_secs(seconds);
/// assert_eq!(worked.advance(at(3)), Duration::from_secs(3));
/// // Ten minutes in which the machine slept:
/// assert_eq!(worked.advance(at(603)), Duration::from_secs(8));
/// ```
#[derive(Clone, Debug)]
pub struct WorkedTime {
    longest_gap: Duration,
    last: Instant,
    worked: Duration,
}

impl WorkedTime {
    /// Starts at zero worked time; gaps above `longest_gap` are cut to it.
    #[must_use]
    pub const fn new(longest_gap: Duration, now: Instant) -> Self {
        Self { longest_gap, last: now, worked: Duration::ZERO }
    }

    /// Worked time up to `now`. A `now` before that of an earlier call changes nothing.
    pub fn advance(&mut self, now: Instant) -> Duration {
        let gap = now.saturating_since(self.last);
        self.worked = self.worked.saturating_add(gap.min(self.longest_gap));
        self.last = self.last.max(now);
        self.worked
    }

    /// Time without cuts from `earlier` to the last call. At least the worked time between the two.
    #[must_use]
    pub fn age(&self, earlier: Instant) -> Duration {
        self.last.saturating_since(earlier)
    }
}
