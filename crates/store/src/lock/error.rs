//! Why a lock wasn't got.

use crate::DirectoryError;
use std::io;
use std::path::{Path, PathBuf};

/// A lock that wasn't got.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LockError {
    /// Somebody has it.
    #[error(
        "process {pid} holds the lock {path:?}; stop it, or wait for it to end; if it has ended, a process that it has forked still has \
         the lock"
    )]
    Busy {
        /// The lock.
        path: PathBuf,
        /// Who has it, 0 when unknown.
        pid: u32,
    },
    /// The file system has no locks, or has locks that exclude nobody.
    #[error("the file system of {path:?} has no working locks; put the directory on a local file system")]
    Unsupported {
        /// The lock.
        path: PathBuf,
    },
    /// The file is gone although there is something for it to protect.
    #[error(
        "the lock file {path:?} is missing; stop every process that uses the store, then run `tidegate store adopt`"
    )]
    Missing {
        /// The lock.
        path: PathBuf,
    },
    /// The file isn't one of ours.
    #[error("{path:?} is not a lock file of this version ({found}); it was left untouched")]
    Foreign {
        /// The lock.
        path: PathBuf,
        /// What it looks like.
        found: String,
    },
    /// The directory can't hold a lock.
    #[error(transparent)]
    Directory(#[from] DirectoryError),
    /// The system refused.
    #[error("can't use the lock {path:?}")]
    Io {
        /// The lock.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

impl LockError {
    pub(super) fn io(path: &Path, source: io::Error) -> Self {
        use rustix::io::Errno;
        let path = path.to_owned();
        match source.raw_os_error().map(Errno::from_raw_os_error) {
            Some(Errno::NOLCK | Errno::OPNOTSUPP | Errno::NOSYS) => Self::Unsupported { path },
            _ => Self::Io { path, source },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::io::Errno;

    #[test]
    fn a_file_system_without_locks_is_named_as_such() {
        for (errno, expected) in [
            (Errno::NOLCK, "has no working locks"),
            (Errno::OPNOTSUPP, "has no working locks"),
            (Errno::NOSYS, "has no working locks"),
            (Errno::IO, "can't use the lock"),
        ] {
            let said = LockError::io(Path::new("/d/lock"), errno.into()).to_string();
            assert!(said.contains(expected) && said.contains("/d/lock"), "{errno:?}: {said}");
        }
    }
}
