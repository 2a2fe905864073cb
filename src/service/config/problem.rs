//! What is wrong with a configuration: never one error, always all of them.

use std::fmt;

/// One mistake: where, what, and what to do.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Problem {
    /// The field, as in `engine.executors`.
    pub path: String,
    /// Who set it, if anybody did.
    pub origin: Option<String>,
    /// A sentence: what is wrong, with which value, and what to do.
    pub message: String,
}

impl Problem {
    /// A mistake in field `path`.
    pub(crate) fn new(path: impl Into<String>, message: impl Into<String>) -> Self {
        Self { path: path.into(), origin: None, message: message.into() }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.origin {
            Some(origin) => write!(f, "{} ({origin}): {}", self.path, self.message),
            None => write!(f, "{}: {}", self.path, self.message),
        }
    }
}

/// All mistakes of a configuration.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Problems(pub Vec<Problem>);

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plural = if self.0.len() == 1 { "mistake" } else { "mistakes" };
        write!(f, "the configuration has {} {plural}:", self.0.len())?;
        for problem in &self.0 {
            write!(f, "\n  {problem}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Problems {}
