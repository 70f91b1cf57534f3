//! Versioned records with atomic conditional commits.
//!
//! A [`Store`] maps keys to records. A [`Txn`] says what must still be true, what to put and what to delete; it is
//! applied whole or not at all, and the [`Revision`](tidegate_core::Revision) it gets only grows. [`transact`] is the
//! shell that every decision of the domain runs in: read, decide, commit, and again when somebody else was faster.
//!
//! Two engines keep the same contract. [`FileStore`] is a directory that several processes may have open at once:
//! acknowledged means synced, and nobody is told anything that isn't. [`MemoryStore`] is for tests: it injects every
//! fault the contract allows. Neither needs a runtime; their futures can be polled by any.
//!
//! ```
//! use tidegate_store::{Decision, FileStore, Key, OpenOptions, Scope, Store, StoreError, Txn, View, transact};
//!
//! /// Takes the name, unless somebody has it. Plain data in, plain data out.
//! fn take(view: &View, key: &Key, who: &str) -> Result<Decision<String>, StoreError> {
//!     Ok(match view.read::<String>(key)? {
//!         Some(owner) => Decision::reply(format!("{owner} has it")),
//!         None => Decision::write(Txn::new().put(view, key, &who), "taken".to_owned()),
//!     })
//! }
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let dir = tempfile::tempdir()?;
//! let (store, _) = FileStore::open(dir.path(), OpenOptions::new().create(true))?;
//! let name = Key::new("names/main")?;
//! let scope = Scope::new().key(&name);
//! for (who, answer) in [("ann", "taken"), ("bob", "ann has it")] {
//!     let done = pollster::block_on(transact(&store, &scope, |view| take(view, &name, who)))?;
//!     assert_eq!(done.reply, answer);
//! }
//! # Ok(())
//! # }
//! ```

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
mod sync;
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
