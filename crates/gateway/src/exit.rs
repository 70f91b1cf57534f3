//! Exit codes, and how a command ends in one. Documented in docs/exit-codes.md.

use crate::api::Failure;
use std::process::ExitCode;

/// How a command ended.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// 0: done.
    Done,
    /// 1: the answer is no (refused, denied, failed gate).
    No,
}

/// A command that says why it ended otherwise.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CliError {
    /// 1: the answer is no.
    #[error("{0}")]
    No(String),
    /// 2: it could not be run.
    #[error("{0}")]
    Cannot(String),
}

impl CliError {
    pub(crate) fn no(why: impl std::fmt::Display) -> Self {
        Self::No(why.to_string())
    }

    pub(crate) fn cannot(why: impl std::fmt::Display) -> Self {
        Self::Cannot(why.to_string())
    }

    /// As [`CliError::cannot`], with what caused the error.
    pub(crate) fn failed(error: impl std::error::Error) -> Self {
        Self::Cannot(with_causes(&error))
    }
}

/// An error and what caused it; what is said already isn't repeated.
pub(crate) fn with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let said = error.to_string();
        if !text.contains(&said) {
            text = format!("{text}: {said}");
        }
        cause = error.source();
    }
    text
}

impl From<Failure> for CliError {
    fn from(failure: Failure) -> Self {
        if failure.refused { Self::No(failure.message) } else { Self::Cannot(failure.message) }
    }
}

/// What every command returns.
pub(crate) type CliResult = Result<Outcome, CliError>;

/// The process's exit code; the reason goes to stderr.
pub(crate) fn code(result: CliResult) -> ExitCode {
    match result {
        Ok(Outcome::Done) => ExitCode::SUCCESS,
        Ok(Outcome::No) => ExitCode::from(1),
        Err(error) => {
            crate::stderr::say(format_args!("tidegate: {error}"));
            ExitCode::from(match error {
                CliError::No(_) => 1,
                CliError::Cannot(_) => 2,
            })
        }
    }
}
