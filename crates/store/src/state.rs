//! The records in memory: what both engines check conditions against and answer from. Knows no file, no fault and no
//! waiting.

use crate::history::History;
use crate::{Change, Condition, Key, Listing, ReadError, Record, Txn};
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;
use tidegate_core::{Epoch, Fence, Revision};

/// The writes of one transaction, with the revision it got.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Commit {
    pub(crate) revision: Revision,
    pub(crate) writes: BTreeMap<Key, Option<Arc<[u8]>>>,
}

/// All records as of one revision.
#[derive(Debug, Clone, Default)]
pub(crate) struct State {
    pub(crate) epoch: Epoch,
    pub(crate) revision: Revision,
    records: BTreeMap<Key, Record>,
    bytes: usize,
    history: History,
}

impl State {
    /// The state that a snapshot describes. Its history begins here.
    pub(crate) fn new(epoch: Epoch, revision: Revision, records: Vec<Record>) -> Self {
        let bytes = records.iter().map(|r| r.key.as_str().len() + r.value.len()).sum();
        let records = records.into_iter().map(|r| (r.key.clone(), r)).collect();
        Self { epoch, revision, records, bytes, history: History::after(revision) }
    }

    pub(crate) fn get(&self, key: &Key) -> Option<Record> {
        self.records.get(key).cloned()
    }

    pub(crate) fn list(&self, prefix: &str) -> Listing {
        let from = (Bound::Included(prefix), Bound::Unbounded);
        let records = self
            .records
            .range::<str, _>(from)
            .map(|(_, record)| record)
            .take_while(|record| record.key.as_str().starts_with(prefix))
            .cloned()
            .collect();
        Listing { epoch: self.epoch, revision: self.revision, records }
    }

    /// Every record, by key.
    pub(crate) fn records(&self) -> impl ExactSizeIterator<Item = &Record> {
        self.records.values()
    }

    /// Bytes of live keys and values.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Starts collecting transactions that follow this state.
    pub(crate) fn batch(&self) -> Batch<'_> {
        Batch { state: self, touched: BTreeMap::new(), commits: Vec::new() }
    }

    pub(crate) fn apply(&mut self, commit: &Commit) {
        assert_eq!(commit.revision.0, self.revision.0 + 1, "revisions have no gaps");
        self.revision = commit.revision;
        let fence = Fence::new(self.epoch, commit.revision);
        let mut changes = Vec::with_capacity(commit.writes.len());
        for (key, value) in &commit.writes {
            let record = value.as_ref().map(|v| Record { key: key.clone(), value: v.clone(), fence });
            let before = match &record {
                Some(record) => self.records.insert(key.clone(), record.clone()),
                None => self.records.remove(key),
            };
            let size = |r: &Record| key.as_str().len() + r.value.len();
            self.bytes = self.bytes + record.as_ref().map_or(0, size) - before.as_ref().map_or(0, size);
            changes.push(Change { key: key.clone(), record, revision: commit.revision });
        }
        self.history.push(commit.revision, changes);
    }

    /// See [`History::next`].
    pub(crate) fn changes(
        &self,
        cursor: &mut Revision,
        prefix: &str,
        upto: Revision,
    ) -> Result<Option<Vec<Change>>, ReadError> {
        self.history.next(cursor, prefix, upto)
    }
}

/// Transactions that are to be applied together, each checked against the state and those before it.
#[derive(Debug)]
pub(crate) struct Batch<'a> {
    state: &'a State,
    touched: BTreeMap<Key, Condition>,
    commits: Vec<Commit>,
}

impl Batch<'_> {
    /// Adds a transaction, or says which key isn't as expected. An empty one is checked and not added.
    pub(crate) fn admit(&mut self, txn: Txn) -> Result<Fence, Key> {
        if let Some((key, _)) = txn.expect.iter().find(|(key, condition)| self.current(key) != **condition) {
            return Err(key.clone());
        }
        let mut revision = Revision(self.state.revision.0 + self.commits.len() as u64);
        if !txn.is_empty() {
            revision.0 += 1;
            for (key, value) in &txn.writes {
                let after = value.as_ref().map_or(Condition::Absent, |_| Condition::At(revision));
                self.touched.insert(key.clone(), after);
            }
            self.commits.push(Commit { revision, writes: txn.writes });
        }
        Ok(Fence::new(self.state.epoch, revision))
    }

    pub(crate) fn into_commits(self) -> Vec<Commit> {
        self.commits
    }

    fn current(&self, key: &Key) -> Condition {
        self.touched.get(key).copied().unwrap_or_else(|| {
            self.state.records.get(key).map_or(Condition::Absent, |r| Condition::At(r.fence.revision))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(name: &str) -> Key {
        Key::new(name).unwrap()
    }

    fn expecting(name: &str, condition: Condition) -> Txn {
        let mut txn = Txn::new().put_bytes(&key(name), b"x");
        txn.expect.insert(key(name), condition);
        txn
    }

    #[test]
    fn a_transaction_sees_those_before_it_in_the_batch() {
        let state = State::default();
        let mut batch = state.batch();
        assert_eq!(batch.admit(expecting("a", Condition::Absent)).unwrap().revision, Revision(1));
        assert_eq!(batch.admit(expecting("a", Condition::Absent)), Err(key("a")));
        assert_eq!(batch.admit(expecting("a", Condition::At(Revision(1)))).unwrap().revision, Revision(2));
        assert_eq!(batch.admit(Txn::new()).unwrap().revision, Revision(2), "an empty one changes nothing");
        assert_eq!(batch.into_commits().len(), 2);
    }

    #[test]
    fn live_bytes_follow_puts_overwrites_and_deletes() {
        let mut state = State::default();
        for (revision, value, bytes) in [(1, Some(&b"12345"[..]), 6), (2, Some(b"1"), 2), (3, None, 0)] {
            let writes = BTreeMap::from([(key("k"), value.map(Arc::from))]);
            state.apply(&Commit { revision: Revision(revision), writes });
            assert_eq!(state.bytes(), bytes, "after revision {revision}");
        }
        assert_eq!(state.records().len(), 0);
    }
}
