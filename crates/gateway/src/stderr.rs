//! What is said to people on standard error. Saying it ends nothing: who listened may be gone, or the log's disk full.

use std::fmt::Display;
use std::io::{self, Write as _};

/// Says a line, if anybody can hear it.
pub(crate) fn say(line: impl Display) {
    // In one write, so that the lines of several processes don't mix.
    let _ = io::stderr().write_all(format!("{line}\n").as_bytes());
}
