//! Everything the file engine does to stable storage, so that tests can fail it, hold it and count it.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// The storage under a journal. Every method has the real thing as its default; a test overrides what it wants to fail.
pub trait Medium: Send + Sync + 'static {
    /// Writes all of `bytes` at an offset, or fails with part of it written.
    ///
    /// # Errors
    /// As `write(2)`.
    fn write(&self, file: &File, bytes: &[u8], at: u64) -> io::Result<()> {
        file.write_all_at(bytes, at)
    }

    /// Cuts a file to a length.
    ///
    /// # Errors
    /// As `ftruncate(2)`.
    fn truncate(&self, file: &File, length: u64) -> io::Result<()> {
        file.set_len(length)
    }

    /// Returns once everything written to the file before is on stable storage.
    ///
    /// # Errors
    /// As `fdatasync(2)`. After an error nobody knows what is stored.
    fn sync(&self, file: &File) -> io::Result<()> {
        file.sync_data()
    }

    /// Puts a file in the place of another, at once.
    ///
    /// # Errors
    /// As `rename(2)`.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    /// Returns once renames in the directory are on stable storage.
    ///
    /// # Errors
    /// As `fsync(2)`.
    fn sync_directory(&self, directory: &File) -> io::Result<()> {
        directory.sync_all()
    }
}

/// The real thing.
#[derive(Debug, Clone, Copy, Default)]
pub struct Disk;

impl Medium for Disk {}
