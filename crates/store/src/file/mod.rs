//! The default engine: a directory with an append-only journal and a lock file, for several processes at once.
//!
//! `docs/store-format.md` has the format byte by byte, what happens in each crash, and what is assumed of the medium.

mod engine;
mod error;
mod format;
mod identity;
mod journal;
mod maintenance;
mod medium;
mod open;
mod queue;
mod replica;
mod reply;
mod rewrite;
mod scan;
mod watch;
mod writer;

pub use engine::FileStore;
pub use error::FileError;
pub use maintenance::{Adopted, CheckReport, adopt, check};
pub use medium::{Disk, Medium};
pub use open::{LOCK_PATIENCE, OpenOptions, OpenReport};
pub use replica::TornTail;
