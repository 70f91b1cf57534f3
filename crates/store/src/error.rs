//! What can go wrong, by what the caller can do next.

use crate::Key;

/// A commit that was not acknowledged.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CommitError {
    /// Nothing happened: `key` is not as expected. Read again and decide again.
    #[error("{key} was changed by somebody else; read it again and decide again")]
    Conflict {
        /// The first key whose condition didn't hold.
        key: Key,
    },
    /// Nothing happened, and the same transaction won't do better until the reason is removed.
    #[error("the store refused the write and is unchanged: {reason}")]
    Rejected {
        /// No space, read-only, too large, …, naming the path where there is one.
        reason: String,
    },
    /// Nothing happened: another process held the store's lock for too long.
    #[error("the store is busy: process {pid} holds its lock; try again, or look at what that process does")]
    Busy {
        /// Who holds it, 0 when unknown.
        pid: u32,
    },
    /// It may have happened. Read back before deciding anything.
    #[error("the write may or may not have happened ({reason}); read back before deciding anything")]
    Uncertain {
        /// What failed.
        reason: String,
    },
}

/// A read that can't be answered.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// What the answer rests on could not be made durable, or the store can't be read any more.
    #[error("the store can't be read: {reason}")]
    Unavailable {
        /// What failed, naming the path where there is one.
        reason: String,
    },
    /// The record is there and isn't what it should be.
    #[error("the record {key} can't be read: {message}")]
    Malformed {
        /// Its key.
        key: Key,
        /// What is wrong with it.
        message: String,
    },
}

/// Either of the two, for shells that read and commit.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// Reading failed; nothing happened.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// Committing failed.
    #[error(transparent)]
    Commit(#[from] CommitError),
    /// Others were faster [`MAX_ATTEMPTS`](crate::MAX_ATTEMPTS) times in a row; nothing happened.
    #[error("{key} kept changing under {attempts} attempts; nothing was written, try again")]
    Contended {
        /// The key of the last conflict.
        key: Key,
        /// How often it was tried.
        attempts: u32,
    },
}
