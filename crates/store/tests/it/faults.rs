//! The faults that the memory engine injects, and that callers survive each of them.

use crate::support::{block_on, everything, is_pending, key, put, ready};
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use tidegate_core::{Entropy, Epoch, Revision};
use tidegate_store::{
    CommitError, Decision, Fault, Faults, MemoryStore, ReadError, Scope, SeededFaults, Store, StoreError,
    Txn, transact,
};

/// A counter spread over 128 bits: as random as a test needs.
struct Counting(AtomicU64);

impl Entropy for Counting {
    fn bits(&self) -> u128 {
        let mut bits = self.0.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed);
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        u128::from(bits ^ (bits >> 31))
    }
}

fn seeded(seed: u64) -> Counting {
    Counting(AtomicU64::new(seed))
}

/// The first commit gets `fault`, later ones none.
fn once(fault: Fault) -> impl Faults {
    let mut next = Some(fault);
    move |_: &Txn| next.take().unwrap_or(Fault::None)
}

#[test]
fn each_fault_does_what_its_error_says() {
    for (fault, expected, applied) in [
        (Fault::None, "ok", true),
        (Fault::Reject, "the store refused the write and is unchanged", false),
        (Fault::Busy, "the store is busy", false),
        (Fault::UncertainApplied, "may or may not have happened", true),
        (Fault::UncertainLost, "may or may not have happened", false),
    ] {
        let store = MemoryStore::with_faults(once(fault.clone()));
        let said = ready(store.commit(put("a", "1"))).map_or_else(|e| e.to_string(), |_| "ok".to_owned());
        assert!(said.contains(expected), "{fault:?}: {said}");
        assert_eq!(ready(store.get(&key("a"))).unwrap().is_some(), applied, "{fault:?}");
        assert!(ready(store.commit(put("b", "1"))).is_ok(), "{fault:?} is over");
    }
}

#[test]
fn a_conflict_stays_a_conflict_under_every_fault_that_applies() {
    for fault in [Fault::None, Fault::UncertainApplied, Fault::FailSync] {
        let store = MemoryStore::new();
        let txn = || crate::support::expecting(put("a", "1"), "a", tidegate_store::Condition::Absent);
        ready(store.commit(txn())).unwrap();
        store.set_faults(once(fault));
        assert_eq!(ready(store.commit(txn())), Err(CommitError::Conflict { key: key("a") }));
    }
}

#[test]
fn every_answer_waits_for_what_it_rests_on() {
    let store = MemoryStore::with_faults(once(Fault::Delay));
    let absent = || crate::support::expecting(put("a", "2"), "a", tidegate_store::Condition::Absent);
    let (a, b) = (key("a"), key("b"));
    let mut commit = pin!(store.commit(put("a", "1")));
    assert!(is_pending(commit.as_mut()));
    let (mut read, mut other, mut conflict) =
        (pin!(store.get(&a)), pin!(store.get(&b)), pin!(store.commit(absent())));
    assert!(is_pending(read.as_mut()) && is_pending(other.as_mut()) && is_pending(conflict.as_mut()));
    store.sync();
    assert!(ready(commit).is_ok());
    assert_eq!(&*ready(read).unwrap().unwrap().value, b"1");
    assert_eq!(ready(other).unwrap(), None);
    assert_eq!(ready(conflict), Err(CommitError::Conflict { key: a.clone() }));
}

#[test]
fn a_crash_keeps_a_beginning_of_what_was_not_synced_and_all_of_the_rest() {
    for (kept, expected) in [(0, "a"), (1, "ab"), (2, "abc")] {
        let store = MemoryStore::new();
        ready(store.commit(put("a", ""))).unwrap();
        store.set_faults(|_: &Txn| Fault::Delay);
        let (mut b, mut c) = (pin!(store.commit(put("b", ""))), pin!(store.commit(put("c", ""))));
        assert!(is_pending(b.as_mut()) && is_pending(c.as_mut()));
        assert_eq!(store.unsynced(), 2);
        store.crash(|revision| revision.0 <= 1 + kept);
        assert!(matches!(ready(b), Err(CommitError::Uncertain { .. })));
        assert!(matches!(ready(c), Err(CommitError::Uncertain { .. })));
        let (_, revision, records) = everything(&store);
        assert_eq!(revision, Revision(1 + kept));
        assert_eq!(records.into_iter().map(|(key, _)| key).collect::<String>(), expected);
    }
}

#[test]
fn what_follows_a_lost_commit_is_lost_too() {
    let store = MemoryStore::with_faults(|_: &Txn| Fault::Delay);
    assert!(is_pending(pin!(store.commit(put("a", "")))));
    assert!(is_pending(pin!(store.commit(put("b", "")))));
    store.crash(|revision| revision == Revision(2));
    assert_eq!(everything(&store), (Epoch(1), Revision(0), vec![]));
}

