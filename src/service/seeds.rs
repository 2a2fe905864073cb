//! Runs of the simulation on several threads, told in the order of their seeds.

use std::{
    num::NonZeroU16,
    sync::mpsc::{Receiver, SyncSender, sync_channel},
    thread::scope,
};

/// Runs that a thread is ahead of those that were told.
const AHEAD: usize = 16;

/// Calls `run` for `count` seeds from `first` on, on so many threads, and `tell` with what came of it, in the order of the seeds; after an error
/// of `tell` nothing more is begun. Of `jobs` threads each has every `jobs`-th seed, so that what they find need not be sorted.
///
/// # Errors
/// The one of `tell`.
pub(super) fn each<T: Send, E>(
    first: u64,
    count: u64,
    jobs: NonZeroU16,
    run: impl Fn(u64) -> T + Sync,
    mut tell: impl FnMut(u64, T) -> Result<(), E>,
) -> Result<(), E> {
    let (step, run) = (usize::from(jobs.get()), &run);
    scope(|threads| {
        let start = |own: u64| -> Receiver<T> {
            let (found, receiver): (SyncSender<T>, _) = sync_channel(AHEAD);
            let mut own = (own..count).step_by(step).map(|n| first + n);
            // Nobody listens any more after an error.
            threads.spawn(move || own.all(|seed| found.send(run(seed)).is_ok()));
            receiver
        };
        let runs: Vec<_> = (0..count).take(step).map(start).collect();
        for (n, from) in (0..count).zip(runs.iter().cycle()) {
            // A thread that has panicked is joined at the end, and the panic goes on here.
            let Ok(found) = from.recv() else { break };
            tell(first + n, found)?;
        }
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    #[test]
    fn whatever_is_ready_first_is_told_in_order() {
        for jobs in 1..6 {
            let mut told = Vec::new();
            let square = |seed: u64| seed * seed;
            let all = each(5, 95, NonZeroU16::new(jobs).unwrap(), square, |seed, found| {
                told.push((seed, found));
                Ok::<_, ()>(())
            });
            assert_eq!((all, told), (Ok(()), (5..100).map(|seed| (seed, seed * seed)).collect()));
        }
    }

    #[test]
    fn the_first_error_in_the_order_of_seeds_ends_it() {
        let begun = AtomicU64::new(0);
        let run = |seed: u64| {
            begun.fetch_add(1, Ordering::Relaxed);
            seed
        };
        let first = |seed: u64, _: u64| if seed >= 20 { Err(seed) } else { Ok(()) };
        assert_eq!(each(0, 100_000, NonZeroU16::new(3).unwrap(), run, first), Err(20));
        assert!(begun.into_inner() < 200, "a thread is so many runs ahead, and no more");
    }

    #[test]
    fn the_last_seed_of_all_is_run() {
        let mut told = Vec::new();
        let all = each(
            u64::MAX - 2,
            3,
            NonZeroU16::new(2).unwrap(),
            |seed| seed,
            |_, seed| {
                told.push(seed);
                Ok::<_, ()>(())
            },
        );
        assert_eq!((all, told), (Ok(()), vec![u64::MAX - 2, u64::MAX - 1, u64::MAX]));
    }
}
