//! Why an image can't be used. Each error says what to do next; those that stand in the way of any executor have the
//! code that a record shows.

use std::io;
use std::path::PathBuf;

use crate::go_no_go::Code;

/// An image or a root that can't be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ImageError {
    /// There is nothing at the path.
    #[error("there is no image at {}; nothing is ever pulled: bring it here first, with `skopeo copy docker://NAME oci:DIR`", path.display())]
    Unavailable {
        /// The path.
        path: PathBuf,
    },
    /// A name with a tag, which may mean something else tomorrow.
    #[error("{reference} is a name with a tag; bring the image here and name it as PATH@sha256:…")]
    Tag {
        /// What was given.
        reference: String,
    },
    /// Something after `@` that is no digest.
    #[error("{digest:?} is no digest; give `sha256:` and 64 hexadecimal digits, in lower case")]
    NoDigest {
        /// What was given.
        digest: String,
    },
    /// The path holds something else than the digest says.
    #[error("{} doesn't hold {wanted} any more, but {}; name that one, or bring the other back", path.display(), found.join(", "))]
    Stale {
        /// The path.
        path: PathBuf,
        /// The digest that was asked for.
        wanted: String,
        /// What is there.
        found: Vec<String>,
    },
    /// Nothing for this platform.
    #[error("the image is for {}, and what runs it is linux/amd64; build it for that", found.join(", "))]
    Platform {
        /// What there is.
        found: Vec<String>,
    },
    /// More than one image.
    #[error("{} holds {} images; name one: {}", path.display(), digests.len(), digests.join(", "))]
    Ambiguous {
        /// The path.
        path: PathBuf,
        /// Their digests.
        digests: Vec<String>,
    },
    /// Neither a layout nor an archive of an image.
    #[error("{} is no image: {why}; give an OCI layout, or what `podman save` or `docker save` wrote", path.display())]
    NotAnImage {
        /// The path.
        path: PathBuf,
        /// What is missing.
        why: String,
    },
    /// Bytes that aren't what their digest says.
    #[error("{what} is damaged: it should be {wanted} and is {found}; bring the image here again")]
    Damaged {
        /// Which.
        what: String,
        /// Digest or size.
        wanted: String,
        /// Digest or size.
        found: String,
    },
    /// Something that ends too early or can't be read as what it says it is.
    #[error("{what} is cut short or can't be read ({why}); bring the image here again")]
    Unreadable {
        /// Which.
        what: String,
        /// What the reader said.
        why: String,
    },
    /// A kind of layer, entry or setting that isn't known here.
    #[error("{what} is {kind}, which isn't supported; {remedy}")]
    Unsupported {
        /// Which.
        what: String,
        /// What it is.
        kind: String,
        /// What to do.
        remedy: &'static str,
    },
    /// An entry that no honest image has.
    #[error("{layer}: the entry {entry:?} is refused: {why}; this is not an image to trust")]
    Hostile {
        /// The layer.
        layer: String,
        /// The name of the entry.
        entry: String,
        /// What it tries.
        why: &'static str,
    },
    /// More than the bounds allow.
    #[error("{what} is beyond the bound of {limit}; this is not an image to unpack")]
    TooLarge {
        /// What there is too much of.
        what: String,
        /// The bound.
        limit: u64,
    },
    /// The user whom the image names.
    #[error("the image runs as {user:?}, who isn't in its /etc/passwd or /etc/group")]
    NoUser {
        /// The name.
        user: String,
    },
    /// A directory that can't be a root.
    #[error("{} can't be a root file system: {why}", path.display())]
    NoRoot {
        /// The directory.
        path: PathBuf,
        /// What is wrong with it.
        why: &'static str,
    },
    /// The program that makes a file system is missing or failed.
    #[error("mkfs.erofs failed: {why}; `apt-get install erofs-utils` installs it")]
    FileSystem {
        /// What it said.
        why: String,
    },
    /// The disk.
    #[error("failed to write {}; there must be room for the image twice, and the right to write", path.display())]
    Write {
        /// The file or directory.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The disk.
    #[error("failed to read {}", path.display())]
    Read {
        /// The file or directory.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

impl ImageError {
    /// The code under which a record shows this, where it stands in the way of every executor.
    pub const fn code(&self) -> Option<Code> {
        match self {
            Self::Unavailable { .. } => Some(Code::ImageUnavailable),
            Self::Tag { .. } | Self::NoDigest { .. } => Some(Code::TagNotDigest),
            Self::Stale { .. } => Some(Code::DigestStale),
            Self::Platform { .. } => Some(Code::PlatformUnsupported),
            _ => None,
        }
    }
}
