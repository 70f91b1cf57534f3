//! A crash at every await of an operation, and what recovery makes of it: completed or undone, never both, never neither.

use crate::support::{crash_after, finish, nudge, pause};
use crate::world::{Drains, World, holder, name};
use tidegate_core::{OperationId, WorkClass};
use tidegate_governor::{Ask, Caller, ComponentState, GovernorError, Operation, Phase};

/// More polls than the longest operation here takes.
const MOST_POLLS: usize = 2_000;

/// What must hold whenever an operation has ended and the gates are open.
pub(crate) fn check_settled(world: &World, operation: &Operation) {
    let phase = operation.phase;
    assert!(phase.is_end(), "{phase}");
    assert!(!operation.is_to_reopen(), "{phase}");
    let open = world.open_incidents();
    let expected = usize::from(matches!(phase, Phase::Failed | Phase::Refused));
    assert_eq!(open.len(), expected, "{phase}: {open:?}");
    assert_eq!(operation.incident.as_ref(), open.first().map(|incident| &incident.id));
    assert!(world.state().gates.is_empty(), "{phase}: a gate stays closed");
    assert_eq!(world.keys("operation-lock/"), Vec::<String>::new(), "{phase}");
    for (component, (generation, process)) in world.state().running.iter() {
        let record = finish(world.governor().components().get(component)).unwrap();
        assert_eq!((record.generation, record.process.as_ref()), (*generation, Some(process)), "{phase}");
        let failed = operation.failures.contains_key(component);
        let expected = if failed { ComponentState::Unavailable } else { ComponentState::Ready };
        assert_eq!(record.state, expected, "{phase}");
    }
}

/// Crashes the run after each number of polls, recovers, and checks; answers which phases the crashes hit and which
/// ends they came to.
fn crash_everywhere(
    set_up: impl Fn() -> World,
    check: impl Fn(&World, Phase, &Operation),
) -> Vec<(Phase, Phase)> {
    let mut seen = Vec::new();
    for polls in 0..MOST_POLLS {
        let world = set_up();
        let id = world.approved("op-1");
        let ran = crash_after(polls, world.governor().run(&id, &world));
        let crashed_in = world.operation(&id).phase;
        if ran.is_none() {
            finish(world.governor().recover(&world)).unwrap();
        }
        let operation = world.operation(&id);
        check_settled(&world, &operation);
        check(&world, crashed_in, &operation);
        assert_eq!(finish(world.governor().recover(&world)).unwrap(), [], "nothing is left to recover");
        if !seen.contains(&(crashed_in, operation.phase)) {
            seen.push((crashed_in, operation.phase));
        }
        if ran.is_some() {
            return seen;
        }
    }
    panic!("the operation takes more than {MOST_POLLS} polls");
}

#[test]
fn a_restart_that_crashes_anywhere_is_completed_or_undone() {
    use Phase::*;
    let seen = crash_everywhere(
        || World::of(&["files"]),
        |world, crashed_in, operation| {
            let stops = world.state().stops;
            match operation.phase {
                Failed => {
                    assert_eq!(stops, 0, "{crashed_in}: undone means that nothing was stopped");
                    assert_eq!(world.component("files").generation.0, 1);
                }
                Completed => {
                    assert!(stops >= 1, "{crashed_in}");
                    assert!(world.component("files").generation.0 > 1);
                }
                other => panic!("{crashed_in} came to {other}"),
            }
            assert!(world.state().running.contains_key(&name("files")));
        },
    );
    assert_eq!(
        seen,
        [
            (Approved, Failed),
            (Draining, Failed),
            (Checkpointing, Failed),
            (Stopping, Completed),
            (Starting, Completed),
            (Verifying, Completed),
            (Completed, Completed),
        ]
    );
}

#[test]
fn running_what_was_interrupted_settles_it() {
    for polls in 0..MOST_POLLS {
        let world = World::of(&["files"]);
        let id = world.approved("op-1");
        let ran = crash_after(polls, world.governor().run(&id, &world));
        let crashed_in = world.operation(&id).phase;
        let operation = finish(world.governor().run(&id, &world)).unwrap();
        check_settled(&world, &operation);
        let undone = matches!(crashed_in, Phase::Draining | Phase::Checkpointing);
        assert_eq!(operation.phase == Phase::Failed, undone, "{crashed_in} came to {}", operation.phase);
        if ran.is_some() {
            return;
        }
    }
    panic!("the operation takes more than {MOST_POLLS} polls");
}

#[test]
fn two_components_that_crash_anywhere_are_both_completed_or_both_undone() {
    crash_everywhere(
        || World::of(&["files", "mail"]),
        |world, crashed_in, operation| {
            assert_eq!(world.state().running.len(), 2, "{crashed_in}");
            let before = operation.phase == Phase::Failed;
            for component in ["files", "mail"] {
                assert_eq!(world.component(component).generation.0 == 1, before, "{crashed_in} {component}");
            }
        },
    );
}

