//! Showing documents: `--json` prints them as they are, otherwise they are rendered for people. Documents go to stdout,
//! everything else to stderr.

use super::Global;
use super::render::{Render, painted, plain};
use crate::exit::CliError;
use serde_json::Value;
use std::io::{self, IsTerminal as _, Write as _};
use tidegate_core::Clock as _;
use tidegate_host::SystemClock;

/// Prints a document, rendered by `text` for people.
///
/// # Errors
/// The clock can't be read, or standard output can't be written to.
pub(super) fn document(global: &Global, document: &Value, text: Render) -> Result<(), CliError> {
    let text = if global.json {
        format!("{document:#}")
    } else {
        let now = SystemClock::new().map_err(CliError::cannot)?.now().wall;
        let text = crate::stderr::printable(text(document, now).trim_end());
        if shows_colours() { painted(&text) } else { plain(&text) }
    };
    match io::stdout().write_all(format!("{text}\n").as_bytes()) {
        // Whoever has read enough closes the pipe.
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(CliError::cannot(format!("what was answered can't be printed: {error}")))
        }
        _ => Ok(()),
    }
}

/// Whether standard output is a terminal that was not told to stay plain (<https://no-color.org>).
fn shows_colours() -> bool {
    let set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    io::stdout().is_terminal()
        && !set("NO_COLOR")
        && std::env::var_os("TERM").is_none_or(|term| term != "dumb")
}

/// Prints a line beside the document, for people who wait.
pub(super) fn aside(line: &str) {
    crate::stderr::say(line);
}
