//! The store as a process sees it: the memory engine, with latency and a place to be killed before and after everything it
//! does, and with faults while there are to be any. It never makes up an answer.

use crate::chance::{generator, happens};
use crate::executor::{Executor, Group, pause};
use crate::story::Faults;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use tidegate_core::{BoxFuture, Revision};
use tidegate_store::{
    CommitError, Committed, Fault, Key, Listing, MemoryStore, ReadError, Record, Store, Txn, Watch,
};

/// How long a delayed sync takes at most.
const LONGEST_SYNC_MS: u64 = 400;
/// How long a store whose sync failed stays so: until somebody has compacted it.
const REPAIRED_AFTER_MS: u64 = 700;

/// A store with seeded faults. Clones are the same one.
#[derive(Clone)]
pub(crate) struct SimStore {
    memory: MemoryStore,
    executor: Executor,
    shared: Arc<Shared>,
}

struct Shared {
    rng: Mutex<fastrand::Rng>,
    faults: Faults,
    on: AtomicBool,
    /// Until then there is no space left.
    full_until_ms: AtomicU64,
}

impl SimStore {
    pub(crate) fn new(executor: &Executor, seed: u64, faults: Faults) -> Self {
        let rng = Mutex::new(generator(seed, "store"));
        let shared = Shared { rng, faults, on: AtomicBool::new(true), full_until_ms: AtomicU64::new(0) };
        let store = Self { memory: MemoryStore::new(), executor: executor.clone(), shared: Arc::new(shared) };
        let chooser = store.clone();
        store.memory.set_faults(move |_: &Txn| chooser.fault());
        store
    }

    /// No more faults, and what was broken is repaired.
    pub(crate) fn calm_down(&self) {
        self.shared.on.store(false, Ordering::Relaxed);
        self.memory.rewrite();
    }

    /// There is no space left for a while.
    pub(crate) fn is_full(&self, for_ms: u64) {
        let until_ms = self.executor.now_ms() + for_ms;
        self.shared.full_until_ms.store(until_ms, Ordering::Relaxed);
    }

    /// What a process would find after a crash that keeps nothing but what is synced.
    pub(crate) fn memory(&self) -> &MemoryStore {
        &self.memory
    }

    /// Crashes with the process that uses it: each write that wasn't synced is kept or lost, in order.
    pub(crate) fn crash(&self) {
        self.memory.crash(|_: Revision| self.with(|rng| rng.bool()));
    }

    /// Forgets the faults, which know this store.
    pub(crate) fn close(&self) {
        self.memory.clear_faults();
    }

    fn with<T>(&self, use_it: impl FnOnce(&mut fastrand::Rng) -> T) -> T {
        use_it(&mut self.shared.rng.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn is_on(&self) -> bool {
        self.shared.on.load(Ordering::Relaxed)
    }

    fn fault(&self) -> Fault {
        if self.is_on() && self.executor.now_ms() < self.shared.full_until_ms.load(Ordering::Relaxed) {
            return Fault::Reject;
        }
        if !self.is_on() || !self.with(|rng| happens(rng, self.shared.faults.commit_per_mille)) {
            return Fault::None;
        }
        match self.with(|rng| rng.u32(..16)) {
            0..3 => Fault::Reject,
            3..5 => Fault::Busy,
            5..8 => Fault::UncertainApplied,
            8..11 => Fault::UncertainLost,
            11..15 => {
                let after_ms = self.with(|rng| rng.u64(1..=LONGEST_SYNC_MS));
                self.later(after_ms, |memory| memory.sync());
                Fault::Delay
            }
            _ => {
                self.later(REPAIRED_AFTER_MS, |memory| memory.rewrite());
                Fault::FailSync
            }
        }
    }

    fn later(&self, after_ms: u64, act: impl FnOnce(&MemoryStore) + Send + 'static) {
        let (executor, memory) = (self.executor.clone(), self.memory.clone());
        self.executor.spawn(Group::WORLD, async move {
            executor.sleep(after_ms).await;
            act(&memory);
        });
    }

    async fn before(&self) {
        let ms = match self.shared.faults.store_latency_ms {
            0 => 0,
            fixed if self.shared.faults.commit_per_mille == 0 => fixed,
            longest => self.with(|rng| if happens(rng, 10) { rng.u64(..100) } else { rng.u64(..=longest) }),
        };
        match ms {
            0 => pause().await,
            ms => self.executor.sleep(ms).await,
        }
    }

    async fn failing_read(&self) -> Result<(), ReadError> {
        let per_mille = self.shared.faults.commit_per_mille / 8;
        if self.is_on() && self.with(|rng| happens(rng, per_mille)) {
            return Err(ReadError::Unavailable { reason: "injected fault".to_owned() });
        }
        Ok(())
    }
}

impl Store for SimStore {
    fn get<'a>(&'a self, key: &'a Key) -> BoxFuture<'a, Result<Option<Record>, ReadError>> {
        Box::pin(async move {
            self.failing_read().await?;
            let got = self.memory.get(key).await;
            pause().await;
            got
        })
    }

    fn list<'a>(&'a self, prefix: &'a str) -> BoxFuture<'a, Result<Listing, ReadError>> {
        Box::pin(async move {
            self.failing_read().await?;
            let listed = self.memory.list(prefix).await;
            pause().await;
            listed
        })
    }

    fn commit(&self, txn: Txn) -> BoxFuture<'_, Result<Committed, CommitError>> {
        Box::pin(async move {
            self.before().await;
            let committed = self.memory.commit(txn).await;
            pause().await;
            committed
        })
    }

    fn watch(&self, prefix: &str, from: Revision) -> Box<dyn Watch> {
        self.memory.watch(prefix, from)
    }
}
