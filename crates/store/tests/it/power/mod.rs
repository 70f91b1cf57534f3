//! The power fails at every write and every sync, and every piece of what wasn't synced is there or not. Whatever is
//! left, recovery finds everything acknowledged and no half of anything, and finds the same when it is run again or is
//! itself cut short.

mod recorder;
mod remains;

use crate::support::{Place, block_on, is_pending, key, put};
use recorder::{Event, Op, Recorder, refill};
use remains::{Cut, Remains, cuts};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::sync::Arc;
use tidegate_core::Revision;
use tidegate_store::{CommitError, FileStore, OpenOptions, Store, Txn, check};

type Contents = BTreeMap<String, Vec<u8>>;

/// What was done to a store on a medium that writes everything down, and what the store held at each revision.
struct Run {
    medium: Arc<Recorder>,
    log: Vec<Event>,
    history: Vec<Contents>,
}

/// A store, the place it is in, and the medium under it.
struct Scene<'a> {
    place: &'a Place,
    medium: &'a Arc<Recorder>,
    store: &'a FileStore,
}

impl Scene<'_> {
    fn another_handle(&self) -> FileStore {
        self.place.open_with(OpenOptions::new().medium(self.medium.clone()))
    }

    fn commit(&self, store: &FileStore, txn: Txn) {
        let fence = block_on(store.commit(txn)).unwrap().fence;
        self.medium.acknowledged(fence.revision.0);
    }

    /// Several commits of as many handles, all appended before the first is synced.
    fn commit_together<const N: usize>(&self, commits: [(&FileStore, Txn); N]) {
        self.medium.orders.hold_syncs(true);
        let mut waiting: Vec<_> = Vec::new();
        for (count, (store, txn)) in commits.into_iter().enumerate() {
            let mut commit = Box::pin(store.commit(txn));
            assert!(is_pending(commit.as_mut()));
            self.medium.orders.wait_for_held_syncs(count + 1);
            waiting.push(commit);
        }
        self.medium.orders.hold_syncs(false);
        for commit in waiting {
            self.medium.acknowledged(block_on(commit).unwrap().fence.revision.0);
        }
    }
}

