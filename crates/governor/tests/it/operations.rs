//! Whole operations: what each kind of trouble ends in, and what is durable then.

use crate::crashes::check_settled;
use crate::support::{crash_after, finish, nudge, pause};
use crate::world::{Drains, World, holder, name};
use std::collections::BTreeSet;
use std::time::Duration;
use tidegate_core::{Clock, Generation, NextAction, OperationId, WorkClass};
use tidegate_drain::{Begin, DrainRecord, End, decide_begin, decide_end};
use tidegate_governor::{
    Ask, Caller, ComponentState, Generations, GovernorError, MAX_ENDED, Operation, Phase, Verified,
};
use tidegate_leases::{Acquire, LeaseKey, LeaseState, Leases, Owner};
use tidegate_store::{Store, View, transact};

fn run(world: &World, id: &OperationId) -> Operation {
    let operation = finish(world.governor().run(id, world)).unwrap();
    check_settled(world, &operation);
    operation
}

fn read<T: serde::de::DeserializeOwned>(world: &World, key: &str) -> T {
    let record = finish(world.store.inner.get(&name(key))).unwrap().unwrap();
    serde_json::from_slice(&record.value).unwrap()
}

fn next_action(world: &World) -> NextAction {
    let checkpoint = read(world, "checkpoint/local/s1");
    tidegate_checkpoints::next_action(&checkpoint)
}

#[test]
fn a_restart_brings_the_next_generation_and_leaves_nothing_behind() {
    let world = World::of(&["files"]);
    let operation = run(&world, &world.approved("op-1"));
    assert_eq!(operation.phase, Phase::Completed);
    let generations = Generations { before: Generation(1), after: Some(Generation(2)) };
    assert_eq!(operation.generations[&name("files")], generations);
    let component = world.component("files");
    assert_eq!((component.generation, component.state), (Generation(2), ComponentState::Ready));
    assert!(!read::<DrainRecord>(&world, "drain/files").state.is_closed());
    assert_eq!(next_action(&world), NextAction::Continue);
}

#[test]
fn a_session_that_comes_back_in_the_middle_is_told_to_wait() {
    for polls in 0.. {
        let world = World::of(&["files"]);
        let id = world.approved("op-1");
        assert!(crash_after(polls, world.governor().run(&id, &world)).is_none());
        if world.operation(&id).phase == Phase::Starting {
            let action = next_action(&world);
            assert!(matches!(action, NextAction::WaitForRestart { .. }), "{action:?}");
            return;
        }
    }
}

#[test]
fn read_only_calls_at_the_deadline_do_not_refuse_the_restart() {
    let world = World::of(&["files"]);
    let reader = holder("read_file", WorkClass::ReadOnly, 60_000);
    world.state().drains = Drains::Drained(vec![reader.clone()]);
    let operation = run(&world, &world.approved("op-1"));
    assert_eq!((operation.phase, operation.interrupted), (Phase::Completed, vec![reader]));
}

#[test]
fn unsafe_work_at_the_deadline_refuses_names_itself_and_stops_nothing() {
    let world = World::of(&["files"]);
    let writer = holder("write_file", WorkClass::Mutating, 60_000);
    world.state().drains = Drains::Refused(vec![holder("read_file", WorkClass::ReadOnly, 9), writer.clone()]);
    let operation = run(&world, &world.approved("op-1"));
    assert_eq!(operation.phase, Phase::Refused);
    assert_eq!(operation.holders[0], writer, "those that block come first");
    let incidents = world.open_incidents();
    assert_eq!(incidents[0].kind.as_str(), "drain_refused");
    assert!(incidents[0].next_prompt.contains("write_file"), "{}", incidents[0].next_prompt);
    assert_eq!(world.component("files").state, ComponentState::Ready);
    assert_eq!(read::<DrainRecord>(&world, "drain/files").holder_count, 2);
}

#[test]
fn the_same_refusal_again_is_the_same_incident() {
    let world = World::of(&["files"]);
    world.state().drains = Drains::Refused(vec![holder("write_file", WorkClass::Mutating, 60_000)]);
    let first = run(&world, &world.approved("op-1"));
    let second = run(&world, &world.approved("op-2"));
    assert_eq!((&second.phase, &second.incident), (&first.phase, &first.incident));
    assert_eq!(world.open_incidents()[0].count, 2);
}

