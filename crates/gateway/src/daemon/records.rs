//! The store as all rooms of the daemon use it: what it refused last is remembered, for whoever looks. Changes nothing of
//! what is asked or answered.

use serde_json::{Value, json};
use std::sync::{Arc, Mutex, PoisonError};
use tidegate_core::{BoxFuture, Clock as _, Revision, WallTime};
use tidegate_host::SystemClock;
use tidegate_store::{CommitError, Committed, FileStore, Key, Listing, ReadError, Record, Store, Txn, Watch};

pub(super) struct Records {
    store: Arc<FileStore>,
    clock: SystemClock,
    /// The write that failed last, unless one has succeeded since.
    refused: Mutex<Option<Refused>>,
}

struct Refused {
    at: WallTime,
    reason: String,
}

impl Records {
    pub(super) fn new(store: Arc<FileStore>, clock: SystemClock) -> Self {
        Self { store, clock, refused: Mutex::default() }
    }

    /// Rewrites the journal with live records only.
    ///
    /// # Errors
    /// The store's.
    pub(super) async fn compact(&self) -> Result<(), CommitError> {
        let compacted = self.store.compact().await;
        self.note(&compacted);
        compacted
    }

    /// What `status` says of it.
    pub(super) fn to_json(&self) -> Value {
        let refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        json!({ "refused": refused.as_ref().map(|it| json!({ "at": it.at, "reason": it.reason })) })
    }

    fn note<T>(&self, outcome: &Result<T, CommitError>) {
        let refused = match outcome {
            Ok(_) => None,
            Err(CommitError::Conflict { .. }) => return, // somebody else's write is there
            Err(error) => Some(Refused { at: self.clock.now().wall, reason: error.to_string() }),
        };
        *self.refused.lock().unwrap_or_else(PoisonError::into_inner) = refused;
    }
}

impl Store for Records {
    fn get<'a>(&'a self, key: &'a Key) -> BoxFuture<'a, Result<Option<Record>, ReadError>> {
        self.store.get(key)
    }

    fn list<'a>(&'a self, prefix: &'a str) -> BoxFuture<'a, Result<Listing, ReadError>> {
        self.store.list(prefix)
    }

    fn commit(&self, txn: Txn) -> BoxFuture<'_, Result<Committed, CommitError>> {
        Box::pin(async move {
            let committed = self.store.commit(txn).await;
            self.note(&committed);
            committed
        })
    }

    fn watch(&self, prefix: &str, from: Revision) -> Box<dyn Watch> {
        self.store.watch(prefix, from)
    }
}