impl Run {
    fn of(work: impl FnOnce(&Scene<'_>)) -> Self {
        Self::with(OpenOptions::new(), work)
    }

    fn with(options: OpenOptions, work: impl FnOnce(&Scene<'_>)) -> Self {
        let place = Place::new();
        let medium = Recorder::new(place.path());
        let store = place.open_with(options.medium(medium.clone()));
        work(&Scene { place: &place, medium: &medium, store: &store });
        let history = history(&store);
        drop(store);
        Self { log: medium.log(), medium, history }
    }

    /// Recovers from every power cut; says how many those were, or what went wrong first.
    fn survive(&self) -> Result<usize, String> {
        let all = cuts(None, &self.log);
        let mut known = BTreeSet::new();
        for cut in &all {
            self.recover(cut, &mut known).map_err(|why| {
                let bytes = cut.remains.journal.as_ref().map_or(0, |(_, bytes)| bytes.len());
                format!(
                    "power cut after event {} ({:?}), leaving a journal of {bytes} bytes: {why}",
                    cut.after, self.log[cut.after].op
                )
            })?;
        }
        Ok(all.len())
    }

    /// Recovers from one power cut, and from every power cut in the recovery. `known` are the remains that were
    /// recovered from before, for as much as had been acknowledged.
    fn recover(&self, cut: &Cut, known: &mut BTreeSet<(Remains, u64)>) -> Result<(), String> {
        let crashed = Place::new();
        let medium = Recorder::of_a_recovery(crashed.path());
        cut.remains.put_into(&crashed, &[&self.medium]);
        let before = cut.remains.journal.as_ref().map(|_| check(crashed.path()).map_err(|e| e.to_string()));
        let found = self.open_and_judge(&crashed, &medium, cut.acknowledged)?;
        if let Some(report) = before
            && report?.revision.0 != found
        {
            return Err("a check and an opening disagree".to_owned());
        }
        let again = self.open_and_judge(&crashed, &medium, cut.acknowledged)?;
        if found != again {
            return Err(format!("recovered to revision {found}, and again to {again}"));
        }
        let Some(start) = &cut.remains.journal else { return Ok(()) };
        for inner in cuts(Some(start.clone()), &medium.log()) {
            if !known.insert((inner.remains.clone(), cut.acknowledged)) {
                continue;
            }
            let crashed = Place::new();
            inner.remains.put_into(&crashed, &[&self.medium, &medium]);
            let quiet = Recorder::of_a_recovery(crashed.path());
            let after = self.open_and_judge(&crashed, &quiet, cut.acknowledged)?;
            if after != found {
                return Err(format!("recovered to {found}, and to {after} when that was cut short"));
            }
        }
        Ok(())
    }

    fn open_and_judge(
        &self,
        place: &Place,
        medium: &Arc<Recorder>,
        acknowledged: u64,
    ) -> Result<u64, String> {
        let options = OpenOptions::new().create(true).medium(medium.clone());
        let (store, _) = FileStore::open(place.path(), options).map_err(|error| error.to_string())?;
        if check(place.path()).map_err(|error| error.to_string())?.sync_failed {
            // The flag outlives a power cut: whether the machine was off is not what it is about.
            block_on(store.compact()).map_err(|error| error.to_string())?;
        }
        let listing = block_on(store.list("")).map_err(|error| error.to_string())?;
        let revision = listing.revision.0;
        if revision < acknowledged {
            return Err(format!("revision {acknowledged} was acknowledged, and the newest is {revision}"));
        }
        let found: Contents =
            listing.records.into_iter().map(|r| (r.key.to_string(), r.value.to_vec())).collect();
        match self.history.get(revision as usize) {
            Some(expected) if *expected == found => Ok(revision),
            Some(expected) => Err(format!("at revision {revision} stands {found:?} and not {expected:?}")),
            None => Err(format!("revision {revision} was never made")),
        }
    }
}

impl Remains {
    /// Puts these files into a directory, each the very file that it was.
    fn put_into(&self, place: &Place, media: &[&Recorder]) {
        let put = |(file, bytes): &(recorder::FileId, Vec<u8>), name: &str| {
            let kept = media.iter().map(|medium| medium.kept(*file)).find(|kept| kept.exists()).unwrap();
            refill(&kept, bytes);
            fs::hard_link(kept, place.path().join(name)).unwrap();
        };
        if let Some(journal) = &self.journal {
            put(journal, "journal");
        }
        if let Some(leftover) = &self.leftover {
            put(leftover, ".journal-x");
        }
        fs::write(place.path().join("lock"), &self.lock).unwrap();
    }
}

/// What the store held at each revision since it was made.
fn history(store: &FileStore) -> Vec<Contents> {
    let newest = block_on(store.list("")).unwrap().revision.0;
    let mut history = vec![Contents::new()];
    let mut watch = store.watch("", Revision(0));
    while (history.len() as u64) <= newest {
        let mut now = history.last().unwrap().clone();
        for change in block_on(watch.next()).unwrap() {
            match change.record {
                Some(record) => now.insert(change.key.to_string(), record.value.to_vec()),
                None => now.remove(change.key.as_str()),
            };
        }
        history.push(now);
    }
    history
}

fn pair(name: &str, value: &str) -> Txn {
    put(&format!("left/{name}"), value).and(put(&format!("right/{name}"), value))
}

#[track_caller]
fn check_survival(run: &Run, at_least: usize) {
    match run.survive() {
        Ok(cuts) => assert!(cuts >= at_least, "only {cuts} power cuts were tried"),
        Err(why) => panic!("{why}"),
    }
}

#[test]
fn a_store_that_is_made_written_and_compacted_survives_every_power_cut() {
    let run = Run::of(|scene| {
        scene.commit(scene.store, pair("a", "1"));
        scene.commit(scene.store, pair("a", "a longer value than before"));
        scene.commit(scene.store, Txn { writes: [(key("left/a"), None)].into(), ..Txn::new() });
        block_on(scene.store.compact()).unwrap();
        scene.commit(scene.store, pair("b", "3"));
    });
    check_survival(&run, 150);
}

#[test]
fn commits_that_their_callers_make_survive_every_power_cut() {
    let run = Run::with(OpenOptions::new().commit_on_caller(true), |scene| {
        let other = scene.another_handle();
        scene.commit(scene.store, pair("a", "1"));
        scene.commit(&other, pair("b", "2"));
        scene.commit(scene.store, pair("a", "another value"));
    });
    check_survival(&run, 80);
}

#[test]
fn commits_of_three_handles_that_were_all_unsynced_survive_every_power_cut() {
    let run = Run::of(|scene| {
        let (b, c) = (scene.another_handle(), scene.another_handle());
        scene.commit(scene.store, pair("a", "0"));
        scene.commit_together([
            (scene.store, pair("a", "1")),
            (&b, pair("b", "2")),
            (&c, put("left/a", "3")),
        ]);
        scene.commit(&b, pair("b", "4"));
    });
    check_survival(&run, 500);
}

#[test]
fn what_a_failed_sync_left_in_doubt_is_never_relied_on() {
    let run = Run::of(|scene| {
        scene.commit(scene.store, pair("a", "1"));
        scene.medium.orders.fail_syncs(true);
        let doubtful = block_on(scene.store.commit(pair("b", "2"))).unwrap_err();
        assert!(matches!(doubtful, CommitError::Uncertain { .. }));
        scene.medium.orders.fail_syncs(false);
        block_on(scene.store.commit(pair("c", "3"))).unwrap_err();
        block_on(scene.store.compact()).unwrap();
        scene.commit(scene.store, pair("c", "3"));
    });
    check_survival(&run, 100);
}

#[test]
fn a_full_disk_and_then_no_power_lose_nothing() {
    let run = Run::of(|scene| {
        scene.commit(scene.store, pair("a", "1"));
        scene.medium.orders.leave_space(Some(60));
        block_on(scene.store.commit(pair("b", "it doesn't fit"))).unwrap_err();
        scene.medium.orders.leave_space(Some(200));
        block_on(scene.store.compact()).unwrap_err();
        scene.medium.orders.leave_space(None);
        scene.commit(scene.store, pair("b", "it fits"));
    });
    check_survival(&run, 100);
}

#[test]
fn a_disk_that_only_says_it_has_synced_is_found_out() {
    let mut run = Run::of(|scene| {
        scene.commit(scene.store, pair("a", "1"));
        scene.commit(scene.store, pair("b", "2"));
    });
    assert!(run.survive().is_ok());
    let last = run.log.iter().rposition(|event| matches!(event.op, Op::Acknowledged(2))).unwrap();
    let sync = run.log[..last].iter().rposition(|event| matches!(event.op, Op::SyncEnds { .. })).unwrap();
    run.log.remove(sync);
    let why = run.survive().unwrap_err();
    assert!(why.contains("revision 2 was acknowledged, and the newest is 1"), "{why}");
}