#[test]
fn holders_are_told_while_the_drain_waits() {
    let world = World::of(&["files"]);
    let writer = holder("write_file", WorkClass::Mutating, 400);
    world.state().drains = Drains::Refused(vec![writer.clone()]);
    let id = world.approved("op-1");
    let governor = world.governor();
    let mut seen = false;
    let watching = async {
        let mut run = Box::pin(governor.run(&id, &world));
        loop {
            let operation = governor.get(&id).await.unwrap();
            seen |= operation.phase == Phase::Draining && operation.holders == [writer.clone()];
            if nudge(&mut run).await.is_some() {
                return;
            }
            pause().await;
        }
    };
    finish(watching);
    assert!(seen);
    assert_eq!(world.operation(&id).holders, [writer], "and durable at the refusal");
}

#[test]
fn a_start_that_fails_once_is_tried_once_more() {
    for (starts, verifies) in [(1, 0), (0, 1)] {
        let world = World::of(&["files", "mail"]);
        world.state().bad_starts.insert(name("files"), starts);
        world.state().bad_verifies.insert(name("files"), verifies);
        let operation = run(&world, &world.approved("op-1"));
        assert_eq!(operation.phase, Phase::Completed);
        assert_eq!(world.component("files").generation, Generation(3), "each start is a generation");
        assert_eq!(world.component("mail").generation, Generation(2), "what serves is left alone");
    }
}

#[test]
fn a_start_that_fails_twice_ends_failed_and_the_others_serve() {
    for (starts, verifies) in [(9, 0), (0, 9), (1, 1)] {
        let world = World::of(&["files", "mail"]);
        world.state().bad_starts.insert(name("files"), starts);
        world.state().bad_verifies.insert(name("files"), verifies);
        let operation = run(&world, &world.approved("op-1"));
        assert_eq!(operation.phase, Phase::Failed);
        assert_eq!(operation.failures.keys().map(|name| name.as_str()).collect::<Vec<_>>(), ["files"]);
        let files = world.component("files");
        assert_eq!((files.state, files.incident), (ComponentState::Unavailable, operation.incident.clone()));
        assert_eq!(files.process, None, "what failed its verification was stopped");
        assert_eq!(world.component("mail").state, ComponentState::Ready);
        assert_eq!(world.state().running.keys().cloned().collect::<BTreeSet<_>>(), [name("mail")].into());
        assert_eq!(next_action(&world), NextAction::ContactOperator { incident: operation.incident });
    }
}

#[test]
fn an_unavailable_component_is_brought_back_by_the_next_restart() {
    let world = World::of(&["files"]);
    world.state().bad_starts.insert(name("files"), 2);
    let failed = run(&world, &world.approved("op-1"));
    assert_eq!(failed.phase, Phase::Failed);
    let operation = finish(world.governor().run(&world.approved("op-2"), &world)).unwrap();
    assert_eq!(operation.phase, Phase::Completed);
    let files = world.component("files");
    assert_eq!((files.state, files.incident), (ComponentState::Ready, None));
    assert!(world.state().unavailable.is_empty());
}

#[test]
fn an_unavailable_component_stays_so_when_its_restart_is_refused() {
    let world = World::of(&["files"]);
    world.state().bad_starts.insert(name("files"), 2);
    let failed = run(&world, &world.approved("op-1"));
    world.state().drains = Drains::Refused(vec![holder("write_file", WorkClass::Mutating, 60_000)]);
    let refused = finish(world.governor().run(&world.approved("op-2"), &world)).unwrap();
    assert_eq!(refused.phase, Phase::Refused);
    let files = world.component("files");
    assert_eq!((files.state, files.incident), (ComponentState::Unavailable, failed.incident));
}

#[test]
fn a_server_that_can_not_be_proved_dead_gets_no_successor() {
    let world = World::of(&["files", "mail"]);
    world.state().undying.insert(name("files"));
    let operation = run(&world, &world.approved("op-1"));
    assert_eq!(operation.phase, Phase::Failed);
    assert!(operation.failures[&name("files")].contains("pid 99"), "{:?}", operation.failures);
    assert!(world.component("files").process.is_some(), "its process stays on record");
    assert_eq!(world.component("mail").generation, Generation(2));
}

