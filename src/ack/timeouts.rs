//! Which trees made no progress for too long.

use std::time::Duration;

use super::{Ledger, Outcome, Tick, WorkedTime};
use crate::{clock::Instant, tuple::RootId};

/// Ticks in a timeout: a tree expires between 16/16 and 18/16 of it (Storm: between 1 and 2 timeouts).
const TICKS: u16 = 16;

/// Idle times are kept up to here, and told apart up to here.
const LONGEST_IDLE: u16 = 1 << 15;

/// How far ticks may run ahead of the last scan. With [`LONGEST_IDLE`] below the 2^16 at which a tick wraps.
const FARTHEST_AHEAD: u64 = 1 << 14;

const _: () = assert!(LONGEST_IDLE as u64 + FARTHEST_AHEAD < 1 << 16);

/// A tree that has expired.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Expired {
    /// The tree.
    pub root: RootId,
    /// Its effects so far: what a replay will repeat.
    pub effects: u64,
}

/// Ends the trees that made no progress for a timeout. Progress is an ack, a touch or the begin; a slow tree whose
/// tuples go on being acked lives for ever. (Storm counts from the emit, so under back-pressure it kills trees that are
/// only waiting in a queue.)
///
/// A tree is left alone while some batch has been queued for as long as the tree has been idle, for its tuples may be in
/// that batch. A batch that is being executed counts as queued. Time is [`WorkedTime`] that cuts gaps above a quarter of
/// the timeout.
///
/// ```
/// use std::time::Duration;
/// use stormglass::{ack::{Ledger, Outcome, Timeouts}, clock::Instant};
///
/// let mut ledger = Ledger::new(0, 1024);
/// let mut timeouts = Timeouts::new(Duration::from_secs(30), Instant::ZERO);
/// let root = ledger.open(timeouts.tick()).unwrap();
/// assert_eq!(ledger.begin(root, 42, timeouts.tick()), Outcome::Pending);
///
/// let mut expired = Vec::new();
/// for second in 1..40 {
///     // What an executor does at each step:
///     let now = Instant::ZERO + Duration::from_secs(second);
///     if timeouts.advance(now) {
///         timeouts.expire(&mut ledger, None, &mut expired);
///     }
/// }
/// assert_eq!(expired[0].root, root);
/// ```
#[derive(Clone, Debug)]
pub struct Timeouts {
    tick_length: Duration,
    worked: WorkedTime,
    /// Worked time at which the next tick begins.
    next_tick: Duration,
    /// Ticks since the start.
    ticks: u64,
    /// The tick of the last scan.
    scanned: u64,
}

impl Timeouts {
    /// Trees expire after `timeout` without progress. A timeout of 0 is taken as the shortest there is, 16 ns.
    #[must_use]
    pub fn new(timeout: Duration, now: Instant) -> Self {
        let tick_length = (timeout / u32::from(TICKS)).max(Duration::from_nanos(1));
        Self {
            tick_length,
            worked: WorkedTime::new(tick_length * 4, now),
            next_tick: tick_length,
            ticks: 0,
            scanned: 0,
        }
    }

    /// The tick that [`Ledger::open`], [`Ledger::begin`] and [`Ledger::apply`] take, as of the last
    /// [`Timeouts::advance`].
    #[must_use]
    #[inline]
    pub const fn tick(&self) -> Tick {
        Tick((self.ticks & 0xffff) as u16)
    }

    /// How long a tick is, 1/16 of the timeout. While trees are live, [`Timeouts::advance`] has to be called about that
    /// often; gaps above 4 ticks count as 4.
    #[must_use]
    pub const fn tick_length(&self) -> Duration {
        self.tick_length
    }

    /// Moves time to `now`. True if [`Timeouts::expire`] is due, which is once a tick. Cheap enough for every step.
    #[must_use = "true asks for `expire`"]
    #[inline]
    pub fn advance(&mut self, now: Instant) -> bool {
        let worked = self.worked.advance(now);
        // At most 4 times, the longest gap that counts.
        while worked >= self.next_tick {
            self.next_tick += self.tick_length;
            self.ticks += 1;
        }
        // Time stands still for a caller that never scans, rather than wrap.
        self.ticks = self.ticks.min(self.scanned + FARTHEST_AHEAD);
        self.ticks != self.scanned
    }

    /// Ends the trees that are due and adds them to `expired`. `oldest_queued` is when the oldest batch that is queued
    /// or being executed *anywhere* was begun: not when it was sent, but when its first row was written.
    ///
    /// Looks at every slot of the ledger, about a nanosecond each.
    pub fn expire(&mut self, ledger: &mut Ledger, oldest_queued: Option<Instant>, expired: &mut Vec<Expired>) {
        self.scanned = self.ticks;
        let queued_for = oldest_queued.map_or(0, |oldest| self.ticks_up(self.worked.age(oldest)));
        for slot in 0..ledger.slots() {
            let Some((root, idle)) = ledger.idle(slot, self.tick(), LONGEST_IDLE) else {
                continue;
            };
            if idle <= TICKS.max(queued_for) {
                continue;
            }
            if let Outcome::Failed { effects } = ledger.expire(root) {
                expired.push(Expired { root, effects });
            }
        }
    }

    /// A length of time in ticks, rounded up. What is at least [`LONGEST_IDLE`] exceeds every idle time.
    fn ticks_up(&self, span: Duration) -> u16 {
        let ticks = span.as_nanos().div_ceil(self.tick_length.as_nanos());
        u16::try_from(ticks).unwrap_or(u16::MAX)
    }
}
