//! What is said to people on standard error. Saying it ends nothing: who listened may be gone, or the log's disk full.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::fmt::Display;
use std::io;

/// What a pipe takes without making its writer wait, once `poll` says that it is ready.
const PIECE_BYTES: usize = 4_096;

/// Says a line, if anybody can hear it. Who has stopped reading misses lines, or their ends; nobody waits for him.
pub(crate) fn say(line: impl Display) {
    // A line that fits goes out in one write, so that the lines of several processes don't mix.
    let line = format!("{}\n", printable(&line.to_string()));
    let stderr = io::stderr();
    for piece in line.as_bytes().chunks(PIECE_BYTES) {
        let mut ready = [PollFd::new(&stderr, PollFlags::OUT)];
        let is_ready = poll(&mut ready, Some(&Timespec::default())).is_ok_and(|n| n > 0);
        if !is_ready || rustix::io::write(&stderr, piece).is_err() {
            return;
        }
    }
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