#[test]
fn a_signal_stops_everything_and_starts_nothing() {
    let world = World::of(&["files", "mail"]);
    finish(world.governor().components().mark_unsafe(&name("files"), Generation(1))).unwrap();
    let ask = Ask::shutdown(name("end"), vec![name("files"), name("mail")]);
    let operation = finish(world.governor().request(&Caller::signal(), &ask, &world)).unwrap();
    assert_eq!((operation.phase, operation.requested_by.as_str()), (Phase::Approved, "signal"));
    let operation = finish(world.governor().run(&operation.id, &world)).unwrap();
    assert_eq!((operation.phase, operation.incident), (Phase::Completed, None));
    assert!(world.state().running.is_empty());
    assert_eq!((world.component("files").process, world.component("mail").process), (None, None));
    assert!(!world.component("files").unsafe_possible, "nothing runs in a server that is dead");
    assert_eq!(world.state().gates.len(), 2, "nothing is let in any more");
    assert_eq!(world.keys("operation-lock/"), Vec::<String>::new());
    assert_eq!(finish(world.governor().recover(&world)).unwrap(), []);
}

#[test]
fn a_signal_is_bound_by_drain_safety() {
    let world = World::of(&["files"]);
    world.state().drains = Drains::Refused(vec![holder("write_file", WorkClass::Mutating, 60_000)]);
    let ask = Ask::shutdown(name("end"), vec![name("files")]);
    let operation = finish(world.governor().request(&Caller::signal(), &ask, &world)).unwrap();
    let operation = run(&world, &operation.id);
    assert_eq!(operation.phase, Phase::Refused);
    assert!(world.state().running.contains_key(&name("files")));
}

#[test]
fn a_daemon_without_components_just_ends() {
    let world = World::of(&[]);
    let ask = Ask::shutdown(name("end"), vec![]);
    let operation = finish(world.governor().request(&Caller::signal(), &ask, &world)).unwrap();
    assert_eq!(run(&world, &operation.id).phase, Phase::Completed);
}

#[test]
fn a_daemon_that_dies_with_its_servers_carries_the_operation_forward() {
    for polls in 0..400 {
        let world = World::of(&["files"]);
        let id = world.approved("op-1");
        let ran = crash_after(polls, world.governor().run(&id, &world)).is_some();
        let crashed_in = world.operation(&id).phase;
        // What a dead daemon takes with it: its gates, and the servers whose pipes it held.
        world.state().gates.clear();
        world.state().running.clear();
        finish(world.governor().recover(&world)).unwrap();
        let operation = world.operation(&id);
        let runs = world.state().running.contains_key(&name("files"));
        assert!(world.state().gates.is_empty(), "{crashed_in}");
        if crashed_in.is_past_return() {
            assert_eq!((operation.phase, runs), (Phase::Completed, true), "{crashed_in}");
        } else if crashed_in.is_running() {
            assert_eq!((operation.phase, runs), (Phase::Failed, false), "{crashed_in}");
            assert_eq!(world.open_incidents().len(), 1);
        }
        if ran {
            return;
        }
    }
    panic!("the operation takes more than 400 polls");
}

#[test]
fn what_is_approved_is_what_is_started_after_a_crash() {
    for polls in 0.. {
        let world = World::of(&["files"]);
        let id = world.approved("op-1");
        assert!(crash_after(polls, world.governor().run(&id, &world)).is_none());
        if world.operation(&id).phase == Phase::Starting {
            let approved = world.operation(&id).launches.clone();
            world.state().launches.insert(name("files"), crate::world::launch("bun"));
            finish(world.governor().recover(&world)).unwrap();
            assert_eq!(world.operation(&id).launches, approved);
            assert_eq!(world.state().started_as.last().unwrap().command, "node");
            return;
        }
    }
}

#[test]
fn one_task_drives_an_operation() {
    let world = World::of(&["files"]);
    let id = world.approved("op-1");
    let governor = world.governor();
    let second = finish(async {
        let mut first = Box::pin(governor.run(&id, &world));
        assert!(nudge(&mut first).await.is_none());
        governor.run(&id, &world).await
    });
    assert_eq!(second, Err(GovernorError::AlreadyDriven { operation: id.clone() }));
    assert_eq!(
        finish(governor.settle(&id, &world)).unwrap().phase,
        Phase::Failed,
        "the first one was dropped"
    );
}

