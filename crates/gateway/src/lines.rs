//! Lines from a pipe or a socket: framed on byte 0x0A alone, bounded, whatever is in them.
//!
//! It never looks into a line: not for UTF-8, not for JSON, not for other line separators.

use std::collections::VecDeque;
use std::io;
use tokio::io::{AsyncRead, AsyncReadExt as _};

/// The longest line that is kept: a message of the largest size behind its tag, under an id or a token that is longer than
/// the one it came with.
pub(crate) const MAX_LINE_BYTES: usize = tidegate_relay::MAX_LINE_BYTES + tidegate_relay::MAX_ID_BYTES + 1;
/// What is kept of either end of a longer line: enough to find the request's id there, whichever end it is at.
const KEPT_BYTES: usize = 4 << 10;
/// One read: the capacity of a pipe.
const CHUNK_BYTES: usize = 64 << 10;

/// What came.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Line {
    /// A line without its 0x0A. May be empty.
    Whole(Vec<u8>),
    /// A line longer than the limit, dropped but for its ends.
    TooLong {
        /// Its length.
        bytes: u64,
        /// How it began.
        head: Vec<u8>,
        /// How it ended.
        tail: Vec<u8>,
    },
    /// The input ended in the middle of a line: its writer died. Not a message, even where it looks like one.
    Torn {
        /// How much of it came.
        bytes: u64,
    },
}

/// Cuts what is read into lines.
#[derive(Debug)]
pub(crate) struct Cutter {
    limit: usize,
    chunk: Box<[u8]>,
    /// The part of `chunk` not looked at yet.
    fresh: std::ops::Range<usize>,
    line: Vec<u8>,
    /// Bytes of the present line that are not in `line` any more, and its last ones.
    overflow: Option<(u64, Vec<u8>)>,
}

impl Cutter {
    /// Lines of at most [`MAX_LINE_BYTES`].
    pub(crate) fn new() -> Self {
        Self::with_limit(MAX_LINE_BYTES)
    }

    fn with_limit(limit: usize) -> Self {
        let chunk = vec![0; CHUNK_BYTES].into_boxed_slice();
        Self { limit, chunk, fresh: 0..0, line: Vec::new(), overflow: None }
    }

    /// Where to read to, once [`Self::next`] has no more lines.
    pub(crate) fn room(&mut self) -> &mut [u8] {
        &mut self.chunk
    }

    /// So many bytes were read.
    pub(crate) fn filled(&mut self, n: usize) {
        self.fresh = 0..n;
    }

    /// The next whole line of what was read.
    pub(crate) fn next(&mut self) -> Option<Line> {
        let fresh = &self.chunk[self.fresh.clone()];
        match fresh.iter().position(|b| *b == b'\n') {
            Some(at) => {
                self.take(at);
                self.fresh.start += 1;
                Some(self.finish())
            }
            None => {
                self.take(self.fresh.len());
                None
            }
        }
    }

    /// The input has ended: the line that has not.
    pub(crate) fn end(&mut self) -> Option<Line> {
        match self.finish() {
            Line::Whole(line) if line.is_empty() => None,
            Line::Whole(line) => Some(Line::Torn { bytes: line.len() as u64 }),
            Line::TooLong { bytes, .. } | Line::Torn { bytes } => Some(Line::Torn { bytes }),
        }
    }

    /// Moves the next `n` fresh bytes to the present line.
    fn take(&mut self, n: usize) {
        let bytes = &self.chunk[self.fresh.start..self.fresh.start + n];
        self.fresh.start += n;
        match &mut self.overflow {
            None => {
                self.line.extend_from_slice(bytes);
                if self.line.len() > self.limit {
                    let mut tail = self.line.split_off(KEPT_BYTES);
                    self.line.shrink_to_fit();
                    let beyond = tail.len() as u64;
                    keep_end(&mut tail);
                    self.overflow = Some((beyond, tail));
                }
            }
            Some((beyond, tail)) => {
                *beyond += n as u64;
                tail.extend_from_slice(bytes);
                keep_end(tail);
            }
        }
    }

    fn finish(&mut self) -> Line {
        let line = std::mem::take(&mut self.line);
        match self.overflow.take() {
            None => Line::Whole(line),
            Some((beyond, tail)) => Line::TooLong { bytes: line.len() as u64 + beyond, head: line, tail },
        }
    }
}

/// Reads lines.
#[derive(Debug)]
pub(crate) struct Lines<R> {
    input: R,
    cutter: Cutter,
    /// Lines that were read and are to be read again, before any other.
    again: VecDeque<Vec<u8>>,
}

impl<R: AsyncRead + Unpin> Lines<R> {
    /// Lines of at most [`MAX_LINE_BYTES`].
    pub(crate) fn new(input: R) -> Self {
        Self { input, cutter: Cutter::new(), again: VecDeque::new() }
    }

