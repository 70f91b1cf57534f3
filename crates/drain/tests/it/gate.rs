//! One gate on one thread: who is a holder, until when, and who may open it.

use crate::world::{World, work};
use std::panic::{AssertUnwindSafe, catch_unwind};
use tidegate_core::WorkClass::{self, Idempotent, Mutating, ReadOnly};
use tidegate_drain::{Gate, Permit};

/// What holds the gate `files` of a world after `act` has had a permit of that class.
#[track_caller]
fn check(class: WorkClass, act: impl FnOnce(Permit, &Gate), expected: &str) {
    let world = World::new();
    let gate = world.gate("files");
    let permit = gate.admit(&work("s1", "files", "tool", class), &world.now()).unwrap();
    world.clock.advance_to(1_500);
    act(permit, gate);
    let holders: Vec<String> = gate.holders(&world.now()).iter().map(ToString::to_string).collect();
    assert_eq!(holders.join("; "), expected);
    assert_eq!(gate.in_flight(), holders.len());
}

fn keep(permit: Permit, _: &Gate) {
    std::mem::forget(permit);
}

fn vanish(mut permit: Permit, _: &Gate) {
    permit.detach();
    std::mem::forget(permit);
}

fn panic(permit: Permit, _: &Gate) {
    let unwound = catch_unwind(AssertUnwindSafe(|| {
        let _held = permit;
        std::panic::resume_unwind(Box::new("a tool went wrong"));
    }));
    assert!(unwound.is_err());
}

#[test]
fn work_in_flight_is_named_with_session_tool_class_and_age() {
    check(ReadOnly, keep, "local/s1 files/tool read-only 1.500s");
    check(Idempotent, keep, "local/s1 files/tool idempotent 1.500s");
    check(Mutating, keep, "local/s1 files/tool mutating 1.500s");
    check(Mutating, |permit, _| permit.finish(), "");
}

#[test]
fn a_call_whose_client_vanishes_holds_until_the_server_answers_unless_it_is_read_only() {
    check(ReadOnly, vanish, "");
    check(Idempotent, vanish, "local/s1 files/tool idempotent 1.500s detached");
    check(Mutating, vanish, "local/s1 files/tool mutating 1.500s detached");
    let answered = |mut permit: Permit, _: &Gate| {
        permit.detach();
        permit.finish();
    };
    check(Mutating, answered, "");
    check(ReadOnly, answered, "");
}

#[test]
fn a_permit_dropped_by_a_panic_is_abandoned_and_ends_only_read_only_work() {
    check(ReadOnly, panic, "");
    check(Idempotent, panic, "local/s1 files/tool idempotent 1.500s detached abandoned");
    check(Mutating, panic, "local/s1 files/tool mutating 1.500s detached abandoned");
}

#[test]
fn abandoned_work_ends_when_the_server_is_proved_dead_and_nothing_else_does() {
    let dead = |permit: Permit, gate: &Gate| {
        let id = permit.id();
        drop(permit);
        assert_eq!(gate.settle_all_dead(), 1);
        assert!(!gate.settle(id), "it is settled once");
    };
    check(Mutating, dead, "");
    let owned = |permit: Permit, gate: &Gate| {
        assert_eq!(gate.settle_all_dead(), 0);
        assert!(!gate.settle(permit.id()), "whoever holds a permit ends it");
        std::mem::forget(permit);
    };
    check(Mutating, owned, "local/s1 files/tool mutating 1.500s");
}

#[test]
fn a_late_settlement_leaves_the_next_work_in_that_slot_alone() {
    let late = |permit: Permit, gate: &Gate| {
        let id = permit.id();
        drop(permit);
        assert!(gate.settle(id));
        let next = work("s2", "files", "next", Mutating);
        let now = World::new().now();
        drop(gate.admit(&next, &now).unwrap());
        assert!(!gate.settle(id));
    };
    check(Mutating, late, "local/s2 files/next mutating 1.500s detached abandoned");
}

#[test]
fn only_the_drain_that_closed_a_gate_opens_it() {
    let gate = Gate::new("files".parse().unwrap(), 4);
    let (first, second) = ("d1".parse().unwrap(), "d2".parse().unwrap());
    assert_eq!(
        gate.reopen(&first).unwrap_err().to_string(),
        "files was not closed by d1, which must leave it alone"
    );
    assert_eq!(gate.close("d1".parse().unwrap()), Ok(0));
    assert_eq!(gate.close("d1".parse().unwrap()), Ok(0), "asked twice, it is one drain");
    let refused = gate.close("d2".parse().unwrap()).unwrap_err();
    assert_eq!(refused.to_string(), "files is already draining, for d1: wait for that drain to end");
    assert!(gate.reopen(&second).is_err());
    assert_eq!((gate.is_open(), gate.closed_by()), (false, Some(first.clone())));
    gate.reopen(&first).unwrap();
    assert_eq!((gate.is_open(), gate.closed_by()), (true, None));
    gate.close(second.clone()).unwrap();
    assert!(gate.reopen(&first).is_err(), "a late timer must not open the next drain's gate");
    assert!(!gate.is_open());
}

#[test]
fn an_open_event_stream_is_not_work() {
    // A stream is never admitted: however many are open, there is nothing to wait for.
    let world = World::new();
    let gate = world.gate("files");
    let call = gate.admit(&work("s1", "files", "read", ReadOnly), &world.now()).unwrap();
    call.finish();
    assert_eq!(gate.close("d1".parse().unwrap()), Ok(0));
    assert_eq!(gate.holders(&world.now()), []);
}
