//! Records on their way to the broker, by the flush that they belong to. Pure.

use std::collections::VecDeque;

use crate::kafka::client::FlushId;

/// Records taken since one flush and before the next.
#[derive(Debug)]
struct Flight {
    flush: FlushId,
    /// Those without acknowledgement.
    open: u64,
}

/// All flights that are not over, the one that records are taken into now among them.
#[derive(Debug)]
pub(super) struct Flights {
    /// Those before, in order.
    before: VecDeque<Flight>,
    now: Flight,
}

impl Default for Flights {
    fn default() -> Self {
        Self { before: VecDeque::new(), now: Flight { flush: FlushId(0), open: 0 } }
    }
}

impl Flights {
    /// A record is taken; the flush that it belongs to.
    #[inline]
    pub(super) const fn take(&mut self) -> FlushId {
        self.now.open += 1;
        self.now.flush
    }

    /// What is taken from now on belongs to the next flush.
    pub(super) fn flush(&mut self) {
        let next = Flight { flush: FlushId(self.now.flush.0.wrapping_add(1)), open: 0 };
        self.before.push_back(std::mem::replace(&mut self.now, next));
        self.forget_done();
    }

    /// So many records of a flush are acknowledged, or given up.
    pub(super) fn close(&mut self, flush: FlushId, records: u64) {
        let all = self.before.iter_mut().chain([&mut self.now]);
        if let Some(flight) = all.into_iter().find(|flight| flight.flush == flush) {
            flight.open = flight.open.saturating_sub(records);
        }
        self.forget_done();
    }

    fn forget_done(&mut self) {
        while self.before.front().is_some_and(|flight| flight.open == 0) {
            self.before.pop_front();
        }
    }

    /// Records taken before the last flush that are open.
    pub(super) fn open(&self) -> usize {
        let open: u64 = self.before.iter().map(|flight| flight.open).sum();
        usize::try_from(open).unwrap_or(usize::MAX)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Against a list of all records: `Some` takes and later closes one, `None` flushes.
        #[test]
        fn open_are_the_records_before_the_last_flush_that_were_not_closed(
            steps in prop::collection::vec(prop::option::weighted(0.8, (any::<bool>(), any::<prop::sample::Index>())), 0..80),
        ) {
            let (mut flights, mut open, mut flush) = (Flights::default(), Vec::new(), FlushId(0));
            for step in steps {
                match step {
                    Some((true, _)) => open.push(flights.take()),
                    Some((false, which)) if !open.is_empty() => {
                        flights.close(open.swap_remove(which.index(open.len())), 1);
                    }
                    Some(_) => {}
                    None => {
                        flights.flush();
                        flush.0 += 1;
                    }
                }
                prop_assert_eq!(flights.open(), open.iter().filter(|of| **of != flush).count());
            }
        }
    }
}
