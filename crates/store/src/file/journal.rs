//! One journal file, open: how far it was read, and how far it is known to be on stable storage.

use super::error::FileError;
use super::format::{
    Base, FORMAT, HEADER_BYTES, Header, Kind, NotAHeader, decode_commits, decode_live, encode_commits,
    encode_frame,
};
use super::identity::FileIdentity;
use super::scan::{Position, Scan, Step, was_durable};
use crate::state::{Commit, State};
use std::collections::VecDeque;
use std::fs::{File, Metadata};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tidegate_core::Revision;

/// No epoch, generation or revision is beyond this: a thousand commits a microsecond would take 292 years to get there, and
/// a number that can still be counted on never runs over.
const MAX_COUNT: u64 = u64::MAX >> 1;

/// Bytes at the end of a journal that are no whole record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Tail {
    pub(super) offset: u64,
    pub(super) bytes: u64,
    reason: &'static str,
}

/// An open journal.
#[derive(Debug)]
pub(super) struct Journal {
    path: PathBuf,
    pub(super) file: Arc<File>,
    pub(super) header: Header,
    /// The file it really is.
    identity: FileIdentity,
    /// Device and inode as a path's metadata show them.
    inode: (u64, u64),
    seed: u32,
    position: Position,
    /// The end of the last record that isn't a mere mark.
    content_end: u64,
    /// The highest durable mark that a record carries.
    marked: u64,
    /// Everything before this is on stable storage.
    durable_to: u64,
    durable: Revision,
    /// Commits not known durable: where their record ends, and the last revision in it.
    unsynced: VecDeque<(u64, Revision)>,
}

impl Journal {
    /// Opens a journal and reads its snapshot; what follows is for [`Journal::catch_up`].
    pub(super) fn open(path: &Path, read_only: bool) -> Result<(Self, State), FileError> {
        let file =
            File::options().read(true).write(!read_only).open(path).map_err(FileError::io("open", path))?;
        let identity = FileIdentity::of(&file).map_err(FileError::io("look at", path))?;
        let metadata = file.metadata().map_err(FileError::io("look at", path))?;
        let length = metadata.size();
        let mut head = vec![0; length.min(HEADER_BYTES as u64) as usize];
        file.read_exact_at(&mut head, 0).map_err(FileError::io("read", path))?;
        let (header, seed) = Header::decode(&head).map_err(|found| not_a_journal(path, found))?;
        let start = Position { offset: HEADER_BYTES as u64, chain: seed, records: 0 };
        let (state, position) = read_snapshot(path, &header, Scan::new(&file, seed, start, length))?;
        let journal = Self {
            path: path.to_owned(),
            file: Arc::new(file),
            header,
            identity,
            inode: (metadata.dev(), metadata.ino()),
            seed,
            position,
            content_end: position.offset,
            // A snapshot is synced before it gets the journal's name.
            marked: position.offset,
            durable_to: position.offset,
            durable: state.revision,
            unsynced: VecDeque::new(),
        };
        Ok((journal, state))
    }

    /// Where the next record goes, once everything was read.
    pub(super) fn end(&self) -> u64 {
        self.position.offset
    }

    /// The newest revision known to be on stable storage.
    pub(super) fn durable(&self) -> Revision {
        self.durable
    }

    pub(super) fn has_unsynced(&self) -> bool {
        !self.unsynced.is_empty()
    }

    /// Whether something in it isn't said to be durable by any record.
    pub(super) fn wants_mark(&self) -> bool {
        self.marked < self.content_end
    }

    /// Up to which offset its records say that it is durable.
    pub(super) fn marked(&self) -> u64 {
        self.marked
    }

    /// How many records it has.
    pub(super) fn records(&self) -> u64 {
        self.position.records
    }

    /// Whether a path with this metadata still leads to it.
    pub(super) fn is(&self, metadata: &Metadata) -> bool {
        self.inode == (metadata.dev(), metadata.ino())
    }

    /// How it shows that it isn't the file it was written as, if it isn't.
    pub(super) fn copied(&self) -> Option<String> {
        (self.identity != self.header.identity).then(|| {
            format!(
                "{:?} is a copy or was restored (written as {}; now {}); \
                 stop every process that uses it, then run `tidegate store adopt`",
                self.path, self.header.identity, self.identity
            )
        })
    }

