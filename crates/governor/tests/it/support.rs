//! A clock that is moved by hand, numbers in order, a store that can be raced, and ways to poll a future a little.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::task::{Context, Poll, Waker};
use tidegate_core::{
    BootId, BoxFuture, Clock, Entropy, Liveness, Now, Probe, ProcessIdentity, Revision, WallTime,
};
use tidegate_store::{
    CommitError, Committed, Key, Listing, MemoryStore, ReadError, Record, Store, Txn, Watch,
};

/// Far more polls than any operation here takes; whoever needs more hangs.
const MAX_POLLS: usize = 10_000;

/// 2026-01-01T00:00:00Z.
const EPOCH_MS: i64 = 1_767_225_600_000;

#[derive(Default)]
pub(crate) struct HandClock(AtomicU64);

impl HandClock {
    pub(crate) fn advance(&self, ms: u64) {
        self.0.fetch_add(ms, SeqCst);
    }
}

impl Clock for HandClock {
    fn now(&self) -> Now {
        let boot_ms = self.0.load(SeqCst);
        Now { boot: BootId(7), boot_ms, wall: WallTime(EPOCH_MS + i64::try_from(boot_ms).unwrap()) }
    }
}

#[derive(Default)]
pub(crate) struct Counter(AtomicU64);

impl Entropy for Counter {
    fn bits(&self) -> u128 {
        u128::from(self.0.fetch_add(1, SeqCst) + 1)
    }
}

pub(crate) struct AllAlive;

impl Probe for AllAlive {
    fn liveness(&self, _: &ProcessIdentity) -> Liveness {
        Liveness::Alive
    }
}

/// Lets others go on once.
pub(crate) async fn pause() {
    let mut waited = false;
    poll_fn(|context| {
        if std::mem::replace(&mut waited, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// Polls `future` once.
pub(crate) async fn nudge<T>(future: &mut Pin<Box<impl Future<Output = T>>>) -> Option<T> {
    poll_fn(|context| match future.as_mut().poll(context) {
        Poll::Ready(value) => Poll::Ready(Some(value)),
        Poll::Pending => Poll::Ready(None),
    })
    .await
}

/// Polls `future` at most `polls` times, then drops it: a crash at that await.
pub(crate) fn crash_after<T>(polls: usize, future: impl Future<Output = T>) -> Option<T> {
    let mut future = pin!(future);
    let mut context = Context::from_waker(Waker::noop());
    for _ in 0..polls {
        if let Poll::Ready(value) = future.as_mut().poll(&mut context) {
            return Some(value);
        }
    }
    None
}

/// Polls to the end.
#[track_caller]
pub(crate) fn finish<T>(future: impl Future<Output = T>) -> T {
    crash_after(MAX_POLLS, future).expect("it came to an end")
}

/// A store that pauses before and after each access, and in which somebody else can be faster once.
#[derive(Clone)]
pub(crate) struct SlowStore {
    pub(crate) inner: MemoryStore,
    race_at: Arc<AtomicUsize>,
    commits: Arc<AtomicUsize>,
}

impl SlowStore {
    pub(crate) fn new(inner: MemoryStore) -> Self {
        Self { inner, race_at: Arc::new(AtomicUsize::new(usize::MAX)), commits: Arc::default() }
    }

    /// Before the `nth` commit from now every record that it writes is written by somebody else, with the same content.
    pub(crate) fn race_at(&self, nth: usize) {
        self.race_at.store(self.commits.load(SeqCst) + nth, SeqCst);
    }

    /// How many commits there were.
    pub(crate) fn commits(&self) -> usize {
        self.commits.load(SeqCst)
    }

    async fn race(&self, txn: &Txn) {
        let mut rival = Txn::new();
        for key in txn.writes.keys() {
            if let Some(record) = self.inner.get(key).await.unwrap() {
                rival = rival.put_bytes(key, &record.value);
            }
        }
        self.inner.commit(rival).await.unwrap();
    }
}

impl Store for SlowStore {
    fn get<'a>(&'a self, key: &'a Key) -> BoxFuture<'a, Result<Option<Record>, ReadError>> {
        Box::pin(self.inner.get(key))
    }

    fn list<'a>(&'a self, prefix: &'a str) -> BoxFuture<'a, Result<Listing, ReadError>> {
        Box::pin(async move {
            pause().await;
            self.inner.list(prefix).await
        })
    }

    fn commit(&self, txn: Txn) -> BoxFuture<'_, Result<Committed, CommitError>> {
        Box::pin(async move {
            pause().await;
            if self.commits.fetch_add(1, SeqCst) == self.race_at.load(SeqCst) {
                self.race(&txn).await;
            }
            let result = self.inner.commit(txn).await;
            pause().await;
            result
        })
    }

    fn watch(&self, prefix: &str, from: Revision) -> Box<dyn Watch> {
        self.inner.watch(prefix, from)
    }
}
