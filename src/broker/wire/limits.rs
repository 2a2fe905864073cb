//! What clients may take.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// What one client may take, and all of them together.
#[derive(Copy, Clone, Debug)]
pub struct Limits {
    /// Bytes of a request; Kafka's `socket.request.max.bytes`. Default: 100 MiB.
    pub frame: usize,
    /// Bytes of all requests and responses that are on their way, but for 64 KiB of each connection; Kafka's
    /// `queued.max.request.bytes`. One half is for requests and one for responses, so that clients that never read keep no
    /// other from writing; neither is below `frame`. Default: 256 MiB.
    pub in_flight: usize,
    /// Connections; one more is closed at once. Default: 900, which fits into the usual 1024 open files of a process.
    pub connections: usize,
    /// Longest time without a request; Kafka's `connections.max.idle.ms`. Default: 10 minutes.
    pub idle: Duration,
    /// Longest time for a request to arrive once it has begun, and longest time in which a client takes no byte of its
    /// response. Default: 30 s.
    pub stall: Duration,
    /// The same for a response while others wait for the room that it takes. Default: 2 s.
    pub hurried: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            frame: 100 << 20,
            in_flight: 256 << 20,
            connections: 900,
            idle: Duration::from_secs(600),
            stall: Duration::from_secs(30),
            hurried: Duration::from_secs(2),
        }
    }
}

/// Bytes of a frame that need no room in the [`Budget`], so that small requests pass while large ones wait.
pub(super) const FREE: usize = 64 << 10;

/// Bytes to a permit: a semaphore counts no further than 32 bits.
const UNIT: usize = 1 << 10;

/// The memory that requests may take together, or responses.
#[derive(Clone, Debug)]
pub(super) struct Budget {
    units: Arc<Semaphore>,
    whole: usize,
    /// How many wait for room.
    waiting: Arc<AtomicUsize>,
}

/// One that waits for room, until it is dropped.
struct Waiting<'a>(&'a AtomicUsize);

impl<'a> Waiting<'a> {
    fn new(waiting: &'a AtomicUsize) -> Self {
        waiting.fetch_add(1, Ordering::Relaxed);
        Self(waiting)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Room in the budget, until it is dropped.
#[derive(Debug, Default)]
pub(super) struct Room {
    permit: Option<OwnedSemaphorePermit>,
}

impl Budget {
    pub(super) fn new(limits: &Limits) -> Self {
        let whole = (limits.in_flight / 2).max(limits.frame).div_ceil(UNIT).min(u32::MAX as usize);
        Self { units: Arc::new(Semaphore::new(whole)), whole, waiting: Arc::default() }
    }

    /// Waits until there is room for `bytes` more; a claim larger than everything has everything.
    pub(super) async fn enlarge(&self, room: &mut Room, bytes: usize) {
        let _waiting = Waiting::new(&self.waiting);
        // The semaphore is never closed.
        let Ok(permit) = Arc::clone(&self.units).acquire_many_owned(self.units_of(bytes)).await else { return };
        room.add(permit);
    }

    /// Room for `bytes` more, if there is.
    pub(super) fn try_enlarge(&self, room: &mut Room, bytes: usize) -> bool {
        let permit = Arc::clone(&self.units).try_acquire_many_owned(self.units_of(bytes));
        permit.map(|permit| room.add(permit)).is_ok()
    }

    /// Whether anybody waits for room.
    pub(super) fn is_wanted(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) > 0
    }

    fn units_of(&self, bytes: usize) -> u32 {
        u32::try_from(bytes.div_ceil(UNIT).min(self.whole)).unwrap_or(u32::MAX)
    }
}

impl Room {
    fn add(&mut self, permit: OwnedSemaphorePermit) {
        match &mut self.permit {
            Some(held) => held.merge(permit),
            None => self.permit = Some(permit),
        }
    }
}
