//! The queue of pending actions: what comes first, what is one, and how it leaves.

use crate::fixture::{World, call, session, wait};
use std::collections::BTreeMap;
use tidegate_checkpoints::{
    Actions, CallState, Checkpoint, Clear, Draft, Fact, Leaves, NextAction, decide_actions, next_action,
    precedence,
};
use tidegate_core::WorkClass;
use tidegate_store::{Fault, Txn};

fn verify(tool: &str) -> NextAction {
    NextAction::VerifyThenRetry { component: "files".parse().unwrap(), tool: tool.to_owned(), answer: None }
}

fn reset(component: &str) -> NextAction {
    NextAction::StateReset { component: component.parse().unwrap() }
}

fn restart(component: &str, operation: Option<&str>, retry_after_ms: u64) -> NextAction {
    let operation = operation.map(|o| o.parse().unwrap());
    NextAction::WaitForRestart { component: component.parse().unwrap(), operation, retry_after_ms }
}

fn refresh(added: &[&str], removed: &[&str]) -> NextAction {
    let names = |names: &[&str]| names.iter().map(ToString::to_string).collect();
    NextAction::RefreshTools {
        component: "files".parse().unwrap(),
        added: names(added),
        removed: names(removed),
    }
}

fn lease(lease: &str) -> NextAction {
    NextAction::ReacquireLease { lease: lease.to_owned(), unnamed: false }
}

fn approval(operation: &str) -> NextAction {
    NextAction::RequestApproval { operation: operation.parse().unwrap() }
}

fn operator(incident: &str) -> NextAction {
    NextAction::ContactOperator { incident: Some(incident.parse().unwrap()) }
}

/// One of each kind but `Continue`, in the order of precedence.
fn one_of_each() -> Vec<NextAction> {
    vec![
        verify("write_file"),
        operator("inc-1"),
        restart("files", Some("op-1"), 1_000),
        reset("files"),
        refresh(&["a"], &[]),
        lease("files/a"),
        NextAction::RetryCall { component: "files".parse().unwrap(), tool: "read_file".to_owned() },
        approval("op-2"),
    ]
}

fn change(world: &World, actions: Actions) -> Checkpoint {
    let session = session("work");
    let changes = BTreeMap::from([(session.clone(), actions)]);
    wait(world.sessions.change_actions(&changes)).unwrap();
    wait(world.sessions.get(&session)).unwrap().unwrap()
}

#[test]
fn whatever_the_order_of_events_the_next_action_is_the_first_by_precedence() {
    let in_order = one_of_each();
    assert!(in_order.is_sorted_by(|a, b| precedence(a) < precedence(b)));
    assert!(in_order.iter().all(|a| precedence(a) < precedence(&NextAction::Continue)));
    for rotation in 0..in_order.len() {
        let world = World::new();
        let mut events = in_order.clone();
        events.rotate_left(rotation);
        change(&world, Actions::add(events));
        for expected in &in_order {
            let checkpoint = wait(world.sessions.get(&session("work"))).unwrap().unwrap();
            assert_eq!(next_action(&checkpoint), *expected, "rotated by {rotation}");
            change(&world, Actions::clear([Clear::About(expected.clone())]));
        }
        let empty = wait(world.sessions.get(&session("work"))).unwrap().unwrap();
        assert_eq!(next_action(&empty), NextAction::Continue);
    }
}

#[test]
fn of_two_equally_pressing_actions_the_older_comes_first() {
    let checkpoint = change(&World::new(), Actions::add([verify("b"), verify("a"), verify("c")]));
    assert_eq!(next_action(&checkpoint), verify("b"));
}

#[track_caller]
fn check_merged(actions: &[NextAction], expected: &[NextAction]) {
    let world = World::new();
    world.attach(1, "work", "c1").unwrap();
    let checkpoint = change(&world, Actions::add(actions.to_vec()));
    let pending: Vec<_> = checkpoint.pending.iter().map(|p| p.action.clone()).collect();
    assert_eq!(pending, expected);
}

