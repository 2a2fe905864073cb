//! What happens when, from a seed.

use std::time::Duration;

use rand::{RngExt as _, SeedableRng as _, seq::SliceRandom as _};
use rand_pcg::Pcg64Mcg;

/// Something bad.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Event {
    /// SIGKILL, and the next process.
    Kill,
    /// SIGSTOP, and SIGCONT after a while: at times longer than the session timeout.
    Freeze(Duration),
    /// SIGTERM, and the next process when it has ended.
    Drain,
    /// The broker is stopped, and started after a while.
    Outage(Duration),
}

/// Events, each after a pause.
#[derive(Debug)]
pub struct Plan {
    pub steps: Vec<(Duration, Event)>,
    /// How long lines are to be written.
    pub span: Duration,
}

impl Plan {
    /// So many kills within a span, and among them at least one of everything else.
    pub fn new(seed: u64, kills: usize, span: Duration) -> Self {
        let mut rng = Pcg64Mcg::seed_from_u64(seed);
        let millis = |rng: &mut Pcg64Mcg, from, to| Duration::from_millis(rng.random_range(from..to));
        let mut events = vec![Event::Kill; kills];
        for _ in 0..kills.div_ceil(4) {
            events.push(Event::Freeze(millis(&mut rng, 100, 8_000)));
            events.push(Event::Drain);
        }
        for _ in 0..kills.div_ceil(10) {
            events.push(Event::Outage(millis(&mut rng, 0, 3_000)));
        }
        events.shuffle(&mut rng);
        let mean = u64::try_from(span.as_millis()).expect("a span of minutes") / events.len().max(1) as u64;
        let steps = events.into_iter().map(|event| (millis(&mut rng, 0, 2 * mean.max(1)), event)).collect();
        Self { steps, span }
    }
}
