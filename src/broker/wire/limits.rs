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
    /// Of those that hold room and need more, one at a time takes what is not there: else two that hold half of it each
    /// would wait for each other.
    overdraft: Arc<Semaphore>,
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
    /// It takes whatever it needs.
    overdraft: Option<OwnedSemaphorePermit>,
}

impl Budget {
    pub(super) fn new(limits: &Limits) -> Self {
        let whole = (limits.in_flight / 2).max(limits.frame).div_ceil(UNIT).min(u32::MAX as usize);
        Self {
            units: Arc::new(Semaphore::new(whole)),
            whole,
            waiting: Arc::default(),
            overdraft: Arc::new(Semaphore::new(1)),
        }
    }

    /// Waits until there is room for `bytes` more; a claim larger than everything has everything.
    pub(super) async fn enlarge(&self, room: &mut Room, bytes: usize) {
        if room.overdraft.is_some() {
            return;
        }
        let _waiting = Waiting::new(&self.waiting);
        let (holds, overdraft) = (room.permit.is_some(), Arc::clone(&self.overdraft));
        // The semaphores are never closed.
        tokio::select! {
            biased;
            permit = Arc::clone(&self.units).acquire_many_owned(self.units_of(bytes)) => {
                permit.into_iter().for_each(|permit| room.add(permit));
            }
            permit = overdraft.acquire_owned(), if holds => room.overdraft = permit.ok(),
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    const WHOLE: usize = 100 * UNIT;

    fn budget() -> Budget {
        Budget::new(&Limits { frame: WHOLE, in_flight: 2 * WHOLE, ..Limits::default() })
    }

    /// What a future says that need not wait for anybody; `None` if it has to.
    async fn at_once<T>(future: impl Future<Output = T>) -> Option<T> {
        tokio::time::timeout(Duration::ZERO, future).await.ok()
    }

    #[tokio::test]
    async fn two_that_hold_all_room_do_not_wait_for_each_other() {
        let (budget, mut one, mut other) = (budget(), Room::default(), Room::default());
        budget.enlarge(&mut one, WHOLE / 2).await;
        budget.enlarge(&mut other, WHOLE / 2).await;
        assert_eq!(at_once(budget.enlarge(&mut one, WHOLE / 2)).await, Some(()), "one takes what is not there");
        assert_eq!(at_once(budget.enlarge(&mut other, WHOLE / 2)).await, None, "and no second one");
        drop(one);
        assert_eq!(at_once(budget.enlarge(&mut other, WHOLE / 2)).await, Some(()));
    }

    #[tokio::test]
    async fn who_holds_nothing_waits_for_room() {
        let (budget, mut one, mut other) = (budget(), Room::default(), Room::default());
        budget.enlarge(&mut one, WHOLE).await;
        assert_eq!(at_once(budget.enlarge(&mut other, UNIT)).await, None);
        assert!(!budget.try_enlarge(&mut other, UNIT) && !budget.is_wanted(), "nobody waits any more");
        drop(one);
        assert_eq!(at_once(budget.enlarge(&mut other, WHOLE)).await, Some(()));
    }
}
