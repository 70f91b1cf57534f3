//! A medium that writes down what is done to stable storage, in order, so that the power can fail at any of it later.
//! It keeps every file that was ever written to: a file that is put back is the same one, and no copy.

use crate::support::Tame;
use rustix::fs::{AtFlags, CWD, linkat};
use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use tempfile::TempDir;
use tidegate_store::{Disk, Medium};

/// A file, by its inode.
pub(crate) type FileId = u64;

/// One thing that happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Op {
    Write {
        file: FileId,
        at: u64,
        bytes: Vec<u8>,
    },
    Truncate {
        file: FileId,
        length: u64,
    },
    SyncBegins {
        file: FileId,
        sync: usize,
    },
    /// What was written before this sync began is on stable storage now.
    SyncEnds {
        file: FileId,
        sync: usize,
    },
    /// What was written before this sync began may be lost whatever is synced later: that is how kernels do it.
    SyncFails {
        file: FileId,
        sync: usize,
    },
    /// The file has the journal's name.
    Rename {
        file: FileId,
    },
    /// The journal's name is on stable storage.
    DirectorySynced,
    /// Somebody was told that this revision is durable.
    Acknowledged(u64),
}

/// What happened, with the lock file as it was then.
#[derive(Debug, Clone)]
pub(crate) struct Event {
    pub(crate) op: Op,
    pub(crate) lock: Vec<u8>,
}

/// Writes down and passes on, to a medium that obeys the test.
pub(crate) struct Recorder {
    pub(crate) orders: Arc<Tame>,
    directory: PathBuf,
    kept: TempDir,
    log: Mutex<Vec<Event>>,
    syncs: Mutex<usize>,
    /// Whether what is asked is done at all; a recovery that is only looked at needs no real disk.
    really_syncs: bool,
}

impl Recorder {
    pub(crate) fn new(directory: &Path) -> Arc<Self> {
        Arc::new(Self::over(directory, true))
    }

    /// For recoveries: thousands of them wait for no disk.
    pub(crate) fn of_a_recovery(directory: &Path) -> Arc<Self> {
        Arc::new(Self::over(directory, false))
    }

    fn over(directory: &Path, really_syncs: bool) -> Self {
        Self {
            orders: Tame::new(),
            directory: directory.to_owned(),
            kept: tempfile::tempdir_in(directory.parent().unwrap()).unwrap(),
            log: Mutex::default(),
            syncs: Mutex::default(),
            really_syncs,
        }
    }

    pub(crate) fn acknowledged(&self, revision: u64) {
        self.note(Op::Acknowledged(revision));
    }

    /// Everything up to now.
    pub(crate) fn log(&self) -> Vec<Event> {
        self.log.lock().unwrap().clone()
    }

    /// Where a file can be had that was once written to, whatever its name is now.
    pub(crate) fn kept(&self, file: FileId) -> PathBuf {
        self.kept.path().join(file.to_string())
    }

    fn keep(&self, file: &File) -> FileId {
        let id = file.metadata().unwrap().ino();
        let here = format!("/proc/self/fd/{}", file.as_raw_fd());
        match linkat(CWD, here, CWD, self.kept(id), AtFlags::SYMLINK_FOLLOW) {
            Ok(()) | Err(rustix::io::Errno::EXIST) => id,
            Err(error) => panic!("a file that is written to can't be kept: {error}"),
        }
    }

    fn note(&self, op: Op) {
        let lock = fs::read(self.directory.join("lock")).unwrap_or_default();
        self.log.lock().unwrap().push(Event { op, lock });
    }
}

impl Medium for Recorder {
    fn write(&self, file: &File, bytes: &[u8], at: u64) -> io::Result<()> {
        let id = self.keep(file);
        let written = self.orders.write(file, bytes, at);
        let room = file.metadata()?.len().saturating_sub(at) as usize;
        self.note(Op::Write { file: id, at, bytes: bytes[..room.min(bytes.len())].to_vec() });
        written
    }

    fn truncate(&self, file: &File, length: u64) -> io::Result<()> {
        self.orders.truncate(file, length)?;
        self.note(Op::Truncate { file: self.keep(file), length });
        Ok(())
    }

    fn sync(&self, file: &File) -> io::Result<()> {
        let file_id = self.keep(file);
        let sync = {
            let mut syncs = self.syncs.lock().unwrap();
            *syncs += 1;
            *syncs
        };
        self.note(Op::SyncBegins { file: file_id, sync });
        let result = if self.really_syncs { self.orders.sync(file) } else { Ok(()) };
        self.note(match result {
            Ok(()) => Op::SyncEnds { file: file_id, sync },
            Err(_) => Op::SyncFails { file: file_id, sync },
        });
        result
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let file = fs::metadata(from)?.ino();
        Disk.rename(from, to)?;
        self.note(Op::Rename { file });
        Ok(())
    }

    fn sync_directory(&self, directory: &File) -> io::Result<()> {
        if self.really_syncs {
            self.orders.sync_directory(directory)?;
        }
        self.note(Op::DirectorySynced);
        Ok(())
    }
}

/// Makes `file` hold these bytes, as the file that it is. It is never empty in between: file systems take that for a
/// file being replaced, and wait for the disk.
pub(crate) fn refill(file: &Path, bytes: &[u8]) {
    let file = File::options().write(true).open(file).unwrap();
    file.write_all_at(bytes, 0).unwrap();
    file.set_len(bytes.len() as u64).unwrap();
}
