//! Snapshots kept from one check to the next, each under the digest of everything that it was made of.
//!
//! A snapshot is whole or not there: it's written under another name first. Restoring one is repeatable, making one
//! isn't exactly, so whoever compares runs has to begin all of them with one and the same file.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use crate::record::Reason;
use crate::scratch;
use crate::subject::sha256_hex;
use crate::verdict::Failure;

/// Some hundred megabytes each: the oldest go when there are more.
const MAX_KEPT: usize = 12;
const ENDING: &str = "snapshot";
/// In place of a snapshot: the subject never pauses.
const NEVER: &str = "never";

/// Where snapshots are kept.
#[derive(Debug)]
pub(super) struct Shelf {
    directory: PathBuf,
    /// What was used before: one check begins with the same file each time, even when others make the shelf forget it.
    held: RefCell<BTreeMap<String, Kept>>,
}

/// What is known under a key.
#[derive(Debug, Clone)]
pub(super) enum Kept {
    Snapshot(Rc<File>),
    /// There is no such moment in the subject's life.
    Never,
}

impl Shelf {
    pub(super) fn open(cache: &Path) -> Result<Self, Failure> {
        let directory = cache.join("snapshots");
        let made = fs::create_dir_all(&directory).and_then(|()| scratch::sweep(&directory));
        made.map_err(|error| failed(&directory, &error))?;
        Ok(Self { directory, held: RefCell::default() })
    }

    /// The name of a snapshot made of these.
    pub(super) fn key(of: &[&str]) -> String {
        sha256_hex(of.join("\n").as_bytes())
    }

    /// What is kept under a key, or else what `make` writes; where it says that there is nothing to write, that is kept.
    pub(super) fn get(
        &self,
        key: &str,
        make: impl FnOnce(&File) -> Result<bool, Failure>,
    ) -> Result<Kept, Failure> {
        let held = self.held.borrow().get(key).cloned();
        let kept = match held.or_else(|| self.find(key)) {
            Some(kept) => kept,
            None => self.make(key, make)?,
        };
        self.held.borrow_mut().insert(key.to_owned(), kept.clone());
        Ok(kept)
    }

    fn find(&self, key: &str) -> Option<Kept> {
        if self.place(key, NEVER).exists() {
            return Some(Kept::Never);
        }
        File::open(self.place(key, ENDING)).ok().map(|file| Kept::Snapshot(Rc::new(file)))
    }

    fn make(&self, key: &str, make: impl FnOnce(&File) -> Result<bool, Failure>) -> Result<Kept, Failure> {
        let unfinished = tempfile::Builder::new()
            .prefix(&scratch::prefix())
            .tempfile_in(&self.directory)
            .map_err(|error| failed(&self.directory, &error))?;
        let ending = if make(unfinished.as_file())? { ENDING } else { NEVER };
        let place = self.place(key, ending);
        let kept = || -> io::Result<File> {
            unfinished.persist(&place)?;
            self.forget_oldest()?;
            File::open(&place)
        };
        let file = kept().map_err(|error| failed(&place, &error))?;
        Ok(if ending == ENDING { Kept::Snapshot(Rc::new(file)) } else { Kept::Never })
    }

    fn place(&self, key: &str, ending: &str) -> PathBuf {
        self.directory.join(format!("{key}.{ending}"))
    }

    fn forget_oldest(&self) -> io::Result<()> {
        let mut all = Vec::new();
        for entry in fs::read_dir(&self.directory)? {
            let path = entry?.path();
            if path.extension().is_some_and(|ending| ending == ENDING) {
                all.push((fs::metadata(&path)?.modified()?, path));
            }
        }
        all.sort();
        let surplus = all.len().saturating_sub(MAX_KEPT);
        all.iter().take(surplus).try_for_each(|(_, path)| fs::remove_file(path))
    }
}

fn failed(path: &Path, error: &io::Error) -> Failure {
    Failure {
        reason: Reason::StartFailed,
        detail: format!("failed to keep a snapshot as {}: {error}", path.display()),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn a_snapshot_is_kept_whole_or_not_at_all_and_so_is_its_absence() {
        let cache = tempfile::tempdir().unwrap();
        let shelf = Shelf::open(cache.path()).unwrap();
        let (key, other) = (Shelf::key(&["a", "b"]), Shelf::key(&["a\nb", "c"]));
        assert!(shelf.find(&key).is_none());
        let full = || Failure { reason: Reason::Timeout, detail: String::new() };
        shelf.get(&key, |_| Err(full())).unwrap_err();
        assert!(shelf.find(&key).is_none());
        assert_eq!(fs::read_dir(cache.path().join("snapshots")).unwrap().count(), 0);
        shelf.get(&key, |mut file| Ok(file.write_all(b"machine").is_ok())).unwrap();
        assert!(matches!(shelf.find(&key), Some(Kept::Snapshot(_))));
        shelf.get(&other, |_| Ok(false)).unwrap();
        assert!(matches!(shelf.find(&other), Some(Kept::Never)));
    }

    #[test]
    fn the_oldest_snapshots_go() {
        let cache = tempfile::tempdir().unwrap();
        let shelf = Shelf::open(cache.path()).unwrap();
        for number in 0..=MAX_KEPT {
            shelf.get(&number.to_string(), |_| Ok(true)).unwrap();
        }
        assert_eq!(fs::read_dir(cache.path().join("snapshots")).unwrap().count(), MAX_KEPT);
        // Whoever has used it still has it.
        assert!(matches!(shelf.get("0", |_| Ok(false)).unwrap(), Kept::Snapshot(_)));
    }
}
