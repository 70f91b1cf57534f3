//! Records in memory, in two copies: as appended (`tip`) and as synced (`stable`). A crash falls back to the second.

use super::{Backup, Fault, Faults};
use crate::state::{Commit, State};
use crate::{Change, CommitError, Committed, Key, Listing, ReadError, Record, Store, Txn, Watch};
use event_listener::Event;
use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tidegate_core::planted::is_planted;
use tidegate_core::{BoxFuture, Epoch, Fence, Revision};

/// A store in memory. Clones share it, as processes share a file.
///
/// Without faults every commit is synced at once. Nothing in it blocks or needs a runtime: a future that has to wait
/// for [`MemoryStore::sync`] is woken by it, on whatever executor.
#[derive(Clone)]
pub struct MemoryStore {
    shared: Arc<Shared>,
}

struct Shared {
    inner: Mutex<Inner>,
    /// Told of every change that may let a waiting future go on.
    progress: Event,
}

struct Inner {
    tip: State,
    stable: State,
    /// Commits in `tip` and not in `stable`, oldest first.
    unsynced: VecDeque<Commit>,
    faults: Option<Box<dyn Faults>>,
    sync_failed: bool,
    /// Restored from a backup and not adopted yet.
    foreign: bool,
    /// Raised by crash and restore: a future begun before doesn't trust what it sees after.
    incarnation: u64,
}

impl MemoryStore {
    /// An empty store of epoch 1 in which nothing goes wrong.
    #[must_use]
    pub fn new() -> Self {
        let empty = State::new(Epoch(1), Revision(0), Vec::new());
        let inner = Inner {
            tip: empty.clone(),
            stable: empty,
            unsynced: VecDeque::new(),
            faults: None,
            sync_failed: false,
            foreign: false,
            incarnation: 0,
        };
        Self { shared: Arc::new(Shared { inner: Mutex::new(inner), progress: Event::new() }) }
    }

    /// An empty store with these faults.
    #[must_use]
    pub fn with_faults(faults: impl Faults + 'static) -> Self {
        let store = Self::new();
        store.set_faults(faults);
        store
    }

    /// From now on these faults.
    pub fn set_faults(&self, faults: impl Faults + 'static) {
        self.inner().faults = Some(Box::new(faults));
    }

    /// From now on no faults. What has gone wrong already stays so.
    pub fn clear_faults(&self) {
        self.inner().faults = None;
    }

    /// Syncs what was delayed, unless a sync has failed before.
    pub fn sync(&self) {
        self.change(|inner| {
            if !inner.sync_failed {
                inner.settle();
            }
        });
    }

    /// How many commits are appended and not synced.
    #[must_use]
    pub fn unsynced(&self) -> usize {
        self.inner().unsynced.len()
    }

    /// Writes everything into a new place, as compaction does: what was appended is durable, a failed sync forgotten.
    pub fn rewrite(&self) {
        self.change(|inner| {
            inner.settle();
            inner.sync_failed = false;
        });
    }

    /// Power cut. Asks `keep` for each unsynced commit in order; the first one lost takes all later ones with it, as
    /// in any journal. Acknowledged commits are never lost. Commits that were waiting end uncertain.
    pub fn crash(&self, mut keep: impl FnMut(Revision) -> bool) {
        self.change(|inner| {
            while let Some(commit) = inner.unsynced.pop_front().filter(|commit| keep(commit.revision)) {
                inner.stable.apply(&commit);
            }
            inner.unsynced.clear();
            inner.tip = inner.stable.clone();
            inner.incarnation += 1;
        });
    }

    /// What is synced under a prefix: what a process would find after a crash that keeps nothing else. For observers;
    /// no fault touches it.
    #[must_use]
    pub fn stable(&self, prefix: &str) -> Listing {
        self.inner().stable.list(prefix)
    }

    /// The newest revision that is synced.
    #[must_use]
    pub fn stable_revision(&self) -> Revision {
        self.inner().stable.revision
    }

    /// Copies what is synced.
    #[must_use]
    pub fn backup(&self) -> Backup {
        Backup { state: self.inner().stable.clone() }
    }

    /// Goes back to a backup. It can be read; nothing is committed until [`MemoryStore::adopt`].
    pub fn restore(&self, backup: &Backup) {
        self.change(|inner| {
            inner.tip = backup.state.clone();
            inner.stable = backup.state.clone();
            inner.unsynced.clear();
            inner.foreign = true;
            inner.incarnation += 1;
        });
    }

