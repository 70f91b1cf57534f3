//! The mark's file: two slots, a page apart, each `tidegate-fence 1 EPOCH.REVISION CRC` in a line of its own.
//!
//! Raising the mark writes and syncs one slot, then the other. A crash in the first leaves the old mark in the second,
//! which is right: a fence that wasn't let in has written nothing. A crash in the second, or damage to either later,
//! leaves the new mark in the other. It takes both slots to be bad for the mark to be lost, and then nothing is let in.
//! (Assumed of the medium: a write damages nothing outside its page.)

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use tempfile::NamedTempFile;
use tidegate_core::Fence;

/// Between the beginnings of the slots: a page, so that no write touches both.
const SLOT_BYTES: usize = 4096;

/// The longest line: two numbers of 20 digits, the words and the checksum fit twice over.
const LINE_BYTES: usize = 128;

/// The two slots as read; `None` where one is torn or damaged.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Mark([Option<Fence>; 2]);

impl Mark {
    pub(super) fn read(file: &File) -> io::Result<Self> {
        Ok(Self([read_slot(file, 0)?, read_slot(file, 1)?]))
    }

    /// The mark; `None` when it is lost.
    pub(super) fn highest(&self) -> Option<Fence> {
        self.0.into_iter().flatten().max()
    }

    /// Whether both slots say `fence`.
    pub(super) fn is(&self, fence: Fence) -> bool {
        self.0 == [Some(fence); 2]
    }

    /// Makes `fence` the mark, durably.
    pub(super) fn raise(file: &File, fence: Fence) -> io::Result<()> {
        for slot in [0, 1] {
            file.write_all_at(&line(fence), offset(slot))?;
            file.sync_data()?;
        }
        Ok(())
    }
}

/// Makes a mark that has seen nothing, unless there is one.
pub(super) fn create(directory: &Path, path: &Path) -> io::Result<()> {
    let file = NamedTempFile::new_in(directory)?;
    for slot in [0, 1] {
        file.as_file().write_all_at(&line(Fence::default()), offset(slot))?;
    }
    file.as_file().sync_all()?;
    match file.persist_noclobber(path) {
        Err(error) if error.error.kind() != io::ErrorKind::AlreadyExists => Err(error.error),
        _ => File::open(directory)?.sync_all(),
    }
}

fn offset(slot: usize) -> u64 {
    (slot * SLOT_BYTES) as u64
}

fn line(fence: Fence) -> Vec<u8> {
    let text = format!("tidegate-fence 1 {fence}");
    let mut line = format!("{text} {:08x}\n", crc32c::crc32c(text.as_bytes())).into_bytes();
    debug_assert!(line.len() <= LINE_BYTES);
    line.resize(LINE_BYTES, b' ');
    line
}

fn read_slot(file: &File, slot: usize) -> io::Result<Option<Fence>> {
    let mut bytes = [0; LINE_BYTES];
    match file.read_exact_at(&mut bytes, offset(slot)) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        read => read?,
    }
    let parse = || {
        let (text, _) = std::str::from_utf8(&bytes).ok()?.split_once('\n')?;
        let fence = text.strip_prefix("tidegate-fence 1 ")?.split_once(' ')?.0.parse().ok()?;
        (bytes[..] == line(fence)).then_some(fence)
    };
    Ok(parse())
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_core::{Epoch, Revision};

    fn fence(revision: u64) -> Fence {
        Fence::new(Epoch(1), Revision(revision))
    }

    fn marked(revision: u64) -> (tempfile::TempDir, File) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("r.fence");
        create(directory.path(), &path).unwrap();
        let file = File::options().read(true).write(true).open(path).unwrap();
        Mark::raise(&file, fence(revision)).unwrap();
        (directory, file)
    }

    #[test]
    fn a_new_mark_has_seen_nothing() {
        let (directory, _file) = marked(8);
        let path = directory.path().join("new.fence");
        create(directory.path(), &path).unwrap();
        assert!(Mark::read(&File::open(path).unwrap()).unwrap().is(Fence::default()));
    }

    #[test]
    fn a_raise_torn_at_any_byte_leaves_the_old_mark_or_the_new_one() {
        let (_directory, file) = marked(9);
        let write = |slot, bytes: &[u8]| file.write_all_at(bytes, offset(slot)).unwrap();
        let (old, new) = (line(fence(9)), line(fence(10)));
        for torn in 0..=new.len() {
            write(0, &old);
            write(1, &old);
            write(0, &new[..torn]);
            let highest = Mark::read(&file).unwrap().highest();
            assert!(
                highest == Some(fence(9)) || highest == Some(fence(10)),
                "first slot, byte {torn}: {highest:?}"
            );
            write(0, &new);
            write(1, &new[..torn]);
            assert_eq!(Mark::read(&file).unwrap().highest(), Some(fence(10)), "second slot, byte {torn}");
        }
    }

    #[test]
    fn a_flipped_byte_costs_a_slot_and_never_the_mark() {
        let flip = |file: &File, at| {
            let mut byte = [0];
            file.read_exact_at(&mut byte, at).unwrap();
            file.write_all_at(&[byte[0] ^ 1], at).unwrap();
        };
        let (_directory, file) = marked(9);
        for at in 0..LINE_BYTES as u64 {
            flip(&file, offset(0) + at);
            let mark = Mark::read(&file).unwrap();
            assert_eq!((mark.highest(), mark.is(fence(9))), (Some(fence(9)), false), "byte {at}");
            flip(&file, offset(1) + at);
            assert_eq!(Mark::read(&file).unwrap().highest(), None, "byte {at} of both");
            flip(&file, offset(0) + at);
            flip(&file, offset(1) + at);
        }
    }

    #[test]
    fn an_empty_a_short_and_a_zeroed_file_are_no_fresh_marks() {
        for length in [0, 10, LINE_BYTES - 1] {
            let (_directory, file) = marked(8);
            file.set_len(length as u64).unwrap();
            assert_eq!(Mark::read(&file).unwrap().highest(), None, "{length} bytes");
        }
        let (_directory, file) = marked(8);
        file.set_len(0).unwrap();
        file.set_len(2 * SLOT_BYTES as u64).unwrap();
        assert_eq!(Mark::read(&file).unwrap().highest(), None);
    }
}