#[test]
fn actions_about_the_same_thing_are_one() {
    check_merged(&[NextAction::Continue], &[]);
    check_merged(&[reset("files"), reset("files")], &[reset("files")]);
    check_merged(&[reset("files"), reset("search")], &[reset("files"), reset("search")]);
    check_merged(&[verify("a"), verify("b"), verify("a")], &[verify("a"), verify("b")]);
    check_merged(&[lease("a"), lease("b"), lease("a")], &[lease("a"), lease("b")]);
    check_merged(
        &[approval("op-1"), approval("op-2"), approval("op-1")],
        &[approval("op-1"), approval("op-2")],
    );
    check_merged(
        &[operator("inc-1"), operator("inc-2"), operator("inc-1")],
        &[operator("inc-1"), operator("inc-2")],
    );
    check_merged(
        &[restart("files", Some("op-1"), 500), restart("files", Some("op-2"), 900)],
        &[restart("files", Some("op-2"), 900)],
    );
    check_merged(&[refresh(&["a"], &["x"]), refresh(&["b"], &["a"])], &[refresh(&["b"], &["a", "x"])]);
    check_merged(
        &[refresh(&["a"], &[]), refresh(&[], &["a"]), refresh(&["a"], &[])],
        &[refresh(&["a"], &[])],
    );
}

#[track_caller]
fn check_cleared(clear: Clear, expected: &[&str]) {
    let world = World::new();
    let before = change(&world, Actions::add(one_of_each()));
    let after = change(&world, Actions::clear([clear]));
    let gone: Vec<_> =
        before.pending.iter().filter(|p| !after.pending.contains(p)).map(|p| p.action.kind()).collect();
    assert_eq!(gone, expected);
}

#[test]
fn news_leaves_when_told_and_a_condition_when_it_is_over() {
    check_cleared(
        Clear::ToldUpTo(u64::MAX),
        &["VerifyThenRetry", "StateReset", "RefreshTools", "ReacquireLease", "RetryCall"],
    );
    check_cleared(Clear::ToldUpTo(4), &["VerifyThenRetry", "StateReset"]);
    check_cleared(Clear::ToldUpTo(0), &[]);
    check_cleared(Clear::Restart("files".parse().unwrap()), &["WaitForRestart"]);
    check_cleared(Clear::Restart("search".parse().unwrap()), &[]);
    check_cleared(Clear::Operation("op-1".parse().unwrap()), &["WaitForRestart"]);
    check_cleared(Clear::Operation("op-2".parse().unwrap()), &["RequestApproval"]);
    check_cleared(Clear::Incident("inc-1".parse().unwrap()), &["ContactOperator"]);
    check_cleared(Clear::Incident("inc-2".parse().unwrap()), &[]);
    check_cleared(Clear::About(restart("files", None, 0)), &["WaitForRestart"]);
    check_cleared(Clear::About(reset("search")), &[]);
    assert_eq!(Leaves::of(&NextAction::ContactOperator { incident: None }), Leaves::WhenTold);
}

#[test]
fn what_happens_between_asking_and_being_told_is_told_the_next_time() {
    let world = World::new();
    change(&world, Actions::add([verify("write_file")]));
    let resume = wait(world.sessions.resume(&session("work"))).unwrap();
    change(&world, Actions::add([verify("write_file"), reset("files")]));
    wait(world.sessions.told(&resume)).unwrap();
    let next = wait(world.sessions.resume(&session("work"))).unwrap();
    assert_eq!(next.next_action, verify("write_file"), "the second time it was lost is news again");
    wait(world.sessions.told(&next)).unwrap();
    assert_eq!(wait(world.sessions.resume(&session("work"))).unwrap().next_action, NextAction::Continue);
}

