//! Whether the process does its work right now: set by whoever knows, asked by `/readyz`.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

/// Why the process is not ready.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Unready {
    /// It is shutting down.
    Draining,
    /// No broker answers.
    BrokersUnreachable,
    /// The group has given it no partition (yet).
    NothingAssigned,
}

impl fmt::Display for Unready {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Draining => "draining: the process is shutting down",
            Self::BrokersUnreachable => "brokers unreachable: no broker answers",
            Self::NothingAssigned => "nothing assigned: the group has given this process no partition yet",
        })
    }
}

#[derive(Debug, Default)]
struct Facts {
    brokers_reachable: AtomicBool,
    assigned: AtomicBool,
    draining: AtomicBool,
}

/// Three facts, shared by the clones of this value. At first nothing is reachable and nothing assigned.
#[derive(Clone, Debug, Default)]
pub struct Readiness(Arc<Facts>);

impl Readiness {
    /// Whether any broker answers.
    pub fn set_brokers_reachable(&self, yes: bool) {
        self.0.brokers_reachable.store(yes, Ordering::Relaxed);
    }

    /// Whether at least one partition is assigned.
    pub fn set_assigned(&self, yes: bool) {
        self.0.assigned.store(yes, Ordering::Relaxed);
    }

    /// From now on the process shuts down.
    pub fn set_draining(&self) {
        self.0.draining.store(true, Ordering::Relaxed);
    }

    /// Ready, or the first reason why not.
    ///
    /// # Errors
    /// The reason.
    pub fn check(&self) -> Result<(), Unready> {
        if self.0.draining.load(Ordering::Relaxed) {
            Err(Unready::Draining)
        } else if !self.0.brokers_reachable.load(Ordering::Relaxed) {
            Err(Unready::BrokersUnreachable)
        } else if !self.0.assigned.load(Ordering::Relaxed) {
            Err(Unready::NothingAssigned)
        } else {
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ready_only_while_brokers_answer_and_partitions_are_assigned() {
        let readiness = Readiness::default();
        assert_eq!(readiness.check(), Err(Unready::BrokersUnreachable));
        readiness.set_brokers_reachable(true);
        assert_eq!(readiness.check(), Err(Unready::NothingAssigned));
        readiness.set_assigned(true);
        assert_eq!(readiness.check(), Ok(()));
    }

    #[test]
    fn draining_is_said_before_any_other_reason() {
        let readiness = Readiness::default();
        readiness.set_draining();
        assert_eq!(readiness.check(), Err(Unready::Draining));
    }
}
