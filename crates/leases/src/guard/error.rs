//! What can go wrong at a resource's guard.

use std::io;
use std::path::PathBuf;
use tidegate_core::Fence;
use tidegate_store::LockError;

/// A fence that was not let in. The resource has not been touched.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GuardError {
    /// A higher fence has been here: the lease belongs to somebody else.
    #[error("the fence {fence} is stale, {} has seen {highest}: do not write; acquire the lease again and read the resource anew", .path.display())]
    Stale {
        /// The mark.
        path: PathBuf,
        /// What was shown.
        fence: Fence,
        /// What has been seen.
        highest: Fence,
    },
    /// The mark is there and can't be read, so nothing can be compared with it.
    #[error("the fence mark {} is damaged and nothing is let in: look at the resource, then remove the mark", .path.display())]
    Damaged {
        /// The mark.
        path: PathBuf,
    },
    /// Anybody could put a file in the mark's place.
    #[error("the fence mark {} would be in a directory that everybody writes to: keep the resource elsewhere", .path.display())]
    SharedDirectory {
        /// The mark.
        path: PathBuf,
    },
    /// The mark couldn't be locked, and without a lock a check means nothing: somebody has been writing for long, or the
    /// file system has no locks.
    #[error("the fence mark {} can't be locked, so nothing is let in", .path.display())]
    NoLock {
        /// The mark.
        path: PathBuf,
        /// Why not, and what to do.
        source: LockError,
    },
    /// Reading or writing the mark failed.
    #[error("the fence mark {} can't be read or written", .path.display())]
    Io {
        /// The mark.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
}
