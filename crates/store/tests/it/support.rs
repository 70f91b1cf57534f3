//! What the tests share: stores to test, a medium that obeys, and ways to wait.

use std::future::Future;
use std::io;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::{Arc, Condvar, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use tempfile::TempDir;
use tidegate_core::{Epoch, Revision};
use tidegate_store::{Condition, FileError, FileStore, Key, Medium, OpenOptions, OpenReport, Store, Txn};

pub(crate) use pollster::block_on;

/// How long a test waits for what must happen. Reached only by a failure.
pub(crate) const DEADLINE: Duration = Duration::from_secs(30);

pub(crate) fn key(name: &str) -> Key {
    Key::new(name).unwrap()
}

pub(crate) fn put(name: &str, value: &str) -> Txn {
    Txn::new().put_bytes(&key(name), value.as_bytes())
}

pub(crate) fn expecting(mut txn: Txn, name: &str, condition: Condition) -> Txn {
    txn.expect.insert(key(name), condition);
    txn
}

/// Epoch, revision and the records as text.
pub(crate) fn everything(store: &dyn Store) -> (Epoch, Revision, Vec<(String, String)>) {
    let listing = block_on(store.list("")).unwrap();
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    let records = listing.records.iter().map(|r| (r.key.to_string(), text(&r.value))).collect();
    (listing.epoch, listing.revision, records)
}

/// A private directory for a store.
pub(crate) struct Place(TempDir);

impl Place {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    pub(crate) fn journal(&self) -> PathBuf {
        self.path().join("journal")
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        std::fs::read(self.journal()).unwrap()
    }

    /// Changes the journal's bytes and leaves it the file it is.
    pub(crate) fn overwrite(&self, bytes: &[u8]) {
        std::fs::write(self.journal(), bytes).unwrap();
    }

    /// Opens the store and says what was found, or why not.
    pub(crate) fn try_open(&self) -> Result<(FileStore, OpenReport), FileError> {
        FileStore::open(self.path(), OpenOptions::new().create(true))
    }

    pub(crate) fn open(&self) -> FileStore {
        self.open_with(OpenOptions::new())
    }

    pub(crate) fn open_with(&self, options: OpenOptions) -> FileStore {
        FileStore::open(self.path(), options.create(true)).unwrap().0
    }
}

/// Waits until something is so.
pub(crate) fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let pause = Duration::from_millis(2);
    for _ in 0..DEADLINE.as_millis() / pause.as_millis() {
        if is_so() {
            return;
        }
        std::thread::park_timeout(pause);
    }
    panic!("it never came to be that {what}");
}

/// Looks at a future once.
pub(crate) fn is_pending<F: Future + ?Sized>(future: std::pin::Pin<&mut F>) -> bool {
    matches!(future.poll(&mut Context::from_waker(Waker::noop())), Poll::Pending)
}

/// Asserts that a future is done at its first look, and returns what it gave.
pub(crate) fn ready<F: Future>(future: F) -> F::Output {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => output,
        Poll::Pending => panic!("it had to be done at once"),
    }
}

/// A medium whose syncs are counted, held and failed on demand, and which runs out of space on demand.
#[derive(Default)]
pub(crate) struct Tame {
    orders: Mutex<Orders>,
    changed: Condvar,
}

#[derive(Default)]
struct Orders {
    syncs: usize,
    waiting: usize,
    mark_written: bool,
    hold: bool,
    fail_sync: bool,
    fail_directory_sync: bool,
    space: Option<usize>,
}

impl Tame {
    pub(crate) fn new() -> Arc<Self> {
        Arc::default()
    }

    /// How many syncs there were, other than of mere durable marks, which come when a slow machine looks idle.
    pub(crate) fn syncs(&self) -> usize {
        self.orders.lock().unwrap().syncs
    }

    pub(crate) fn hold_syncs(&self, hold: bool) {
        self.order(|orders| orders.hold = hold);
    }

    pub(crate) fn fail_syncs(&self, fail: bool) {
        self.order(|orders| orders.fail_sync = fail);
    }

    pub(crate) fn fail_directory_syncs(&self, fail: bool) {
        self.order(|orders| orders.fail_directory_sync = fail);
    }

    /// So many bytes can still be written; `None` for as many as you like.
    pub(crate) fn leave_space(&self, bytes: Option<usize>) {
        self.order(|orders| orders.space = bytes);
    }

    /// Waits until a sync is being held.
    pub(crate) fn wait_for_a_held_sync(&self) {
        self.wait_for_held_syncs(1);
    }

    /// Waits until so many syncs are being held.
    pub(crate) fn wait_for_held_syncs(&self, count: usize) {
        let orders = self.orders.lock().unwrap();
        let (_orders, timeout) =
            self.changed.wait_timeout_while(orders, DEADLINE, |o| o.waiting < count).unwrap();
        assert!(!timeout.timed_out(), "nobody wanted to sync");
    }

    fn order(&self, change: impl FnOnce(&mut Orders)) {
        change(&mut self.orders.lock().unwrap());
        self.changed.notify_all();
    }
}

impl Medium for Tame {
    fn write(&self, file: &std::fs::File, bytes: &[u8], at: u64) -> io::Result<()> {
        use std::os::unix::fs::FileExt;
        let mut orders = self.orders.lock().unwrap();
        let fits = orders.space.map_or(bytes.len(), |space| space.min(bytes.len()));
        orders.space = orders.space.map(|space| space - fits);
        const KIND_AT: usize = 24;
        const MARK: u8 = 4;
        orders.mark_written = bytes.get(KIND_AT) == Some(&MARK) && at > 0;
        file.write_all_at(&bytes[..fits], at)?;
        if fits < bytes.len() { Err(io::ErrorKind::StorageFull.into()) } else { Ok(()) }
    }

    fn sync(&self, file: &std::fs::File) -> io::Result<()> {
        let mut orders = self.orders.lock().unwrap();
        orders.syncs += usize::from(!std::mem::take(&mut orders.mark_written));
        orders.waiting += 1;
        self.changed.notify_all();
        // A test that has failed lets go of nothing, and its stores wait for this.
        let (mut orders, _) =
            self.changed.wait_timeout_while(orders, DEADLINE, |orders| orders.hold).unwrap();
        orders.waiting -= 1;
        if orders.fail_sync {
            return Err(io::Error::other("the disk is on fire"));
        }
        drop(orders);
        file.sync_data()
    }

    fn sync_directory(&self, directory: &std::fs::File) -> io::Result<()> {
        if self.orders.lock().unwrap().fail_directory_sync {
            return Err(io::Error::other("the disk is on fire"));
        }
        directory.sync_all()
    }
}