    /// Applies what was appended since, up to `length`. Stops at what is no whole record and says where.
    pub(super) fn catch_up(&mut self, state: &mut State, length: u64) -> Result<Option<Tail>, FileError> {
        if length < self.position.offset {
            return Err(self.damaged(self.position, "it has become shorter; something else wrote to it"));
        }
        let file = self.file.clone();
        let mut scan = Scan::new(&file, self.seed, self.position, length);
        loop {
            let before = scan.position();
            match scan.next().map_err(FileError::io("read", &self.path))? {
                Step::End => return Ok(None),
                Step::Invalid(reason) => {
                    return Ok(Some(Tail { offset: before.offset, bytes: length - before.offset, reason }));
                }
                Step::Unknown => return Err(self.damaged(before, "its kind is unknown to this version")),
                Step::Record(frame, end) => {
                    match frame.kind {
                        Kind::Mark => {}
                        Kind::Commits => {
                            let commits = decode_commits(frame.body)
                                .and_then(|commits| consecutive(state.revision, commits))
                                .map_err(|reason| self.damaged(before, reason))?;
                            for commit in &commits {
                                state.apply(commit);
                            }
                            self.unsynced.push_back((end, state.revision));
                            self.content_end = end;
                        }
                        Kind::Live | Kind::Base => {
                            return Err(self.damaged(before, "a snapshot's record stands among the commits"));
                        }
                    }
                    self.marked = self.marked.max(frame.mark);
                    self.settle(frame.mark);
                    self.position = scan.position();
                }
            }
        }
    }

    /// Refuses a tail that was once on stable storage.
    pub(super) fn judge(&self, tail: Tail) -> Result<(), FileError> {
        let length = tail.offset + tail.bytes;
        let durable = was_durable(&self.file, self.seed, tail.offset, length)
            .map_err(FileError::io("read", &self.path))?;
        if durable { Err(self.damaged(self.position, tail.reason)) } else { Ok(()) }
    }

    /// Everything before `offset` is on stable storage.
    pub(super) fn settle(&mut self, offset: u64) {
        self.durable_to = self.durable_to.max(offset);
        while let Some((_, revision)) = self.unsynced.pop_front_if(|(end, _)| *end <= offset) {
            self.durable = revision;
        }
    }

    /// The bytes of a record of these commits, to be written at [`Journal::end`].
    pub(super) fn commits_record(&self, commits: &[Commit]) -> Vec<u8> {
        self.record(Kind::Commits, &encode_commits(commits))
    }

    /// The bytes of a record that says nothing but what is durable.
    pub(super) fn mark_record(&self) -> Vec<u8> {
        self.record(Kind::Mark, &[])
    }

    fn record(&self, kind: Kind, body: &[u8]) -> Vec<u8> {
        encode_frame(self.seed, self.position.chain, self.durable_to, kind, body).0
    }

    fn damaged(&self, at: Position, reason: &'static str) -> FileError {
        damaged(&self.path, at, reason)
    }
}

fn read_snapshot(path: &Path, header: &Header, mut scan: Scan<'_>) -> Result<(State, Position), FileError> {
    if header.epoch.0.max(header.generation) > MAX_COUNT {
        return Err(damaged(path, scan.position(), "its header counts beyond what is possible"));
    }
    let mut records = Vec::new();
    loop {
        let before = scan.position();
        let bad = |reason| damaged(path, before, reason);
        let frame = match scan.next().map_err(FileError::io("read", path))? {
            Step::Record(frame, _) => frame,
            Step::Invalid(reason) => return Err(bad(reason)),
            Step::Unknown => return Err(bad("its kind is unknown to this version")),
            Step::End => return Err(bad("its snapshot isn't complete")),
        };
        match frame.kind {
            Kind::Live => records.extend(decode_live(frame.body).map_err(bad)?),
            Kind::Base => {
                let base = Base::decode(frame.body).map_err(bad)?;
                if base.records != records.len() as u64 {
                    return Err(bad("its snapshot has lost records"));
                }
                if base.revision.0 > MAX_COUNT {
                    return Err(bad("its revision is impossible"));
                }
                return Ok((State::new(header.epoch, base.revision, records), scan.position()));
            }
            Kind::Commits | Kind::Mark => return Err(bad("its snapshot isn't complete")),
        }
    }
}

fn consecutive(after: Revision, commits: Vec<Commit>) -> Result<Vec<Commit>, &'static str> {
    let gapless = (after.0 + 1..).zip(&commits).all(|(expected, commit)| commit.revision.0 == expected);
    if gapless { Ok(commits) } else { Err("its revisions don't follow") }
}

fn damaged(path: &Path, at: Position, reason: &'static str) -> FileError {
    FileError::Damaged { path: path.to_owned(), offset: at.offset, record: at.records + 1, reason }
}

fn not_a_journal(path: &Path, found: NotAHeader) -> FileError {
    let path = path.to_owned();
    let start = Position { offset: 0, chain: 0, records: 0 };
    match found {
        NotAHeader::Empty => FileError::NotAJournal { path, found: "it is empty" },
        NotAHeader::Zeros => FileError::NotAJournal { path, found: "it is all zeros" },
        NotAHeader::Garbage => FileError::NotAJournal { path, found: "it begins differently" },
        NotAHeader::Newer(format) => FileError::NewerFormat { path, format, known: FORMAT },
        NotAHeader::Damaged(reason) => damaged(&path, start, reason),
    }
}
