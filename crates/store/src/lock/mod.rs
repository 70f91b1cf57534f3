//! All locking between processes, in one place.
//!
//! Locks are taken on a descriptor that no program started from here inherits, without waiting in the kernel, and are
//! released explicitly, only by the process that took them. A lock file is never removed.

mod daemon;
mod error;
mod exclusive;
mod file;
mod shared;

pub use daemon::{DirLock, hold};
pub use error::LockError;
pub(crate) use file::{Held, LockFile};
pub use shared::{FileLock, lock_file};
