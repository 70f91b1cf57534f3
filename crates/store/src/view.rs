//! What a decision sees of the store: the records in its scope, as they were at one moment.

use crate::{Condition, Key, ReadError, Record};
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;
use std::ops::Bound;
use tidegate_core::{Epoch, Revision};

/// Records by key, with the epoch and the revision they were read at.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct View {
    /// The store's epoch.
    pub epoch: Epoch,
    /// The newest revision that was read.
    pub revision: Revision,
    records: BTreeMap<Key, Record>,
}

impl View {
    /// A view of these records.
    #[must_use]
    pub fn new(epoch: Epoch, revision: Revision, records: impl IntoIterator<Item = Record>) -> Self {
        Self { epoch, revision, records: records.into_iter().map(|r| (r.key.clone(), r)).collect() }
    }

    /// The record, where there is one.
    #[must_use]
    pub fn record(&self, key: &Key) -> Option<&Record> {
        self.records.get(key)
    }

    /// The record's JSON, where there is one.
    ///
    /// # Errors
    /// [`ReadError::Malformed`] when it is not a `T`.
    pub fn read<T: DeserializeOwned>(&self, key: &Key) -> Result<Option<T>, ReadError> {
        self.record(key).map(parse).transpose()
    }

    /// Records under a prefix, by key.
    pub fn under<'a>(&'a self, prefix: &'a str) -> impl Iterator<Item = &'a Record> {
        self.records
            .range::<str, _>((Bound::Included(prefix), Bound::Unbounded))
            .map(|(_, r)| r)
            .take_while(move |r| r.key.as_str().starts_with(prefix))
    }

    /// The JSON of all records under a prefix, by key.
    ///
    /// # Errors
    /// [`ReadError::Malformed`] naming the first that is not a `T`.
    pub fn read_under<T: DeserializeOwned>(&self, prefix: &str) -> Result<Vec<(Record, T)>, ReadError> {
        self.under(prefix).map(|r| Ok((r.clone(), parse(r)?))).collect()
    }

    /// The condition that holds as long as `key` is as it is here.
    #[must_use]
    pub fn condition(&self, key: &Key) -> Condition {
        self.record(key).map_or(Condition::Absent, |r| Condition::At(r.fence.revision))
    }
}

fn parse<T: DeserializeOwned>(record: &Record) -> Result<T, ReadError> {
    let malformed = |message: String| ReadError::Malformed { key: record.key.clone(), message };
    // Checked as a whole, and not string by string.
    let text = std::str::from_utf8(&record.value).map_err(|error| malformed(error.to_string()))?;
    serde_json::from_str(text).map_err(|error| malformed(error.to_string()))
}