#[test]
fn after_a_failed_sync_nothing_succeeds_until_everything_is_rewritten() {
    let store = MemoryStore::with_faults(once(Fault::FailSync));
    assert!(matches!(ready(store.commit(put("a", "1"))), Err(CommitError::Uncertain { .. })));
    let rejected = ready(store.commit(put("b", "1"))).unwrap_err();
    assert!(rejected.to_string().contains("run `tidegate store compact`"), "{rejected}");
    assert!(matches!(ready(store.get(&key("a"))), Err(ReadError::Unavailable { .. })));
    store.sync();
    assert!(ready(store.commit(put("b", "1"))).is_err(), "another sync proves nothing");
    store.rewrite();
    assert!(ready(store.commit(put("b", "1"))).is_ok());
    assert!(ready(store.get(&key("a"))).unwrap().is_some());
}

#[test]
fn a_restored_store_grants_nothing_until_it_is_adopted_in_a_higher_epoch() {
    for (unix_seconds, expected) in [(0, 2), (1_900_000_000, 1_900_000_000)] {
        let store = MemoryStore::new();
        ready(store.commit(put("a", "old"))).unwrap();
        let backup = store.backup();
        let issued = ready(store.commit(put("a", "new"))).unwrap().fence;
        store.restore(&backup);
        let error = ready(store.commit(put("a", "x"))).unwrap_err();
        assert!(error.to_string().contains("run `tidegate store adopt`"), "{error}");
        assert_eq!(everything(&store).2, [("a".to_owned(), "old".to_owned())], "it can be read");
        assert_eq!(store.adopt(unix_seconds), Epoch(expected));
        assert!(ready(store.commit(put("a", "x"))).unwrap().fence > issued);
    }
}

#[test]
fn a_watcher_is_told_that_the_past_has_changed() {
    let store = MemoryStore::new();
    let mut watch = store.watch("", Revision(0));
    store.crash(|_| true);
    assert!(ready(watch.next()).unwrap_err().to_string().contains("list again"));
}

#[test]
fn decisions_that_know_their_own_writes_survive_every_transient_fault() {
    for seed in 0..50 {
        let store = MemoryStore::with_faults(SeededFaults::transient(seeded(seed), 400));
        for call in 0..20u64 {
            while let Err(error) = block_on(count_once(&store, call)) {
                assert!(
                    matches!(
                        error,
                        StoreError::Commit(CommitError::Rejected { .. } | CommitError::Busy { .. })
                    ),
                    "seed {seed}: {error}"
                );
            }
        }
        let records = everything(&store).2;
        let counted = records.iter().find(|(key, _)| key == "n").map(|(_, value)| value.as_str());
        assert_eq!(counted, Some("20"), "seed {seed}");
    }
}

/// Counts a call, and only once however often it is tried: the call's own record tells.
async fn count_once(store: &dyn Store, call: u64) -> Result<(), StoreError> {
    let (n, done) = (key("n"), key(&format!("done/{call}")));
    let scope = Scope::new().key(&n).key(&done);
    let done = transact(store, &scope, |view| {
        if view.record(&done).is_some() {
            return Ok::<_, StoreError>(Decision::<_>::reply(()));
        }
        let count = view.read::<u64>(&n)?.unwrap_or(0) + 1;
        Ok(Decision::write(Txn::new().put(view, &n, &count).put(view, &done, &true), ()))
    });
    done.await.map(|_| ())
}

#[test]
fn one_seed_gives_one_story() {
    let story = |seed| {
        let store = MemoryStore::with_faults(SeededFaults::transient(seeded(seed), 500));
        (0..40).map(|n| format!("{:?}", ready(store.commit(put(&n.to_string(), ""))))).collect::<Vec<_>>()
    };
    assert_eq!(story(7), story(7));
    assert_ne!(story(7), story(8));
}

#[test]
fn reading_back_that_fails_leaves_the_commit_uncertain() {
    /// Every commit is uncertain; every read but the first fails.
    #[derive(Default)]
    struct Silent {
        read: bool,
    }
    impl Faults for Silent {
        fn commit(&mut self, _: &Txn) -> Fault {
            Fault::UncertainApplied
        }
        fn read_fails(&mut self) -> bool {
            std::mem::replace(&mut self.read, true)
        }
    }
    let store = MemoryStore::with_faults(Silent::default());
    let a = key("a");
    let scope = Scope::new().key(&a);
    let decision = transact(&store, &scope, |view| {
        Ok::<_, StoreError>(Decision::<_>::write(Txn::new().put(view, &a, &1), ()))
    });
    assert!(matches!(ready(decision), Err(StoreError::Commit(CommitError::Uncertain { .. }))));
}
