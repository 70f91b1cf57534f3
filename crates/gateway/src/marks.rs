//! Which requests of a stream the daemon has begun to write to the server: a file in memory that both ends have open.
//!
//! The daemon puts a mark there before it begins to write a request. From then on the kernel has it, whatever becomes of the
//! daemon, and nobody was woken for it: the shim reads the marks when a connection is over, and only then. Marks say which
//! line of the connection they are of, so an old one is never taken for one of a request that has the same id again.

use crate::keeper::KeptCall;
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::io::{pread, pwrite};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use tidegate_core::WorkClass;

/// Bytes of one mark: its JSON, filled up with blanks. The names of servers in it are the gateway's own, and short.
const SLOT_BYTES: usize = 256;
/// The most marks of one stream: twice what a shim has outstanding at most, because those of answered requests go late.
const MAX_SLOTS: usize = 2_048;
/// How many slots are looked at for one that is free before another is taken: marking takes the same time with one request
/// outstanding as with a thousand.
const LOOKED_AT: usize = 8;

/// One mark.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LineMark {
    /// Which line of the connection the request was, counted from 1.
    pub(crate) line: u64,
    /// Its work class, as the daemon had decided.
    pub(crate) class: WorkClass,
    /// As the server knows it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) call: Option<KeptCall>,
}

/// The daemon's end: puts marks.
#[derive(Debug)]
pub(crate) struct Marks {
    file: OwnedFd,
    /// By slot, the number with which the relay knows the request that is marked there.
    slots: Vec<u64>,
    next: usize,
}

impl Marks {
    /// A file without a mark.
    ///
    /// # Errors
    /// The system's, when there are no more files or no memory to be had.
    pub(crate) fn new() -> io::Result<Self> {
        let file = memfd_create("tidegate-marks", MemfdFlags::CLOEXEC)?;
        Ok(Self { file, slots: Vec::new(), next: 0 })
    }

    /// The file, to be handed to the shim.
    pub(crate) fn file(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    /// Puts a mark; it may take the place of one that isn't `wanted` any more.
    ///
    /// # Errors
    /// The mark isn't there, and the request must not be written.
    pub(crate) fn put(
        &mut self,
        mark: &LineMark,
        number: u64,
        wanted: impl Fn(u64) -> bool,
    ) -> io::Result<()> {
        let mut bytes = serde_json::to_vec(mark)?;
        if bytes.len() > SLOT_BYTES {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        bytes.resize(SLOT_BYTES, b' ');
        let slot = self.free_slot(wanted).ok_or(io::ErrorKind::StorageFull)?;
        match pwrite(&self.file, &bytes, offset(slot))? {
            SLOT_BYTES => self.slots[slot] = number,
            _ => return Err(io::ErrorKind::WriteZero.into()),
        }
        Ok(())
    }

    fn free_slot(&mut self, wanted: impl Fn(u64) -> bool) -> Option<usize> {
        let full = self.slots.len() >= MAX_SLOTS;
        let looked_at = if full { MAX_SLOTS } else { LOOKED_AT.min(self.slots.len()) };
        for _ in 0..looked_at {
            let slot = self.next;
            self.next = (self.next + 1) % self.slots.len();
            if !wanted(self.slots[slot]) {
                return Some(slot);
            }
        }
        if full {
            return None;
        }
        self.slots.push(0);
        Some(self.slots.len() - 1)
    }
}

fn offset(slot: usize) -> u64 {
    (slot * SLOT_BYTES) as u64
}

/// The shim's end: every mark, by the line that it is of. Of several marks of one line the last one of the gravest counts.
///
/// # Errors
/// Those of the file.
pub(crate) fn read(file: impl AsFd) -> io::Result<BTreeMap<u64, LineMark>> {
    let mut marks: BTreeMap<u64, LineMark> = BTreeMap::new();
    let mut bytes = [0; SLOT_BYTES];
    for slot in 0..MAX_SLOTS {
        if pread(&file, &mut bytes, offset(slot))? < SLOT_BYTES {
            break;
        }
        let Ok(mark) = serde_json::from_slice::<LineMark>(&bytes) else { continue };
        let weight = |mark: &LineMark| (mark.class, mark.call.as_ref().map(|call| call.id));
        match marks.get(&mark.line) {
            Some(other) if weight(other) > weight(&mark) => {}
            _ => drop(marks.insert(mark.line, mark)),
        }
    }
    Ok(marks)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mark(line: u64, class: WorkClass) -> LineMark {
        LineMark { line, class, call: Some(KeptCall { server: "gen-1".into(), id: line + 100 }) }
    }

    #[test]
    fn the_other_end_reads_what_was_marked_however_often_slots_were_reused() {
        let mut marks = Marks::new().unwrap();
        let other_end = marks.file().try_clone_to_owned().unwrap();
        assert!(read(&other_end).unwrap().is_empty());
        for line in 1..=10_000 {
            // Two are outstanding: the first of all, and the newest.
            marks.put(&mark(line, WorkClass::Mutating), line, |number| number == 1).unwrap();
            let found = read(&other_end).unwrap();
            assert_eq!(found.get(&1), Some(&mark(1, WorkClass::Mutating)));
            assert_eq!(found.get(&line), Some(&mark(line, WorkClass::Mutating)));
            assert!(found.len() <= 3, "{}", found.len());
        }
    }

    #[test]
    fn a_mark_that_is_wanted_is_never_overwritten_and_their_number_is_bounded() {
        let mut marks = Marks::new().unwrap();
        let most = MAX_SLOTS as u64;
        for line in 1..=most {
            marks.put(&mark(line, WorkClass::ReadOnly), line, |_| true).unwrap();
        }
        assert!(marks.put(&mark(most + 1, WorkClass::ReadOnly), most + 1, |_| true).is_err());
        assert_eq!(read(marks.file()).unwrap().len(), MAX_SLOTS);
        marks.put(&mark(most + 1, WorkClass::ReadOnly), most + 1, |number| number != 77).unwrap();
        let found = read(marks.file()).unwrap();
        assert!(!found.contains_key(&77) && found.contains_key(&(most + 1)));
    }

    #[test]
    fn of_two_marks_of_one_line_the_graver_counts() {
        let mut marks = Marks::new().unwrap();
        for class in [WorkClass::ReadOnly, WorkClass::Mutating, WorkClass::ReadOnly] {
            marks.put(&mark(5, class), 5, |_| true).unwrap();
        }
        assert_eq!(read(marks.file()).unwrap()[&5].class, WorkClass::Mutating);
    }
}
