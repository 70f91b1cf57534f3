//! Journals that are replaced: by compaction, by a restore, and by adoption.

use crate::processes::{Child, role};
use crate::support::{Place, block_on, everything, key, put};
use std::fs;
use std::process::Command;
use tidegate_core::{Epoch, Fence, Revision};
use tidegate_store::{FileStore, OpenOptions, Store, Txn, adopt, check};

#[test]
fn a_compacted_store_has_the_same_records_with_the_same_fences() {
    let place = Place::new();
    let store = place.open();
    for n in 0..50 {
        block_on(store.commit(put("a", &n.to_string()).and(put(&format!("b/{}", n % 3), "x")))).unwrap();
    }
    block_on(store.commit(Txn { writes: [(key("b/0"), None)].into(), ..Txn::new() })).unwrap();
    let before = block_on(store.list("")).unwrap();
    let size = place.bytes().len();
    block_on(store.compact()).unwrap();
    assert!(place.bytes().len() < size / 5);
    assert_eq!(block_on(store.list("")).unwrap(), before);
    assert_eq!(block_on(store.commit(put("a", "next"))).unwrap().fence, Fence::new(Epoch(1), Revision(52)));
    drop(store);
    let reopened = block_on(place.open().list("b/")).unwrap();
    assert_eq!(reopened.records, block_on(place.open().list("b/")).unwrap().records);
    assert_eq!(reopened.records, before.records[1..]);
    assert_eq!(check(place.path()).unwrap().generation, 2);
}

#[test]
fn an_empty_store_can_be_compacted_and_so_can_one_with_large_values() {
    let place = Place::new();
    let store = place.open();
    block_on(store.compact()).unwrap();
    for n in 0..5 {
        block_on(store.commit(Txn::new().put_bytes(&key(&n.to_string()), &vec![n; 300_000]))).unwrap();
    }
    block_on(store.compact()).unwrap();
    let before = block_on(store.list("")).unwrap();
    drop(store);
    assert_eq!(block_on(place.open().list("")).unwrap(), before);
}

#[test]
fn a_journal_far_larger_than_what_lives_in_it_is_compacted_by_itself() {
    for commit_on_caller in [false, true] {
        let place = Place::new();
        let store = place.open_with(OpenOptions::new().commit_on_caller(commit_on_caller));
        let value = vec![b'x'; 900_000];
        for _ in 0..12 {
            block_on(store.commit(Txn::new().put_bytes(&key("a"), &value))).unwrap();
        }
        drop(store);
        let report = check(place.path()).unwrap();
        assert!(report.generation >= 2 && report.journal_bytes < 6_000_000, "{report:?}");
        assert_eq!(report.revision, Revision(12));
    }
}

#[test]
fn the_directory_for_temporary_files_is_never_used() {
    if let Some(dir) = role("compact") {
        let (store, _) = FileStore::open(&dir, OpenOptions::new().create(true)).unwrap();
        block_on(store.commit(put("a", "1"))).unwrap();
        block_on(store.compact()).unwrap();
        println!("ack {}", std::env::temp_dir().display());
        return;
    }
    let place = Place::new();
    // A rename can't cross file systems, and what isn't there crosses none: nothing of the store may be made there.
    let nowhere = place.path().join("no such directory");
    let mut with_it = Command::new("env");
    with_it.arg(format!("TMPDIR={}", nowhere.display()));
    let state = place.path().join("state");
    let test = "rewriting::the_directory_for_temporary_files_is_never_used";
    let mut child = Child::start_under(with_it, test, "compact", &state);
    assert_eq!(child.next_ack().as_deref(), nowhere.to_str());
    child.ends_well();
    assert_eq!(check(&state).unwrap().generation, 2);
    assert!(!nowhere.exists());
}

#[test]
fn readers_and_watchers_see_no_gap_while_another_handle_compacts() {
    let place = Place::new();
    let (store, other) = (place.open(), place.open());
    let mut watch = other.watch("", Revision(0));
    for n in 1..=40u64 {
        block_on(store.commit(put("n", &n.to_string()))).unwrap();
        if n % 5 == 0 {
            block_on(store.compact()).unwrap();
        }
        let expected = (Epoch(1), Revision(n), vec![("n".to_owned(), n.to_string())]);
        assert_eq!(everything(&other), expected);
        let changes = block_on(watch.next()).unwrap();
        assert_eq!(changes.iter().map(|c| c.revision.0).collect::<Vec<_>>(), [n]);
    }
}

#[test]
fn a_handle_that_missed_whole_journals_has_the_records_and_says_that_it_missed_changes() {
    let place = Place::new();
    let (store, other) = (place.open(), place.open());
    for n in 1..=6 {
        block_on(store.commit(put("n", &n.to_string()))).unwrap();
        block_on(store.compact()).unwrap();
    }
    assert_eq!(everything(&other).2, [("n".to_owned(), "6".to_owned())]);
    let error = block_on(other.watch("", Revision(3)).next()).unwrap_err().to_string();
    assert!(error.contains("list again"), "{error}");
    block_on(other.commit(put("n", "7"))).unwrap();
    assert_eq!(block_on(other.watch("", Revision(6)).next()).unwrap()[0].revision, Revision(7));
}

#[test]
fn handles_that_compact_at_once_lose_nothing() {
    let place = Place::new();
    std::thread::scope(|scope| {
        for thread in 0..3 {
            let place = &place;
            scope.spawn(move || {
                let store = place.open();
                for n in 0..15 {
                    block_on(store.commit(put(&format!("{thread}/{n}"), ""))).unwrap();
                    block_on(store.compact()).unwrap();
                }
            });
        }
    });
    let (_, revision, records) = everything(&place.open());
    assert_eq!((revision.0, records.len()), (45, 45));
}