    /// Lines of at most `limit` bytes.
    pub(crate) fn with_limit(input: R, limit: usize) -> Self {
        Self { input, cutter: Cutter::with_limit(limit), again: VecDeque::new() }
    }

    /// From the next line on, lines of at most [`MAX_LINE_BYTES`].
    pub(crate) fn limit_to_messages(&mut self) {
        self.cutter.limit = MAX_LINE_BYTES;
    }

    /// Takes lines back: they are the next ones.
    pub(crate) fn give_back(&mut self, lines: Vec<Vec<u8>>) {
        for line in lines.into_iter().rev() {
            self.again.push_front(line);
        }
    }

    /// What it reads from.
    pub(crate) fn get_ref(&self) -> &R {
        &self.input
    }

    /// The next line; `None` at the end of the input.
    ///
    /// # Cancel safety
    /// Dropping the future loses nothing: what was read stays for the next call.
    ///
    /// # Errors
    /// Those of the input.
    pub(crate) async fn next(&mut self) -> io::Result<Option<Line>> {
        if let Some(line) = self.again.pop_front() {
            return Ok(Some(Line::Whole(line)));
        }
        loop {
            if let Some(line) = self.cutter.next() {
                return Ok(Some(line));
            }
            match self.input.read(self.cutter.room()).await? {
                0 => return Ok(self.cutter.end()),
                n => self.cutter.filled(n),
            }
        }
    }
}

fn keep_end(tail: &mut Vec<u8>) {
    let surplus = tail.len().saturating_sub(KEPT_BYTES);
    tail.drain(..surplus);
    tail.shrink_to(2 * CHUNK_BYTES);
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::AsyncWriteExt as _;

    fn whole(text: &str) -> Line {
        Line::Whole(text.as_bytes().to_vec())
    }

    /// Feeds `input` in writes of `step` bytes and reads every line, with a limit of 8 192.
    async fn read(input: &[u8], step: usize) -> Vec<Line> {
        let (mut writer, reader) = tokio::io::duplex(step);
        let input = input.to_vec();
        let feeding = tokio::spawn(async move {
            for piece in input.chunks(step) {
                writer.write_all(piece).await.unwrap();
            }
        });
        let mut lines = Lines::with_limit(reader, 8_192);
        let mut found = Vec::new();
        while let Some(line) = lines.next().await.unwrap() {
            found.push(line);
        }
        feeding.await.unwrap();
        found
    }

    #[tokio::test]
    async fn only_byte_0x0a_ends_a_line_however_the_bytes_arrive() {
        for step in [1, 2, 3, 1_000] {
            let check = async |input: &str, expected: &[Line]| {
                assert_eq!(read(input.as_bytes(), step).await, expected, "{input:?} in steps of {step}");
            };
            check("", &[]).await;
            check("a\nb\n", &[whole("a"), whole("b")]).await;
            check("\n\n", &[whole(""), whole("")]).await;
            check("a\r\nb\u{2028}c\u{85}d\n", &[whole("a\r"), whole("b\u{2028}c\u{85}d")]).await;
            check("é\u{1F600}\n", &[whole("é\u{1F600}")]).await;
            check("{\"id\":1}\n{\"id\":", &[whole("{\"id\":1}"), Line::Torn { bytes: 6 }]).await;
        }
    }

    #[tokio::test]
    async fn a_line_that_is_too_long_leaves_its_ends_and_the_next_line() {
        let (head, tail) = ("h".repeat(KEPT_BYTES), "t".repeat(KEPT_BYTES));
        for middle in [1, 100_000, 1_000_000] {
            let input = format!("{head}{}{tail}\nnext\n", "m".repeat(middle));
            let bytes = (head.len() + middle + tail.len()) as u64;
            let long = Line::TooLong { bytes, head: head.clone().into(), tail: tail.clone().into() };
            assert_eq!(read(input.as_bytes(), 1_777).await, [long, whole("next")]);
        }
        let fits = "x".repeat(8_192);
        assert_eq!(read(format!("{fits}\n").as_bytes(), 100).await, [whole(&fits)]);
    }

    #[tokio::test]
    async fn a_cancelled_read_loses_nothing() {
        let (mut writer, reader) = tokio::io::duplex(64);
        let mut lines = Lines::new(reader);
        for n in 0..100 {
            writer.write_all(format!("first {n} ").as_bytes()).await.unwrap();
            // Polled once, with half a line there, and dropped.
            assert!(tokio::time::timeout(std::time::Duration::ZERO, lines.next()).await.is_err());
            writer.write_all(b"second\n").await.unwrap();
            assert_eq!(lines.next().await.unwrap(), Some(whole(&format!("first {n} second"))));
        }
    }
}
