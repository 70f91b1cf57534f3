//! The contract that every engine keeps; one test body runs against all of them.

use crate::{CommitError, Committed, Key, Listing, ReadError, Record, Txn};
use std::sync::Arc;
use tidegate_core::{BoxFuture, Revision};

/// A change of one record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// The record's name.
    pub key: Key,
    /// The record as written, `None` when it was deleted.
    pub record: Option<Record>,
    /// The commit that did it.
    pub revision: Revision,
}

/// Changes under a prefix, in commit order, each once.
pub trait Watch: Send {
    /// The changes of the next commit that touches the prefix.
    ///
    /// # Cancel safety
    /// Dropping the future loses no change.
    ///
    /// # Errors
    /// [`ReadError::Unavailable`] when the store is closed or the changes asked for have been compacted away: list again.
    fn next(&mut self) -> BoxFuture<'_, Result<Vec<Change>, ReadError>>;
}

/// Versioned records. Every answer, a conflict's too, rests on synced revisions alone.
pub trait Store: Send + Sync {
    /// One record.
    ///
    /// # Errors
    /// [`ReadError::Unavailable`] when the answer can't be given on stable ground.
    fn get<'a>(&'a self, key: &'a Key) -> BoxFuture<'a, Result<Option<Record>, ReadError>>;

    /// All records whose key starts with `prefix` (`""` for all), as of one revision.
    ///
    /// # Errors
    /// As [`Store::get`].
    fn list<'a>(&'a self, prefix: &'a str) -> BoxFuture<'a, Result<Listing, ReadError>>;

    /// Applies a transaction whole or not at all; acknowledged means synced. An empty one changes nothing.
    ///
    /// # Cancel safety
    /// Dropping the future leaves the outcome open, as [`CommitError::Uncertain`] does.
    ///
    /// # Errors
    /// [`CommitError`], which says whether anything happened.
    fn commit(&self, txn: Txn) -> BoxFuture<'_, Result<Committed, CommitError>>;

    /// Follows the changes under `prefix` made by commits after `from`.
    fn watch(&self, prefix: &str, from: Revision) -> Box<dyn Watch>;
}

impl<S: Store + ?Sized> Store for Arc<S> {
    fn get<'a>(&'a self, key: &'a Key) -> BoxFuture<'a, Result<Option<Record>, ReadError>> {
        (**self).get(key)
    }
    fn list<'a>(&'a self, prefix: &'a str) -> BoxFuture<'a, Result<Listing, ReadError>> {
        (**self).list(prefix)
    }
    fn commit(&self, txn: Txn) -> BoxFuture<'_, Result<Committed, CommitError>> {
        (**self).commit(txn)
    }
    fn watch(&self, prefix: &str, from: Revision) -> Box<dyn Watch> {
        (**self).watch(prefix, from)
    }
}
