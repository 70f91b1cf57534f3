//! What this process knows of the store: the journal as far as it was read, and the records that gives.

use super::error::FileError;
use super::journal::{Journal, Tail};
use super::medium::Medium;
use crate::directory;
use crate::state::State;
use serde::Serialize;
use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use tidegate_core::Revision;

/// Bytes at the end of a journal that a dying writer left: no whole record, and never acknowledged.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct TornTail {
    /// The journal.
    pub path: PathBuf,
    /// Where they begin.
    pub offset: u64,
    /// How many they are.
    pub bytes: u64,
}

impl fmt::Display for TornTail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { path, offset, bytes } = self;
        write!(
            f,
            "{path:?} ends in {bytes} bytes of a torn record at offset {offset}; nothing acknowledged was in them"
        )
    }
}

/// What an answer rests on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Ground {
    pub(super) revision: Revision,
    lineage: u64,
}

impl Ground {
    /// What can't be lost: no answer, or a refusal without a reason in the records.
    pub(super) fn none() -> Self {
        Self { revision: Revision(0), lineage: 0 }
    }
}

/// The journal and the records.
#[derive(Debug)]
pub(super) struct Replica {
    dir: PathBuf,
    path: PathBuf,
    read_only: bool,
    pub(super) journal: Journal,
    pub(super) state: State,
    lineage: u64,
    /// The generation of the journal of which a sync is known to have failed.
    pub(super) sync_failed: u64,
    /// A tail that was cut and not reported yet.
    pub(super) cut: Option<TornTail>,
}

impl Replica {
    /// Reads everything there is. The tail, where there is one, is what nobody may rely on.
    pub(super) fn open(dir: &Path, path: &Path, read_only: bool) -> Result<(Self, Option<Tail>), FileError> {
        let (journal, state) = Journal::open(path, read_only)?;
        let mut replica = Self {
            dir: dir.to_owned(),
            path: path.to_owned(),
            read_only,
            journal,
            state,
            lineage: 0,
            sync_failed: 0,
            cut: None,
        };
        let tail = replica.read_on()?;
        Ok((replica, tail))
    }

    /// Catches up with whatever other processes did. Needs no lock; stops at what isn't whole.
    pub(super) fn refresh(&mut self, medium: &dyn Medium) -> Result<Option<Tail>, FileError> {
        let metadata = match fs::metadata(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(FileError::JournalMissing { path: self.path.clone() });
            }
            found => found.map_err(FileError::io("look at", &self.path))?,
        };
        if self.journal.is(&metadata) {
            return self.journal.catch_up(&mut self.state, metadata.len());
        }
        // The old file is complete: nobody appends to it once it was replaced. If it can't be read to its end the new
        // one doesn't continue where this process stands, and that is noticed below.
        let _ = self.read_on();
        self.reopen(medium)?;
        self.read_on()
    }

    /// Applies what the holder of the lock has just appended, up to `end`, as it finds it; a reader may have been faster.
    pub(super) fn read_back(&mut self, end: u64) -> Result<Option<Tail>, FileError> {
        self.journal.catch_up(&mut self.state, end)
    }

    /// Cuts a torn tail; refuses when it isn't one.
    pub(super) fn cut(&mut self, tail: Tail, medium: &dyn Medium) -> Result<(), FileError> {
        self.journal.judge(tail)?;
        let file = &self.journal.file;
        let cut = medium.truncate(file, tail.offset).and_then(|()| medium.sync(file));
        cut.map_err(FileError::io("cut the torn tail of", &self.path))?;
        self.cut = Some(self.torn(tail));
        Ok(())
    }

    pub(super) fn torn(&self, tail: Tail) -> TornTail {
        TornTail { path: self.path.clone(), offset: tail.offset, bytes: tail.bytes }
    }

    /// Grows whenever what was read before isn't the past of what is there now.
    pub(super) fn lineage(&self) -> u64 {
        self.lineage
    }

    /// What an answer given now rests on.
    pub(super) fn ground(&self) -> Ground {
        Ground { revision: self.state.revision, lineage: self.lineage }
    }

    /// Whether that is on stable storage: an error says that it never will be.
    pub(super) fn holds(&self, ground: Ground) -> Result<bool, &'static str> {
        if ground == Ground::none() {
            Ok(true)
        } else if ground.lineage != self.lineage {
            Err("the store was replaced meanwhile")
        } else if ground.revision <= self.journal.durable() {
            Ok(true)
        } else if self.sync_failed >= self.journal.header.generation {
            Err("a sync failed; run `tidegate store compact`, which writes everything anew")
        } else {
            Ok(false)
        }
    }

    fn read_on(&mut self) -> Result<Option<Tail>, FileError> {
        let metadata = self.journal.file.metadata().map_err(FileError::io("look at", &self.path))?;
        self.journal.catch_up(&mut self.state, metadata.len())
    }

    fn reopen(&mut self, medium: &dyn Medium) -> Result<(), FileError> {
        // Whoever renamed it may have died before the rename was durable.
        medium.sync_directory(&directory::open(&self.dir)?).map_err(FileError::io("sync", &self.dir))?;
        let (journal, base) = Journal::open(&self.path, self.read_only)?;
        let (old, new) = (&self.journal.header, &journal.header);
        // Nothing that was decided here has anything to do with it.
        if old.store != new.store {
            return Err(FileError::OtherStore { path: self.path.clone() });
        }
        let same_past = old.epoch == new.epoch && base.revision >= self.state.revision;
        self.lineage += u64::from(!same_past);
        if !same_past || base.revision > self.state.revision {
            self.state = base;
        }
        self.journal = journal;
        Ok(())
    }
}
