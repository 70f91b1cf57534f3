//! Why a store can't be opened, or not be used any more. Each says what to do next and names the path.

use crate::{CommitError, DirectoryError, LockError, ReadError};
use std::io;
use std::path::{Path, PathBuf};

/// A store on disk that can't be used. Nothing in it was changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FileError {
    /// The directory can't hold a store.
    #[error(transparent)]
    Directory(#[from] DirectoryError),
    /// The lock wasn't got.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// There is no store, and none was to be created.
    #[error(
        "there is no store in {path:?}; start `tidegate serve`, which creates one, or name another directory"
    )]
    NoStore {
        /// The directory.
        path: PathBuf,
    },
    /// There has been a journal, and it is gone.
    #[error("the journal {path:?} is gone; restore it from a backup, or remove the directory to begin anew")]
    JournalMissing {
        /// The journal.
        path: PathBuf,
    },
    /// The directory was moved away or removed while it was used, and another store made where it was.
    #[error(
        "another store stands in the place of {path:?}: the directory was moved or replaced while this process used it; end this \
         process, what it had acknowledged is where the directory is now"
    )]
    OtherStore {
        /// The journal.
        path: PathBuf,
    },
    /// What stands in the journal's place never was one.
    #[error("{path:?} is not a journal: {found}; it was left untouched, restore it from a backup")]
    NotAJournal {
        /// The journal.
        path: PathBuf,
        /// What is there instead.
        found: &'static str,
    },
    /// A later version wrote it.
    #[error(
        "{path:?} has format {format}, this version reads up to {known}; it was left untouched, use a newer tidegate"
    )]
    NewerFormat {
        /// The journal.
        path: PathBuf,
        /// Its format.
        format: u32,
        /// The newest format this version knows.
        known: u32,
    },
    /// Bytes that were on stable storage have changed.
    #[error(
        "{path:?} is damaged at offset {offset}, record {record}: {reason}; nothing was changed; \
         run `tidegate store check`, then restore a backup"
    )]
    Damaged {
        /// The journal.
        path: PathBuf,
        /// Where the first bad record begins.
        offset: u64,
        /// Its number, counted from 1.
        record: u64,
        /// What is wrong.
        reason: &'static str,
    },
    /// The system refused.
    #[error("can't {act} {path:?}")]
    Io {
        /// What was tried.
        act: &'static str,
        /// With what.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
}

impl FileError {
    /// Turns an I/O error into one that says what was tried with which path.
    pub(super) fn io(act: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { act, path, source }
    }
}

/// The error with everything behind it, for those who only get a reason.
pub(super) fn told(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(error.source(), |cause| cause.source());
    causes.fold(error.to_string(), |told, cause| format!("{told}: {cause}"))
}

/// The error as a reader hears it.
pub(super) fn unreadable(error: &FileError) -> ReadError {
    ReadError::Unavailable { reason: told(error) }
}

/// The error as a writer hears it, when nothing was written.
pub(super) fn refused(error: &FileError) -> CommitError {
    match error {
        FileError::Lock(LockError::Busy { pid, .. }) => CommitError::Busy { pid: *pid },
        other => CommitError::Rejected { reason: told(other) },
    }
}
