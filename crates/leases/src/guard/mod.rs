//! What the resource itself knows: the highest fence that ever came to it. Kept beside it, so that it is restored, moved
//! and lost together with it and not with the state directory.
//!
//! It must never let a fence pass that it can't compare: a damaged mark is an error, not a fresh start.

mod error;
mod mark;

pub use error::GuardError;

use mark::Mark;
use std::fs::{File, TryLockError};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;
use tidegate_core::Fence;

/// How long to wait between two tries for the lock: short against a write, long against a context switch.
const RETRY_AFTER: Duration = Duration::from_millis(5);

/// How often to try: five seconds. Whoever writes for longer under the guard should know that others wait.
const TRIES: u32 = 1_000;

/// Sticky and writable by everybody, as `/tmp` is: anybody could take the lock, or put a file in its place.
const SHARED: u32 = 0o1002;

/// Guards one resource by the fences of those who want to change it.
#[derive(Debug, Clone)]
pub struct FenceGuard {
    path: PathBuf,
}

/// Leave to change the resource. Nobody else has it until this is dropped.
#[derive(Debug)]
#[must_use = "the leave ends when this is dropped"]
pub struct Entered {
    file: File,
    fence: Fence,
}

impl FenceGuard {
    /// The guard of `resource`, kept in `RESOURCE.fence`. Nothing is read or written yet.
    #[must_use]
    pub fn beside(resource: impl AsRef<Path>) -> Self {
        let mut path = resource.as_ref().as_os_str().to_owned();
        path.push(".fence");
        Self { path: path.into() }
    }

    /// Where the mark is kept.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Lets a fence in, unless a higher one has been here. The mark is on stable storage before this returns, and the
    /// resource is to be changed while the [`Entered`] lives: between a check and a later write, anything may happen.
    ///
    /// # Errors
    /// [`GuardError::Stale`] when the lease has gone to somebody else; the others say what is wrong with the mark.
    pub fn enter(&self, fence: Fence) -> Result<Entered, GuardError> {
        let entered = Entered { file: self.lock()?, fence };
        let mark = Mark::read(&entered.file).map_err(|e| self.io(e))?;
        let highest = mark.highest().ok_or_else(|| GuardError::Damaged { path: self.path.clone() })?;
        if fence < highest {
            return Err(GuardError::Stale { path: self.path.clone(), fence, highest });
        }
        if !mark.is(fence) {
            Mark::raise(&entered.file, fence).map_err(|e| self.io(e))?;
        }
        Ok(entered)
    }

    /// The highest fence that was ever let in; `0.0` when there was none.
    ///
    /// # Errors
    /// As [`FenceGuard::enter`].
    pub fn highest(&self) -> Result<Fence, GuardError> {
        match File::open(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Fence::default()),
            file => {
                let mark = file.and_then(|file| Mark::read(&file)).map_err(|e| self.io(e))?;
                mark.highest().ok_or_else(|| GuardError::Damaged { path: self.path.clone() })
            }
        }
    }

    /// Locks the file that is there now. A file that was put in its place meanwhile is another one: try that.
    fn lock(&self) -> Result<File, GuardError> {
        for _ in 0..TRIES {
            let file = self.open()?;
            match file.try_lock() {
                Ok(()) if self.is_still(&file)? => return Ok(file),
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => thread::park_timeout(RETRY_AFTER),
                Err(TryLockError::Error(source)) => {
                    return Err(GuardError::NoLock { path: self.path.clone(), source });
                }
            }
        }
        Err(GuardError::Busy { path: self.path.clone() })
    }

    fn open(&self) -> Result<File, GuardError> {
        let open = || File::options().read(true).write(true).open(&self.path);
        match open() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let parent = self.path.parent().filter(|p| !p.as_os_str().is_empty());
                let directory = parent.unwrap_or(Path::new("."));
                let mode = directory.metadata().map_err(|e| self.io(e))?.mode();
                if mode & SHARED == SHARED {
                    return Err(GuardError::SharedDirectory { path: self.path.clone() });
                }
                mark::create(directory, &self.path).and_then(|()| open()).map_err(|e| self.io(e))
            }
            file => file.map_err(|e| self.io(e)),
        }
    }

    fn is_still(&self, file: &File) -> Result<bool, GuardError> {
        let locked = file.metadata().map_err(|e| self.io(e))?;
        match self.path.metadata() {
            Ok(there) => Ok((there.dev(), there.ino()) == (locked.dev(), locked.ino())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(self.io(error)),
        }
    }

    fn io(&self, source: io::Error) -> GuardError {
        GuardError::Io { path: self.path.clone(), source }
    }
}

impl Entered {
    /// The fence that was let in.
    #[must_use]
    pub fn fence(&self) -> Fence {
        self.fence
    }
}

impl Drop for Entered {
    /// Unlocks explicitly: a child that inherited the descriptor must not go on holding the lock.
    fn drop(&mut self) {
        // Closing the file, which follows, unlocks it as well.
        let _ = self.file.unlock();
    }
}
