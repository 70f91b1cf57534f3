//! The store's lock file: who may append, and what every process has to know before it acknowledges anything.
//!
//! Layout, little-endian: magic (8), version (4), pid of the last holder (4), generation of the journal whose sync
//! failed or 0 (8), 1 once a journal exists (8), zero up to 64.

use super::LockError;
use super::exclusive::Exclusive;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

const MAGIC: &[u8; 8] = b"TIDELOCK";
const VERSION: u32 = 1;
const BYTES: usize = 64;
const PID_AT: u64 = 12;
const FAILED_AT: u64 = 16;
const CREATED_AT: u64 = 24;

/// The first pause between two attempts; it doubles up to [`LONGEST_PAUSE`]. An append holds the lock about this long.
const FIRST_PAUSE: Duration = Duration::from_micros(50);

/// The longest pause: short against the sync that follows every append.
const LONGEST_PAUSE: Duration = Duration::from_millis(1);

/// What the lock file says besides who holds it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Flags {
    /// The generation of the journal of which a sync failed, 0 for none.
    pub(crate) failed: u64,
    /// Whether there has ever been a journal here.
    pub(crate) created: bool,
}

impl Flags {
    /// What a file without contents says.
    const NONE: Self = Self { failed: 0, created: false };
}

/// The lock file, open.
#[derive(Debug)]
pub(crate) struct LockFile {
    path: PathBuf,
    lock: Exclusive,
    identity: (u64, u64),
}

impl LockFile {
    /// Opens the lock file; `create` only where there is no journal yet that somebody could be appending to.
    pub(crate) fn open(path: &Path, create: bool) -> Result<Self, LockError> {
        let mut options = File::options();
        options.read(true).write(true).create(create).mode(0o600);
        Self::from(path, options.open(path))
    }

    /// Opens the lock file to look at its flags only.
    pub(crate) fn observe(path: &Path) -> Result<Self, LockError> {
        Self::from(path, File::open(path))
    }

    fn from(path: &Path, opened: io::Result<File>) -> Result<Self, LockError> {
        let file = opened.map_err(|source| missing_or(path, source))?;
        let metadata = file.metadata().map_err(|source| LockError::io(path, source))?;
        Ok(Self {
            path: path.to_owned(),
            lock: Exclusive::new(file),
            identity: (metadata.dev(), metadata.ino()),
        })
    }

    /// Takes the lock, trying again with growing pauses until they add up to `patience`.
    pub(crate) fn acquire(&mut self, patience: Duration) -> Result<Held<'_>, LockError> {
        let (mut pause, mut waited) = (FIRST_PAUSE, Duration::ZERO);
        loop {
            if self.lock.try_lock().map_err(|source| LockError::io(&self.path, source))? {
                if self.is_at_its_path()? {
                    break;
                }
                // Somebody replaced the file while this process waited for the old one.
                *self = Self::open(&self.path, false)?;
            } else if waited >= patience {
                let pid = self.contents()?.map_or(0, |contents| contents.pid);
                return Err(LockError::Busy { path: self.path.clone(), pid });
            } else {
                std::thread::park_timeout(pause);
                waited += pause;
                pause = (pause * 2).min(LONGEST_PAUSE);
            }
        }
        let flags = self.sign()?;
        Ok(Held { file: self, flags })
    }

    /// What it says. A file without contents says nothing.
    pub(crate) fn flags(&self) -> Result<Flags, LockError> {
        Ok(self.contents()?.map_or(Flags::NONE, |contents| contents.flags))
    }

    /// Records that a sync of the journal `generation` failed: from now on nobody acknowledges anything in it.
    pub(crate) fn set_failed(&self, generation: u64) -> Result<(), LockError> {
        if self.flags()?.failed < generation {
            self.write(&generation.to_le_bytes(), FAILED_AT)?;
        }
        self.lock.file().sync_data().map_err(|source| LockError::io(&self.path, source))
    }

    /// Leaves this process's pid, for those who wait, and answers what else is there. Writes only when it isn't there yet.
    fn sign(&self) -> Result<Flags, LockError> {
        let pid = std::process::id();
        match self.contents()? {
            Some(contents) => {
                if contents.pid != pid {
                    self.write(&pid.to_le_bytes(), PID_AT)?;
                }
                Ok(contents.flags)
            }
            None => {
                let mut bytes = [0; BYTES];
                bytes[..8].copy_from_slice(MAGIC);
                bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
                bytes[12..16].copy_from_slice(&pid.to_le_bytes());
                self.write(&bytes, 0)?;
                Ok(Flags::NONE)
            }
        }
    }

    fn is_at_its_path(&self) -> Result<bool, LockError> {
        let metadata = fs::metadata(&self.path).map_err(|source| missing_or(&self.path, source))?;
        Ok((metadata.dev(), metadata.ino()) == self.identity)
    }

    fn contents(&self) -> Result<Option<Contents>, LockError> {
        let mut bytes = [0; BYTES];
        let length = self.lock.file().read_at(&mut bytes, 0).map_err(|e| LockError::io(&self.path, e))?;
        Contents::decode(&bytes[..length])
            .map_err(|found| LockError::Foreign { path: self.path.clone(), found })
    }

    fn write(&self, bytes: &[u8], at: u64) -> Result<(), LockError> {
        self.lock.file().write_all_at(bytes, at).map_err(|source| LockError::io(&self.path, source))
    }
}

