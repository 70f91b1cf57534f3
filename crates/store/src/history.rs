//! The newest commits, kept so that watchers can follow. Bounded; what falls out of it must be listed again.

use crate::{Change, ReadError};
use std::collections::VecDeque;
use tidegate_core::Revision;

/// How many commits are kept. A watcher that is further behind lists again, which is then cheaper anyway.
pub(crate) const MAX_HISTORY_COMMITS: usize = 4096;

/// How many bytes of keys and values are kept, so that big values can't turn the count into gigabytes.
pub(crate) const MAX_HISTORY_BYTES: usize = 16 << 20;

#[derive(Debug, Clone)]
struct Entry {
    revision: Revision,
    changes: Vec<Change>,
    bytes: usize,
}

/// The changes of the commits after `floor`.
#[derive(Debug, Clone, Default)]
pub(crate) struct History {
    floor: Revision,
    entries: VecDeque<Entry>,
    bytes: usize,
}

impl History {
    /// Nothing, beginning after `floor`.
    pub(crate) fn after(floor: Revision) -> Self {
        Self { floor, ..Self::default() }
    }

    pub(crate) fn push(&mut self, revision: Revision, changes: Vec<Change>) {
        let bytes = changes.iter().map(bytes_of).sum();
        self.bytes += bytes;
        self.entries.push_back(Entry { revision, changes, bytes });
        while self.entries.len() > MAX_HISTORY_COMMITS || self.bytes > MAX_HISTORY_BYTES {
            let Some(oldest) = self.entries.pop_front() else { break };
            self.bytes -= oldest.bytes;
            self.floor = oldest.revision;
        }
    }

    /// The changes under `prefix` of the first commit in (`cursor`, `upto`] that has any. Moves the cursor past what
    /// was looked at, so that nothing is looked at twice.
    pub(crate) fn next(
        &self,
        cursor: &mut Revision,
        prefix: &str,
        upto: Revision,
    ) -> Result<Option<Vec<Change>>, ReadError> {
        if *cursor < self.floor {
            return Err(ReadError::Unavailable {
                reason: format!(
                    "the changes after revision {cursor} are gone, the oldest kept is {}; list again",
                    self.floor.0 + 1
                ),
            });
        }
        let start = self.entries.partition_point(|entry| entry.revision <= *cursor);
        for entry in self.entries.range(start..).take_while(|entry| entry.revision <= upto) {
            *cursor = entry.revision;
            let changes: Vec<Change> =
                entry.changes.iter().filter(|c| c.key.as_str().starts_with(prefix)).cloned().collect();
            if !changes.is_empty() {
                return Ok(Some(changes));
            }
        }
        Ok(None)
    }
}

fn bytes_of(change: &Change) -> usize {
    change.key.as_str().len() + change.record.as_ref().map_or(0, |record| record.value.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Key;

    fn history(commits: u64) -> History {
        let mut history = History::default();
        for revision in 1..=commits {
            let key = Key::new(if revision % 2 == 0 { "even" } else { "odd" }).unwrap();
            history
                .push(Revision(revision), vec![Change { key, record: None, revision: Revision(revision) }]);
        }
        history
    }

    fn follow(history: &History, from: u64, prefix: &str, upto: u64) -> Result<Vec<u64>, ReadError> {
        let mut cursor = Revision(from);
        let mut seen = Vec::new();
        while let Some(changes) = history.next(&mut cursor, prefix, Revision(upto))? {
            seen.extend(changes.iter().map(|c| c.revision.0));
        }
        Ok(seen)
    }

    #[test]
    fn each_change_under_the_prefix_is_seen_once_and_in_order() {
        for (from, prefix, upto, expected) in [
            (0, "", 6, vec![1, 2, 3, 4, 5, 6]),
            (0, "even", 6, vec![2, 4, 6]),
            (3, "odd", 6, vec![5]),
            (0, "", 3, vec![1, 2, 3]),
            (6, "", 6, vec![]),
            (9, "", 9, vec![]),
        ] {
            assert_eq!(follow(&history(6), from, prefix, upto).unwrap(), expected, "{from} {prefix} {upto}");
        }
    }

    #[test]
    fn a_watcher_that_fell_behind_is_told_to_list_again() {
        let long = history(MAX_HISTORY_COMMITS as u64 + 10);
        let error = follow(&long, 9, "", u64::MAX).unwrap_err().to_string();
        assert!(error.contains("after revision 9 are gone, the oldest kept is 11; list again"), "{error}");
        assert_eq!(follow(&long, 10, "", u64::MAX).unwrap().len(), MAX_HISTORY_COMMITS);
    }
}
