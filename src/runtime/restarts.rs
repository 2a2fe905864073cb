//! What becomes of a run when a generation of it has ended with an error. Pure.

use std::time::Duration;

use super::error::EngineError;

/// The longest pause before a start.
const LONGEST_BACKOFF: Duration = Duration::from_secs(30);

/// The restarts of one run.
#[derive(Clone, Debug)]
pub(super) struct Restarts {
    first: Duration,
    backoff: Duration,
    hangs: u32,
    /// How state and offsets disagreed at the last start that found them so.
    disagreement: Option<String>,
}

impl Restarts {
    /// Pauses begin with `first`.
    pub(super) const fn new(first: Duration) -> Self {
        Self { first, backoff: first, hangs: 0, disagreement: None }
    }

    /// How long to wait before the next generation; `None`: there is none, the run ends with the error. `has_run`: a
    /// generation has ever worked. `has_committed`: the one that has ended did.
    pub(super) fn after(&mut self, error: &EngineError, has_run: bool, has_committed: bool) -> Option<Duration> {
        if let EngineError::Disagreement(sentence) = error {
            return self.after_disagreement(sentence);
        }
        self.hangs += u32::from(matches!(error, EngineError::Hung { .. }));
        if !error.is_retriable() || self.hangs > 1 || !has_run {
            return None;
        }
        if has_committed {
            self.backoff = self.first;
        }
        let pause = self.backoff;
        self.backoff = (pause * 2).min(LONGEST_BACKOFF);
        tracing::error!(%error, ?pause, "the generation ended; it starts again from the last commit");
        Some(pause)
    }

    /// Even the very first start looks twice: what it found may be older than what it read.
    fn after_disagreement(&mut self, sentence: &str) -> Option<Duration> {
        if self.disagreement.as_deref() == Some(sentence) {
            return None;
        }
        tracing::warn!(pause = ?self.first, "{sentence}. Looking once more before this is believed");
        self.disagreement = Some(sentence.to_owned());
        Some(self.first)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: fn(u64) -> Duration = Duration::from_millis;

    fn lost() -> EngineError {
        EngineError::Panicked("lost".into())
    }

    fn hung() -> EngineError {
        EngineError::Hung { component: "count".into(), seconds: 60 }
    }

    #[test]
    fn pauses_double_until_a_commit_succeeds() {
        let mut restarts = Restarts::new(MS(500));
        let pauses: Vec<_> = [false, false, true, false].map(|ok| restarts.after(&lost(), true, ok)).into();
        assert_eq!(pauses, [Some(MS(500)), Some(MS(1000)), Some(MS(500)), Some(MS(1000))]);
        for _ in 0..20 {
            restarts.after(&lost(), true, false);
        }
        assert_eq!(restarts.after(&lost(), true, false), Some(LONGEST_BACKOFF));
    }

    #[test]
    fn the_first_start_a_second_hang_and_what_no_restart_mends_end_the_run() {
        assert_eq!(Restarts::new(MS(1)).after(&lost(), false, false), None);
        assert_eq!(Restarts::new(MS(1)).after(&EngineError::Refused("no".into()), true, true), None);
        let mut restarts = Restarts::new(MS(1));
        assert!(restarts.after(&hung(), true, true).is_some());
        assert_eq!(restarts.after(&hung(), true, true), None);
    }

    #[test]
    fn a_disagreement_is_believed_when_it_is_found_again() {
        let disagree = |at: &str| EngineError::Disagreement(format!("{at} is committed"));
        let mut restarts = Restarts::new(MS(500));
        let pauses: Vec<_> = ["3", "5", "5"].map(|at| restarts.after(&disagree(at), false, false)).into();
        assert_eq!(pauses, [Some(MS(500)), Some(MS(500)), None]);
    }
}
