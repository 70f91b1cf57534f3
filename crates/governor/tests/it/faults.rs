//! Every way in which each commit of an operation can fail, and what comes of it.

use crate::crashes::check_settled;
use crate::support::finish;
use crate::world::{Drains, World, holder, name};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use tidegate_core::WorkClass;
use tidegate_governor::Phase;
use tidegate_store::Fault;

/// More commits than the longest operation here makes.
const MOST_COMMITS: usize = 40;

/// Lets the `nth` commit from now fail in this way; tells whether it came to that.
fn fail_nth(world: &World, nth: usize, fault: Fault) -> Arc<AtomicUsize> {
    let commits = Arc::new(AtomicUsize::new(0));
    let count = commits.clone();
    world.store.inner.set_faults(
        move |_: &_| {
            if count.fetch_add(1, SeqCst) == nth { fault.clone() } else { Fault::None }
        },
    );
    commits
}

/// Runs an operation once for each of its commits with that one failing; the store works again afterwards.
fn fail_everywhere(set_up: impl Fn() -> World, fault: &Fault, ends: &[Phase]) {
    for nth in 0..MOST_COMMITS {
        let world = set_up();
        let id = world.approved("op-1");
        let commits = fail_nth(&world, nth, fault.clone());
        let governor = world.governor();
        let ran = finish(governor.run(&id, &world));
        world.store.inner.clear_faults();
        world.store.inner.rewrite();
        if let Err(error) = &ran {
            assert!(!error.is_refusal(), "{fault:?} at {nth}: {error}");
            finish(governor.settle(&id, &world)).unwrap();
        }
        let operation = world.operation(&id);
        check_settled(&world, &operation);
        assert!(ends.contains(&operation.phase), "{fault:?} at {nth}: {}", operation.phase);
        let uncertain = matches!(fault, Fault::UncertainApplied | Fault::UncertainLost);
        assert!(ran.is_ok() || !uncertain, "{fault:?} at {nth}: read back, then decided: {ran:?}");
        if commits.load(SeqCst) <= nth {
            assert!(ran.is_ok());
            return;
        }
    }
    panic!("the operation makes more than {MOST_COMMITS} commits");
}

const FAULTS: [Fault; 5] =
    [Fault::Reject, Fault::Busy, Fault::UncertainApplied, Fault::UncertainLost, Fault::FailSync];

#[test]
fn a_restart_with_any_commit_failing_is_completed_or_undone() {
    for fault in FAULTS {
        fail_everywhere(|| World::of(&["files", "mail"]), &fault, &[Phase::Completed, Phase::Failed]);
    }
}

#[test]
fn an_uncertain_commit_changes_nothing_about_the_outcome() {
    for fault in [Fault::UncertainApplied, Fault::UncertainLost] {
        fail_everywhere(|| World::of(&["files"]), &fault, &[Phase::Completed]);
    }
}

#[test]
fn a_refusal_with_any_commit_failing_stops_nothing_and_opens_the_gate() {
    for fault in FAULTS {
        fail_everywhere(
            || {
                let world = World::of(&["files"]);
                world.state().drains = Drains::Refused(vec![holder("write_file", WorkClass::Mutating, 5)]);
                world
            },
            &fault,
            &[Phase::Refused, Phase::Failed],
        );
    }
}

#[test]
fn a_failing_start_with_any_commit_failing_ends_in_one_incident() {
    for fault in FAULTS {
        fail_everywhere(
            || {
                let world = World::of(&["files", "mail"]);
                world.state().bad_starts.insert(name("files"), u32::MAX);
                world
            },
            &fault,
            &[Phase::Failed],
        );
    }
}

#[test]
fn a_rival_write_before_any_commit_is_read_and_decided_anew() {
    for nth in 0..MOST_COMMITS {
        let world = World::of(&["files"]);
        let id = world.approved("op-1");
        let before = world.store.commits();
        world.store.race_at(nth);
        let operation = finish(world.governor().run(&id, &world)).unwrap();
        assert_eq!(operation.phase, Phase::Completed, "{nth}");
        check_settled(&world, &world.operation(&id));
        assert_eq!(world.component("files").generation.0, 2, "{nth}: decided anew, not done twice");
        if world.store.commits() - before <= nth {
            return;
        }
    }
    panic!("the operation makes more than {MOST_COMMITS} commits");
}

#[test]
fn a_store_that_stays_broken_keeps_the_gate_closed_until_it_works() {
    let world = World::of(&["files"]);
    world.state().drains = Drains::Refused(vec![holder("write_file", WorkClass::Mutating, 5)]);
    let id = world.approved("op-1");
    let governor = world.governor();
    let commits = AtomicUsize::new(0);
    world.store.inner.set_faults(
        move |_: &_| {
            if commits.fetch_add(1, SeqCst) == 0 { Fault::None } else { Fault::Reject }
        },
    );
    assert!(finish(governor.run(&id, &world)).is_err());
    for _ in 0..3 {
        assert!(finish(governor.settle(&id, &world)).is_err());
        assert_eq!(world.state().gates.len(), 1, "no gate opens before its incident is durable");
    }
    world.store.inner.clear_faults();
    assert_eq!(finish(governor.settle(&id, &world)).unwrap().phase, Phase::Failed);
    check_settled(&world, &world.operation(&id));
}
