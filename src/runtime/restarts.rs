//! What becomes of a run when a generation of it has ended with an error, decided and said.

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

/// What a generation was like that has ended with an error.
#[derive(Copy, Clone, Debug)]
pub(super) struct Lived {
    /// A generation of this run has ever worked, this one or one before.
    pub(super) has_run: bool,
    /// It has committed something.
    pub(super) has_committed: bool,
    /// It was told to stop its spouts.
    pub(super) drained: bool,
}

/// What follows it.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(super) enum Next {
    /// Another generation, after this pause.
    StartAfter(Duration),
    /// The end that was asked for, without what was to be finished before it.
    CutShort,
    /// The run ends with the error.
    Fail,
}

impl Restarts {
    /// Pauses begin with `first`.
    pub(super) const fn new(first: Duration) -> Self {
        Self { first, backoff: first, hangs: 0, disagreement: None }
    }

    /// What follows a generation that has ended with an error.
    pub(super) fn after(&mut self, error: &EngineError, lived: Lived) -> Next {
        if let EngineError::Disagreement(sentence) = error {
            return self.after_disagreement(sentence);
        }
        self.hangs += u32::from(matches!(error, EngineError::Hung { .. }));
        if !error.is_retriable() || self.hangs > 1 || !lived.has_run {
            return Next::Fail;
        }
        if lived.drained {
            tracing::error!(%error, "the generation ended before what was in flight was done and committed");
            return Next::CutShort;
        }
        if lived.has_committed {
            self.backoff = self.first;
        }
        let pause = self.backoff;
        self.backoff = (pause * 2).min(LONGEST_BACKOFF);
        tracing::error!(%error, ?pause, "the generation ended; it starts again from the last commit");
        Next::StartAfter(pause)
    }

    /// Even the very first start looks twice: what it found may be older than what it read.
    fn after_disagreement(&mut self, sentence: &str) -> Next {
        if self.disagreement.as_deref() == Some(sentence) {
            return Next::Fail;
        }
        tracing::warn!(pause = ?self.first, "{sentence}. Looking once more before this is believed");
        self.disagreement = Some(sentence.to_owned());
        Next::StartAfter(self.first)
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

    const WORKED: Lived = Lived { has_run: true, has_committed: false, drained: false };

    fn start_after(ms: u64) -> Next {
        Next::StartAfter(MS(ms))
    }

    #[test]
    fn pauses_double_until_a_commit_succeeds() {
        let mut restarts = Restarts::new(MS(500));
        let pauses: Vec<_> = [false, false, true, false]
            .map(|has_committed| restarts.after(&lost(), Lived { has_committed, ..WORKED }))
            .into();
        assert_eq!(pauses, [500, 1000, 500, 1000].map(start_after));
        for _ in 0..20 {
            restarts.after(&lost(), WORKED);
        }
        assert_eq!(restarts.after(&lost(), WORKED), Next::StartAfter(LONGEST_BACKOFF));
    }

    #[test]
    fn the_first_start_a_second_hang_and_what_no_restart_mends_end_the_run() {
        let never = Lived { has_run: false, ..WORKED };
        assert_eq!(Restarts::new(MS(1)).after(&lost(), never), Next::Fail);
        assert_eq!(Restarts::new(MS(1)).after(&EngineError::Refused("no".into()), WORKED), Next::Fail);
        let mut restarts = Restarts::new(MS(1));
        assert_eq!(restarts.after(&hung(), WORKED), start_after(1));
        assert_eq!(restarts.after(&hung(), WORKED), Next::Fail);
    }

    #[test]
    fn nothing_starts_again_that_was_told_to_stop() {
        let drained = Lived { drained: true, ..WORKED };
        assert_eq!(Restarts::new(MS(1)).after(&lost(), drained), Next::CutShort);
        assert_eq!(Restarts::new(MS(1)).after(&EngineError::Refused("no".into()), drained), Next::Fail);
    }

    #[test]
    fn a_disagreement_is_believed_when_it_is_found_again() {
        let disagree = |at: &str| EngineError::Disagreement(format!("{at} is committed"));
        let mut restarts = Restarts::new(MS(500));
        let pauses: Vec<_> = ["3", "5", "5"].map(|at| restarts.after(&disagree(at), WORKED)).into();
        assert_eq!(pauses, [start_after(500), start_after(500), Next::Fail]);
    }
}
