//! What the tasks left changed in the subject's root: one line for each file, in the order of their paths.
//!
//! Times aren't in it: they are in the trace, and a file that was only touched is there.

use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

/// One line for each file below `top`: kind, mode, owner, size, digest of its content, path.
pub(crate) fn changes(top: &Path) -> io::Result<Vec<Vec<u8>>> {
    let mut lines = Vec::new();
    let mut left = vec![top.to_owned()];
    while let Some(path) = left.pop() {
        let data = fs::symlink_metadata(&path)?;
        let kind = data.file_type();
        let (word, content) = if kind.is_dir() {
            let mut names: Vec<PathBuf> =
                fs::read_dir(&path)?.map(|entry| Ok(entry?.path())).collect::<io::Result<_>>()?;
            // The last one is taken first.
            names.sort_by(|a, b| b.cmp(a));
            left.extend(names);
            ("directory", None)
        } else if kind.is_symlink() {
            ("link", Some(Sha256::digest(fs::read_link(&path)?.as_os_str().as_bytes())))
        } else if kind.is_file() {
            ("file", Some(Sha256::digest(fs::read(&path)?)))
        } else if kind.is_char_device() && data.rdev() == 0 {
            // How an overlay says that something of the root is gone.
            ("removed", None)
        } else {
            ("special", None)
        };
        let digest = content.map_or_else(
            || "-".to_owned(),
            |digest| digest.iter().map(|byte| format!("{byte:02x}")).collect(),
        );
        let mode = data.mode() & 0o7777;
        let size = if kind.is_dir() { 0 } else { data.size() };
        let mut line =
            format!("{word} {mode:04o} {}:{} {size} {digest} /", data.uid(), data.gid()).into_bytes();
        line.extend(path.strip_prefix(top).unwrap_or(&path).as_os_str().as_bytes());
        lines.push(line);
    }
    Ok(lines)
}
