//! A lock for life: proof that a directory has one daemon.

use super::LockError;
use super::exclusive::Exclusive;
use crate::directory;
use std::fs;
use std::path::{Path, PathBuf};

/// A directory held for as long as this value lives.
///
/// The lock is on the directory itself, so there is no lock file that somebody could delete to get in; the file `name`
/// only says who holds it. It ends with the process however that dies, and programs started meanwhile don't inherit it.
#[derive(Debug)]
#[must_use = "the lock ends when this is dropped"]
pub struct DirLock {
    _lock: Exclusive,
    path: PathBuf,
}

impl DirLock {
    /// The file that says who holds the directory.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// Holds `dir`; `name` is the file in it that tells others the pid. One holder per directory, whatever the name.
///
/// # Errors
/// [`LockError::Busy`] naming the holder; otherwise what is wrong with the directory or its file system.
///
/// # Examples
/// ```
/// use tidegate_store::{LockError, hold};
/// let dir = tempfile::tempdir()?;
/// let lock = hold(dir.path(), "daemon.pid")?;
/// assert!(matches!(hold(dir.path(), "daemon.pid"), Err(LockError::Busy { pid, .. }) if pid == std::process::id()));
/// drop(lock);
/// let _again = hold(dir.path(), "daemon.pid")?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn hold(dir: &Path, name: &str) -> Result<DirLock, LockError> {
    directory::inspect(dir)?;
    let path = dir.join(name);
    let failed = |source| LockError::io(&path, source);
    let mut lock = Exclusive::new(directory::open(dir)?);
    if !lock.try_lock().map_err(failed)? {
        let holder = fs::read_to_string(&path).ok();
        let pid = holder.and_then(|text| text.trim().parse().ok()).unwrap_or(0);
        return Err(LockError::Busy { path, pid });
    }
    let mut probe = Exclusive::new(directory::open(dir)?);
    if probe.try_lock().map_err(failed)? {
        return Err(LockError::Unsupported { path });
    }
    fs::write(&path, format!("{}\n", std::process::id())).map_err(failed)?;
    Ok(DirLock { _lock: lock, path })
}
