//! What a command of `tidegate` has answered.

use serde_json::Value;
use std::process::Command;

/// A command that has ended.
#[derive(Debug)]
pub struct Output {
    command: String,
    /// Its exit code.
    pub code: i32,
    /// Its standard output.
    pub stdout: String,
    /// Its standard error.
    pub stderr: String,
}

impl Output {
    /// Runs a command to its end.
    pub fn of(command: &mut Command) -> Self {
        let said = format!("{command:?}");
        let output = command.output().unwrap_or_else(|e| panic!("{said} can't be started: {e}"));
        Self {
            command: said,
            code: output.status.code().unwrap_or(-1),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    /// Its document; it has done what it was to do.
    #[track_caller]
    pub fn done(&self) -> Value {
        self.ends_with(0);
        self.document()
    }

    /// Why it said no.
    #[track_caller]
    pub fn no(&self) -> &str {
        self.ends_with(1);
        &self.stderr
    }

    /// Why it could not be run.
    #[track_caller]
    pub fn cannot(&self) -> &str {
        self.ends_with(2);
        &self.stderr
    }

    /// The JSON document on its standard output.
    #[track_caller]
    #[must_use]
    pub fn document(&self) -> Value {
        serde_json::from_str(&self.stdout)
            .unwrap_or_else(|e| panic!("{}: no document ({e}): {self:?}", self.command))
    }

    #[track_caller]
    fn ends_with(&self, code: i32) {
        assert_eq!(self.code, code, "{}\nstdout: {}\nstderr: {}", self.command, self.stdout, self.stderr);
    }
}
