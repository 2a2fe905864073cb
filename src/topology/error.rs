//! What a component may answer besides success.

use std::fmt;

/// Why a component failed: a sentence for the log, the dead letter and the user.
///
/// Any error converts with `?`. A failed `execute` fails its tuple; a failed `open`, `flush` or `poll` ends the
/// generation.
#[derive(Clone)]
pub struct ComponentError {
    message: String,
    kind: Kind,
}

#[derive(Copy, Clone, PartialEq, Eq, Debug)]
enum Kind {
    Retriable,
    Permanent,
    Denied,
    Refused,
}

impl ComponentError {
    /// A failure that a replay may cure.
    pub fn new(message: impl fmt::Display) -> Self {
        Self { message: message.to_string(), kind: Kind::Retriable }
    }

    /// A failure that no replay cures: the record goes to the dead-letter topic at once.
    pub fn permanent(message: impl fmt::Display) -> Self {
        Self { message: message.to_string(), kind: Kind::Permanent }
    }

    /// The outside does not allow it: no replay cures that either, and the process says so when it ends.
    pub fn denied(message: impl fmt::Display) -> Self {
        Self { message: message.to_string(), kind: Kind::Denied }
    }

    /// A person has to decide, and the sentence says between what: what was found is not what this was set up for, and to
    /// go on could lose or repeat something; or the configuration cannot be run with.
    pub fn refused(message: impl fmt::Display) -> Self {
        Self { message: message.to_string(), kind: Kind::Refused }
    }

    /// False if no replay can cure the failure.
    #[must_use]
    pub fn is_retriable(&self) -> bool {
        self.kind == Kind::Retriable
    }

    /// Whether the outside does not allow it.
    #[must_use]
    pub fn is_denied(&self) -> bool {
        self.kind == Kind::Denied
    }

    /// Whether a person has to decide.
    #[must_use]
    pub fn is_refusal(&self) -> bool {
        self.kind == Kind::Refused
    }
}

impl fmt::Display for ComponentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl fmt::Debug for ComponentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.kind, self.message)
    }
}

/// Every error of a library converts, with its causes in the sentence. (So `ComponentError` is no `Error` itself.)
impl<E: std::error::Error> From<E> for ComponentError {
    fn from(error: E) -> Self {
        let mut message = error.to_string();
        let mut cause = error.source();
        while let Some(error) = cause {
            message.push_str(": ");
            message.push_str(&error.to_string());
            cause = error.source();
        }
        Self::new(message)
    }
}

/// What a component's calls return.
pub type ComponentResult<T = ()> = Result<T, ComponentError>;
