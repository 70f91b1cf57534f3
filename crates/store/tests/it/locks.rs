//! Who gets a lock, and who never does.

use crate::processes::{Child, role};
use crate::support::{Place, block_on, eventually, everything, key, put};
use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open};
use std::fs;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;
use tidegate_store::{CommitError, DirectoryError, FileError, LockError, OpenOptions, Store, hold};

#[test]
fn a_directory_has_one_holder_whose_pid_the_others_are_told() {
    let place = Place::new();
    let lock = hold(place.path(), "daemon.pid").unwrap();
    for name in ["daemon.pid", "another name"] {
        match hold(place.path(), name).unwrap_err() {
            LockError::Busy { path, pid } => {
                assert_eq!(path, place.path().join(name));
                assert_eq!(pid, if name == "daemon.pid" { std::process::id() } else { 0 });
            }
            other => panic!("{other}"),
        }
    }
    drop(lock);
    hold(place.path(), "daemon.pid").map(drop).unwrap();
}

#[test]
fn deleting_the_file_of_a_held_directory_lets_nobody_in() {
    let place = Place::new();
    let lock = hold(place.path(), "daemon.pid").unwrap();
    fs::remove_file(lock.path()).unwrap();
    assert!(matches!(hold(place.path(), "daemon.pid"), Err(LockError::Busy { .. })));
}

#[test]
fn a_holder_that_is_killed_holds_nothing_even_while_a_program_it_started_lives_on() {
    if let Some(dir) = role("hold") {
        let _lock = hold(&dir, "daemon.pid").unwrap();
        // Lives until the test closes its standard input, which it inherits from this process.
        let mut grandchild = Command::new("cat").stdout(Stdio::null()).spawn().unwrap();
        println!("ack held");
        grandchild.wait().unwrap();
        return;
    }
    let place = Place::new();
    let mut child = Child::start("locks::a_holder_that_is_killed", "hold", place.path());
    assert_eq!(child.next_ack().as_deref(), Some("held"));
    match hold(place.path(), "daemon.pid").unwrap_err() {
        LockError::Busy { pid, .. } => assert_eq!(pid, child.pid()),
        other => panic!("{other}"),
    }
    child.kill();
    // Its standard output is still open: the grandchild lives.
    hold(place.path(), "daemon.pid").map(drop).unwrap();
    child.close_stdin();
}

#[test]
fn a_lock_that_a_fork_has_inherited_ends_with_the_last_of_both_and_the_error_says_where_to_look() {
    if let Some(dir) = role("inherited") {
        let _lock = hold(&dir, "daemon.pid").unwrap();
        println!("ack held");
        std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
        return;
    }
    let place = Place::new();
    let mut child = Child::start("locks::a_lock_that_a_fork_has_inherited", "inherited", place.path());
    assert_eq!(child.next_ack().as_deref(), Some("held"));
    // What a forked child has: the same open file, and with it its lock.
    let inherited = descriptor_of(child.pid(), place.path());
    let holder = child.pid();
    child.kill();
    match hold(place.path(), "daemon.pid").unwrap_err() {
        error @ LockError::Busy { pid, .. } => {
            assert_eq!(pid, holder, "nobody else has ever signed");
            assert!(error.to_string().contains("a process that it has forked"), "{error}");
        }
        other => panic!("{other}"),
    }
    drop(inherited);
    hold(place.path(), "daemon.pid").map(drop).unwrap();
}

#[test]
fn a_fork_that_inherits_the_store_takes_no_commit_from_anybody() {
    if let Some(dir) = role("forked-store") {
        let store = tidegate_store::FileStore::open(&dir, OpenOptions::new().create(true)).unwrap().0;
        block_on(store.commit(put("of the parent", "1"))).unwrap();
        println!("ack committed");
        std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
        return;
    }
    let place = Place::new();
    let mut child = Child::start("locks::a_fork_that_inherits_the_store", "forked-store", place.path());
    assert_eq!(child.next_ack().as_deref(), Some("committed"));
    let _inherited = descriptor_of(child.pid(), &place.path().join("lock"));
    child.kill();
    // Between commits nobody has the lock, so there is nothing that could stay behind in a fork.
    let store = place.open();
    block_on(store.commit(put("of a successor", "2"))).unwrap();
    assert_eq!(everything(&store).2.len(), 2);
}

