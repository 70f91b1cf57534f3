//! Visible isn't durable: what waits for a sync, what shares one, and what follows when one fails.

use crate::support::{Place, Tame, block_on, eventually, everything, expecting, is_pending, key, put, ready};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use tidegate_core::Revision;
use tidegate_store::{
    CommitError, Condition, Decision, FileStore, OpenOptions, ReadError, Scope, Store, StoreError, Txn,
    check, transact,
};

fn open(place: &Place, medium: &Arc<Tame>) -> FileStore {
    place.open_with(OpenOptions::new().medium(medium.clone()))
}

#[test]
fn a_lone_commit_costs_one_sync() {
    let (place, medium) = (Place::new(), Tame::new());
    let store = open(&place, &medium);
    let before = medium.syncs();
    for n in 0..20 {
        block_on(store.commit(put("n", &n.to_string()))).unwrap();
    }
    assert_eq!(medium.syncs() - before, 20);
}

#[test]
fn a_commit_on_its_caller_is_synced_when_it_was_looked_at_once() {
    let (place, medium) = (Place::new(), Tame::new());
    let store = place.open_with(OpenOptions::new().medium(medium.clone()).commit_on_caller(true));
    let before = medium.syncs();
    for n in 1..=20 {
        // On a slow machine the store's own thread may be just leaving a mark.
        let fence = block_on(store.commit(put("n", &n.to_string()))).unwrap().fence;
        assert_eq!(fence.revision, Revision(n));
        let read = ready(store.get(&key("n"))).unwrap().unwrap();
        assert_eq!(&*read.value, n.to_string().as_bytes(), "and can be read without another sync");
    }
    assert_eq!(medium.syncs() - before, 20);
}

#[test]
fn callers_that_commit_at_once_lose_no_increment_whoever_makes_the_commits() {
    let place = Place::new();
    let store = place.open_with(OpenOptions::new().commit_on_caller(true));
    let (n, scope) = (key("n"), Scope::new().key(&key("n")));
    let increment = || {
        block_on(transact(&store, &scope, |view| {
            let count = view.read::<u64>(&n)?.unwrap_or(0);
            Ok::<_, StoreError>(Decision::<_>::write(Txn::new().put(view, &n, &(count + 1)), ()))
        }))
    };
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..25 {
                    while let Err(error) = increment() {
                        assert!(matches!(error, StoreError::Contended { .. }), "{error}");
                    }
                }
            });
        }
    });
    assert_eq!(everything(&store).1, Revision(100));
    assert_eq!(everything(&store).2, [("n".to_owned(), "100".to_owned())]);
}

#[test]
fn commits_that_wait_share_a_sync() {
    let (place, medium) = (Place::new(), Tame::new());
    let store = open(&place, &medium);
    let before = medium.syncs();
    medium.hold_syncs(true);
    let mut first = pin!(store.commit(put("first", "")));
    assert!(is_pending(first.as_mut()));
    medium.wait_for_a_held_sync();
    let mut waiting: Vec<_> = (0..64).map(|n| store.commit(put(&n.to_string(), ""))).collect();
    assert!(waiting.iter_mut().all(|commit| is_pending(commit.as_mut())));
    medium.hold_syncs(false);
    block_on(first).unwrap();
    let revisions: Vec<u64> = waiting.into_iter().map(|c| block_on(c).unwrap().fence.revision.0).collect();
    assert_eq!(revisions, (2..=65).collect::<Vec<_>>());
    assert_eq!(medium.syncs() - before, 2, "for 65 commits");
}

#[test]
fn nobody_is_told_what_is_not_synced() {
    let place = Place::new();
    let (writing, reading) = (Tame::new(), Tame::new());
    let (writer, reader) = (open(&place, &writing), open(&place, &reading));
    block_on(writer.commit(put("a", "1"))).unwrap();
    assert_eq!(everything(&reader).1, Revision(1));
    writing.hold_syncs(true);
    reading.hold_syncs(true);
    let (a, b) = (key("a"), key("b"));
    let mut commit = pin!(writer.commit(put("a", "2")));
    assert!(is_pending(commit.as_mut()));
    writing.wait_for_a_held_sync();

    let mut get = pin!(reader.get(&a));
    let mut other = pin!(reader.get(&b));
    let mut list = pin!(reader.list(""));
    let mut conflict = pin!(reader.commit(expecting(put("a", "3"), "a", Condition::At(Revision(1)))));
    let mut watch = reader.watch("", Revision(1));
    let mut change = watch.next();
    let answers = [
        is_pending(get.as_mut()),
        is_pending(other.as_mut()),
        is_pending(list.as_mut()),
        is_pending(conflict.as_mut()),
        is_pending(change.as_mut()),
    ];
    assert_eq!(answers, [true; 5]);
    reading.wait_for_a_held_sync();
    assert!(is_pending(get.as_mut()), "the reader's own sync isn't done either");

    // The reader's sync covers what the writer appended: it need not wait for the writer's.
    reading.hold_syncs(false);
    assert_eq!(&*block_on(get).unwrap().unwrap().value, b"2");
    assert_eq!(block_on(other).unwrap(), None);
    assert_eq!(block_on(list).unwrap().revision, Revision(2));
    assert_eq!(block_on(conflict), Err(CommitError::Conflict { key: a.clone() }));
    assert_eq!(block_on(change).unwrap()[0].revision, Revision(2));
    writing.hold_syncs(false);
    block_on(commit).unwrap();
}

