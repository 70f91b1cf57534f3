//! Images of every kind, honest and not: what is unpacked, what is refused, and what is left behind.

mod hostile;
mod kinds;
mod made;
mod roots;

use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use made::{Stored, file, made, plain};
use tidegate_determinism::image::{Image, ImageError, Root};

/// An image of one file with so many bytes.
pub(crate) fn layout_of(directory: &Path, bytes: usize) -> PathBuf {
    made(&[plain(&[file("large", &"x".repeat(bytes))])]).layout(directory)
}

/// Opens and unpacks an image, with a cache of its own.
fn root(reference: &str, cache: &Path) -> Result<Root, ImageError> {
    Root::of_image(&Image::open(reference)?, cache, &mut |_| ())
}

/// The tree that the layers give, a line for each name; or what is said against them.
fn tree(layers: &[Stored]) -> Result<String, String> {
    let scratch = tempfile::tempdir().unwrap();
    let layout = made(layers).layout(&scratch.path().join("layout"));
    let cache = scratch.path().join("cache");
    let root = root(layout.to_str().unwrap(), &cache);
    // A refused image leaves nothing, and one that was unpacked nothing half-written.
    let left: Vec<_> = std::fs::read_dir(&cache).into_iter().flatten().flatten().collect();
    let kept = if root.is_ok() { 3 } else { 0 };
    assert_eq!(left.len(), kept, "left behind: {left:?}");
    root.map(|root| listed(&root.directory)).map_err(|error| error.to_string())
}

/// A directory, a line for each name: kind, mode, name, and what is in it.
fn listed(directory: &Path) -> String {
    let mut lines = Vec::new();
    list(directory, "", &mut lines);
    lines.sort();
    lines.concat()
}

fn list(directory: &Path, above: &str, lines: &mut Vec<String>) {
    for entry in std::fs::read_dir(directory).unwrap() {
        let entry = entry.unwrap();
        let name = format!("{above}{}", entry.file_name().to_str().unwrap());
        let metadata = entry.metadata().unwrap();
        let (kind, mode) = (metadata.file_type(), metadata.mode() & 0o7777);
        let what = if kind.is_dir() {
            list(&entry.path(), &format!("{name}/"), lines);
            "/".to_owned()
        } else if kind.is_symlink() {
            format!(" -> {}", std::fs::read_link(entry.path()).unwrap().display())
        } else if kind.is_file() {
            format!(" {mode:o} {:?}", std::fs::read_to_string(entry.path()).unwrap())
        } else {
            let kind = if kind.is_char_device() { "device" } else { "other" };
            format!(" {kind} {mode:o}")
        };
        lines.push(format!("{name}{what}\n"));
    }
}
