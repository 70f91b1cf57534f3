//! A part of a file, read as if it were one: a blob inside an archive, or a whole file.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;

/// A part of a file with a place of its own to read at.
#[derive(Debug, Clone)]
pub(super) struct Section {
    file: Arc<File>,
    start: u64,
    pub(super) size: u64,
    position: u64,
}

impl Section {
    pub(super) fn whole(file: File) -> io::Result<Self> {
        let size = file.metadata()?.len();
        Ok(Self { file: Arc::new(file), start: 0, size, position: 0 })
    }

    /// A part of this part; `None` when it isn't all there.
    pub(super) fn part(&self, start: u64, size: u64) -> Option<Self> {
        let end = start.checked_add(size)?;
        let file = Arc::clone(&self.file);
        (end <= self.size).then(|| Self { file, start: self.start + start, size, position: 0 })
    }

    /// The first bytes.
    pub(super) fn magic(&self) -> io::Result<[u8; 4]> {
        let mut magic = [0; 4];
        let mut begin = self.clone();
        begin.position = 0;
        let mut have = 0;
        while have < magic.len() {
            match begin.read(&mut magic[have..])? {
                0 => break,
                count => have += count,
            }
        }
        Ok(magic)
    }
}

impl Read for Section {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let left = self.size.saturating_sub(self.position);
        let count = usize::try_from(left).unwrap_or(usize::MAX).min(buffer.len());
        let count = self.file.read_at(&mut buffer[..count], self.start + self.position)?;
        self.position += count as u64;
        Ok(count)
    }
}

impl Seek for Section {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let position = match to {
            SeekFrom::Start(position) => Some(position),
            SeekFrom::End(offset) => self.size.checked_add_signed(offset),
            SeekFrom::Current(offset) => self.position.checked_add_signed(offset),
        };
        self.position = position.ok_or(io::ErrorKind::InvalidInput)?;
        Ok(self.position)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;

    #[test]
    fn a_part_ends_where_it_ends_and_is_never_more_than_there_is() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(b"0123456789").unwrap();
        let whole = Section::whole(file).unwrap();
        let mut part = whole.part(2, 5).unwrap();
        let mut text = String::new();
        part.read_to_string(&mut text).unwrap();
        assert_eq!(text, "23456");
        part.seek(SeekFrom::Start(3)).unwrap();
        text.clear();
        part.read_to_string(&mut text).unwrap();
        assert_eq!(text, "56");
        assert_eq!(&part.part(1, 4).unwrap().magic().unwrap(), b"3456");
        assert_eq!(&part.part(4, 1).unwrap().magic().unwrap(), b"6\0\0\0");
        assert!(whole.part(6, 5).is_none() && part.part(1, 5).is_none() && part.part(u64::MAX, 1).is_none());
    }
}
