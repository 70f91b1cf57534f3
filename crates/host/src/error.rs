//! What can keep the host from answering.

use std::io;
use std::path::PathBuf;

/// A question about this machine that could not be answered.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HostError {
    /// No process has this pid (any more).
    #[error("there is no process {pid}: it has ended")]
    Gone {
        /// The pid asked for.
        pid: u32,
    },
    /// The parent lives outside this pid namespace, so that it can't be named from here.
    #[error("the parent process is outside this pid namespace: start both in the same container")]
    ParentOutside,
    /// A file of `/proc` could not be read.
    #[error("cannot read {}: mount /proc, and let this user read it", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file of `/proc` has a content that is not understood.
    #[error("{} is not what Linux writes there: {content:?}", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// Its content, shortened.
        content: String,
    },
    /// A system call failed.
    #[error("{call} failed for process {pid}")]
    Call {
        /// The call.
        call: &'static str,
        /// The process it was about.
        pid: u32,
        /// Why.
        source: io::Error,
    },
}

/// The longest piece of a malformed file that an error quotes.
const QUOTED_BYTES: usize = 120;

impl HostError {
    pub(crate) fn malformed(path: impl Into<PathBuf>, content: &[u8]) -> Self {
        let shown = &content[..content.len().min(QUOTED_BYTES)];
        Self::Malformed { path: path.into(), content: String::from_utf8_lossy(shown).into_owned() }
    }
}