#[test]
fn a_governor_that_was_given_up_finds_the_operation_ended_and_stops_nothing() {
    let world = World::of(&["files"]);
    let id = world.approved("op-1");
    let (zombie, successor) = (world.governor(), world.governor());
    finish(async {
        let mut first = Box::pin(zombie.run(&id, &world));
        while successor.get(&id).await.unwrap().phase != Phase::Checkpointing {
            assert!(nudge(&mut first).await.is_none());
        }
        assert_eq!(successor.settle(&id, &world).await.unwrap().phase, Phase::Failed);
        assert_eq!(first.await.unwrap().phase, Phase::Failed);
    });
    assert_eq!(world.state().stops, 0);
    check_settled(&world, &world.operation(&id));
}

#[test]
fn a_governor_that_was_taken_over_leaves_the_rest_to_its_successor() {
    let world = World::of(&["files"]);
    let id = world.approved("op-1");
    let (zombie, successor) = (world.governor(), world.governor());
    finish(async {
        let mut first = Box::pin(zombie.run(&id, &world));
        while successor.get(&id).await.unwrap().phase != Phase::Stopping {
            assert!(nudge(&mut first).await.is_none());
        }
        let before = successor.get(&id).await.unwrap().stamp;
        let mut second = Box::pin(successor.settle(&id, &world));
        while successor.get(&id).await.unwrap().stamp == before {
            assert!(nudge(&mut second).await.is_none());
        }
        assert_eq!(first.await, Err(GovernorError::Superseded { operation: id.clone() }));
        assert_eq!(second.await.unwrap().phase, Phase::Completed);
    });
    check_settled(&world, &world.operation(&id));
}

fn lease(world: &World, class: WorkClass, max_ttl: Option<Duration>) -> Leases {
    let parts = world.parts();
    let leases = Leases::new(parts.store, parts.clock, parts.entropy, parts.probe);
    let acquire = Acquire {
        key: LeaseKey::new("files/srv").unwrap(),
        owner: Owner { session: name("local/s1"), process: None },
        class,
        ttl: Duration::from_secs(30),
        max_ttl,
        nonce: "n".to_owned(),
    };
    finish(leases.acquire(acquire)).unwrap();
    leases
}

#[test]
fn a_lease_outlives_a_restart_by_the_time_its_session_was_held() {
    let world = World::of(&["files"]);
    let leases = lease(&world, WorkClass::Idempotent, None);
    let before = finish(leases.list()).unwrap()[0].deadline.at_ms;
    let began = world.clock.now().boot_ms;
    run(&world, &world.approved("op-1"));
    let held = world.clock.now().boot_ms - began;
    assert!(held > 0);
    assert_eq!(finish(leases.list()).unwrap()[0].deadline.at_ms, before + held);
}

#[test]
fn a_mutating_lease_that_outlived_its_holder_is_orphaned_with_an_incident() {
    let world = World::of(&["files"]);
    let leases = lease(&world, WorkClass::Mutating, Some(Duration::from_secs(60)));
    world.clock.advance(120_000);
    let operation = finish(world.governor().run(&world.approved("op-1"), &world)).unwrap();
    assert_eq!((operation.phase, operation.incident), (Phase::Completed, None));
    assert_eq!(finish(leases.list()).unwrap()[0].state, LeaseState::Orphaned);
    let incidents = world.open_incidents();
    assert_eq!(incidents.len(), 1);
    assert_eq!((incidents[0].kind.as_str(), incidents[0].dedup.as_str()), ("lease_orphaned", "files/srv"));
}

#[test]
fn a_lease_that_the_restart_ends_is_the_sessions_next_action() {
    let world = World::of(&["files"]);
    lease(&world, WorkClass::Idempotent, None);
    world.clock.advance(120_000);
    run(&world, &world.approved("op-1"));
    assert_eq!(
        next_action(&world),
        NextAction::ReacquireLease { lease: "files/srv".to_owned(), unnamed: false }
    );
}

#[test]
fn sessions_are_told_of_other_tools() {
    let world = World::of(&["files"]);
    let (added, removed) = (vec!["append".to_owned()], vec!["chmod".to_owned()]);
    world.state().shows =
        Verified { tools: 3, added: added.clone(), removed: removed.clone(), ..Verified::default() };
    run(&world, &world.approved("op-1"));
    assert_eq!(next_action(&world), NextAction::RefreshTools { component: name("files"), added, removed });
}

