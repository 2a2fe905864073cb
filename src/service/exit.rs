//! How a command ends: the codes of `sysexits.h`.

use std::{fmt, io, process::ExitCode};

use super::config::Problems;
use crate::kafka::client::{ClientError, ErrorKind};

/// Why a command did not succeed, as far as the code that it ends with tells.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Cause {
    /// 1: the command did its work, and the answer is no (`audit` found a difference).
    No,
    /// 64: the command line is wrong.
    Usage,
    /// 65: the data are wrong.
    Data,
    /// 66: a file to be read is not there.
    NoInput,
    /// 69: Kafka, or the address to listen on, cannot be had.
    Unavailable,
    /// 70: a bug, or a generation that could not go on.
    Software,
    /// 73: a file that is to be written cannot be.
    CannotCreate,
    /// 74: reading or writing failed.
    Io,
    /// 75: not all was done in time; run it again.
    Unfinished,
    /// 75: another process of the same identity runs here; run it when that has ended.
    Occupied,
    /// 77: not allowed.
    Permission,
    /// 78: the configuration is wrong.
    Config,
}

impl Cause {
    /// The code.
    #[must_use]
    pub const fn code(self) -> i32 {
        match self {
            Self::No => 1,
            Self::Usage => exitcode::USAGE,
            Self::Data => exitcode::DATAERR,
            Self::NoInput => exitcode::NOINPUT,
            Self::Unavailable => exitcode::UNAVAILABLE,
            Self::Software => exitcode::SOFTWARE,
            Self::CannotCreate => exitcode::CANTCREAT,
            Self::Io => exitcode::IOERR,
            Self::Unfinished | Self::Occupied => exitcode::TEMPFAIL,
            Self::Permission => exitcode::NOPERM,
            Self::Config => exitcode::CONFIG,
        }
    }
}

/// An error with its exit code. The message is for the user.
#[derive(Debug)]
pub struct Failure {
    /// Decides the code.
    pub cause: Cause,
    /// What happened; `None` if everything is said already.
    pub error: Option<anyhow::Error>,
}

/// What commands return.
pub type Outcome = Result<(), Failure>;

impl Failure {
    /// A failure with a sentence.
    pub fn new(cause: Cause, message: impl fmt::Display) -> Self {
        Self { cause, error: Some(anyhow::anyhow!("{message}")) }
    }

    /// A failure of which everything is said already.
    #[must_use]
    pub const fn said(cause: Cause) -> Self {
        Self { cause, error: None }
    }
}

/// Adds an exit code to an error.
pub trait OrFail<T> {
    /// Says which code the process ends with if this is an error.
    ///
    /// # Errors
    /// The error, with the code.
    fn or_fail(self, cause: Cause) -> Result<T, Failure>;
}

impl<T, E: Into<anyhow::Error>> OrFail<T> for Result<T, E> {
    fn or_fail(self, cause: Cause) -> Result<T, Failure> {
        self.map_err(|error| Failure { cause, error: Some(error.into()) })
    }
}

impl From<Problems> for Failure {
    fn from(problems: Problems) -> Self {
        Self { cause: Cause::Config, error: Some(problems.into()) }
    }
}

impl From<ClientError> for Failure {
    fn from(error: ClientError) -> Self {
        let cause = match error.kind {
            // As any address that is none: no wait makes a broker of it.
            ErrorKind::Config | ErrorKind::NotKafka => Cause::Config,
            ErrorKind::Unavailable | ErrorKind::TimedOut => Cause::Unavailable,
            ErrorKind::Authentication | ErrorKind::Authorization => Cause::Permission,
            ErrorKind::UnknownTopic => Cause::NoInput,
            ErrorKind::OffsetOutOfRange | ErrorKind::TooLarge => Cause::Data,
            ErrorKind::Fenced | ErrorKind::Other => Cause::Software,
        };
        Self { cause, error: Some(error.into()) }
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self { cause: Cause::Io, error: Some(error.into()) }
    }
}

/// The code of `outcome`, as the process returns it.
#[must_use]
pub fn code(outcome: &Outcome) -> ExitCode {
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => ExitCode::from(u8::try_from(failure.cause.code()).unwrap_or(u8::MAX)),
    }
}
