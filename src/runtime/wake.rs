//! Sleeping without missing a wake-up.

use std::{
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, Thread},
    time::Duration,
};

/// Where a thread sleeps, and how others wake it.
///
/// The bed remembers a call that came while the sleeper was up: his next sleep ends at once. So whoever brings something
/// first makes it visible, then wakes, and need not know what the sleeper looks at.
#[derive(Clone, Debug, Default)]
pub(crate) struct Bed(Arc<State>);

#[derive(Debug, Default)]
struct State {
    sleeper: OnceLock<Thread>,
    /// Somebody has called since the sleeper last got up.
    called: AtomicBool,
}

impl Bed {
    /// Says that the calling thread is the one that sleeps here.
    pub(crate) fn take(&self) {
        let _: &Thread = self.0.sleeper.get_or_init(thread::current);
    }

    /// Wakes the sleeper, now or from his next sleep.
    #[inline]
    pub(crate) fn wake(&self) {
        if !self.0.called.swap(true, Ordering::AcqRel) {
            self.unpark();
        }
    }

    #[cold]
    fn unpark(&self) {
        if let Some(sleeper) = self.0.sleeper.get() {
            sleeper.unpark();
        }
    }

    /// Whether somebody has called since the last sleep or the last question.
    pub(crate) fn was_called(&self) -> bool {
        self.0.called.load(Ordering::Relaxed) && self.0.called.swap(false, Ordering::AcqRel)
    }

    /// Sleeps for `span` at most; not at all if somebody has called since the last sleep.
    pub(crate) fn sleep(&self, span: Duration) {
        if !self.0.called.swap(false, Ordering::AcqRel) {
            thread::park_timeout(span);
            self.0.called.swap(false, Ordering::AcqRel);
        }
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
                        bed.sleep(Duration::from_secs(20));
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
