//! What every engine promises. One body, run against each of them.

use crate::support::{Place, block_on, everything, expecting, is_pending, key, put};
use std::pin::pin;
use std::sync::Arc;
use tidegate_core::{Epoch, Fence, Revision};
use tidegate_store::{
    CommitError, Condition, Decision, MAX_TXN_BYTES, MAX_VALUE_BYTES, MemoryStore, OpenOptions, Scope, Store,
    StoreError, Txn, transact,
};

/// Runs a test against a fresh store of each engine, and of the file engine both with a thread that commits and without.
fn on_every_engine(test: impl Fn(Arc<dyn Store>)) {
    test(Arc::new(MemoryStore::new()));
    for commit_on_caller in [false, true] {
        let place = Place::new();
        test(Arc::new(place.open_with(OpenOptions::new().commit_on_caller(commit_on_caller))));
    }
}

fn commit(store: &dyn Store, txn: Txn) -> Result<Fence, CommitError> {
    block_on(store.commit(txn)).map(|committed| committed.fence)
}

fn fence(revision: u64) -> Fence {
    Fence::new(Epoch(1), Revision(revision))
}

#[test]
fn a_new_store_is_empty_at_revision_zero() {
    on_every_engine(|store| {
        assert_eq!(everything(&store), (Epoch(1), Revision(0), vec![]));
        assert_eq!(block_on(store.get(&key("a"))).unwrap(), None);
    });
}

#[test]
fn a_record_carries_the_fence_of_the_commit_that_wrote_it_last() {
    on_every_engine(|store| {
        assert_eq!(commit(&store, put("a", "1")), Ok(fence(1)));
        assert_eq!(commit(&store, put("b", "1")), Ok(fence(2)));
        assert_eq!(commit(&store, put("a", "2")), Ok(fence(3)));
        for (name, value, revision) in [("a", "2", 3), ("b", "1", 2)] {
            let record = block_on(store.get(&key(name))).unwrap().unwrap();
            assert_eq!((&*record.value, record.fence), (value.as_bytes(), fence(revision)));
        }
    });
}

#[test]
fn conditions_hold_or_nothing_happens() {
    let (at, absent) = (|revision| Condition::At(Revision(revision)), Condition::Absent);
    on_every_engine(|store| {
        commit(&store, put("here", "1")).unwrap();
        commit(&store, put("gone", "1")).unwrap();
        commit(&store, Txn { writes: [(key("gone"), None)].into(), ..Txn::new() }).unwrap();
        let before = everything(&store);
        for (name, condition, holds) in [
            ("here", at(1), true),
            ("here", at(2), false),
            ("here", absent, false),
            ("gone", absent, true),
            ("gone", at(2), false),
            ("never", absent, true),
            ("never", at(0), false),
        ] {
            let txn = expecting(put("other", "x"), name, condition);
            let mut undo = Txn::new();
            undo.writes.insert(key("other"), None);
            match commit(&store, txn) {
                Ok(_) => commit(&store, undo).map(|_| assert!(holds, "{name} {condition:?}")).unwrap(),
                Err(error) => {
                    assert_eq!(error, CommitError::Conflict { key: key(name) });
                    assert!(!holds, "{name} {condition:?}");
                }
            }
            assert_eq!(everything(&store).2, before.2, "{name} {condition:?}");
        }
    });
}

#[test]
fn one_failing_condition_stops_the_whole_transaction() {
    on_every_engine(|store| {
        let txn = put("a", "1").and(put("b", "1")).and(expecting(Txn::new(), "a", Condition::Absent));
        commit(&store, txn.clone()).unwrap();
        assert_eq!(commit(&store, txn.and(put("b", "2"))), Err(CommitError::Conflict { key: key("a") }));
        let expected = [("a", "1"), ("b", "1")].map(|(k, v)| (k.to_owned(), v.to_owned()));
        assert_eq!(everything(&store), (Epoch(1), Revision(1), expected.to_vec()));
    });
}

#[test]
fn an_empty_transaction_is_checked_and_changes_nothing() {
    on_every_engine(|store| {
        commit(&store, put("a", "1")).unwrap();
        let condition = |condition| expecting(Txn::new(), "a", condition);
        assert_eq!(commit(&store, condition(Condition::At(Revision(1)))), Ok(fence(1)));
        assert!(matches!(commit(&store, condition(Condition::Absent)), Err(CommitError::Conflict { .. })));
        assert_eq!(everything(&store).1, Revision(1));
    });
}

