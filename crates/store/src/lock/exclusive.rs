//! One exclusive lock on one open file: the only code that talks to the lock library.

use fd_lock::RwLock;
use std::fs::File;
use std::io;
use std::sync::Arc;

/// An open file that may be locked. Dropping it releases the lock, in the process that took it.
#[derive(Debug)]
pub(super) struct Exclusive {
    lock: RwLock<Arc<File>>,
    file: Arc<File>,
    /// The process that holds the lock through this value.
    owner: Option<u32>,
}

impl Exclusive {
    pub(super) fn new(file: File) -> Self {
        let file = Arc::new(file);
        Self { lock: RwLock::new(file.clone()), file, owner: None }
    }

    pub(super) fn file(&self) -> &File {
        &self.file
    }

    /// Takes the lock, or says `false` when somebody else has it.
    pub(super) fn try_lock(&mut self) -> io::Result<bool> {
        match self.lock.try_write() {
            Ok(guard) => {
                // The guard would tie the lock to a borrow. The lock belongs to the descriptor: `unlock` takes it
                // once more, which is no wait for its holder, and lets that guard release it.
                std::mem::forget(guard);
                self.owner = Some(std::process::id());
                Ok(true)
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Releases the lock if this process took it. A forked child, which shares the descriptor, releases nothing.
    pub(super) fn unlock(&mut self) {
        if self.owner.take() == Some(std::process::id()) {
            drop(self.lock.try_write());
        }
    }
}

impl Drop for Exclusive {
    fn drop(&mut self) {
        self.unlock();
    }
}
