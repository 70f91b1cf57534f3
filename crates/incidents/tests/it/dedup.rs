//! The same thing reported by many at once is one incident.

use crate::fixture::{World, crashed, id, wait};
use std::sync::{Arc, Barrier};
use tidegate_host::OsEntropy;
use tidegate_incidents::{IncidentKind, Incidents, Outcome, decide_report, fresh_id};
use tidegate_scenario::ManualClock;
use tidegate_store::{CommitError, Fault, MemoryStore, Store, Txn};

#[test]
fn five_reports_decided_on_one_view_conflict_until_each_is_counted() {
    let world = World::new();
    let view = world.view();
    let fresh: Vec<_> = (0..5).map(|_| fresh_id(&*world.ids)).collect();
    let decide = |fresh| decide_report(&view, &crashed("files"), fresh, &world.now()).unwrap();
    let mut committed = 0;
    for fresh in &fresh {
        match wait(world.store.commit(decide(fresh).txn)) {
            Ok(_) => committed += 1,
            Err(CommitError::Conflict { .. }) => {
                wait(world.incidents.report(&crashed("files"))).unwrap();
            }
            Err(error) => panic!("{error}"),
        }
    }
    assert_eq!(committed, 1, "one of the five decisions opens the incident");
    let incidents = wait(world.incidents.list()).unwrap();
    assert_eq!(incidents.iter().map(|i| (&i.id, i.count)).collect::<Vec<_>>(), [(&id("inc-1"), 5)]);
}

#[test]
fn five_processes_in_the_same_instant_make_one_incident_of_count_five() {
    for round in 0..20 {
        let (store, clock) = (MemoryStore::new(), Arc::new(ManualClock::default()));
        let together = Barrier::new(5);
        std::thread::scope(|scope| {
            for _ in 0..5 {
                scope.spawn(|| {
                    let incidents =
                        Incidents::new(Arc::new(store.clone()), clock.clone(), Arc::new(OsEntropy));
                    together.wait();
                    wait(incidents.report(&crashed("files"))).unwrap();
                });
            }
        });
        let incidents = wait(tidegate_incidents::list(&store)).unwrap();
        assert_eq!(incidents.len(), 1, "round {round}");
        assert_eq!(incidents[0].count, 5, "round {round}");
    }
}

#[test]
fn a_report_whose_commit_was_uncertain_is_counted_once() {
    for (fault, happened) in [(Fault::UncertainApplied, true), (Fault::UncertainLost, false)] {
        for before in 0..2 {
            let world = World::new();
            for _ in 0..before {
                wait(world.incidents.report(&crashed("files"))).unwrap();
            }
            let mut once = Some(fault.clone());
            world.store.set_faults(move |_: &Txn| once.take().unwrap_or(Fault::None));
            let reported = wait(world.incidents.report(&crashed("files"))).unwrap();
            assert_eq!(reported.count, before + 1, "applied: {happened}, before: {before}");
            let expected = if before == 0 { Outcome::Opened } else { Outcome::Counted };
            assert_eq!(reported.outcome, expected);
            let incident = wait(world.incidents.get(&reported.id)).unwrap();
            assert_eq!(incident.count, before + 1, "applied: {happened}, before: {before}");
        }
    }
}

#[test]
fn kind_and_dedup_key_tell_incidents_apart() {
    let world = World::new();
    let mut other_kind = crashed("files");
    other_kind.kind = IncidentKind::StartFailed;
    for report in [crashed("files"), crashed("search"), other_kind] {
        let reported = wait(world.incidents.report(&report)).unwrap();
        assert_eq!(reported.outcome, Outcome::Opened, "{report:?}");
    }
}
