//! Writing the live records into a new journal beside the old one, and putting it in its place.
//!
//! The old journal stays as it is until the new one is on stable storage. Never called without the lock.

use super::error::FileError;
use super::format::{Base, Header, Kind, encode_frame, encode_live};
use super::identity::FileIdentity;
use super::medium::Medium;
use crate::Record;
use crate::directory;
use crate::lock::Held;
use std::fs;
use std::path::Path;
use tempfile::NamedTempFile;
use tidegate_core::{Epoch, Revision};

/// What temporary journals are called, so that those of a dead process can be told and removed.
const PREFIX: &str = ".journal-";

/// When a snapshot's record is full: large enough that frames cost nothing, small enough to check one at a time.
const LIVE_BODY_BYTES: usize = 256 << 10;

/// What the new journal is to say.
#[derive(Debug)]
pub(super) struct Contents {
    /// `None` makes a new store.
    pub(super) store: Option<u128>,
    pub(super) epoch: Epoch,
    pub(super) generation: u64,
    pub(super) revision: Revision,
    pub(super) records: Vec<Record>,
}

impl Contents {
    /// Nothing, at the beginning of everything.
    pub(super) fn of_a_new_store() -> Self {
        Self { store: None, epoch: Epoch(1), generation: 1, revision: Revision(0), records: Vec::new() }
    }
}

/// Writes and installs a journal with these contents; `held` shows that nobody else appends meanwhile.
pub(super) fn rewrite(
    dir: &Path,
    journal: &Path,
    medium: &dyn Medium,
    held: &Held<'_>,
    contents: &Contents,
) -> Result<(), FileError> {
    let temporary = tempfile::Builder::new()
        .prefix(PREFIX)
        .tempfile_in(dir)
        .map_err(FileError::io("create a new journal in", dir))?;
    fill(&temporary, medium, contents).map_err(FileError::io("write", temporary.path()))?;
    let opened = directory::open(dir)?;
    let path = temporary.into_temp_path();
    medium.rename(&path, journal).map_err(FileError::io("put a new journal in the place of", journal))?;
    if let Err(source) = medium.sync_directory(&opened) {
        // Nobody knows which of the two a power cut would leave: nothing may be acknowledged in the new one.
        held.set_failed(contents.generation)?;
        return Err(FileError::io("sync", dir)(source));
    }
    Ok(held.journal_is_new()?)
}

/// Removes what a process left that died while it was rewriting.
pub(super) fn remove_leftovers(dir: &Path) -> Result<(), FileError> {
    let listed = fs::read_dir(dir).map_err(FileError::io("list", dir))?;
    for entry in listed {
        let entry = entry.map_err(FileError::io("list", dir))?;
        if entry.file_name().to_string_lossy().starts_with(PREFIX) {
            fs::remove_file(entry.path()).map_err(FileError::io("remove", &entry.path()))?;
        }
    }
    Ok(())
}

fn fill(temporary: &NamedTempFile, medium: &dyn Medium, contents: &Contents) -> std::io::Result<()> {
    let file = temporary.as_file();
    let identity = FileIdentity::of(file)?;
    let header = Header {
        store: contents.store.unwrap_or_else(|| store_id(&identity)),
        epoch: contents.epoch,
        generation: contents.generation,
        identity,
    };
    let (head, seed) = header.encode();
    medium.write(file, &head, 0)?;
    let (mut at, mut chain) = (head.len() as u64, seed);
    let mut append = |kind, body: &[u8]| {
        let (record, crc) = encode_frame(seed, chain, 0, kind, body);
        medium.write(file, &record, at)?;
        (at, chain) = (at + record.len() as u64, crc);
        Ok::<(), std::io::Error>(())
    };
    let mut body = Vec::new();
    for record in &contents.records {
        encode_live(&mut body, record);
        if body.len() >= LIVE_BODY_BYTES {
            append(Kind::Live, &body)?;
            body.clear();
        }
    }
    if !body.is_empty() {
        append(Kind::Live, &body)?;
    }
    let base = Base { revision: contents.revision, records: contents.records.len() as u64 };
    append(Kind::Base, &base.encode())?;
    medium.sync(file)
}

/// A new store's id: when, to the nanosecond, and as which file its first journal was made.
fn store_id(identity: &FileIdentity) -> u128 {
    u128::from(identity.born.cast_unsigned()) << 64
        | u128::from(identity.inode ^ identity.device.rotate_left(32))
}
