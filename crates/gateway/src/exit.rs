//! Exit codes, and how a command ends in one. Documented in docs/exit-codes.md.

use crate::api::{DOCUMENT_VERSION, Failure};
use serde_json::{Value, json};
use std::io::{self, Write as _};
use std::process::ExitCode;

/// How a command ended.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// 0: done.
    Done,
    /// 1: the answer is no (refused, denied, failed gate).
    No,
}

/// A command that says why it ended otherwise: the answer is no (1), or it could not be run (2).
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub(crate) struct CliError(#[from] Failure);

impl CliError {
    pub(crate) fn no(why: impl std::fmt::Display) -> Self {
        Self(Failure::no(why))
    }

    pub(crate) fn cannot(why: impl std::fmt::Display) -> Self {
        Self(Failure::cannot(why))
    }

    /// As [`CliError::cannot`], with what caused the error.
    pub(crate) fn failed(error: impl std::error::Error) -> Self {
        Self::cannot(with_causes(&error))
    }

    fn code(&self) -> u8 {
        if self.0.refused { 1 } else { 2 }
    }

    /// The public JSON of it: `{version, error: {exit_code, message}, refusal}`.
    fn document(&self) -> Value {
        json!({
            "version": DOCUMENT_VERSION,
            "error": { "exit_code": self.code(), "message": self.0.message },
            "refusal": self.0.refusal,
        })
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

/// What every command returns.
pub(crate) type CliResult = Result<Outcome, CliError>;

/// The process's exit code; the reason goes to stderr, and with `json` as a document to stdout too.
pub(crate) fn code(result: CliResult, json: bool) -> ExitCode {
    match result {
        Ok(Outcome::Done) => ExitCode::SUCCESS,
        Ok(Outcome::No) => ExitCode::from(1),
        Err(error) => {
            if json {
                // Whoever doesn't read it has the exit code, and the reason on stderr.
                let _ = writeln!(io::stdout(), "{:#}", error.document());
            }
            crate::stderr::say(format_args!("tidegate: {error}"));
            ExitCode::from(error.code())
        }
    }
}
