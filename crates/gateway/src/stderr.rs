//! What is said to people on standard error. Saying it ends nothing: who listened may be gone, or the log's disk full.

use std::fmt::Display;
use std::io::{self, Write as _};

/// Says a line, if anybody can hear it.
pub(crate) fn say(line: impl Display) {
    // In one write, so that the lines of several processes don't mix.
    let _ = io::stderr().write_all(format!("{}\n", printable(&line.to_string())).as_bytes());
}

/// Text of whatever origin for a terminal: what a terminal would obey, or show in another order, is shown as its escape.
/// Lines stay lines.
pub(crate) fn printable(text: &str) -> String {
    let obeyed = |c: char| c.is_control() && !matches!(c, '\n' | '\t');
    let reorders =
        |c: char| matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        if obeyed(c) || reorders(c) {
            shown.extend(c.escape_unicode());
        } else {
            shown.push(c);
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_would_obey_is_shown() {
        let check = |text: &str, expected: &str| assert_eq!(printable(text), expected);
        check("one\n\ttwo, é, 漢", "one\n\ttwo, é, 漢");
        check("\u{1b}[2Jevil\r", "\\u{1b}[2Jevil\\u{d}");
        check("\u{9b}31m\u{7f}", "\\u{9b}31m\\u{7f}");
        check("deny\u{202e}evorppa", "deny\\u{202e}evorppa");
    }
}