#[test]
fn readers_of_another_handle_are_always_woken_and_see_what_was_acknowledged() {
    let place = Place::new();
    let (writer, reader) = (place.open(), place.open());
    let newest = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let mut seen = 0;
                while seen < 200 {
                    let acknowledged = newest.load(SeqCst);
                    let revision = block_on(reader.list("")).unwrap().revision.0;
                    assert!(revision >= acknowledged.max(seen), "{revision} < {acknowledged} or {seen}");
                    seen = revision;
                }
            });
        }
        for n in 1..=200 {
            block_on(writer.commit(put("n", &n.to_string()))).unwrap();
            newest.store(n, SeqCst);
        }
    });
}

#[test]
fn after_a_failed_sync_no_process_acknowledges_anything_until_the_journal_is_rewritten() {
    let place = Place::new();
    let medium = Tame::new();
    let (store, other) = (open(&place, &medium), place.open());
    block_on(store.commit(put("a", "1"))).unwrap();
    medium.fail_syncs(true);
    let error = block_on(store.commit(put("b", "1"))).unwrap_err();
    assert!(
        matches!(&error, CommitError::Uncertain { reason } if reason.contains("the disk is on fire")),
        "{error}"
    );
    medium.fail_syncs(false);
    let late = place.open();
    for (who, store) in
        [("the one it failed for", &store), ("another", &other), ("one that came later", &late)]
    {
        let error = block_on(store.commit(put("c", "1"))).unwrap_err();
        assert!(
            matches!(&error, CommitError::Rejected { reason } if reason.contains("`tidegate store compact`")),
            "{who}: {error}"
        );
        let error = block_on(store.get(&key("a"))).unwrap_err();
        assert!(
            matches!(error, ReadError::Unavailable { .. }),
            "{who}: a read would rest on what may be lost"
        );
    }
    assert!(check(place.path()).unwrap().sync_failed);
    block_on(other.compact()).unwrap();
    assert!(!check(place.path()).unwrap().sync_failed);
    for (n, store) in [&store, &other, &late].into_iter().enumerate() {
        block_on(store.commit(put("c", &n.to_string()))).unwrap();
    }
    let expected = [("a", "1"), ("b", "1"), ("c", "2")].map(|(k, v)| (k.to_owned(), v.to_owned()));
    assert_eq!(everything(&store).2, expected);
}

#[test]
fn no_space_for_a_record_leaves_the_store_as_it_was_and_usable() {
    let (place, medium) = (Place::new(), Tame::new());
    let store = open(&place, &medium);
    block_on(store.commit(put("a", "1"))).unwrap();
    for space in 0..60 {
        medium.leave_space(Some(space));
        let before = everything(&store);
        let error = block_on(store.commit(put("b", "some value or other"))).unwrap_err();
        assert!(
            matches!(&error, CommitError::Rejected { reason } if reason.contains("append to") && reason.contains("journal")),
            "{space} bytes left: {error}"
        );
        assert_eq!(everything(&store), before, "{space} bytes left");
    }
    medium.leave_space(None);
    block_on(store.commit(put("b", "2"))).unwrap();
    assert_eq!(store.take_torn_tail(), None, "what was begun is gone");
    drop(store);
    assert_eq!(everything(&place.open()).1, Revision(2));
}

#[test]
fn no_space_for_a_compaction_leaves_the_old_journal() {
    let (place, medium) = (Place::new(), Tame::new());
    let store = open(&place, &medium);
    block_on(store.commit(put("a", "1"))).unwrap();
    let files = || std::fs::read_dir(place.path()).unwrap().count();
    let before = files();
    for space in [0, 100, 128, 150, 200] {
        medium.leave_space(Some(space));
        let error = block_on(store.compact()).unwrap_err();
        assert!(matches!(error, CommitError::Rejected { .. }), "{space} bytes left: {error}");
        assert_eq!(files(), before, "{space} bytes left: nothing half done stays behind");
    }
    medium.leave_space(None);
    block_on(store.commit(put("b", "1"))).unwrap();
    block_on(store.compact()).unwrap();
    assert_eq!(everything(&place.open()).2.len(), 2);
}

#[test]
fn a_new_journal_whose_name_may_not_be_stored_acknowledges_nothing() {
    let (place, medium) = (Place::new(), Tame::new());
    let store = open(&place, &medium);
    block_on(store.commit(put("a", "1"))).unwrap();
    medium.fail_directory_syncs(true);
    block_on(store.compact()).unwrap_err();
    medium.fail_directory_syncs(false);
    assert!(block_on(store.commit(put("b", "1"))).unwrap_err().to_string().contains("a sync failed"));
    block_on(store.compact()).unwrap();
    block_on(store.commit(put("b", "1"))).unwrap();
}

/// The length of a record that is nothing but a durable mark.
const MARK_BYTES: u64 = 28;

#[test]
fn when_the_store_falls_idle_its_last_commit_is_marked_durable() {
    for commit_on_caller in [false, true] {
        let place = Place::new();
        let store = place.open_with(OpenOptions::new().commit_on_caller(commit_on_caller));
        for n in ["1", "2"] {
            block_on(store.commit(put("a", n))).unwrap();
            eventually("all but the last mark is marked", || {
                let report = check(place.path()).unwrap();
                report.journal_bytes - report.marked_durable == MARK_BYTES
            });
        }
        drop(store);
        let size = place.bytes().len();
        drop(place.open());
        assert_eq!(place.bytes().len(), size, "one mark is enough");
    }
}

#[test]
fn a_store_that_is_dropped_ends_what_was_asked_of_it() {
    let place = Place::new();
    let store = place.open();
    assert!(is_pending(pin!(store.commit(put("a", "1")))), "handed over, and then forgotten");
    drop(store);
    assert_eq!(everything(&place.open()).2.len(), 1);
}