#[test]
fn a_condition_said_twice_and_a_clear_of_nothing_write_nothing() {
    let world = World::new();
    change(&world, Actions::add([restart("files", None, 500)]));
    for actions in [Actions::add([restart("files", None, 500)]), Actions::clear([Clear::ToldUpTo(9)])] {
        let changes = BTreeMap::from([(session("work"), actions)]);
        assert!(decide_actions(&world.view(), &changes, &world.now()).unwrap().txn.is_empty());
    }
}

#[test]
fn a_call_that_turned_unknown_queues_its_action_once() {
    let world = World::new();
    world.attach(1, "work", "c1").unwrap();
    let mut draft = Draft::new(session("work"));
    draft.covers.insert("files".parse().unwrap());
    draft.calls.push(call("7", "write_file", WorkClass::Mutating, CallState::Unknown));
    let next = wait(world.sessions.checkpoint(std::slice::from_ref(&draft))).unwrap();
    assert_eq!(next[&session("work")], verify("write_file"));

    let resume = wait(world.sessions.resume(&session("work"))).unwrap();
    wait(world.sessions.told(&resume)).unwrap();
    let next = wait(world.sessions.checkpoint(std::slice::from_ref(&draft))).unwrap();
    assert_eq!(next[&session("work")], NextAction::Continue, "the same lost call is not news");

    draft.calls.push(call("8", "write_file", WorkClass::Mutating, CallState::Unknown));
    let next = wait(world.sessions.checkpoint(&[draft])).unwrap();
    assert_eq!(next[&session("work")], verify("write_file"), "another lost call is");
}

#[test]
fn a_draft_replaces_the_calls_of_what_it_covers_and_no_others() {
    let world = World::new();
    let mut other = call("1", "search", WorkClass::ReadOnly, CallState::Written);
    other.component = "search".parse().unwrap();
    let mut first = Draft::new(session("work"));
    first.calls = vec![other.clone(), call("2", "write_file", WorkClass::Mutating, CallState::Detached)];
    wait(world.sessions.checkpoint(&[first])).unwrap();
    let mut second = Draft::new(session("work"));
    second.covers.insert("files".parse().unwrap());
    wait(world.sessions.checkpoint(&[second])).unwrap();
    let checkpoint = wait(world.sessions.get(&session("work"))).unwrap().unwrap();
    assert_eq!(checkpoint.calls, [other]);
}

#[test]
fn an_uncertain_commit_of_many_checkpoints_ends_with_each_action_queued_once() {
    for fault in [Fault::UncertainApplied, Fault::UncertainLost] {
        let world = World::new();
        let mut once = Some(fault.clone());
        world.store.set_faults(move |_: &Txn| once.take().unwrap_or(Fault::None));
        let drafts = ["work", "play"].map(|name| {
            let mut draft = Draft::new(session(name));
            draft.calls.push(call("7", "write_file", WorkClass::Mutating, CallState::Unknown));
            draft.actions = Actions::add([reset("files")]);
            draft
        });
        let next = wait(world.sessions.checkpoint(&drafts)).unwrap();
        for name in ["work", "play"] {
            assert_eq!(next[&session(name)], verify("write_file"), "{fault:?}");
            let checkpoint = wait(world.sessions.get(&session(name))).unwrap().unwrap();
            assert_eq!(checkpoint.pending.len(), 2, "{fault:?}");
        }
    }
}

#[test]
fn a_lease_is_held_or_to_be_acquired_again_and_never_both() {
    let world = World::new();
    world.attach(1, "work", "c1").unwrap();
    let held =
        || wait(world.sessions.record(&session("work"), &[Fact::LeaseHeld("files/a".to_owned())])).unwrap();
    let leases = |c: &Checkpoint| c.leases.iter().cloned().collect::<Vec<_>>().join(" ");

    held();
    let lost = change(&world, Actions::add([lease("files/a")]));
    assert_eq!((leases(&lost).as_str(), lost.pending.len()), ("", 1));
    held();
    let again = wait(world.sessions.get(&session("work"))).unwrap().unwrap();
    assert_eq!((leases(&again).as_str(), again.pending.len()), ("files/a", 0));
}
