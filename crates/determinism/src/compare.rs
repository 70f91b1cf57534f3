//! Comparing two runs stream by stream: rolling hashes, and a bisection for the first event that differs.
//!
//! Pure. Must never be handed records that were not normalised by counted rules, and is shown to be able to fail in
//! every check (`selftest`).

use std::collections::BTreeMap;

use sha2::{Digest, Sha256};

use crate::stream::Streams;

type Hash = [u8; 32];

/// One stream with the hash of every prefix of it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Stream {
    pub(crate) events: Vec<Vec<u8>>,
    prefixes: Vec<Hash>,
}

impl Stream {
    fn new(events: Vec<Vec<u8>>) -> Self {
        let mut rolling = Hash::default();
        let prefixes = events
            .iter()
            .map(|event| {
                rolling = Sha256::new()
                    .chain_update(rolling)
                    .chain_update((event.len() as u64).to_le_bytes())
                    .chain_update(event)
                    .finalize()
                    .into();
                rolling
            })
            .collect();
        Self { events, prefixes }
    }

    /// The index of the first event that differs; the length of the shorter one when it is a prefix of the other.
    fn first_difference(&self, other: &Self) -> Option<usize> {
        let common = self.prefixes.len().min(other.prefixes.len());
        let (mut equal, mut differs) = (0, common);
        while equal < differs {
            let middle = equal + (differs - equal) / 2;
            if self.prefixes[middle] == other.prefixes[middle] {
                equal = middle + 1
            } else {
                differs = middle
            }
        }
        (equal < self.events.len().max(other.events.len())).then_some(equal)
    }
}

/// One run, ready to be compared.
#[derive(Debug, Clone)]
pub(crate) struct Trace {
    pub(crate) pid: u32,
    streams: BTreeMap<String, Stream>,
}

/// Where two runs part.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Difference {
    pub(crate) stream: String,
    pub(crate) index: usize,
}

impl Trace {
    pub(crate) fn new(pid: u32, streams: Streams) -> Self {
        Self { pid, streams: streams.into_iter().map(|(name, events)| (name, Stream::new(events))).collect() }
    }

    /// The events of a stream; none where the run has no such stream.
    pub(crate) fn events(&self, stream: &str) -> &[Vec<u8>] {
        self.streams.get(stream).map_or(&[], |stream| &stream.events)
    }

    /// Events in all streams.
    pub(crate) fn records(&self) -> usize {
        self.streams.values().map(|stream| stream.events.len()).sum()
    }

    /// A hash over all streams: equal outcomes have equal ones.
    pub(crate) fn fingerprint(&self) -> Hash {
        let mut hash = Sha256::new();
        for (name, stream) in &self.streams {
            hash.update((name.len() as u64).to_le_bytes());
            hash.update(name);
            hash.update(stream.prefixes.last().copied().unwrap_or_default());
        }
        hash.finalize().into()
    }

    /// The first difference of every stream that differs, in the order of their names.
    pub(crate) fn differences(&self, other: &Self) -> Vec<Difference> {
        let empty = Stream::default();
        let mut names: Vec<&String> = self.streams.keys().chain(other.streams.keys()).collect();
        names.sort();
        names.dedup();
        names
            .into_iter()
            .filter_map(|name| {
                let mine = self.streams.get(name).unwrap_or(&empty);
                let theirs = other.streams.get(name).unwrap_or(&empty);
                Some(Difference { stream: name.clone(), index: mine.first_difference(theirs)? })
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trace(events: &[&str]) -> Trace {
        let events = events.iter().map(|event| event.as_bytes().to_vec()).collect();
        Trace::new(1, Streams::from([("stdout".to_owned(), events)]))
    }

    fn check(left: &[&str], right: &[&str], expected: Option<usize>) {
        let (left, right) = (trace(left), trace(right));
        for (a, b) in [(&left, &right), (&right, &left)] {
            assert_eq!(a.differences(b).first().map(|difference| difference.index), expected);
        }
        assert_eq!(left.fingerprint() == right.fingerprint(), expected.is_none());
    }

    #[test]
    fn the_first_event_that_differs_is_found_wherever_it_is() {
        check(&[], &[], None);
        check(&["a"], &["a"], None);
        check(&["a"], &["b"], Some(0));
        check(&["a", "b", "c"], &["a", "b", "d"], Some(2));
        check(&["a", "b", "c"], &["a", "x", "c"], Some(1));
        check(&["a", "b"], &["a", "b", "c"], Some(2));
        check(&["a", "b", "c"], &["b", "a", "c"], Some(0));
        check(&["a", "b", "c"], &["a", "c"], Some(1));
        check(&["ab", "c"], &["a", "bc"], Some(0));
        check(&[], &["a"], Some(0));
    }

    #[test]
    fn every_index_of_a_long_stream_is_found() {
        let events: Vec<String> = (0..37).map(|number| number.to_string()).collect();
        let left: Vec<&str> = events.iter().map(String::as_str).collect();
        for index in 0..left.len() {
            let mut right = left.clone();
            right[index] = "changed";
            check(&left, &right, Some(index));
        }
    }

    #[test]
    fn a_stream_that_only_one_run_has_differs_at_its_first_event() {
        let with = Trace::new(
            1,
            Streams::from([("stdout".to_owned(), vec![]), ("stderr".to_owned(), vec![b"warning".to_vec()])]),
        );
        let without = Trace::new(1, Streams::from([("stdout".to_owned(), vec![])]));
        let expected = vec![Difference { stream: "stderr".to_owned(), index: 0 }];
        assert_eq!(with.differences(&without), expected);
        assert_eq!(without.differences(&with), expected);
    }
}
