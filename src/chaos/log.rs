//! What happened, line by line: the same for the same seed, byte for byte.

use std::{
    fmt::Write as _,
    sync::{Arc, Mutex, PoisonError},
};

use crate::{
    broker::core::{Request, Response},
    clock::Instant,
};

/// The log of one simulation; clones write to the same one. Lines are numbers of events in virtual time; whether they are
/// kept or only folded into a fingerprint is chosen at the start.
#[derive(Clone, Debug)]
pub struct Log(Arc<Mutex<Lines>>);

#[derive(Debug)]
struct Lines {
    kept: Option<String>,
    line: String,
    fingerprint: u64,
    events: u64,
}

impl Log {
    /// A log that keeps its lines, or only their fingerprint.
    #[must_use]
    pub fn new(keep: bool) -> Self {
        let kept = keep.then(String::new);
        Self(Arc::new(Mutex::new(Lines { kept, line: String::new(), fingerprint: 0, events: 0 })))
    }

    /// Writes a line.
    pub fn say(&self, now: Instant, what: std::fmt::Arguments<'_>) {
        let mut lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Lines { kept, line, fingerprint, events } = &mut *lines;
        *events += 1;
        let Some(kept) = kept else {
            fold(fingerprint, now.nanos());
            return;
        };
        line.clear();
        // Writing into memory does not fail.
        writeln!(line, "{:>12.6} {what}", now.nanos() as f64 / 1e9).unwrap_or_default();
        line.bytes().for_each(|byte| fold(fingerprint, u64::from(byte)));
        kept.push_str(line);
    }

    pub(super) fn request(&self, now: Instant, request: &Request) {
        self.say(now, format_args!("{:?} asks {:?} {:?}", request.connection.0, request.api, request.body));
    }

    pub(super) fn response(&self, now: Instant, response: &Response) {
        self.say(now, format_args!("{:?} hears {:?} {:?}", response.connection.0, response.api, response.body));
    }

    /// The lines; none if they were not kept.
    #[must_use]
    pub fn text(&self) -> String {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).kept.clone().unwrap_or_default()
    }

    /// A number that differs where the times or the number of events differ.
    #[must_use]
    pub fn fingerprint(&self) -> u64 {
        let lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut fingerprint = lines.fingerprint;
        fold(&mut fingerprint, lines.events);
        fingerprint
    }
}

fn fold(fingerprint: &mut u64, value: u64) {
    *fingerprint = (fingerprint.rotate_left(5) ^ value).wrapping_mul(0x517c_c1b7_2722_0a95);
}
