//! What a power cut may leave of what was written: plain data, no file.
//!
//! Synced bytes stay. Of the bytes that were written and not synced any piece may be there or not, in any order; what
//! is missing below the file's length reads as zeros, and the length itself is stored apart from the data. A rename
//! that wasn't followed by a sync of its directory may or may not have happened.

use super::recorder::{Event, FileId, Op};
use std::collections::{BTreeMap, BTreeSet};

/// Into how many pieces one write may fall: enough that a record's frame, its key and its value part company.
const PIECES: usize = 4;

/// Up to so many unsynced pieces all subsets are tried; beyond, those that are told apart by one piece, and a sample.
const ALL_SUBSETS: usize = 7;

/// How many further subsets are tried then.
const SAMPLED_SUBSETS: usize = 48;

/// The disk after one power cut: the journal, if it has one, and a new journal that didn't get its name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Remains {
    pub(crate) journal: Option<(FileId, Vec<u8>)>,
    pub(crate) leftover: Option<(FileId, Vec<u8>)>,
    pub(crate) lock: Vec<u8>,
}

/// Remains, and what had been acknowledged by then.
#[derive(Debug, Clone)]
pub(crate) struct Cut {
    pub(crate) remains: Remains,
    pub(crate) acknowledged: u64,
    /// Behind which event of the log the power failed.
    pub(crate) after: usize,
}

#[derive(Debug, Clone, Default)]
struct Medium {
    files: BTreeMap<FileId, Content>,
    /// The journal's name as it is stored, and as it may be stored.
    name: Option<FileId>,
    renamed: Vec<FileId>,
    acknowledged: u64,
}

#[derive(Debug, Clone, Default)]
struct Content {
    stored: Vec<u8>,
    pending: Vec<Pending>,
    /// For each sync under way, how much of `pending` was there when it began.
    syncs: BTreeMap<usize, usize>,
}

#[derive(Debug, Clone)]
struct Pending {
    change: Change,
    /// A sync of it failed: no later one brings it back.
    doomed: bool,
}

#[derive(Debug, Clone)]
enum Change {
    Piece { at: u64, bytes: Vec<u8> },
    Length(u64),
}

/// Every power cut that can follow one of these events, each kind of remains once for what was acknowledged by then.
pub(crate) fn cuts(start: Option<(FileId, Vec<u8>)>, log: &[Event]) -> Vec<Cut> {
    let mut medium = Medium::default();
    if let Some((file, stored)) = start {
        medium.name = Some(file);
        medium.files.insert(file, Content { stored, ..Content::default() });
    }
    let mut seen = BTreeSet::new();
    let mut cuts = Vec::new();
    for (after, event) in log.iter().enumerate() {
        medium.apply(&event.op);
        for remains in medium.remains(&event.lock) {
            if seen.insert((remains.clone(), medium.acknowledged)) {
                cuts.push(Cut { remains, acknowledged: medium.acknowledged, after });
            }
        }
    }
    cuts
}

impl Medium {
    fn apply(&mut self, op: &Op) {
        match op {
            Op::Write { file, at, bytes } => {
                let content = self.files.entry(*file).or_default();
                let size = bytes.len().div_ceil(PIECES).max(1);
                for (piece, bytes) in bytes.chunks(size).enumerate() {
                    let at = at + (piece * size) as u64;
                    content.pend(Change::Piece { at, bytes: bytes.to_vec() });
                }
            }
            Op::Truncate { file, length } => {
                self.files.entry(*file).or_default().pend(Change::Length(*length))
            }
            Op::SyncBegins { file, sync } => {
                let content = self.files.entry(*file).or_default();
                content.syncs.insert(*sync, content.pending.len());
            }
            Op::SyncEnds { file, sync } => self.files.entry(*file).or_default().synced(*sync),
            Op::SyncFails { file, sync } => {
                let content = self.files.entry(*file).or_default();
                let upto = content.syncs.remove(sync).unwrap_or_default();
                content.pending[..upto].iter_mut().for_each(|pending| pending.doomed = true);
            }
            Op::Rename { file } => self.renamed.push(*file),
            Op::DirectorySynced => self.name = self.renamed.drain(..).next_back().or(self.name),
            Op::Acknowledged(revision) => self.acknowledged = self.acknowledged.max(*revision),
        }
    }

