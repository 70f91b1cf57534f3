//! A lock on any one file, for what is kept beside somebody's resource: taken for a moment, by whoever comes.

use super::LockError;
use super::exclusive::Exclusive;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

/// The pause between two attempts: short against what is done under such a lock, a sync at least.
const PAUSE: Duration = Duration::from_millis(2);

/// A file, locked. Dropping it lets the next one in.
#[derive(Debug)]
#[must_use = "the lock ends when this is dropped"]
pub struct FileLock {
    lock: Exclusive,
}

impl FileLock {
    /// The file.
    #[must_use]
    pub fn file(&self) -> &File {
        self.lock.file()
    }
}

/// Locks the file at `path`, which `open` opens, trying again until the pauses add up to `patience`. A file that was put
/// in its place meanwhile is the one that counts.
///
/// # Errors
/// [`LockError::Busy`] when somebody has it for longer than that; otherwise what is wrong with the file or its file
/// system.
///
/// # Examples
/// ```
/// use std::{fs::File, time::Duration};
/// use tidegate_store::{LockError, lock_file};
/// let dir = tempfile::tempdir()?;
/// let path = dir.path().join("mark");
/// let take = || lock_file(&path, Duration::from_millis(10), || File::create(&path));
/// let lock = take()?;
/// assert!(matches!(take(), Err(LockError::Busy { .. })));
/// drop(lock);
/// let _again = take()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn lock_file(
    path: &Path,
    patience: Duration,
    mut open: impl FnMut() -> io::Result<File>,
) -> Result<FileLock, LockError> {
    let failed = |source| LockError::io(path, source);
    let mut waited = Duration::ZERO;
    loop {
        let file = open().map_err(failed)?;
        let opened = file.metadata().map_err(failed)?;
        let mut lock = Exclusive::new(file);
        let locked = lock.try_lock().map_err(failed)?;
        let there = match fs::metadata(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            metadata => Some(metadata.map_err(failed)?),
        };
        if locked && there.is_some_and(|there| (there.dev(), there.ino()) == (opened.dev(), opened.ino())) {
            return Ok(FileLock { lock });
        }
        if waited >= patience {
            return Err(LockError::Busy { path: path.to_owned(), pid: 0 });
        }
        std::thread::park_timeout(PAUSE);
        waited += PAUSE;
    }
}
