//! Versioned records with atomic conditional commits.
//!
//! A [`Store`] maps keys to records. A [`Txn`] says what must still be true, what to put and what to delete; it is
//! applied whole or not at all, and the [`Revision`](tidegate_core::Revision) it gets only grows. [`transact`] is the
//! shell that every decision of the domain runs in: read, decide, commit, and again when somebody else was faster.

mod decision;
mod directory;
mod error;
mod file;
mod history;
mod key;
mod lock;
mod memory;
mod record;
mod state;
mod store;
mod transact;
mod txn;
mod view;

pub use decision::Decision;
pub use directory::DirectoryError;
pub use error::{CommitError, ReadError, StoreError};
pub use file::{
    Adopted, CheckReport, Disk, FileError, FileStore, LOCK_PATIENCE, Medium, OpenOptions, OpenReport,
    TornTail, adopt, check,
};
pub use key::{Key, KeyError, MAX_KEY_BYTES};
pub use lock::{DirLock, FileLock, LockError, hold, lock_file};
pub use memory::{Backup, Fault, Faults, MemoryStore, SeededFaults};
pub use record::{Committed, Listing, Record};
pub use store::{Change, Store, Watch};
pub use transact::{Done, MAX_ATTEMPTS, Scope, transact};
pub use txn::{Condition, MAX_TXN_BYTES, MAX_VALUE_BYTES, Txn};
pub use view::View;