    fn remains(&self, lock: &[u8]) -> Vec<Remains> {
        let newest =
            self.files.keys().filter(|file| Some(**file) != self.name && !self.renamed.contains(file));
        let unnamed: Vec<FileId> = newest.chain(&self.renamed).copied().collect();
        let mut all = Vec::new();
        for name in std::iter::once(self.name).chain(self.renamed.iter().copied().map(Some)) {
            // A new journal that isn't in its place lies beside it, whole or not.
            let leftover = unnamed.last().copied().filter(|file| Some(*file) != name);
            let leftover = leftover.map(|file| (file, self.files[&file].stored.clone()));
            let journals: Vec<Option<(FileId, Vec<u8>)>> = match name {
                None => vec![None],
                Some(file) => {
                    self.files[&file].may_be().into_iter().map(|bytes| Some((file, bytes))).collect()
                }
            };
            // The lock file is written without a sync, and a power cut may leave it as it was made.
            let forgotten = journals.last().cloned().map(|journal| (journal, &[][..]));
            for (journal, lock) in journals.into_iter().map(|journal| (journal, lock)).chain(forgotten) {
                all.push(Remains { journal, leftover: leftover.clone(), lock: lock.to_vec() });
            }
        }
        all
    }
}

impl Content {
    fn pend(&mut self, change: Change) {
        self.pending.push(Pending { change, doomed: false });
    }

    fn synced(&mut self, sync: usize) {
        let upto = self.syncs.remove(&sync).unwrap_or_default();
        let later = self.pending.split_off(upto);
        let (doomed, now): (Vec<_>, Vec<_>) = self.pending.drain(..).partition(|pending| pending.doomed);
        // What is left in front of the others syncs under way moves them forward.
        for begun in self.syncs.values_mut() {
            *begun = begun.saturating_sub(now.len()).max(doomed.len().min(*begun));
        }
        for pending in now {
            apply(&mut self.stored, &pending.change);
        }
        self.pending = doomed.into_iter().chain(later).collect();
    }

    /// Everything this file may hold after a power cut.
    fn may_be(&self) -> BTreeSet<Vec<u8>> {
        let mut lengths = BTreeSet::from([self.stored.len() as u64]);
        let mut length = self.stored.len() as u64;
        for pending in &self.pending {
            length = match &pending.change {
                Change::Piece { at, bytes } => length.max(at + bytes.len() as u64),
                Change::Length(length) => *length,
            };
            lengths.insert(length);
        }
        let mut all = BTreeSet::new();
        for subset in subsets(self.pending.len()) {
            let mut bytes = self.stored.clone();
            for (pending, there) in self.pending.iter().zip(subset) {
                if there {
                    apply(&mut bytes, &pending.change);
                }
            }
            for length in &lengths {
                let mut bytes = bytes.clone();
                bytes.resize(*length as usize, 0);
                all.insert(bytes);
            }
        }
        all
    }
}

fn apply(bytes: &mut Vec<u8>, change: &Change) {
    match change {
        Change::Length(length) => bytes.resize(*length as usize, 0),
        Change::Piece { at, bytes: piece } => {
            let at = *at as usize;
            bytes.resize(bytes.len().max(at + piece.len()), 0);
            bytes[at..at + piece.len()].copy_from_slice(piece);
        }
    }
}

/// All subsets of `count` pieces where that is feasible; else none, all, every beginning, every single one missing or
/// alone, and some that nobody chose.
fn subsets(count: usize) -> Vec<Vec<bool>> {
    if count <= ALL_SUBSETS {
        return (0..1_usize << count).map(|bits| (0..count).map(|i| bits >> i & 1 == 1).collect()).collect();
    }
    let mut subsets: Vec<Vec<bool>> = (0..=count).map(|end| (0..count).map(|i| i < end).collect()).collect();
    for one in 0..count {
        subsets.push((0..count).map(|i| i != one).collect());
        subsets.push((0..count).map(|i| i == one).collect());
    }
    // A xorshift generator: any fixed stream will do.
    let mut random = 0x9E37_79B9_7F4A_7C15_u64;
    for _ in 0..SAMPLED_SUBSETS {
        subsets.push(
            (0..count)
                .map(|_| {
                    random ^= random << 13;
                    random ^= random >> 7;
                    random ^= random << 17;
                    random & 1 == 1
                })
                .collect(),
        );
    }
    subsets
}
