//! Sleeping without missing a wake-up.

use std::{
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, Ordering, fence},
    },
    thread::{self, Thread},
    time::Duration,
};

/// Where a thread sleeps, and how others wake it.
///
/// Who brings something first makes it visible, then wakes; who sleeps first says so, then looks once more. Both have a
/// fence between their two steps, so one of them sees the other.
#[derive(Clone, Debug, Default)]
pub(crate) struct Bed(Arc<State>);

#[derive(Debug, Default)]
struct State {
    sleeper: OnceLock<Thread>,
    asleep: AtomicBool,
}

impl Bed {
    /// Says that the calling thread is the one that sleeps here.
    pub(crate) fn take(&self) {
        let _: &Thread = self.0.sleeper.get_or_init(thread::current);
    }

    /// Wakes the sleeper, if it sleeps.
    #[inline]
    pub(crate) fn wake(&self) {
        fence(Ordering::SeqCst);
        if self.0.asleep.load(Ordering::Relaxed) && self.0.asleep.swap(false, Ordering::AcqRel) {
            self.unpark();
        }
    }

    #[cold]
    fn unpark(&self) {
        if let Some(sleeper) = self.0.sleeper.get() {
            sleeper.unpark();
        }
    }

    /// Sleeps for `span` at most, unless `something` has come.
    pub(crate) fn sleep(&self, span: Duration, something: impl FnOnce() -> bool) {
        self.0.asleep.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        if !something() {
            thread::park_timeout(span);
        }
        self.0.asleep.store(false, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU32;

    use super::*;

    #[test]
    fn no_wake_up_is_lost_between_the_last_look_and_the_sleep() {
        let bed = Bed::default();
        let (brought, taken) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
        let sleeper = thread::spawn({
            let (bed, brought, taken) = (bed.clone(), Arc::clone(&brought), Arc::clone(&taken));
            move || {
                bed.take();
                while taken.load(Ordering::Relaxed) < 20_000 {
                    let here = brought.load(Ordering::Acquire);
                    if taken.swap(here, Ordering::AcqRel) == here {
                        bed.sleep(Duration::from_secs(20), || brought.load(Ordering::Acquire) != here);
                    }
                }
            }
        });
        for n in 1..=20_000 {
            brought.store(n, Ordering::Release);
            bed.wake();
            if n % 64 == 0 {
                while taken.load(Ordering::Acquire) < n {
                    thread::yield_now();
                }
            }
        }
        sleeper.join().unwrap();
        assert_eq!(taken.load(Ordering::Relaxed), 20_000);
    }
}
