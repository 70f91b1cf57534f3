//! File systems that really run full and really become read-only, in a mount namespace that ends with its test.

use crate::processes::{Child, role};
use crate::support::{Place, block_on, everything, key, put};
use std::fs;
use std::path::Path;
use std::process::Command;
use tidegate_scenario::in_namespaces;
use tidegate_store::{CommitError, FileStore, OpenOptions, Store, Txn, check};

/// Plays `role` in a mount namespace of its own.
fn apart(test: &str, role: &str) {
    let place = Place::new();
    let Some(command) = in_namespaces(&["--mount"]) else { return };
    let mut child = Child::start_under(command, test, role, place.path());
    assert_eq!(child.next_ack().as_deref(), Some("done"), "its words are above");
    child.ends_well();
}

#[track_caller]
fn mount(arguments: &[&str], at: &Path) {
    let mounted = Command::new("mount").args(arguments).arg(at).output().unwrap();
    assert!(mounted.status.success(), "mount {arguments:?}: {}", String::from_utf8_lossy(&mounted.stderr));
}

fn open(dir: &Path) -> FileStore {
    FileStore::open(dir, OpenOptions::new().create(true)).unwrap().0
}

fn files(dir: &Path) -> usize {
    fs::read_dir(dir).unwrap().count()
}

const VALUE_BYTES: usize = 10_000;

#[test]
fn a_disk_that_runs_full_rejects_commits_and_compactions_and_is_used_again_once_there_is_room() {
    let Some(dir) = role("full") else {
        return apart("mounts::a_disk_that_runs_full", "full");
    };
    mount(&["-t", "tmpfs", "-o", "size=256k,mode=0700", "tmpfs"], &dir);
    let store = open(&dir);
    let ballast = dir.join("ballast");
    fs::write(&ballast, vec![b'b'; 64 << 10]).unwrap();
    let commit =
        |n: usize| block_on(store.commit(Txn::new().put_bytes(&key(&n.to_string()), &[b'v'; VALUE_BYTES])));
    let mut written = 0;
    let error = loop {
        match commit(written) {
            Ok(_) => written += 1,
            Err(error) => break error,
        }
    };
    assert!(written > 10, "{written} values went in");
    let is_rejection = |error: &CommitError| {
        matches!(error, CommitError::Rejected { reason }
            if reason.contains("No space left") && reason.contains(dir.to_str().unwrap()))
    };
    assert!(is_rejection(&error), "{error}");
    let before = everything(&store);
    assert_eq!(before.2.len(), written);

    let names = files(&dir);
    let error = block_on(store.compact()).unwrap_err();
    assert!(is_rejection(&error), "{error}");
    assert_eq!(files(&dir), names, "nothing half done stays behind");
    assert_eq!(everything(&store), before);
    assert_eq!(check(&dir).unwrap().torn, None, "what was begun is gone");

    fs::remove_file(&ballast).unwrap();
    commit(written).unwrap();
    drop(store);
    assert_eq!(everything(&open(&dir)).2.len(), written + 1);
    println!("ack done");
}

#[test]
fn a_file_system_that_becomes_read_only_is_an_error_that_names_the_path_and_loses_nothing() {
    let Some(dir) = role("read-only") else {
        return apart("mounts::a_file_system_that_becomes_read_only", "read-only");
    };
    mount(&["-t", "tmpfs", "-o", "mode=0700", "tmpfs"], &dir);
    let path = format!("{dir:?}").trim_matches('"').to_owned();
    let store = open(&dir);
    block_on(store.commit(put("a", "1"))).unwrap();

    // The kernel refuses that to a mount in which files are open for writing, so a second one covers the first.
    mount(&["--bind", &path], &dir);
    mount(&["-o", "remount,bind,ro"], &dir);
    let error = block_on(store.compact()).unwrap_err();
    assert!(matches!(&error, CommitError::Rejected { reason } if reason.contains(&path)), "{error}");
    assert_eq!(everything(&store).2.len(), 1);
    drop(store);

    for options in [OpenOptions::new(), OpenOptions::new().create(true)] {
        let error = FileStore::open(&dir, options).map(|_| ()).unwrap_err();
        let cause = std::error::Error::source(&error).map(ToString::to_string).unwrap_or_default();
        let said = format!("{error}: {cause}");
        assert!(said.contains(&path) && said.contains("Read-only file system"), "{said}");
    }
    let (reader, _) = FileStore::open(&dir, OpenOptions::new().read_only(true)).unwrap();
    assert_eq!(everything(&reader).2.len(), 1);
    check(&dir).unwrap();
    drop(reader);

    assert!(Command::new("umount").arg(&dir).status().unwrap().success());
    let store = open(&dir);
    block_on(store.commit(put("b", "2"))).unwrap();
    assert_eq!(everything(&store).2.len(), 2);
    println!("ack done");
}
