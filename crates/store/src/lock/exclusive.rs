//! One exclusive lock on one open file: the only code that takes locks from the kernel.

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use std::fs::File;
use std::io;

/// An open file that may be locked. Dropping it releases the lock, in the process that took it.
#[derive(Debug)]
pub(super) struct Exclusive {
    file: File,
    /// The process that holds the lock through this value.
    owner: Option<u32>,
}

impl Exclusive {
    pub(super) fn new(file: File) -> Self {
        Self { file, owner: None }
    }

    pub(super) fn file(&self) -> &File {
        &self.file
    }

    /// Takes the lock, or says `false` when somebody else has it.
    pub(super) fn try_lock(&mut self) -> io::Result<bool> {
        match flock(&self.file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {
                self.owner = Some(std::process::id());
                Ok(true)
            }
            Err(Errno::WOULDBLOCK) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Releases the lock if this process took it. A forked child, which shares the descriptor, releases nothing.
    pub(super) fn unlock(&mut self) {
        if self.owner.take() == Some(std::process::id()) {
            // What can't be unlocked goes with its descriptor.
            let _ = flock(&self.file, FlockOperation::Unlock);
        }
    }
}

impl Drop for Exclusive {
    fn drop(&mut self) {
        self.unlock();
    }
}
