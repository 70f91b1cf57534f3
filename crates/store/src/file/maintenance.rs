//! What an operator does with a store that no daemon has to be running for: look at it, and adopt it after a restore.

use super::error::FileError;
use super::format::FORMAT;
use super::medium::Disk;
use super::open::{LOCK_PATIENCE, Opened, Paths, absent, exists, look};
use super::replica::{Replica, TornTail};
use super::rewrite::{Contents, rewrite};
use crate::directory;
use crate::lock::LockFile;
use serde::Serialize;
use std::path::Path;
use tidegate_core::{Epoch, Revision};

/// What [`check`] found: a store that can be relied on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct CheckReport {
    /// The journal's format.
    pub format: u32,
    /// The store's id.
    pub store: String,
    /// Which journal of the store this is; every rewrite raises it.
    pub generation: u64,
    /// The store's epoch.
    pub epoch: Epoch,
    /// Its newest revision.
    pub revision: Revision,
    /// How many records live in it.
    pub records: u64,
    /// How many bytes their keys and values have.
    pub live_bytes: u64,
    /// How many bytes of journal that takes.
    pub journal_bytes: u64,
    /// How many records the journal has, snapshot and marks included.
    pub journal_records: u64,
    /// The offset before which a bad byte would be known as damage.
    pub marked_durable: u64,
    /// What a writer left that died while appending, or is just appending.
    pub torn: Option<TornTail>,
    /// Why nothing can be committed until [`adopt`], if so.
    pub adopt: Option<String>,
    /// A sync has failed: nothing is committed until the store is compacted.
    pub sync_failed: bool,
}

/// Reads a whole store and says what is in it. Takes no lock and changes nothing.
///
/// # Errors
/// [`FileError`] saying what is wrong, and where.
pub fn check(dir: &Path) -> Result<CheckReport, FileError> {
    let Opened { replica, lock, report, .. } = look(dir, Paths::of(dir), true)?;
    let failed = match &lock {
        Some(lock) => lock.flags()?.failed,
        None => 0,
    };
    let (journal, state) = (&replica.journal, &replica.state);
    Ok(CheckReport {
        format: FORMAT,
        store: format!("{:032x}", journal.header.store),
        generation: journal.header.generation,
        epoch: report.epoch,
        revision: report.revision,
        records: state.records().len() as u64,
        live_bytes: state.bytes() as u64,
        journal_bytes: journal.end(),
        journal_records: journal.records(),
        marked_durable: journal.marked(),
        torn: report.torn,
        adopt: report.adopt,
        sync_failed: failed >= journal.header.generation,
    })
}

/// What [`adopt`] did.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Adopted {
    /// The store's epoch from now on.
    pub epoch: Epoch,
    /// Its newest revision, which stays.
    pub revision: Revision,
    /// A torn tail that was left behind.
    pub torn: Option<TornTail>,
}

/// Makes a copied or restored store usable as the store it is now, in an epoch above all it may ever have had: the
/// stored one plus one, or `unix_seconds`, whichever is greater. So every fence granted from now on outranks every
/// fence granted before. Stop every process that uses the store first.
///
/// # Errors
/// [`FileError`]; the store is as it was then.
pub fn adopt(dir: &Path, unix_seconds: u64) -> Result<Adopted, FileError> {
    directory::inspect(dir)?;
    let paths = Paths::of(dir);
    if !exists(&paths.journal)? {
        return Err(absent(dir, paths));
    }
    let mut lock = LockFile::open(&paths.lock, true)?;
    let held = lock.acquire(LOCK_PATIENCE)?;
    held.prove()?;
    let (replica, tail) = Replica::open(dir, &paths.journal, true)?;
    if let Some(tail) = tail {
        replica.journal.judge(tail)?;
    }
    let epoch = Epoch(unix_seconds.max(replica.state.epoch.0 + 1));
    let contents = Contents {
        store: Some(replica.journal.header.store),
        epoch,
        generation: replica.journal.header.generation.max(held.flags().failed) + 1,
        revision: replica.state.revision,
        records: replica.state.records().cloned().collect(),
    };
    rewrite(dir, &paths.journal, &Disk, &held, &contents)?;
    Ok(Adopted { epoch, revision: contents.revision, torn: tail.map(|tail| replica.torn(tail)) })
}
