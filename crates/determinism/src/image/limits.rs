//! The bounds on an archive that somebody else made. Every one of them is met by images in use and by no bomb.

/// A manifest, an index or a configuration; the OCI specification advises this bound on manifests.
pub(super) const MAX_DOCUMENT_BYTES: u64 = 4 * 1024 * 1024;
/// Docker itself stops at 127 layers.
pub(super) const MAX_LAYERS: usize = 256;
/// Manifests in one index: all platforms of a few tags.
pub(super) const MAX_MANIFESTS: usize = 1_024;
/// Files of an archive of an image: blobs, and for old ones three files a layer.
pub(super) const MAX_MEMBERS: usize = 10_000;
/// Entries in all layers of an image; a whole desktop distribution has a quarter of it.
pub(super) const MAX_ENTRIES: u64 = 2_000_000;
/// Bytes in all layers of an image. The machine that runs it keeps its root in memory.
pub(super) const MAX_UNPACKED_BYTES: u64 = 8 * 1024 * 1024 * 1024;
/// Real layers shrink three- to tenfold; text that repeats itself, perhaps a hundredfold.
pub(super) const MAX_RATIO: u64 = 200;
/// Small layers may shrink as they like: a layer of empty directories is almost nothing but zeros.
pub(super) const RATIO_FREE_BYTES: u64 = 64 * 1024 * 1024;
/// Directories within directories; the deepest trees of package managers have about forty.
pub(super) const MAX_DEPTH: usize = 128;
/// What Linux takes as one name.
pub(super) const MAX_NAME_BYTES: usize = 255;
/// What Linux takes as one path.
pub(super) const MAX_PATH_BYTES: usize = 4_096;
/// Headers that belong to one entry: a long name, a long link and attributes.
pub(super) const MAX_EXTENSION_BYTES: u64 = 1024 * 1024;
/// A user database.
pub(super) const MAX_PASSWD_BYTES: u64 = 1024 * 1024;
