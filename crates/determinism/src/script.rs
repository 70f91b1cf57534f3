//! The client's side of a conversation: JSON lines that say what to send and which answer to wait for.
//!
//! Must never write to a subject, wait or look at a clock; playing the conversation is `tidegate_guest`'s.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde_json::Value;

pub use tidegate_guest::Step;

use crate::error::RunError;
use crate::subject::sha256_hex;

/// Longer conversations belong into several checks: every step is kept in memory.
pub(crate) const MAX_STEPS: usize = 10_000;

/// A conversation read from a file.
#[derive(Debug, Clone, PartialEq)]
pub struct Script {
    /// Where it came from.
    pub path: PathBuf,
    /// SHA-256 of the file, in hexadecimal digits.
    pub sha256: String,
    /// What to do, in order.
    pub steps: Vec<Step>,
}

/// What is wrong with a script.
#[derive(Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ScriptError {
    /// A line that is no step.
    #[error(
        "line {line}: {problem}; a step is {{\"send\": VALUE}}, {{\"send_line\": TEXT}} or {{\"expect\": ID}}"
    )]
    NotAStep {
        /// Counted from one.
        line: usize,
        /// What the parser said.
        problem: String,
    },
    /// An answer that nothing asked for would be waited for until the deadline.
    #[error("line {line}: expects an answer to {id}, which no earlier step sends")]
    NeverSent {
        /// Counted from one.
        line: usize,
        /// The id.
        id: String,
    },
    /// A script without steps.
    #[error("no steps; leave --script away for a subject that needs no input")]
    Empty,
    /// Too many steps.
    #[error("more than {MAX_STEPS} steps; split the conversation")]
    TooLong,
}

impl Script {
    /// Reads a script from a file.
    ///
    /// # Errors
    ///
    /// When the file can't be read, or is not a script.
    pub fn read(path: &Path) -> Result<Self, RunError> {
        let text = std::fs::read_to_string(path)
            .map_err(|source| RunError::ReadScript { path: path.to_owned(), source })?;
        let steps = parse(&text).map_err(|source| RunError::Script { path: path.to_owned(), source })?;
        Ok(Self { path: path.to_owned(), sha256: sha256_hex(text.as_bytes()), steps })
    }
}

fn parse(text: &str) -> Result<Vec<Step>, ScriptError> {
    let mut steps = Vec::new();
    let mut sent = BTreeSet::new();
    for (number, content) in (1..).zip(text.lines()).filter(|(_, content)| !content.trim().is_empty()) {
        let step: Step = serde_json::from_str(content).map_err(|error| {
            // Each line is a document of its own: the parser's "line 1" would mislead.
            let problem = error.to_string().replace(" at line 1 column", ", column");
            ScriptError::NotAStep { line: number, problem }
        })?;
        match &step {
            Step::Send(value) => sent.extend(value.get("id").map(Value::to_string)),
            Step::SendLine(text) => sent.extend(id_of(text.as_bytes()).map(|id| id.to_string())),
            Step::Expect(id) if sent.contains(&id.to_string()) => {}
            Step::Expect(id) => return Err(ScriptError::NeverSent { line: number, id: id.to_string() }),
        }
        steps.push(step);
        if steps.len() > MAX_STEPS {
            return Err(ScriptError::TooLong);
        }
    }
    if steps.is_empty() { Err(ScriptError::Empty) } else { Ok(steps) }
}

fn id_of(line: &[u8]) -> Option<Value> {
    let mut message: Value = serde_json::from_slice(line).ok()?;
    Some(message.get_mut("id")?.take())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &str) {
        let said = match parse(text) {
            Ok(steps) => format!("{} steps", steps.len()),
            Err(error) => error.to_string(),
        };
        assert!(said.starts_with(expected), "{text:?} gave {said:?}");
    }

    #[test]
    fn a_script_is_json_lines_of_known_steps_that_wait_only_for_what_was_asked() {
        check("{\"send\": {\"id\": 1}}\n\n{\"expect\": 1}\n", "2 steps");
        check("{\"send_line\": \"{\\\"id\\\": \\\"a\\\"}\"}\n{\"expect\": \"a\"}", "2 steps");
        check("", "no steps");
        check("{\"expect\": 1}", "line 1: expects an answer to 1, which no earlier step sends");
        check("{\"send\": {\"id\": 1}}\n{\"expect\": \"1\"}", "line 2: expects an answer to \"1\"");
        check("{\"sned\": 1}", "line 1: unknown variant `sned`");
        check("{\"send\": 1}\nrubbish", "line 2: expected value, column 1");
        check(&"{\"send\": 1}\n".repeat(MAX_STEPS + 1), "more than 10000 steps");
    }
}
