//! The gate under shuttle: whatever goes first, an admission is counted or refused.

#![allow(dead_code, unreachable_pub, reason = "the gate's files are whole; a model uses a part of them")]

#[path = "../../../drain/src/gate.rs"]
pub(crate) mod gate;
#[path = "../../../drain/src/permit.rs"]
pub(crate) mod permit;
#[path = "../../../drain/src/slab.rs"]
pub(crate) mod slab;

pub(crate) use slab::PermitId;
pub(crate) use tidegate_drain::{Holder, WorkInfo};

use gate::{Gate, Refusal};
use shuttle::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Arc;
use tidegate_core::{BootId, Now, WallTime, WorkClass};

const NOW: Now = Now { boot: BootId(1), boot_ms: 7, wall: WallTime(0) };

/// Schedules of each kind: those of a few preemptions at random places find what random ones miss, and the reverse.
const SCHEDULES: usize = 1_000;
const PREEMPTIONS: usize = 3;

fn explore(model: fn()) {
    shuttle::check_random(model, SCHEDULES);
    shuttle::check_pct(model, SCHEDULES, PREEMPTIONS);
}

fn work() -> Arc<WorkInfo> {
    Arc::new(WorkInfo {
        session: "local/s1".parse().unwrap(),
        component: "files".parse().unwrap(),
        tool: "write".into(),
        class: WorkClass::Mutating,
    })
}

#[test]
fn what_was_admitted_before_the_close_is_in_its_count_and_named_and_nothing_else_is() {
    explore(|| {
        let (gate, admitted) = (Gate::new("files".parse().unwrap(), 2), Arc::new(AtomicUsize::new(0)));
        let workers: Vec<_> = (0..2)
            .map(|_| {
                let (gate, admitted) = (gate.clone(), admitted.clone());
                shuttle::thread::spawn(move || match gate.admit(&work(), &NOW) {
                    Ok(permit) => {
                        admitted.fetch_add(1, Ordering::SeqCst);
                        Some(permit)
                    }
                    Err(Refusal::Closed { drain, .. }) => {
                        assert_eq!(drain.as_str(), "d1");
                        None
                    }
                    Err(other) => panic!("{other}"),
                })
            })
            .collect();
        let counted = gate.close("d1".parse().unwrap()).unwrap();
        let named = gate.holders(&NOW).len();
        assert_eq!(named, counted, "everything counted has a name");
        assert!(admitted.load(Ordering::SeqCst) <= counted);
        let permits: Vec<_> = workers.into_iter().filter_map(|worker| worker.join().unwrap()).collect();
        assert_eq!(permits.len(), counted, "nobody comes in behind the close");
        permits.into_iter().for_each(permit::Permit::finish);
        assert_eq!((gate.in_flight(), gate.holders(&NOW).len()), (0, 0));
    });
}

#[test]
fn a_slot_that_is_freed_while_another_is_claimed_belongs_to_one() {
    explore(|| {
        let gate = Gate::new("files".parse().unwrap(), 2);
        let workers: Vec<_> = (0..3)
            .map(|_| {
                let gate = gate.clone();
                shuttle::thread::spawn(move || {
                    for _ in 0..2 {
                        if let Ok(permit) = gate.admit(&work(), &NOW) {
                            assert!(gate.in_flight() <= 2);
                            permit.finish();
                        }
                    }
                })
            })
            .collect();
        for worker in workers {
            worker.join().unwrap();
        }
        let both = [gate.admit(&work(), &NOW).unwrap(), gate.admit(&work(), &NOW).unwrap()];
        assert_ne!(both[0].id(), both[1].id());
        assert!(gate.admit(&work(), &NOW).is_err());
        both.into_iter().for_each(permit::Permit::finish);
    });
}

#[test]
fn a_holder_is_named_by_its_own_admission_and_never_half_by_its_predecessors() {
    explore(|| {
        let gate = Gate::new("files".parse().unwrap(), 1);
        let sessions = ["local/s1", "local/s2", "local/s3"];
        let worker = {
            let gate = gate.clone();
            shuttle::thread::spawn(move || {
                for (boot_ms, session) in (1..).zip(sessions) {
                    let work = Arc::new(WorkInfo { session: session.parse().unwrap(), ..(*work()).clone() });
                    gate.admit(&work, &Now { boot_ms, ..NOW }).unwrap().finish();
                }
            })
        };
        for _ in 0..3 {
            for holder in gate.holders(&NOW) {
                let admitted_ms = (NOW.boot_ms - holder.age_ms) as usize;
                assert_eq!(holder.session.to_string(), sessions[admitted_ms - 1]);
            }
        }
        worker.join().unwrap();
        assert_eq!(gate.holders(&NOW), []);
    });
}

#[test]
fn abandoned_work_is_settled_once_whoever_is_first() {
    explore(|| {
        let gate = Gate::new("files".parse().unwrap(), 1);
        drop(gate.admit(&work(), &NOW).unwrap());
        let other = gate.clone();
        let dead = shuttle::thread::spawn(move || other.settle_all_dead());
        let settled = gate.settle_all_dead();
        assert_eq!(settled + dead.join().unwrap(), 1);
        assert_eq!(gate.in_flight(), 0);
        // Whoever comes next into that slot isn't touched by a late settlement.
        let next = gate.admit(&work(), &NOW).unwrap();
        assert_eq!((gate.settle_all_dead(), gate.in_flight()), (0, 1));
        next.finish();
    });
}

#[test]
fn a_gate_that_opens_and_closes_under_admissions_never_loses_count() {
    explore(|| {
        let gate = Gate::new("files".parse().unwrap(), 4);
        let worker = {
            let gate = gate.clone();
            shuttle::thread::spawn(move || {
                for _ in 0..3 {
                    if let Ok(permit) = gate.admit(&work(), &NOW) {
                        permit.finish();
                    }
                }
            })
        };
        for drain in ["d1", "d2"] {
            let drain: tidegate_core::DrainId = drain.parse().unwrap();
            gate.close(drain.clone()).unwrap();
            while gate.in_flight() > 0 {
                shuttle::thread::yield_now();
            }
            assert_eq!(gate.closed_by(), Some(drain.clone()));
            gate.reopen(&drain).unwrap();
        }
        worker.join().unwrap();
        assert_eq!(gate.in_flight(), 0);
    });
}
