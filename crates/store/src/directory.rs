//! Whether a directory may hold a store or a lock. Says why not; changes nothing but what it is asked to create.

use std::fs::{self, DirBuilder, File, Metadata};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

/// A directory that can't be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DirectoryError {
    /// There is none.
    #[error("there is no directory {path:?}; create it, or name another")]
    Missing {
        /// What was given.
        path: PathBuf,
    },
    /// It is something else.
    #[error("{path:?} is not a directory; name one")]
    NotADirectory {
        /// What was given.
        path: PathBuf,
    },
    /// Anybody can put files there, so a lock in it protects nothing.
    #[error("{path:?} can be written by everybody; use a private directory, {:?} for example", path.join("tidegate"))]
    Shared {
        /// What was given.
        path: PathBuf,
    },
    /// It is another user's.
    #[error(
        "{path:?} belongs to user {owner} and this process runs as {user}; run as {owner}, or name another"
    )]
    OtherOwner {
        /// What was given.
        path: PathBuf,
        /// Whose it is.
        owner: u32,
        /// Who asks.
        user: u32,
    },
    /// The system refused.
    #[error("can't use the directory {path:?}")]
    Io {
        /// What was given.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

/// Refuses what isn't a directory.
pub(crate) fn require(path: &Path) -> Result<Metadata, DirectoryError> {
    let metadata = fs::metadata(path).map_err(|source| failed(path, source))?;
    if metadata.is_dir() {
        Ok(metadata)
    } else {
        Err(DirectoryError::NotADirectory { path: path.to_owned() })
    }
}

/// Refuses a directory that can't hold a lock.
pub(crate) fn inspect(path: &Path) -> Result<(), DirectoryError> {
    let metadata = require(path)?;
    judge(path, metadata.mode(), metadata.uid(), rustix::process::geteuid().as_raw())
}

/// Creates a private directory where there is none, durably.
pub(crate) fn create(path: &Path) -> Result<(), DirectoryError> {
    if path.exists() {
        return Ok(());
    }
    DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(|source| failed(path, source))?;
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    open(parent)?.sync_all().map_err(|source| failed(parent, source))
}

/// Opens a directory, to sync or lock it.
pub(crate) fn open(path: &Path) -> Result<File, DirectoryError> {
    File::open(path).map_err(|source| failed(path, source))
}

fn judge(path: &Path, mode: u32, owner: u32, user: u32) -> Result<(), DirectoryError> {
    const WRITABLE_BY_ALL: u32 = 0o002;
    if mode & WRITABLE_BY_ALL != 0 {
        Err(DirectoryError::Shared { path: path.to_owned() })
    } else if owner != user {
        Err(DirectoryError::OtherOwner { path: path.to_owned(), owner, user })
    } else {
        Ok(())
    }
}

fn failed(path: &Path, source: io::Error) -> DirectoryError {
    let path = path.to_owned();
    match source.kind() {
        io::ErrorKind::NotFound => DirectoryError::Missing { path },
        io::ErrorKind::NotADirectory | io::ErrorKind::AlreadyExists => DirectoryError::NotADirectory { path },
        _ => DirectoryError::Io { path, source },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_directory_of_ones_own_is_good_enough() {
        for (mode, owner, user, expected) in [
            (0o40700, 7, 7, "ok"),
            (0o40775, 7, 7, "ok"),
            (0o41777, 7, 7, "can be written by everybody"),
            (0o40777, 7, 7, "can be written by everybody"),
            (0o41777, 0, 7, "can be written by everybody"),
            (0o40700, 0, 7, "belongs to user 0 and this process runs as 7"),
            (0o40755, 7, 0, "belongs to user 7 and this process runs as 0"),
        ] {
            let said = judge(Path::new("/d"), mode, owner, user)
                .map_or_else(|e| e.to_string(), |()| "ok".to_owned());
            assert!(said.contains(expected), "{mode:o} {owner} {user}: {said}");
        }
    }

    #[test]
    fn a_newline_in_a_path_is_shown_escaped() {
        let error = inspect(Path::new("/no/such\nplace")).unwrap_err().to_string();
        assert_eq!(error, r#"there is no directory "/no/such\nplace"; create it, or name another"#);
    }
}