/// A copy of the descriptor that process `pid` has of `path`: one open file, as after a fork.
fn descriptor_of(pid: u32, path: &Path) -> OwnedFd {
    let number = fs::read_dir(format!("/proc/{pid}/fd"))
        .unwrap()
        .map(Result::unwrap)
        .find(|entry| fs::read_link(entry.path()).is_ok_and(|open| open == path))
        .unwrap_or_else(|| panic!("process {pid} hasn't opened {path:?}"));
    let number = number.file_name().to_str().unwrap().parse().unwrap();
    let process = Pid::from_raw(pid.cast_signed()).unwrap();
    let process = pidfd_open(process, PidfdFlags::empty()).unwrap();
    pidfd_getfd(process, number, PidfdGetfdFlags::empty()).unwrap()
}

#[test]
fn a_directory_that_everybody_can_write_holds_no_lock_and_no_store() {
    let place = Place::new();
    for mode in [0o1777, 0o777] {
        fs::set_permissions(place.path(), fs::Permissions::from_mode(mode)).unwrap();
        assert!(matches!(
            hold(place.path(), "daemon.pid"),
            Err(LockError::Directory(DirectoryError::Shared { .. }))
        ));
        assert!(matches!(place.try_open(), Err(FileError::Directory(DirectoryError::Shared { .. }))));
        let private = place.path().join(format!("private-{mode:o}"));
        fs::create_dir(&private).unwrap();
        hold(&private, "daemon.pid").map(drop).unwrap();
    }
}

#[test]
fn a_commit_waits_for_the_lock_only_so_long_and_names_who_has_it() {
    let place = Place::new();
    let store = place.open_with(OpenOptions::new().lock_patience(Duration::from_millis(20)));
    block_on(store.commit(put("a", "1"))).unwrap();
    let file = fs::File::options().read(true).write(true).open(place.path().join("lock")).unwrap();
    let mut lock = fd_lock::RwLock::new(file);
    let held = lock.write().unwrap();
    let error = block_on(store.commit(put("a", "2"))).unwrap_err();
    assert_eq!(error, CommitError::Busy { pid: std::process::id() });
    assert_eq!(&*block_on(store.get(&key("a"))).unwrap().unwrap().value, b"1", "reads take no lock");
    assert!(matches!(
        tidegate_store::FileStore::open(place.path(), OpenOptions::new().lock_patience(Duration::ZERO)),
        Err(FileError::Lock(LockError::Busy { .. }))
    ));
    drop(held);
    block_on(store.commit(put("a", "2"))).unwrap();
}

#[test]
fn a_deleted_lock_file_is_never_made_anew_beside_a_journal() {
    let place = Place::new();
    let store = place.open();
    block_on(store.commit(put("a", "1"))).unwrap();
    let lock = place.path().join("lock");
    fs::remove_file(&lock).unwrap();
    let (other, report) = place.try_open().unwrap();
    assert!(report.adopt.is_some_and(|reason| reason.contains("is missing")));
    for store in [&store, &other] {
        let error = block_on(store.commit(put("a", "2"))).unwrap_err().to_string();
        assert!(error.contains("run `tidegate store adopt`"), "{error}");
        assert_eq!(everything(store).2, [("a".to_owned(), "1".to_owned())], "it can be read");
    }
    assert!(!lock.exists());
    let adopted = tidegate_store::adopt(place.path(), 0).unwrap();
    for store in [&store, &other] {
        assert_eq!(block_on(store.commit(put("a", "2"))).unwrap().fence.epoch, adopted.epoch);
    }
}

#[test]
fn a_lock_file_that_is_not_one_is_left_untouched() {
    let place = Place::new();
    drop(place.open());
    let lock = place.path().join("lock");
    let note = b"remember the milk\n".repeat(9);
    fs::write(&lock, &note).unwrap();
    assert!(matches!(place.try_open(), Err(FileError::Lock(LockError::Foreign { .. }))));
    assert_eq!(fs::read(&lock).unwrap(), note);
}

#[test]
fn a_process_that_dies_in_the_middle_of_an_append_blocks_nobody() {
    if let Some(dir) = role("lock") {
        let file = fs::File::options().read(true).write(true).open(dir.join("lock")).unwrap();
        let mut lock = fd_lock::RwLock::new(file);
        let _held = lock.write().unwrap();
        println!("ack locked");
        std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
        return;
    }
    let place = Place::new();
    let store = place.open();
    let mut child = Child::start("locks::a_process_that_dies", "lock", place.path());
    assert_eq!(child.next_ack().as_deref(), Some("locked"));
    let committing = std::thread::spawn(move || block_on(store.commit(put("a", "1"))).map(|_| ()));
    child.kill();
    eventually("the commit goes on", || committing.is_finished());
    assert_eq!(committing.join().unwrap(), Ok(()));
}
