//! Notices that brokers answer and acknowledge nothing: a disk is full, or too few replicas are in sync. The client goes on
//! trying and says nothing. A value: what is in flight, what was heard and `now` in, what to say out.

use std::time::Duration;

use crate::clock::Instant;

/// Without any acknowledgement for so long something is wrong; a broker that starts again is back before.
const PATIENCE: Duration = Duration::from_secs(10);

/// Since when nothing was heard of what is in flight.
#[derive(Debug, Default)]
pub(super) struct Unheard {
    since: Option<Instant>,
    said: bool,
}

/// What is new.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(super) enum Hearing {
    /// Nothing was acknowledged since then.
    Nothing {
        /// When the first of those in flight was sent, or the last acknowledgement came.
        since: Instant,
    },
    /// Acknowledgements come again.
    Again,
}

impl Unheard {
    /// `waits`: records are in flight, and no other trouble explains why. `heard`: one was acknowledged since the last look.
    pub(super) fn look(&mut self, waits: bool, heard: bool, now: Instant) -> Option<Hearing> {
        if heard || !waits {
            self.since = waits.then_some(now);
            return (std::mem::take(&mut self.said) && heard).then_some(Hearing::Again);
        }
        let since = *self.since.get_or_insert(now);
        if self.said || now - since < PATIENCE {
            return None;
        }
        self.said = true;
        Some(Hearing::Nothing { since })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(seconds: u64) -> Instant {
        Instant::from_nanos(seconds * 1_000_000_000)
    }

    #[test]
    fn silence_is_said_once_and_so_is_its_end() {
        let mut unheard = Unheard::default();
        let said: Vec<_> =
            (0..30).filter_map(|second| unheard.look(true, second == 3 || second == 25, at(second))).collect();
        assert_eq!(said, [Hearing::Nothing { since: at(3) }, Hearing::Again]);
    }

    #[test]
    fn nothing_in_flight_and_a_trouble_that_is_known_are_no_silence() {
        let mut unheard = Unheard::default();
        assert!((0..60).all(|second| unheard.look(second % 9 != 0, false, at(second)).is_none()));
    }
}