#[test]
fn keys_and_values_are_stored_exactly_and_listed_in_order() {
    let names = ["a", "a b", "a/b", "a/b/c", "ab", "b", "ä", "🌊/x"];
    on_every_engine(|store| {
        for name in names.iter().rev() {
            commit(&store, put(name, name)).unwrap();
        }
        let listed = |prefix| -> Vec<String> {
            block_on(store.list(prefix)).unwrap().records.iter().map(|r| r.key.to_string()).collect()
        };
        for (prefix, expected) in [
            ("", &names[..]),
            ("a/", &["a/b", "a/b/c"]),
            ("a", &["a", "a b", "a/b", "a/b/c", "ab"]),
            ("🌊", &["🌊/x"]),
            ("c", &[]),
        ] {
            assert_eq!(listed(prefix), expected, "{prefix:?}");
        }
        let odd = [&b""[..], b"\x00\xff\n", &[7; 100_000]];
        for value in odd {
            commit(&store, Txn::new().put_bytes(&key("v"), value)).unwrap();
            assert_eq!(&*block_on(store.get(&key("v"))).unwrap().unwrap().value, value);
        }
    });
}

#[test]
fn what_is_too_large_is_refused_and_what_just_fits_is_not() {
    let value = |bytes: usize| Txn::new().put_bytes(&key("v"), &vec![b'x'; bytes]);
    let many = |bytes: usize| {
        (0..4).fold(Txn::new(), |txn, n| {
            txn.and(Txn::new().put_bytes(&key(&n.to_string()), &vec![b'x'; bytes - 1]))
        })
    };
    on_every_engine(|store| {
        for (txn, fits) in [
            (value(MAX_VALUE_BYTES), true),
            (value(MAX_VALUE_BYTES + 1), false),
            (value(10 << 20), false),
            (many(MAX_TXN_BYTES / 4), true),
            (many(MAX_TXN_BYTES / 4).and(put("one", "more")), false),
        ] {
            let before = everything(&store).1;
            match commit(&store, txn) {
                Ok(_) => assert!(fits),
                Err(error) => {
                    assert!(!fits && error.to_string().contains("has at most"), "{error}");
                    assert_eq!(everything(&store).1, before);
                }
            }
        }
    });
}

#[test]
fn a_watcher_sees_each_change_under_its_prefix_once_and_in_order() {
    on_every_engine(|store| {
        commit(&store, put("w/a", "1").and(put("x", "1"))).unwrap();
        let mut watch = store.watch("w/", Revision(0));
        commit(&store, put("x", "2")).unwrap();
        commit(&store, put("w/a", "2").and(put("w/b", "2"))).unwrap();
        commit(&store, Txn { writes: [(key("w/a"), None)].into(), ..Txn::new() }).unwrap();
        let mut seen = Vec::new();
        for _ in 0..3 {
            for change in block_on(watch.next()).unwrap() {
                let value = change.record.map(|r| String::from_utf8(r.value.to_vec()).unwrap());
                seen.push((change.revision.0, change.key.to_string(), value));
            }
        }
        let row =
            |revision, name: &str, value: Option<&str>| (revision, name.to_owned(), value.map(str::to_owned));
        let expected = [
            row(1, "w/a", Some("1")),
            row(3, "w/a", Some("2")),
            row(3, "w/b", Some("2")),
            row(4, "w/a", None),
        ];
        assert_eq!(seen, expected);
        assert!(is_pending(pin!(watch.next())), "nothing is seen twice");
    });
}

#[test]
fn a_waiting_watcher_is_woken_by_a_commit() {
    on_every_engine(|store| {
        let mut watch = store.watch("", Revision(0));
        let waiting = std::thread::spawn(move || block_on(watch.next()).unwrap().len());
        commit(&store, put("a", "1").and(put("b", "1"))).unwrap();
        assert_eq!(waiting.join().unwrap(), 2);
    });
}

#[test]
fn a_dropped_look_at_a_watch_loses_nothing() {
    on_every_engine(|store| {
        let mut watch = store.watch("", Revision(0));
        assert!(is_pending(pin!(watch.next())));
        commit(&store, put("a", "1")).unwrap();
        assert_eq!(block_on(watch.next()).unwrap()[0].revision, Revision(1));
    });
}

#[test]
fn concurrent_decisions_lose_no_increment() {
    on_every_engine(|store| {
        let threads: Vec<_> = (0..4)
            .map(|_| {
                let store = store.clone();
                std::thread::spawn(move || (0..25).for_each(|_| increment(&store)))
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(everything(&store).2, [("n".to_owned(), "100".to_owned())]);
        assert_eq!(everything(&store).1, Revision(100));
    });
}

fn increment(store: &dyn Store) {
    let n = key("n");
    let scope = Scope::new().key(&n);
    let once = || {
        block_on(transact(store, &scope, |view| {
            let value = view.read::<u64>(&n).map_err(StoreError::Read)?.unwrap_or(0) + 1;
            Ok::<_, StoreError>(Decision::<_>::write(Txn::new().put(view, &n, &value), value))
        }))
    };
    while let Err(error) = once() {
        assert!(matches!(error, StoreError::Contended { .. }), "{error}");
    }
}
