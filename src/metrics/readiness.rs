//! Whether the process does its work right now: set by whoever knows, asked by `/readyz`.

use std::{
    fmt,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

/// Why the process is not ready.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Unready {
    /// It is shutting down.
    Draining,
    /// Something keeps it from reading, as a sentence says.
    ReadingWaits(String),
    /// No broker has answered yet.
    BrokersUnreachable,
    /// The group has given it no partition (yet).
    NothingAssigned,
}

impl fmt::Display for Unready {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Draining => f.write_str("draining: the process is shutting down"),
            Self::ReadingWaits(trouble) => write!(f, "reading waits: {trouble}"),
            Self::BrokersUnreachable => f.write_str("brokers unreachable: no broker has answered yet"),
            Self::NothingAssigned => f.write_str("nothing assigned: the group has given this process no partition yet"),
        }
    }
}

#[derive(Debug, Default)]
struct Facts {
    trouble: Mutex<Option<String>>,
    brokers_reachable: AtomicBool,
    assigned: AtomicBool,
    draining: AtomicBool,
}

/// Four facts, shared by the clones of this value. At first nothing is reachable and nothing assigned.
#[derive(Clone, Debug, Default)]
pub struct Readiness(Arc<Facts>);

impl Readiness {
    /// What keeps it from reading: brokers that do not answer, a topic that is not there.
    pub fn set_trouble(&self, trouble: String) {
        *self.0.trouble.lock().unwrap_or_else(PoisonError::into_inner) = Some(trouble);
    }

    /// Brokers answer, and nothing keeps it from reading.
    pub fn set_brokers_reachable(&self) {
        *self.0.trouble.lock().unwrap_or_else(PoisonError::into_inner) = None;
        self.0.brokers_reachable.store(true, Ordering::Relaxed);
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
        let trouble = self.0.trouble.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if self.0.draining.load(Ordering::Relaxed) {
            Err(Unready::Draining)
        } else if let Some(trouble) = trouble {
            Err(Unready::ReadingWaits(trouble))
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
        readiness.set_brokers_reachable();
        assert_eq!(readiness.check(), Err(Unready::NothingAssigned));
        readiness.set_assigned(true);
        assert_eq!(readiness.check(), Ok(()));
        readiness.set_trouble("topic \"t\" does not exist".to_owned());
        let why = readiness.check().unwrap_err().to_string();
        assert_eq!(why, "reading waits: topic \"t\" does not exist");
        readiness.set_brokers_reachable();
        assert_eq!(readiness.check(), Ok(()));
    }

    #[test]
    fn draining_is_said_before_any_other_reason() {
        let readiness = Readiness::default();
        readiness.set_draining();
        assert_eq!(readiness.check(), Err(Unready::Draining));
    }
}