/// A store with the record a = old, and a copy of its directory.
fn copied() -> (Place, Place) {
    let (original, copy) = (Place::new(), Place::new());
    block_on(original.open().commit(put("a", "old"))).unwrap();
    for name in ["journal", "lock"] {
        fs::copy(original.path().join(name), copy.path().join(name)).unwrap();
    }
    (original, copy)
}

#[test]
fn a_copy_can_be_read_and_grants_nothing_until_it_is_adopted() {
    for (unix_seconds, expected) in [(0, 2), (1_900_000_000, 1_900_000_000)] {
        let (original, copy) = copied();
        let (store, report) = copy.try_open().unwrap();
        assert!(report.adopt.is_some_and(|reason| reason.contains("is a copy or was restored")));
        assert_eq!(everything(&store).2, [("a".to_owned(), "old".to_owned())]);
        let bytes = copy.bytes();
        for error in [block_on(store.commit(put("a", "new"))).map(|_| ()), block_on(store.compact())] {
            let error = error.unwrap_err().to_string();
            assert!(error.contains("then run `tidegate store adopt`"), "{error}");
        }
        assert!(copy.bytes() == bytes, "untouched");

        let issued = block_on(original.open().commit(put("a", "new"))).unwrap().fence;
        let adopted = adopt(copy.path(), unix_seconds).unwrap();
        assert_eq!((adopted.epoch, adopted.revision), (Epoch(expected), Revision(1)));
        let fence = block_on(store.commit(put("a", "new"))).unwrap().fence;
        assert!(fence > issued && fence.epoch == adopted.epoch, "{fence} > {issued}");
        assert_eq!(check(copy.path()).unwrap().adopt, None);
        let old = block_on(copy.open().get(&key("a"))).unwrap().unwrap();
        assert_eq!(old.fence, fence);
    }
}

#[test]
fn a_copy_with_a_torn_tail_is_left_as_it_is_until_it_is_adopted() {
    let (_, copy) = copied();
    let mut bytes = copy.bytes();
    bytes.truncate(bytes.len() - 1);
    copy.overwrite(&bytes);
    let (store, report) = copy.try_open().unwrap();
    assert!(report.adopt.is_some() && report.torn.is_some());
    block_on(store.commit(put("a", "new"))).unwrap_err();
    block_on(store.compact()).unwrap_err();
    assert_eq!(everything(&store).2, [("a".to_owned(), "old".to_owned())]);
    drop(store);
    assert!(copy.bytes() == bytes, "untouched");
    adopt(copy.path(), 0).unwrap();
    assert_eq!(copy.try_open().unwrap().1.torn, None);
}

#[test]
fn a_backup_put_in_the_place_of_a_journal_in_use_is_noticed() {
    let place = Place::new();
    let store = place.open();
    block_on(store.commit(put("a", "old"))).unwrap();
    let backup = place.path().join("backup");
    fs::copy(place.journal(), &backup).unwrap();
    block_on(store.commit(put("a", "new"))).unwrap();
    let mut watch = store.watch("", Revision(2));
    fs::rename(&backup, place.journal()).unwrap();
    assert_eq!(everything(&store), (Epoch(1), Revision(1), vec![("a".to_owned(), "old".to_owned())]));
    assert!(
        block_on(store.commit(put("a", "x"))).unwrap_err().to_string().contains("`tidegate store adopt`")
    );
    assert!(block_on(watch.next()).unwrap_err().to_string().contains("list again"));
    adopt(place.path(), 7).unwrap();
    assert_eq!(block_on(store.commit(put("a", "x"))).unwrap().fence, Fence::new(Epoch(7), Revision(2)));
}

#[test]
fn another_store_in_the_place_of_one_in_use_is_neither_read_nor_written_through_it() {
    let place = Place::new();
    let store = place.open();
    block_on(store.commit(put("a", "old"))).unwrap();
    for name in ["journal", "lock"] {
        fs::remove_file(place.path().join(name)).unwrap();
    }
    block_on(place.open().commit(put("a", "theirs"))).unwrap();
    let bytes = place.bytes();
    let told = [
        block_on(store.get(&key("a"))).unwrap_err().to_string(),
        block_on(store.commit(put("a", "ours"))).unwrap_err().to_string(),
        block_on(store.compact()).unwrap_err().to_string(),
    ];
    for error in told {
        assert!(error.contains("another store stands in the place of"), "{error}");
    }
    drop(store);
    assert!(place.bytes() == bytes, "untouched");
}

#[test]
fn only_a_sound_store_is_adopted() {
    let place = Place::new();
    assert!(adopt(place.path(), 1).unwrap_err().to_string().contains("there is no store in"));
    let (_, copy) = copied();
    let mut bytes = copy.bytes();
    bytes[200] ^= 1;
    copy.overwrite(&bytes);
    assert!(adopt(copy.path(), 1).unwrap_err().to_string().contains("is damaged at offset"));
    assert!(copy.bytes() == bytes);
}

#[test]
fn a_store_opened_before_and_after_an_adoption_is_one_store() {
    let (_, copy) = copied();
    let before: Vec<FileStore> = (0..2).map(|_| copy.open()).collect();
    let adopted = adopt(copy.path(), 0).unwrap();
    let (after, report) = FileStore::open(copy.path(), OpenOptions::new()).unwrap();
    assert_eq!((report.epoch, report.adopt), (adopted.epoch, None));
    for (n, store) in before.iter().chain([&after]).enumerate() {
        block_on(store.commit(put("n", &n.to_string()))).unwrap();
    }
    assert_eq!(everything(&after).1, Revision(4));
}
