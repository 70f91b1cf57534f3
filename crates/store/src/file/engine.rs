//! The store in a directory: reads here, on the caller's thread and without a lock; commits through the writer thread.

use super::error::{FileError, refused, told, unreadable};
use super::medium::Medium;
use super::open::{OpenOptions, OpenReport, Opened, open};
use super::queue::Queue;
use super::replica::{Ground, Replica, TornTail};
use super::watch::FileWatch;
use super::writer::{Writer, run, uncertain};
use crate::state::State;
use crate::{CommitError, Committed, Key, Listing, ReadError, Record, Store, Txn, Watch};
use event_listener::Event;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;
use tidegate_core::{BoxFuture, Revision};

/// A store in a directory, which other handles and processes may have open too.
///
/// Reads take no lock. Commits of one handle share a lock, an append and a sync; those of several processes overlap
/// their syncs. Dropping the handle ends its commits first.
pub struct FileStore {
    shared: Arc<Shared>,
    writer: Arc<Mutex<Writer>>,
    commit_on_caller: bool,
    thread: Option<JoinHandle<()>>,
}

/// What futures and the writer thread share.
pub(super) struct Shared {
    pub(super) dir: PathBuf,
    pub(super) path: PathBuf,
    pub(super) lock_path: PathBuf,
    pub(super) read_only: bool,
    pub(super) patience: Duration,
    pub(super) medium: Arc<dyn Medium>,
    replica: Mutex<Replica>,
    pub(super) queue: Queue,
    /// Told whenever more may be durable, or known, than before.
    pub(super) progress: Event,
}

impl FileStore {
    /// Opens the store in `dir`, and says what was found there.
    ///
    /// # Errors
    /// [`FileError`] when there is none, or when it can't be relied on; nothing was changed then.
    pub fn open(dir: &Path, options: OpenOptions) -> Result<(Self, OpenReport), FileError> {
        let Opened { replica, lock, report, paths } = open(dir, &options)?;
        let shared = Arc::new(Shared {
            dir: dir.to_owned(),
            path: paths.journal,
            lock_path: paths.lock,
            read_only: options.read_only,
            patience: options.lock_patience,
            medium: options.medium,
            replica: Mutex::new(replica),
            queue: Queue::default(),
            progress: Event::new(),
        });
        let writer = Arc::new(Mutex::new(Writer::new(shared.clone(), lock)));
        let thread = std::thread::Builder::new().name("tidegate-store".to_owned());
        let its_own = writer.clone();
        let thread = thread.spawn(move || run(&its_own)).map_err(FileError::io("start a writer for", dir))?;
        let commit_on_caller = options.commit_on_caller;
        Ok((Self { shared, writer, commit_on_caller, thread: Some(thread) }, report))
    }

    /// Writes the live records into a new journal and puts it in the place of the old one. It also happens by itself
    /// when the journal has grown far beyond what lives in it. This is what makes a store usable again of which a sync
    /// has failed.
    ///
    /// # Cancel safety
    /// Dropping the future leaves the compaction to go on.
    ///
    /// # Errors
    /// As [`Store::commit`]. The store is as it was then.
    pub async fn compact(&self) -> Result<(), CommitError> {
        self.shared.writable()?;
        self.shared.queue.compact().await
    }

    /// The torn tail that another process left while this one had the store open, once.
    #[must_use]
    pub fn take_torn_tail(&self) -> Option<TornTail> {
        self.shared.replica().cut.take()
    }

    /// The writer, where the caller may use it and nobody else wants to.
    fn at_once(&self) -> Option<MutexGuard<'_, Writer>> {
        let free = self.commit_on_caller && self.shared.queue.is_empty();
        if free { self.writer.try_lock().ok() } else { None }
    }

    async fn read<T>(&self, look: impl FnOnce(&State) -> T) -> Result<T, ReadError> {
        let (answer, ground) = self.shared.look(look)?;
        self.shared.durable(ground).await?;
        Ok(answer)
    }
}

impl Drop for FileStore {
    fn drop(&mut self) {
        self.shared.queue.close();
        if let Some(thread) = self.thread.take() {
            // It has nothing to say that its callers haven't been told.
            let _ = thread.join();
        }
    }
}

impl Shared {
    pub(super) fn replica(&self) -> MutexGuard<'_, Replica> {
        // A panic under it is a broken invariant of a record already checked; the records before it are whole.
        self.replica.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Appends a record's bytes, or leaves nothing of them.
    pub(super) fn write(&self, record: &[u8]) -> Result<(), CommitError> {
        let (file, end) = {
            let replica = self.replica();
            (replica.journal.file.clone(), replica.journal.end())
        };
        self.medium.write(&file, record, end).map_err(|error| {
            let failed = FileError::io("append to", &self.path)(error);
            match self.medium.truncate(&file, end) {
                Ok(()) => refused(&failed),
                Err(error) => uncertain(told(&FileError::io("cut", &self.path)(error))),
            }
        })
    }

    fn writable(&self) -> Result<(), CommitError> {
        if self.read_only {
            let reason = format!("{:?} was opened read-only", self.dir);
            return Err(CommitError::Rejected { reason });
        }
        Ok(())
    }

    fn look<T>(&self, look: impl FnOnce(&State) -> T) -> Result<(T, Ground), ReadError> {
        let mut replica = self.replica();
        replica.refresh(&*self.medium).map_err(|e| unreadable(&e))?;
        Ok((look(&replica.state), replica.ground()))
    }

    /// Waits until what an answer rests on is on stable storage, whoever syncs it.
    async fn durable(&self, ground: Ground) -> Result<(), ReadError> {
        loop {
            let listener = self.progress.listen();
            let unavailable = |reason: &str| ReadError::Unavailable { reason: reason.to_owned() };
            if self.replica().holds(ground).map_err(unavailable)? {
                return Ok(());
            }
            if self.queue.is_closed() {
                return Err(unavailable("the store is closed"));
            }
            self.queue.sync();
            listener.await;
        }
    }
}

impl Store for FileStore {
    fn get<'a>(&'a self, key: &'a Key) -> BoxFuture<'a, Result<Option<Record>, ReadError>> {
        Box::pin(self.read(|state| state.get(key)))
    }

    fn list<'a>(&'a self, prefix: &'a str) -> BoxFuture<'a, Result<Listing, ReadError>> {
        Box::pin(self.read(|state| state.list(prefix)))
    }

    fn commit(&self, txn: Txn) -> BoxFuture<'_, Result<Committed, CommitError>> {
        Box::pin(async move {
            self.shared.writable()?;
            txn.within_limits()?;
            if let Some(mut writer) = self.at_once() {
                return writer.commit(txn);
            }
            self.shared.queue.commit(txn).await
        })
    }

    fn watch(&self, prefix: &str, from: Revision) -> Box<dyn Watch> {
        Box::new(FileWatch::new(self.shared.clone(), prefix, from))
    }
}

impl fmt::Debug for FileStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FileStore").field("dir", &self.shared.dir).finish_non_exhaustive()
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").field("dir", &self.dir).finish_non_exhaustive()
    }
}