/// The lock, held. Dropping it lets the next one in.
#[derive(Debug)]
pub(crate) struct Held<'a> {
    file: &'a mut LockFile,
    flags: Flags,
}

impl Held<'_> {
    /// What the file said when the lock was taken.
    pub(crate) fn flags(&self) -> Flags {
        self.flags
    }

    /// Records that a new journal is in place, of which nothing has failed yet.
    pub(crate) fn journal_is_new(&self) -> Result<(), LockError> {
        self.file.write(&0u64.to_le_bytes(), FAILED_AT)?;
        self.file.write(&1u64.to_le_bytes(), CREATED_AT)
    }

    /// See [`LockFile::set_failed`].
    pub(crate) fn set_failed(&self, generation: u64) -> Result<(), LockError> {
        self.file.set_failed(generation)
    }

    /// Makes sure that this lock excludes anybody at all: a second descriptor must not get it.
    pub(crate) fn prove(&self) -> Result<(), LockError> {
        let mut second = LockFile::open(&self.file.path, false)?;
        let got = second.lock.try_lock().map_err(|source| LockError::io(&self.file.path, source))?;
        if got { Err(LockError::Unsupported { path: self.file.path.clone() }) } else { Ok(()) }
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.file.lock.unlock();
    }
}

#[derive(Debug, PartialEq, Eq)]
struct Contents {
    pid: u32,
    flags: Flags,
}

impl Contents {
    /// `None` for a file that nobody has written to yet, an error for one that isn't ours.
    fn decode(bytes: &[u8]) -> Result<Option<Self>, String> {
        let Some(bytes) = bytes.first_chunk::<BYTES>() else {
            return if bytes.is_empty() { Ok(None) } else { Err(format!("it has {} bytes", bytes.len())) };
        };
        let u32_at = |at: u64| u32::from_le_bytes(std::array::from_fn(|i| bytes[at as usize + i]));
        let u64_at = |at: u64| u64::from_le_bytes(std::array::from_fn(|i| bytes[at as usize + i]));
        if bytes.iter().all(|b| *b == 0) {
            return Ok(None);
        }
        if bytes[..8] != *MAGIC {
            return Err("it begins differently".to_owned());
        }
        if u32_at(8) != VERSION {
            return Err(format!("its version is {}", u32_at(8)));
        }
        let flags = Flags { failed: u64_at(FAILED_AT), created: u64_at(CREATED_AT) != 0 };
        Ok(Some(Self { pid: u32_at(PID_AT), flags }))
    }
}

fn missing_or(path: &Path, source: io::Error) -> LockError {
    match source.kind() {
        io::ErrorKind::NotFound => LockError::Missing { path: path.to_owned() },
        _ => LockError::io(path, source),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lock_file() -> (tempfile::TempDir, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lock");
        (dir, path)
    }

    #[test]
    fn a_second_descriptor_is_busy_and_is_told_the_pid() {
        let (_dir, path) = lock_file();
        let mut first = LockFile::open(&path, true).unwrap();
        let mut second = LockFile::open(&path, true).unwrap();
        let held = first.acquire(Duration::ZERO).unwrap();
        held.prove().unwrap();
        match second.acquire(Duration::from_millis(1)).unwrap_err() {
            LockError::Busy { pid, .. } => assert_eq!(pid, std::process::id()),
            other => panic!("{other}"),
        }
        drop(held);
        second.acquire(Duration::ZERO).unwrap();
    }

    #[test]
    fn a_deleted_lock_file_lets_nobody_in_and_a_replaced_one_is_reopened() {
        let (_dir, path) = lock_file();
        let mut lock = LockFile::open(&path, true).unwrap();
        fs::remove_file(&path).unwrap();
        assert!(matches!(lock.acquire(Duration::ZERO), Err(LockError::Missing { .. })));
        assert!(matches!(LockFile::open(&path, false), Err(LockError::Missing { .. })));
        let mut successor = LockFile::open(&path, true).unwrap();
        let held = successor.acquire(Duration::ZERO).unwrap();
        assert!(
            matches!(lock.acquire(Duration::ZERO), Err(LockError::Busy { .. })),
            "the old file locks nothing"
        );
        drop(held);
        lock.acquire(Duration::ZERO).unwrap();
    }

    #[test]
    fn a_failed_sync_is_remembered_for_its_generation_and_later_ones_only() {
        let (_dir, path) = lock_file();
        let mut lock = LockFile::open(&path, true).unwrap();
        lock.acquire(Duration::ZERO).unwrap().journal_is_new().unwrap();
        for (failed, remembered) in [(3, 3), (2, 3), (4, 4)] {
            lock.set_failed(failed).unwrap();
            let flags = LockFile::observe(&path).unwrap().flags().unwrap();
            assert_eq!(flags, Flags { failed: remembered, created: true });
        }
    }

    #[test]
    fn what_is_not_a_lock_file_is_told_apart_from_an_empty_one() {
        let mut newer = [0; BYTES];
        newer[..8].copy_from_slice(MAGIC);
        newer[8] = 2;
        for (bytes, expected) in [
            (&[][..], Ok(None)),
            (&[0; BYTES], Ok(None)),
            (&[7; BYTES], Err("it begins differently".to_owned())),
            (&[7; 9], Err("it has 9 bytes".to_owned())),
            (&newer, Err("its version is 2".to_owned())),
        ] {
            assert_eq!(Contents::decode(bytes), expected);
        }
    }
}
