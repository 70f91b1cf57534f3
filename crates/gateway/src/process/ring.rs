//! The end of a server's standard error, bounded whatever the server writes.

use std::collections::VecDeque;

/// How much is kept: a long stack trace of any runtime, and nothing beside the memory of a server.
pub(super) const RING_BYTES: usize = 64 << 10;
/// The most lines that are shown: more than that hides the one that matters.
const SHOWN_LINES: usize = 200;

/// The last bytes written. Doesn't need newlines to stay bounded.
#[derive(Debug, Default)]
pub(super) struct Ring {
    bytes: VecDeque<u8>,
    total: u64,
}

impl Ring {
    pub(super) fn push(&mut self, new: &[u8]) {
        self.total += new.len() as u64;
        let new = &new[new.len().saturating_sub(RING_BYTES)..];
        let surplus = (self.bytes.len() + new.len()).saturating_sub(RING_BYTES);
        self.bytes.drain(..surplus);
        self.bytes.extend(new);
    }

    /// Every byte there ever was.
    pub(super) fn total(&self) -> u64 {
        self.total
    }

    /// The last lines, at most `lines` of them, as text. A line whose beginning is lost starts with `…`.
    pub(super) fn tail(&self, lines: usize) -> String {
        let (a, b) = self.bytes.as_slices();
        let text = String::from_utf8_lossy(&[a, b].concat()).into_owned();
        let cut = self.total > self.bytes.len() as u64;
        let all: Vec<&str> = text.lines().collect();
        let skipped = all.len().saturating_sub(lines.min(SHOWN_LINES));
        let mark = if cut && skipped == 0 { "…" } else { "" };
        format!("{mark}{}", all[skipped..].join("\n"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(writes: &[&str], lines: usize, expected: &str) {
        let mut ring = Ring::default();
        for write in writes {
            ring.push(write.as_bytes());
        }
        assert_eq!(ring.tail(lines), expected, "{writes:?}");
    }

    #[test]
    fn the_tail_is_the_last_lines() {
        check(&[], 3, "");
        check(&["one\ntw", "o\nthree\n"], 2, "two\nthree");
        check(&["no newline"], 9, "no newline");
        check(&["a\n\nb\n"], 2, "\nb");
        check(&["a\n"], 0, "");
    }

    #[test]
    fn a_mebibyte_with_or_without_newlines_stays_bounded() {
        for piece in ["x".repeat(1_000), format!("{}\n", "x".repeat(99)), "\n".to_owned(), "é".repeat(333)] {
            let mut ring = Ring::default();
            while ring.total() < 1 << 20 {
                ring.push(piece.as_bytes());
            }
            ring.push(b"\nlast words");
            let tail = ring.tail(usize::MAX);
            assert!(tail.ends_with("\nlast words"));
            // A character cut in two shows as a replacement character of three bytes.
            assert!(ring.bytes.len() <= RING_BYTES && tail.len() <= RING_BYTES + 8, "{}", tail.len());
            assert!(tail.lines().count() <= SHOWN_LINES);
        }
        let mut ring = Ring::default();
        ring.push(&vec![b'y'; 3 * RING_BYTES]);
        assert_eq!(ring.tail(1), format!("…{}", "y".repeat(RING_BYTES)));
    }
}
