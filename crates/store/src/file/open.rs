//! Opening a store: what is in the directory, whether it can be relied on, and what is made where nothing is.

use super::error::FileError;
use super::medium::{Disk, Medium};
use super::replica::{Replica, TornTail};
use super::rewrite::{Contents, remove_leftovers, rewrite};
use crate::LockError;
use crate::directory;
use crate::lock::LockFile;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tidegate_core::{Epoch, Revision};

/// How long a commit waits for another process's append. Far beyond any append, about what the compaction of a large
/// store takes.
pub const LOCK_PATIENCE: Duration = Duration::from_secs(5);

/// How to open a store.
#[derive(Clone)]
pub struct OpenOptions {
    pub(super) create: bool,
    pub(super) read_only: bool,
    pub(super) commit_on_caller: bool,
    pub(super) lock_patience: Duration,
    pub(super) medium: Arc<dyn Medium>,
}

impl OpenOptions {
    /// Opens an existing store for reading and writing.
    #[must_use]
    pub fn new() -> Self {
        Self {
            create: false,
            read_only: false,
            commit_on_caller: false,
            lock_patience: LOCK_PATIENCE,
            medium: Arc::new(Disk),
        }
    }

    /// Makes directory and store where there are none.
    #[must_use]
    pub fn create(mut self, create: bool) -> Self {
        self.create = create;
        self
    }

    /// Changes nothing, takes no lock, and refuses every commit.
    #[must_use]
    pub fn read_only(mut self, read_only: bool) -> Self {
        self.read_only = read_only;
        self
    }

    /// A commit that finds nobody else committing through this handle is made by the thread that asks for it, which
    /// then waits for the disk itself. That saves two changes of threads, and is for programs that have nothing else
    /// to do meanwhile: an executor is held up.
    #[must_use]
    pub fn commit_on_caller(mut self, commit_on_caller: bool) -> Self {
        self.commit_on_caller = commit_on_caller;
        self
    }

    /// How long a commit waits for another process that holds the lock.
    #[must_use]
    pub fn lock_patience(mut self, patience: Duration) -> Self {
        self.lock_patience = patience;
        self
    }

    /// The storage under the journal, for tests.
    #[must_use]
    pub fn medium(mut self, medium: Arc<dyn Medium>) -> Self {
        self.medium = medium;
        self
    }
}

impl Default for OpenOptions {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for OpenOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpenOptions")
            .field("create", &self.create)
            .field("read_only", &self.read_only)
            .field("commit_on_caller", &self.commit_on_caller)
            .field("lock_patience", &self.lock_patience)
            .finish_non_exhaustive()
    }
}

/// What was found when a store was opened.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct OpenReport {
    /// There was no store; now there is.
    pub created: bool,
    /// The store's epoch.
    pub epoch: Epoch,
    /// Its newest revision.
    pub revision: Revision,
    /// What a writer left that died while appending. It was cut, unless the store was opened read-only.
    pub torn: Option<TornTail>,
    /// Why nothing can be committed until `tidegate store adopt`, if so.
    pub adopt: Option<String>,
}

/// Where a store's files are.
#[derive(Debug, Clone)]
pub(super) struct Paths {
    pub(super) journal: PathBuf,
    pub(super) lock: PathBuf,
}

impl Paths {
    pub(super) fn of(dir: &Path) -> Self {
        Self { journal: dir.join("journal"), lock: dir.join("lock") }
    }
}

/// A store that can be used.
#[derive(Debug)]
pub(super) struct Opened {
    pub(super) replica: Replica,
    pub(super) lock: Option<LockFile>,
    pub(super) report: OpenReport,
    pub(super) paths: Paths,
}

pub(super) fn open(dir: &Path, options: &OpenOptions) -> Result<Opened, FileError> {
    if options.create && !options.read_only {
        directory::create(dir)?;
    }
    let paths = Paths::of(dir);
    if options.read_only {
        return look(dir, paths, true);
    }
    directory::inspect(dir)?;
    let journal_exists = exists(&paths.journal)?;
    if !journal_exists && !options.create && !exists(&paths.lock)? {
        return Err(FileError::NoStore { path: dir.to_owned() });
    }
    // Where there is a journal somebody may be appending to it under a lock file that was deleted: a new one would
    // exclude nobody.
    let mut lock = match LockFile::open(&paths.lock, !journal_exists) {
        Err(missing @ LockError::Missing { .. }) => {
            let mut opened = look(dir, paths, false)?;
            opened.report.adopt.get_or_insert(missing.to_string());
            // The writer opens it for itself once there is one.
            opened.lock = None;
            return Ok(opened);
        }
        lock => lock?,
    };
    let held = lock.acquire(options.lock_patience)?;
    held.prove()?;
    let medium = &*options.medium;
    let created = !exists(&paths.journal)?;
    if created {
        if held.flags().created || !options.create {
            return Err(absent(dir, paths));
        }
        rewrite(dir, &paths.journal, medium, &held, &Contents::of_a_new_store())?;
    }
    remove_leftovers(dir)?;
    let (mut replica, tail) = Replica::open(dir, &paths.journal, false)?;
    let adopt = replica.journal.copied();
    let torn = match tail {
        Some(tail) if adopt.is_some() => {
            replica.journal.judge(tail)?;
            Some(replica.torn(tail))
        }
        Some(tail) => {
            replica.cut(tail, medium)?;
            replica.cut.take()
        }
        None => None,
    };
    drop(held);
    let report = report(&replica, created, torn, adopt);
    Ok(Opened { replica, lock: Some(lock), report, paths })
}

/// Opens without changing or locking anything.
pub(super) fn look(dir: &Path, paths: Paths, read_only: bool) -> Result<Opened, FileError> {
    directory::require(dir)?;
    let lock = LockFile::observe(&paths.lock).ok();
    if !exists(&paths.journal)? {
        return Err(absent(dir, paths));
    }
    let (replica, tail) = Replica::open(dir, &paths.journal, read_only)?;
    if let Some(tail) = tail {
        replica.journal.judge(tail)?;
    }
    let report = report(&replica, false, tail.map(|tail| replica.torn(tail)), replica.journal.copied());
    Ok(Opened { replica, lock, report, paths })
}

/// Whether there never was a journal, or is none any more.
pub(super) fn absent(dir: &Path, paths: Paths) -> FileError {
    let flags = LockFile::observe(&paths.lock).and_then(|lock| lock.flags());
    if flags.is_ok_and(|flags| flags.created) {
        FileError::JournalMissing { path: paths.journal }
    } else {
        FileError::NoStore { path: dir.to_owned() }
    }
}

fn report(replica: &Replica, created: bool, torn: Option<TornTail>, adopt: Option<String>) -> OpenReport {
    let (epoch, revision) = (replica.state.epoch, replica.state.revision);
    OpenReport { created, epoch, revision, torn, adopt }
}

pub(super) fn exists(path: &Path) -> Result<bool, FileError> {
    path.try_exists().map_err(FileError::io("look at", path))
}
