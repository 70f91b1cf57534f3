//! What the resource itself knows: the highest fence that ever came to it. Kept beside it, so that it is restored, moved
//! and lost together with it and not with the state directory.
//!
//! It must never let a fence pass that it can't compare: a damaged mark is an error, not a fresh start.

mod error;
mod mark;

pub use error::GuardError;

use mark::Mark;
use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tidegate_core::Fence;
use tidegate_store::{FileLock, lock_file};

/// How long to wait for whoever is inside. Whoever writes for longer should know that others give up.
const PATIENCE: Duration = Duration::from_secs(5);

/// Sticky and writable by everybody, as `/tmp` is: anybody could take the lock, or put a file in its place.
const SHARED: u32 = 0o1002;

/// Guards one resource by the fences of those who want to change it.
///
/// The highest fence is in a file beside the resource, twice, each copy with a checksum and in a page of its own. It is
/// written and synced one copy after the other, so that a crash at any instant leaves the old mark or the new one, and it
/// is changed only under the file's lock. What it can't see is a resource that was restored together with its mark: then
/// fences of before the restore pass until a newer one has been here.
#[derive(Debug, Clone)]
pub struct FenceGuard {
    path: PathBuf,
}

/// Leave to change the resource. Nobody else has it until this is dropped.
#[derive(Debug)]
#[must_use = "the leave ends when this is dropped"]
pub struct Entered {
    lock: FileLock,
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
        let entered = Entered { lock: self.lock()?, fence };
        let mark = Mark::read(entered.lock.file()).map_err(|e| self.io(e))?;
        let highest = mark.highest().ok_or_else(|| GuardError::Damaged { path: self.path.clone() })?;
        if fence < highest {
            return Err(GuardError::Stale { path: self.path.clone(), fence, highest });
        }
        if !mark.is(fence) {
            Mark::raise(entered.lock.file(), fence).map_err(|e| self.io(e))?;
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

    fn lock(&self) -> Result<FileLock, GuardError> {
        let open = || File::options().read(true).write(true).open(&self.path);
        if let Err(error) = open() {
            if error.kind() != io::ErrorKind::NotFound {
                return Err(self.io(error));
            }
            self.create()?;
        }
        lock_file(&self.path, PATIENCE, open)
            .map_err(|source| GuardError::NoLock { path: self.path.clone(), source })
    }

    fn create(&self) -> Result<(), GuardError> {
        let parent = self.path.parent().filter(|p| !p.as_os_str().is_empty());
        let directory = parent.unwrap_or(Path::new("."));
        let mode = directory.metadata().map_err(|e| self.io(e))?.mode();
        if mode & SHARED == SHARED {
            return Err(GuardError::SharedDirectory { path: self.path.clone() });
        }
        mark::create(directory, &self.path).map_err(|e| self.io(e))
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
