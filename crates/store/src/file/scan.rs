//! Walking a journal record by record, and telling a torn tail from damage. Reads only.

use super::format::{FRAME_BYTES, Frame, MARKER, Parsed, parse_frame};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// How much is read at once: large enough that a scan is sequential I/O, small enough to forget about.
const CHUNK_BYTES: u64 = 0x4_0000;

/// Where a walk stands: everything before `offset` is whole, and `chain` is the checksum its last record has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Position {
    pub(super) offset: u64,
    pub(super) chain: u32,
    /// How many records lie before it.
    pub(super) records: u64,
}

/// What comes next.
#[derive(Debug)]
pub(super) enum Step<'a> {
    /// A record, and where it ends.
    Record(Frame<'a>, u64),
    /// The end of the file, with nothing left over.
    End,
    /// Something that is no whole record.
    Invalid(&'static str),
    /// A whole record that this version doesn't understand.
    Unknown,
}

/// Walks from a position to a length.
#[derive(Debug)]
pub(super) struct Scan<'f> {
    file: &'f File,
    seed: u32,
    length: u64,
    position: Position,
    buffer: Vec<u8>,
    /// How much of the buffer lies before the position.
    used: usize,
}

impl<'f> Scan<'f> {
    pub(super) fn new(file: &'f File, seed: u32, from: Position, length: u64) -> Self {
        Self { file, seed, length, position: from, buffer: Vec::new(), used: 0 }
    }

    pub(super) fn position(&self) -> Position {
        self.position
    }

    pub(super) fn next(&mut self) -> io::Result<Step<'_>> {
        if self.position.offset >= self.length {
            return Ok(Step::End);
        }
        let mut wanted = FRAME_BYTES;
        while self.fill(wanted)? {
            match parse_frame(self.seed, &self.buffer[self.used..]) {
                Parsed::Short(bytes) => wanted = bytes,
                _ => break,
            }
        }
        let bytes = &self.buffer[self.used..];
        let frame = match parse_frame(self.seed, bytes) {
            Parsed::Whole(frame) if frame.previous == self.position.chain => frame,
            Parsed::Whole(_) => return Ok(Step::Invalid("it doesn't follow its predecessor")),
            Parsed::Short(_) => return Ok(Step::Invalid("it is cut short")),
            Parsed::Invalid(reason) => return Ok(Step::Invalid(reason)),
            Parsed::Unknown => return Ok(Step::Unknown),
        };
        self.used += FRAME_BYTES + frame.body.len();
        self.position = Position {
            offset: self.position.offset + (FRAME_BYTES + frame.body.len()) as u64,
            chain: frame.crc,
            records: self.position.records + 1,
        };
        Ok(Step::Record(frame, self.position.offset))
    }

    /// Has at least `wanted` bytes from the position on in the buffer, or says that the file hasn't.
    fn fill(&mut self, wanted: usize) -> io::Result<bool> {
        let have = self.buffer.len() - self.used;
        if have >= wanted {
            return Ok(true);
        }
        let from = self.position.offset + have as u64;
        let missing = (wanted - have) as u64;
        if from + missing > self.length {
            return Ok(false);
        }
        self.buffer.drain(..self.used);
        self.used = 0;
        let more = missing.max(CHUNK_BYTES).min(self.length - from) as usize;
        self.buffer.resize(have + more, 0);
        match self.file.read_exact_at(&mut self.buffer[have..], from) {
            Ok(()) => Ok(true),
            // Whoever holds the lock has cut a torn tail in this very moment.
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                self.buffer.truncate(have);
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }
}

/// Whether a whole record behind `bad` says that what stands at `bad` was on stable storage: then it is damage, and no
/// torn tail.
pub(super) fn was_durable(file: &File, seed: u32, bad: u64, length: u64) -> io::Result<bool> {
    let mut rest = vec![0; (length - bad) as usize];
    file.read_exact_at(&mut rest, bad)?;
    let candidates = rest.windows(MARKER.len()).enumerate().filter(|(_, window)| *window == MARKER);
    Ok(candidates.skip_while(|(at, _)| *at == 0).any(|(at, _)| match parse_frame(seed, &rest[at..]) {
        Parsed::Whole(frame) => frame.mark > bad,
        _ => false,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    const START: Position = Position { offset: 0, chain: 0, records: 0 };

    #[test]
    fn a_file_that_has_become_shorter_is_cut_short() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&MARKER).unwrap();
        let mut scan = Scan::new(&file, 0, START, 1_000);
        assert!(matches!(scan.next(), Ok(Step::Invalid("it is cut short"))));
    }

    #[test]
    fn a_file_that_cannot_be_read_is_no_file_that_has_ended() {
        let directory = File::open("/").unwrap();
        let mut scan = Scan::new(&directory, 0, START, 1_000);
        assert_eq!(scan.next().unwrap_err().kind(), io::ErrorKind::IsADirectory);
    }
}