#[test]
fn a_gate_that_somebody_else_has_closed_is_left_alone() {
    let world = World::of(&["files", "mail"]);
    world.state().gates.insert(name("mail"), name("theirs"));
    let id = world.approved("op-1");
    let operation = finish(world.governor().run(&id, &world)).unwrap();
    assert_eq!(operation.phase, Phase::Failed);
    assert!(operation.note.contains("the gate of mail is closed by the drain theirs"), "{}", operation.note);
    assert_eq!(world.open_incidents().len(), 1);
    assert_eq!(
        world.state().gates.keys().collect::<Vec<_>>(),
        [&name("mail")],
        "and none of ours stays closed"
    );
    assert_eq!(world.keys("operation-lock/"), Vec::<String>::new());
}

#[test]
fn a_component_that_drains_for_somebody_else_is_not_restarted() {
    let world = World::of(&["files"]);
    let parts = world.parts();
    let begin = Begin {
        id: name("theirs"),
        operation: None,
        scope: vec![name("files")],
        requested_by: name("somebody"),
        deadline: Duration::from_secs(60),
    };
    let known = [name("files")];
    let decide = |view: &View| decide_begin(view, &begin, &known, &parts.clock.now());
    finish(transact(&*parts.store, &tidegate_drain::scope(&known), decide)).unwrap();
    let operation = run(&world, &world.approved("op-1"));
    assert_eq!(operation.phase, Phase::Failed);
    assert!(operation.note.contains("the drain theirs of somebody"), "{}", operation.note);
    assert_eq!(world.state().diary, Vec::<String>::new());
    assert!(read::<DrainRecord>(&world, "drain/files").state.is_closed(), "their drain goes on");
}

#[test]
fn nothing_is_stopped_when_the_drain_was_reopened_behind_the_operation() {
    let world = World::of(&["files"]);
    let id = world.approved("op-1");
    let governor = world.governor();
    let parts = world.parts();
    let scope = [name("files")];
    let end = End::Reopened { reason: "by hand".to_owned() };
    let ran = finish(async {
        let mut run = Box::pin(governor.run(&id, &world));
        while world.operation(&id).phase != Phase::Draining {
            assert!(nudge(&mut run).await.is_none());
        }
        let drain = world.operation(&id).drain.unwrap().id;
        let decide = |view: &View| decide_end(view, &scope, &drain, &end, &parts.clock.now());
        transact(&*parts.store, &tidegate_drain::scope(&scope), decide).await.unwrap();
        run.await
    });
    assert!(matches!(ran, Err(GovernorError::Drain(_))), "{ran:?}");
    assert_eq!(world.state().stops, 0);
    assert_eq!(finish(governor.settle(&id, &world)).unwrap().phase, Phase::Failed);
    check_settled(&world, &world.operation(&id));
}

#[test]
fn an_operation_that_has_yet_to_reopen_is_not_forgotten() {
    let world = World::of(&["files"]);
    world.state().drains = Drains::Refused(vec![holder("write_file", WorkClass::Mutating, 60_000)]);
    let id = world.approved("op-1");
    let governor = world.governor();
    finish(async {
        let mut run = Box::pin(governor.run(&id, &world));
        while !world.operation(&id).is_to_reopen() {
            assert!(nudge(&mut run).await.is_none());
        }
    });
    world.cancelled((0..MAX_ENDED).map(|n| name(&format!("r{n}"))));
    world.cancelled(std::iter::once(name("one-more")));
    assert!(world.operation(&id).is_to_reopen(), "the oldest of all is still there");
    finish(governor.recover(&world)).unwrap();
    check_settled(&world, &world.operation(&id));
}

#[test]
fn a_crash_restart_between_the_request_and_the_drain_is_not_the_operations() {
    let world = World::of(&["files"]);
    let ask = Ask::restart(name("op-1"), vec![name("files")], "it is stale");
    finish(world.governor().request(&Caller::local(), &ask, &world)).unwrap();
    let components = world.governor().components().clone();
    let files = name("files");
    finish(components.stopped(&files, Generation(1), ComponentState::Unavailable)).unwrap();
    finish(components.begin_generation(&files)).unwrap();
    finish(world.governor().approve(&Caller::operator(name("ops")), &name("op-1"), &world)).unwrap();
    let operation = finish(world.governor().run(&name("op-1"), &world)).unwrap();
    let generations = Generations { before: Generation(2), after: Some(Generation(3)) };
    assert_eq!(operation.generations[&files], generations);
}
