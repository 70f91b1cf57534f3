//! Which unsafe calls a server is working on: a file of fixed size, written in place by the daemon, read by whoever
//! outlives it.
//!
//! It survives the daemon, not the machine: nothing here is synced, because no server survives the machine either. The
//! file has all its blocks from the start, so that a full disk does not stop it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// One for each call that a gate admits, and a last one that stands, for good, for any there should be beside them.
const SLOTS: usize = 1_025;
/// A slot: the call's id, little end first, then its state, then nothing.
const SLOT_BYTES: usize = 16;
/// The file's length.
const TABLE_BYTES: usize = SLOTS * SLOT_BYTES;
/// Whose answers are the owner's alone.
const FILE_MODE: u32 = 0o600;

/// Where a call stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stand {
    /// It has begun to be written: the server may have all of it, a part, or nothing.
    Begun,
    /// The server's pipe has all of it.
    Whole,
}

impl Stand {
    fn byte(stand: Option<Self>) -> u8 {
        match stand {
            None => 0,
            Some(Self::Begun) => 1,
            Some(Self::Whole) => 2,
        }
    }
}

/// A slot in use, as it was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Slot {
    index: usize,
    pub(super) id: u64,
    pub(super) stand: Stand,
}

/// The daemon's side of the table of one server.
#[derive(Debug, Default)]
pub(crate) struct CallTable {
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    /// None where nobody keeps: a server of a test.
    file: Option<(File, PathBuf)>,
    used: BTreeMap<u64, usize>,
    free: BTreeSet<usize>,
}

impl CallTable {
    /// An empty table in a new file.
    ///
    /// # Errors
    /// The file system's.
    pub(super) fn create(path: PathBuf) -> io::Result<Self> {
        let mut file =
            OpenOptions::new().write(true).create(true).truncate(true).mode(FILE_MODE).open(&path)?;
        file.write_all(&[0; TABLE_BYTES])?;
        let inner = Inner { file: Some((file, path)), used: BTreeMap::new(), free: (0..SLOTS - 1).collect() };
        Ok(Self { inner: Mutex::new(inner) })
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        // A map of numbers is whole after a panic, too.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The first byte of this call is about to be written.
    pub(crate) fn begin(&self, id: u64) {
        let mut inner = self.inner();
        if inner.file.is_none() {
            return;
        }
        let index = inner.free.pop_first();
        inner.set(index.unwrap_or(SLOTS - 1), id, Some(Stand::Begun));
        inner.used.extend(index.map(|index| (id, index)));
    }

    /// All of it is in the pipe.
    pub(crate) fn whole(&self, id: u64) {
        let inner = self.inner();
        if let Some(index) = inner.used.get(&id) {
            inner.set(*index, id, Some(Stand::Whole));
        }
    }

    /// The server has answered these calls, as far as `is_running` says no.
    pub(crate) fn ended(&self, is_running: impl Fn(u64) -> bool) {
        let mut inner = self.inner();
        let over: Vec<u64> = inner.used.keys().copied().filter(|id| !is_running(*id)).collect();
        for id in over {
            inner.end(id);
        }
    }

    /// The server is proved dead: nobody asks any more.
    pub(crate) fn remove(&self) {
        if let Some((_, path)) = self.inner().file.take() {
            let _ = std::fs::remove_file(path); // left behind, it is swept by a later daemon
        }
    }
}

impl Inner {
    fn end(&mut self, id: u64) {
        if let Some(index) = self.used.remove(&id) {
            self.set(index, id, None);
            self.free.insert(index);
        }
    }

    fn set(&self, index: usize, id: u64, stand: Option<Stand>) {
        if let Some((file, _)) = &self.file {
            // In place, into blocks that are there: what could fail is the disk itself, and then a call counts as running.
            let _ = write(file, index, id, stand);
        }
    }
}

fn write(file: &File, index: usize, id: u64, stand: Option<Stand>) -> io::Result<()> {
    let mut slot = [0; SLOT_BYTES];
    slot[..8].copy_from_slice(&id.to_le_bytes());
    slot[8] = Stand::byte(stand);
    file.write_all_at(&slot, (index * SLOT_BYTES) as u64)
}

/// The slots in use.
///
/// # Errors
/// The file system's; a table that isn't whole can't be told from a full one, and is an error.
pub(super) fn read(path: &Path) -> io::Result<Vec<Slot>> {
    let bytes = std::fs::read(path)?;
    if bytes.len() != TABLE_BYTES {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let slots = bytes.chunks_exact(SLOT_BYTES).enumerate().filter_map(|(index, slot)| {
        let id = u64::from_le_bytes(slot.first_chunk().copied()?);
        let stand = match slot.get(8)? {
            0 => return None,
            2 => Stand::Whole,
            _ => Stand::Begun,
        };
        Some(Slot { index, id, stand })
    });
    Ok(slots.collect())
}

/// Takes a slot out of use, for a daemon that is dead.
///
/// # Errors
/// The file system's.
pub(super) fn free(path: &Path, slot: Slot) -> io::Result<()> {
    write(&OpenOptions::new().write(true).open(path)?, slot.index, slot.id, None)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stands(path: &Path) -> Vec<(u64, Stand)> {
        read(path).unwrap().into_iter().map(|slot| (slot.id, slot.stand)).collect()
    }

    #[test]
    fn a_call_is_in_the_table_from_its_first_byte_to_its_answer() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("t");
        let table = CallTable::create(path.clone()).unwrap();
        assert_eq!(stands(&path), []);
        table.begin(7);
        table.begin(9);
        table.whole(9);
        assert_eq!(stands(&path), [(7, Stand::Begun), (9, Stand::Whole)]);
        table.ended(|id| id == 9);
        assert_eq!(stands(&path), [(9, Stand::Whole)]);
        table.begin(11);
        assert_eq!(stands(&path), [(11, Stand::Begun), (9, Stand::Whole)], "a slot is used again");
        table.ended(|_| false);
        assert_eq!(stands(&path), []);
        table.remove();
        assert!(read(&path).is_err());
    }

    #[test]
    fn its_slots_can_be_freed_by_another_process_and_a_cut_table_is_no_empty_one() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("t");
        let table = CallTable::create(path.clone()).unwrap();
        table.begin(u64::MAX);
        free(&path, read(&path).unwrap()[0]).unwrap();
        assert_eq!(stands(&path), []);
        std::fs::write(&path, b"").unwrap();
        assert!(read(&path).is_err());
    }

    #[test]
    fn more_calls_than_slots_never_look_like_fewer() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("t");
        let table = CallTable::create(path.clone()).unwrap();
        for id in 0..SLOTS as u64 + 10 {
            table.begin(id);
        }
        assert_eq!(stands(&path).len(), SLOTS);
    }
}
