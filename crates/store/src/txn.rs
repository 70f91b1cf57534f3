//! A transaction: conditions, puts and deletes, applied whole or not at all.

use crate::{CommitError, Key, View};
use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::Arc;
use tidegate_core::Revision;

/// The largest value, in bytes. A record is a fact, not a file; a bigger one stalls every other writer.
pub const MAX_VALUE_BYTES: usize = 1 << 20;

/// The largest transaction, keys and values together, in bytes. One append and one sync have to carry it.
pub const MAX_TXN_BYTES: usize = 4 << 20;

/// What must be true of a key for the transaction to be applied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Condition {
    /// There is no such record.
    Absent,
    /// The record was last written by this revision.
    At(Revision),
}

/// Conditions, puts and deletes. At most one operation per key: the last one said wins.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Txn {
    /// What must still be true.
    pub expect: BTreeMap<Key, Condition>,
    /// What to write (`Some`) or delete (`None`).
    pub writes: BTreeMap<Key, Option<Arc<[u8]>>>,
}

impl Txn {
    /// An empty transaction.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Requires that `key` is as `view` shows it.
    #[must_use]
    pub fn expect(mut self, view: &View, key: &Key) -> Self {
        self.expect.insert(key.clone(), view.condition(key));
        self
    }

    /// Writes `value` as JSON, provided the record is still as `view` shows it.
    #[must_use]
    pub fn put<T: Serialize>(self, view: &View, key: &Key, value: &T) -> Self {
        // Only maps with keys that aren't strings fail here; no record of ours has one.
        #[allow(clippy::expect_used)]
        let bytes = serde_json::to_vec(value).expect("a record is always JSON");
        let mut txn = self.expect(view, key);
        txn.writes.insert(key.clone(), Some(bytes.into()));
        txn
    }

    /// Deletes a record, provided it is still as `view` shows it.
    #[must_use]
    pub fn delete(self, view: &View, key: &Key) -> Self {
        let mut txn = self.expect(view, key);
        txn.writes.insert(key.clone(), None);
        txn
    }

    /// Writes raw bytes without a condition. For engines' own tests and tools.
    #[must_use]
    pub fn put_bytes(mut self, key: &Key, value: &[u8]) -> Self {
        self.writes.insert(key.clone(), Some(value.into()));
        self
    }

    /// Both transactions as one. Made from one view, their conditions agree.
    #[must_use]
    pub fn and(mut self, other: Self) -> Self {
        self.expect.extend(other.expect);
        self.writes.extend(other.writes);
        self
    }

    /// Whether it would change nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.writes.is_empty()
    }

    /// Bytes of keys and values it would write.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.writes.iter().map(|(k, v)| k.as_str().len() + v.as_ref().map_or(0, |v| v.len())).sum()
    }

    /// Refuses what is larger than any engine takes.
    pub(crate) fn within_limits(&self) -> Result<(), CommitError> {
        let oversized = |(key, value): (&Key, &Option<Arc<[u8]>>)| {
            let bytes = value.as_ref().map_or(0, |v| v.len());
            (bytes > MAX_VALUE_BYTES)
                .then(|| format!("{key} would have {bytes} bytes, a value has at most {MAX_VALUE_BYTES}"))
        };
        let total = self.bytes();
        let reason = self.writes.iter().find_map(oversized).or_else(|| {
            (total > MAX_TXN_BYTES)
                .then(|| format!("the transaction has {total} bytes, one has at most {MAX_TXN_BYTES}"))
        });
        reason.map_or(Ok(()), |reason| Err(CommitError::Rejected { reason }))
    }
}
