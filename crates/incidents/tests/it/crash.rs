//! A power cut at every commit: what was acknowledged is there, and there is never more than was asked for.

use crate::fixture::{World, actor, crashed, wait};
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};
use tidegate_core::Entropy;
use tidegate_incidents::{Incidents, list};
use tidegate_store::{Fault, SeededFaults, Txn};

/// Reports, acknowledgement, resolution, reopening; each one commit.
const STEPS: usize = 5;

async fn step(incidents: &Incidents, number: usize) {
    let id = "inc-1".parse().unwrap();
    match number {
        0 | 1 | 4 => drop(incidents.report(&crashed("files")).await.unwrap()),
        2 => drop(incidents.acknowledge(&id, &actor("s1"), "").await.unwrap()),
        3 => drop(incidents.resolve(&id, &actor("ops"), "").await.unwrap()),
        _ => unreachable!(),
    }
}

/// What can be told from the store alone after `done` steps.
fn story(world: &World) -> String {
    let incidents = wait(list(&world.store)).unwrap();
    incidents.iter().map(|i| format!("{} {} count {}", i.id, i.state, i.count)).collect()
}

#[test]
fn a_power_cut_at_any_commit_loses_nothing_acknowledged_and_doubles_nothing() {
    let after_each: Vec<String> = (0..=STEPS)
        .map(|done| {
            let world = World::new();
            (0..done).for_each(|n| wait(step(&world.incidents, n)));
            story(&world)
        })
        .collect();
    for at in 0..STEPS {
        for survives in [false, true] {
            let world = World::new();
            (0..at).for_each(|n| wait(step(&world.incidents, n)));
            world.store.set_faults(|_: &Txn| Fault::Delay);
            let incidents = world.fresh_process();
            let mut future = pin!(step(&incidents, at));
            let polled = future.as_mut().poll(&mut Context::from_waker(Waker::noop()));
            assert_eq!(polled, Poll::Pending, "step {at} is not acknowledged before it is synced");
            world.store.crash(|_| survives);
            world.store.clear_faults();
            assert_eq!(
                story(&world),
                after_each[at + usize::from(survives)],
                "step {at}, survives: {survives}"
            );
        }
    }
}

#[test]
fn the_incident_its_key_and_its_outbox_entry_are_one_commit() {
    let world = World::new();
    let mut commits = Vec::new();
    let (seen, sizes) = std::sync::mpsc::channel();
    world.store.set_faults(move |txn: &Txn| {
        seen.send(txn.writes.keys().map(ToString::to_string).collect::<Vec<_>>()).unwrap();
        Fault::None
    });
    wait(world.incidents.report(&crashed("files"))).unwrap();
    commits.extend(sizes.try_iter());
    assert_eq!(
        commits,
        [["incident-key/component_crashed/files", "incident-outbox/inc-1", "incident/inc-1"]]
    );
}

#[test]
fn whatever_the_store_refuses_or_leaves_open_every_acknowledged_report_counts_once() {
    for seed in 0..50 {
        let world = World::new();
        world.store.set_faults(SeededFaults::transient(Lehmer::new(seed), 400));
        let acknowledged =
            (0..40).filter(|_| wait(world.incidents.report(&crashed("files"))).is_ok()).count();
        world.store.clear_faults();
        let counts: Vec<u64> = wait(list(&world.store)).unwrap().iter().map(|i| i.count).collect();
        assert!(acknowledged > 0, "seed {seed}");
        assert_eq!(counts, [acknowledged as u64], "seed {seed}");
    }
}

/// A small generator with a fixed stream.
struct Lehmer(AtomicU64);

impl Lehmer {
    fn new(seed: u64) -> Self {
        Self(AtomicU64::new(2 * seed + 1))
    }
}

impl Entropy for Lehmer {
    fn bits(&self) -> u128 {
        let step = |state: u64| Some(state.wrapping_mul(0xda94_2042_e4dd_58b5));
        let state = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, step).unwrap();
        u128::from(state >> 32)
    }
}