    /// Makes a restored store usable again in an epoch above every one it may have had: the stored one plus one, or
    /// `unix_seconds`, whichever is greater.
    pub fn adopt(&self, unix_seconds: u64) -> Epoch {
        self.change(|inner| {
            inner.settle();
            let next = Epoch(unix_seconds.max(inner.stable.epoch.0 + 1));
            let epoch = if is_planted("a-restore-keeps-its-epoch") { inner.stable.epoch } else { next };
            inner.stable.epoch = epoch;
            inner.tip.epoch = epoch;
            inner.foreign = false;
            inner.sync_failed = false;
            epoch
        })
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        // No code of others but `Faults` and `keep` runs under the lock; state is replaced whole, so a panic in
        // those leaves nothing half done.
        self.shared.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change<T>(&self, act: impl FnOnce(&mut Inner) -> T) -> T {
        let result = act(&mut self.inner());
        self.shared.progress.notify(usize::MAX);
        result
    }

    /// Waits until `revision`, as seen in `incarnation`, is synced.
    async fn synced(&self, revision: Revision, incarnation: u64) -> Result<(), String> {
        loop {
            let listener = self.shared.progress.listen();
            {
                let inner = self.inner();
                if inner.incarnation != incarnation {
                    return Err("the store crashed".to_owned());
                }
                if inner.stable.revision >= revision {
                    return Ok(());
                }
                if inner.sync_failed {
                    return Err("a sync failed".to_owned());
                }
            }
            listener.await;
        }
    }

    async fn read<T>(&self, look: impl FnOnce(&State) -> T) -> Result<T, ReadError> {
        let (answer, revision, incarnation) = {
            let mut inner = self.inner();
            if inner.faults.as_mut().is_some_and(|faults| faults.read_fails()) {
                return Err(ReadError::Unavailable { reason: "injected fault".to_owned() });
            }
            (look(&inner.tip), inner.tip.revision, inner.incarnation)
        };
        if !is_planted("read-before-its-sync") {
            self.synced(revision, incarnation).await.map_err(|reason| ReadError::Unavailable { reason })?;
        }
        Ok(answer)
    }

    async fn write(&self, txn: Txn) -> Result<Committed, CommitError> {
        txn.within_limits()?;
        let (outcome, incarnation) = self.change(|inner| (inner.append(txn), inner.incarnation));
        match outcome? {
            Appended::Done { fence } if is_planted("acknowledged-before-its-sync") => Ok(Committed { fence }),
            Appended::Done { fence } => {
                let synced = self.synced(fence.revision, incarnation).await;
                synced.map(|()| Committed { fence }).map_err(|reason| CommitError::Uncertain { reason })
            }
            Appended::Conflict { key, seen } => {
                // If what the conflict rests on isn't there any more, nothing has happened either way.
                let reject = |reason| CommitError::Rejected { reason };
                self.synced(seen, incarnation).await.map_err(reject)?;
                Err(CommitError::Conflict { key })
            }
        }
    }
}

enum Appended {
    Done { fence: Fence },
    Conflict { key: Key, seen: Revision },
}

impl Inner {
    fn settle(&mut self) {
        for commit in self.unsynced.drain(..) {
            self.stable.apply(&commit);
        }
    }

    fn append(&mut self, txn: Txn) -> Result<Appended, CommitError> {
        let rejected = |reason: &str| CommitError::Rejected { reason: reason.to_owned() };
        let uncertain = || CommitError::Uncertain { reason: "injected fault".to_owned() };
        if self.foreign {
            return Err(rejected("it was restored from a backup; run `tidegate store adopt`"));
        }
        if self.sync_failed {
            return Err(rejected("a sync failed; run `tidegate store compact`"));
        }
        let fault = self.faults.as_mut().map_or(Fault::None, |faults| faults.commit(&txn));
        match fault {
            Fault::Reject => return Err(rejected("injected fault")),
            Fault::Busy => return Err(CommitError::Busy { pid: 0 }),
            Fault::UncertainLost => return Err(uncertain()),
            Fault::None | Fault::UncertainApplied | Fault::Delay | Fault::FailSync => {}
        }
        let mut batch = self.tip.batch();
        let fence = match batch.admit(txn) {
            Ok(fence) => fence,
            Err(key) => return Ok(Appended::Conflict { key, seen: self.tip.revision }),
        };
        for commit in batch.into_commits() {
            self.tip.apply(&commit);
            self.unsynced.push_back(commit);
        }
        match fault {
            Fault::Delay => {}
            Fault::FailSync => self.sync_failed = true,
            _ => self.settle(),
        }
        if fault == Fault::UncertainApplied { Err(uncertain()) } else { Ok(Appended::Done { fence }) }
    }
}

impl Store for MemoryStore {
    fn get<'a>(&'a self, key: &'a Key) -> BoxFuture<'a, Result<Option<Record>, ReadError>> {
        Box::pin(self.read(|state| state.get(key)))
    }

    fn list<'a>(&'a self, prefix: &'a str) -> BoxFuture<'a, Result<Listing, ReadError>> {
        Box::pin(self.read(|state| state.list(prefix)))
    }

    fn commit(&self, txn: Txn) -> BoxFuture<'_, Result<Committed, CommitError>> {
        Box::pin(self.write(txn))
    }

    fn watch(&self, prefix: &str, from: Revision) -> Box<dyn Watch> {
        let incarnation = self.inner().incarnation;
        Box::new(MemoryWatch { store: self.clone(), prefix: prefix.to_owned(), cursor: from, incarnation })
    }
}

impl Default for MemoryStore {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for MemoryStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let inner = self.inner();
        f.debug_struct("MemoryStore")
            .field("epoch", &inner.tip.epoch)
            .field("revision", &inner.tip.revision)
            .field("unsynced", &inner.unsynced.len())
            .finish_non_exhaustive()
    }
}

struct MemoryWatch {
    store: MemoryStore,
    prefix: String,
    cursor: Revision,
    incarnation: u64,
}

impl Watch for MemoryWatch {
    fn next(&mut self) -> BoxFuture<'_, Result<Vec<Change>, ReadError>> {
        Box::pin(async move {
            loop {
                let listener = self.store.shared.progress.listen();
                {
                    let inner = self.store.inner();
                    if inner.incarnation != self.incarnation {
                        let reason = "the store crashed or was restored; list again".to_owned();
                        return Err(ReadError::Unavailable { reason });
                    }
                    let upto = inner.stable.revision;
                    if let Some(changes) = inner.stable.changes(&mut self.cursor, &self.prefix, upto)? {
                        return Ok(changes);
                    }
                }
                listener.await;
            }
        })
    }
}
