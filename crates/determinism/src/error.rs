//! Why a check could not run at all. A check that ran and has no answer is a [`Record`](crate::Record) instead.

use std::io;
use std::path::PathBuf;

use crate::image::ImageError;
use crate::script::ScriptError;

/// A check that could not run; the command line exits 2.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// No command was given.
    #[error("nothing to run: name the subject after `--`, as in `-- COMMAND ARG…`")]
    NoCommand,
    /// The image or directory can't be a subject's root.
    #[error(transparent)]
    Image(#[from] ImageError),
    /// What this needs isn't there.
    #[error("{detail}")]
    Unavailable {
        /// What is missing, and how to get it.
        detail: String,
    },
    /// A number outside its bounds.
    #[error("{what} is {value}; give a value from {min} to {max}")]
    OutOfBounds {
        /// The option.
        what: &'static str,
        /// What was asked for.
        value: u64,
        /// The least value.
        min: u64,
        /// The greatest value.
        max: u64,
    },
    /// The client script could not be read.
    #[error("failed to read the script {}; check the path given with --script", path.display())]
    ReadScript {
        /// The script.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The client script is not one.
    #[error("the script {} is not usable: correct the line named", path.display())]
    Script {
        /// The script.
        path: PathBuf,
        /// What is wrong with it.
        source: ScriptError,
    },
    /// What binds an image to a run of CI could not be read.
    #[error("failed to read the provenance {}; build the image again, or name its file with --provenance", path.display())]
    ReadProvenance {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The decisions on record could not be read.
    #[error("failed to read the decisions in {}; correct the file given with --decisions", path.display())]
    Decisions {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The binary with the controls could not be started.
    #[error("failed to start {} beside the subject; build it with `cargo build -p tidegate-determinism`", path.display())]
    Companion {
        /// The binary.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The record could not be written.
    #[error("failed to write {}; name a directory that is writable with --out", path.display())]
    Write {
        /// The file or directory.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}
