//! Why a generation ends.

use crate::topology::ComponentError;

/// What ended a generation, or kept it from starting.
#[derive(Clone, Debug, thiserror::Error)]
pub enum EngineError {
    /// A component cannot go on: a source that is gone, a record that was not delivered, a flush that failed.
    #[error("\"{component}\" cannot go on: {error}")]
    Component {
        /// The component.
        component: String,
        /// What it said.
        error: ComponentError,
    },
    /// A call did not come back.
    #[error(
        "\"{component}\" has been in one call for {seconds} s (hang_timeout): its thread was given up. Find what the \
         component waits for, or raise the timeout"
    )]
    Hung {
        /// The component that was being called.
        component: String,
        /// How long, in seconds.
        seconds: u64,
    },
    /// What was found outside does not belong to this topology: a sentence that says what to do.
    #[error("{0}")]
    Refused(String),
    /// State and offsets do not belong together: a sentence that says what to do. Believed if the next start finds the same:
    /// a predecessor that is still alive can have committed between the two looks of one start.
    #[error("{0}")]
    Disagreement(String),
    /// A thread of the engine panicked outside any component: a bug.
    #[error("an engine thread panicked: {0}. This is a bug in the engine; nothing more was committed")]
    Panicked(String),
    /// A thread could not be started.
    #[error("cannot start a thread: {0}")]
    Thread(String),
}

impl EngineError {
    /// True if starting again may help.
    #[must_use]
    pub fn is_retriable(&self) -> bool {
        match self {
            Self::Component { error, .. } => error.is_retriable(),
            Self::Hung { .. } | Self::Panicked(_) | Self::Disagreement(_) => true,
            Self::Thread(_) | Self::Refused(_) => false,
        }
    }

    pub(crate) fn component(name: &str, error: ComponentError) -> Self {
        Self::Component { component: name.to_owned(), error }
    }
}

/// What a panic said.
pub(crate) fn panic_message(panic: &(dyn std::any::Any + Send)) -> &str {
    panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("no message")
}
