//! What opening does with whatever it finds, and says about it.

use crate::support::{Place, block_on, everything, put};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tidegate_core::{Epoch, Revision};
use tidegate_store::{CommitError, FileStore, OpenOptions, Store, check};

fn refusal(dir: &Path, options: OpenOptions) -> String {
    FileStore::open(dir, options).map(|_| ()).unwrap_err().to_string()
}

fn files(dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    fs::read_dir(dir)
        .unwrap()
        .map(|f| f.unwrap().path())
        .map(|path| (path.clone(), fs::read(path).unwrap()))
        .collect()
}

#[test]
fn a_store_is_made_only_where_it_is_asked_for() {
    let place = Place::new();
    let dir = place.path().join("a/b");
    assert_eq!(
        refusal(&dir, OpenOptions::new()),
        format!("there is no directory {dir:?}; create it, or name another")
    );
    let missing = refusal(place.path(), OpenOptions::new());
    assert!(missing.contains("there is no store in"), "{missing}");
    assert_eq!(refusal(place.path(), OpenOptions::new().read_only(true)), missing);
    assert!(files(place.path()).is_empty());

    let (_store, report) = FileStore::open(&dir, OpenOptions::new().create(true)).unwrap();
    assert!(report.created && report.torn.is_none() && report.adopt.is_none());
    assert_eq!((report.epoch, report.revision), (Epoch(1), Revision(0)));
    let (_store, report) = FileStore::open(&dir, OpenOptions::new().create(true)).unwrap();
    assert!(!report.created);
}

#[test]
fn options_show_what_was_asked_for() {
    let options =
        OpenOptions::new().create(true).commit_on_caller(true).lock_patience(Duration::from_millis(20));
    let expected = "create: true, read_only: false, commit_on_caller: true, lock_patience: 20ms";
    assert_eq!(format!("{options:?}"), format!("OpenOptions {{ {expected}, .. }}"));
}

#[test]
fn what_is_in_the_way_is_named_with_its_path_escaped() {
    let place = Place::new();
    let file = place.path().join("a file\nwith a newline");
    fs::write(&file, "").unwrap();
    for (dir, expected) in [
        (file.clone(), "is not a directory; name one"),
        (file.join("below"), "is not a directory; name one"),
        (PathBuf::from("/proc/self/state"), "/proc/self/state"),
        (
            PathBuf::from("/tmp"),
            "\"/tmp\" can be written by everybody; use a private directory, \"/tmp/tidegate\"",
        ),
    ] {
        let said = refusal(&dir, OpenOptions::new().create(true));
        assert!(said.contains(expected), "{dir:?}: {said}");
        assert!(!said.contains('\n') && said.contains(&format!("{dir:?}")), "{said}");
    }
}

#[test]
fn a_directory_in_which_nothing_can_be_made_is_named() {
    // Nobody can create files there, not even an administrator.
    let said = refusal(Path::new("/proc"), OpenOptions::new().create(true));
    assert!(said.contains("\"/proc"), "{said}");
}

#[test]
fn a_store_whose_journal_is_gone_is_no_new_store() {
    let place = Place::new();
    drop(place.open());
    fs::remove_file(place.journal()).unwrap();
    let before = files(place.path());
    for options in [OpenOptions::new(), OpenOptions::new().create(true), OpenOptions::new().read_only(true)] {
        let said = refusal(place.path(), options);
        assert!(said.contains("is gone; restore it from a backup"), "{said}");
    }
    assert_eq!(files(place.path()), before);
}

#[test]
fn a_store_that_was_half_made_is_made() {
    let place = Place::new();
    fs::write(place.path().join("lock"), "").unwrap();
    fs::write(place.path().join(".journal-x1y2"), "left by a process that died").unwrap();
    assert!(place.try_open().unwrap().1.created);
    let names: Vec<_> = files(place.path()).into_keys().map(|p| p.file_name().unwrap().to_owned()).collect();
    assert_eq!(names, ["journal", "lock"]);
}

#[test]
fn many_who_make_the_store_at_once_make_one() {
    let place = Place::new();
    let dir = place.path().join("store");
    let open = || FileStore::open(&dir, OpenOptions::new().create(true)).unwrap();
    let made: usize = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..8)
            .map(|n| {
                scope.spawn(move || {
                    let (store, report) = open();
                    block_on(store.commit(put(&n.to_string(), ""))).unwrap();
                    usize::from(report.created)
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    assert_eq!(made, 1);
    assert_eq!(everything(&open().0).2.len(), 8);
}

#[test]
fn a_read_only_store_follows_others_and_changes_nothing() {
    let place = Place::new();
    let writer = place.open();
    block_on(writer.commit(put("a", "1"))).unwrap();
    let (reader, _) = FileStore::open(place.path(), OpenOptions::new().read_only(true)).unwrap();
    block_on(writer.commit(put("a", "2"))).unwrap();
    assert_eq!(everything(&reader).2, [("a".to_owned(), "2".to_owned())]);
    drop(writer);
    let before = files(place.path());
    for refused in [block_on(reader.commit(put("a", "3"))).map(|_| ()), block_on(reader.compact())] {
        assert!(
            matches!(refused, Err(CommitError::Rejected { reason }) if reason.contains("was opened read-only"))
        );
    }
    assert_eq!(everything(&reader).1, Revision(2));
    drop(reader);
    assert_eq!(files(place.path()), before);
}

#[test]
fn a_check_says_what_is_there() {
    let place = Place::new();
    let store = place.open();
    block_on(store.commit(put("a", "12345"))).unwrap();
    block_on(store.commit(put("b", "12345"))).unwrap();
    block_on(store.commit(put("a", "1"))).unwrap();
    drop(store);
    let report = check(place.path()).unwrap();
    assert_eq!((report.format, report.generation), (1, 1));
    assert_eq!(
        (report.epoch, report.revision, report.records, report.live_bytes),
        (Epoch(1), Revision(3), 2, 8)
    );
    assert_eq!(report.journal_bytes, place.bytes().len() as u64);
    assert_eq!(report.journal_records, 5, "the empty snapshot, three commits, a mark");
    assert!(report.torn.is_none() && report.adopt.is_none() && !report.sync_failed);
    assert_eq!(report.store.len(), 32);
}