#[test]
fn a_refusal_that_crashes_anywhere_ends_with_one_incident_and_an_open_gate() {
    let seen = crash_everywhere(
        || {
            let world = World::of(&["files"]);
            world.state().drains = Drains::Refused(vec![holder("write_file", WorkClass::Mutating, 900)]);
            world
        },
        |world, crashed_in, operation| {
            let stops = world.state().stops;
            let starts = world.state().starts;
            assert_eq!((stops, starts), (0, 0), "{crashed_in}");
            assert!(matches!(operation.phase, Phase::Refused | Phase::Failed));
        },
    );
    assert!(seen.contains(&(Phase::Draining, Phase::Failed)), "{seen:?}");
    assert!(seen.contains(&(Phase::Refused, Phase::Refused)), "{seen:?}");
}

#[test]
fn a_start_that_fails_once_and_crashes_anywhere_is_completed_or_undone() {
    for verify in [false, true] {
        crash_everywhere(
            || {
                let world = World::of(&["files", "mail"]);
                let mut state = world.state();
                let bad = if verify { &mut state.bad_verifies } else { &mut state.bad_starts };
                bad.insert(name("files"), 1);
                drop(state);
                world
            },
            |world, crashed_in, operation| {
                assert_eq!(world.state().running.len(), 2, "{crashed_in} {}", operation.phase);
            },
        );
    }
}

#[test]
fn a_start_that_always_fails_and_crashes_anywhere_leaves_the_component_unavailable() {
    crash_everywhere(
        || {
            let world = World::of(&["files", "mail"]);
            world.state().bad_starts.insert(name("files"), u32::MAX);
            world
        },
        |world, crashed_in, operation| {
            assert_eq!(operation.phase, Phase::Failed, "{crashed_in}");
            assert!(world.state().running.contains_key(&name("mail")), "{crashed_in}");
            if !operation.failures.is_empty() {
                assert_eq!(world.state().unavailable.get(&name("files")), operation.incident.as_ref());
            }
        },
    );
}

#[test]
fn a_server_that_does_not_die_is_not_succeeded_wherever_it_crashes() {
    crash_everywhere(
        || {
            let world = World::of(&["files", "mail"]);
            world.state().undying.insert(name("files"));
            world
        },
        |world, crashed_in, operation| {
            assert_eq!(operation.phase, Phase::Failed, "{crashed_in}");
            assert_eq!(world.component("files").generation.0, 1, "no successor beside a living server");
            assert!(world.state().running.contains_key(&name("mail")), "{crashed_in}");
        },
    );
}

#[test]
fn recovery_that_crashes_anywhere_is_recovered_by_the_next() {
    // A crash in each phase of the operation, and then one at each await of its recovery.
    for first in (0..200).step_by(3) {
        for second in 0..MOST_POLLS {
            let world = World::of(&["files"]);
            let id = world.approved("op-1");
            if crash_after(first, world.governor().run(&id, &world)).is_some() {
                return;
            }
            let recovered = crash_after(second, world.governor().recover(&world));
            finish(world.governor().recover(&world)).unwrap();
            check_settled(&world, &world.operation(&id));
            assert!(world.state().running.contains_key(&name("files")), "{first} {second}");
            if recovered.is_some() {
                break;
            }
        }
    }
    panic!("the operation takes more than 200 polls");
}

#[test]
fn a_cancelled_drain_that_crashes_anywhere_opens_its_gate() {
    for polls in 0..MOST_POLLS {
        let world = World::of(&["files"]);
        world.state().drains = Drains::Never;
        let id: OperationId = world.approved("op-1");
        let governor = world.governor();
        let cancelled = crash_after(polls, async {
            let mut run = Box::pin(governor.run(&id, &world));
            let ops = tidegate_governor::Caller::operator(name("ops2"));
            // Far enough to be in the drain, then the operator's word, then on.
            for _ in 0..40 {
                assert!(nudge(&mut run).await.is_none(), "a drain that never ends ends by itself");
                pause().await;
            }
            let answer = governor.cancel(&ops, &id).await?;
            assert_eq!(answer.phase, Phase::Cancelled);
            let operation = run.await?;
            Ok::<_, GovernorError>(operation.phase)
        });
        if cancelled.is_none() {
            finish(world.governor().recover(&world)).unwrap();
        }
        check_settled(&world, &world.operation(&id));
        assert_eq!(world.state().stops, 0);
        if let Some(phase) = cancelled {
            assert_eq!(phase.unwrap(), Phase::Cancelled);
            return;
        }
    }
    panic!("cancelling takes more than {MOST_POLLS} polls");
}

#[test]
fn a_shutdown_that_its_successor_finds_half_done_ends_with_servers_that_serve_and_open_gates() {
    let mut crashed_in = Vec::new();
    for polls in 0..MOST_POLLS {
        let world = World::of(&["files"]);
        let ask = Ask::shutdown(name("end"), vec![name("files")]);
        let id = finish(world.governor().request(&Caller::signal(), &ask, &world)).unwrap().id;
        if crash_after(polls, world.governor().run(&id, &world)).is_some() {
            break;
        }
        let phase = world.operation(&id).phase;
        crashed_in.push(phase);
        if phase.is_end() {
            continue; // the daemon ended as it should, with its gates
        }
        finish(world.governor().recover(&world)).unwrap();
        check_settled(&world, &world.operation(&id));
        if phase.is_past_return() {
            assert!(world.state().running.contains_key(&name("files")), "crashed while {phase}");
        }
    }
    assert!(crashed_in.contains(&Phase::Stopping), "{crashed_in:?}");
}
