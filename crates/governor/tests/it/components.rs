//! The component's record: one server at a time, generations that only grow, a mark that sticks.

use crate::support::{finish, nudge};
use crate::world::{World, name};
use tidegate_core::{BootId, Generation, ProcessIdentity};
use tidegate_governor::{Component, ComponentError, ComponentState, Components};
use tidegate_store::Fault;

fn process(pid: u32) -> ProcessIdentity {
    ProcessIdentity { boot: BootId(7), pid_ns: 1, pid, start_ticks: 5, nonce: format!("n{pid}") }
}

fn components(world: &World) -> Components {
    world.governor().components().clone()
}

#[track_caller]
fn check<T: std::fmt::Debug>(result: Result<T, ComponentError>, expected: &str) {
    let got = result.map_or_else(|error| error.to_string(), |value| format!("{value:?}"));
    assert!(got.contains(expected), "{got}");
}

#[test]
fn a_generation_begins_only_after_proof_of_death() {
    let world = World::of(&["files"]);
    let (components, files) = (components(&world), name("files"));
    check(
        finish(components.begin_generation(&files)),
        "generation 1 of files may still be running (pid 101)",
    );
    finish(components.stopped(&files, Generation(1), ComponentState::Unavailable)).unwrap();
    let begun = finish(components.begin_generation(&files)).unwrap();
    assert_eq!((begun.generation, begun.process, begun.restarts), (Generation(2), None, 1));
}

#[test]
fn the_word_of_an_old_generation_counts_for_nothing() {
    let world = World::of(&["files"]);
    let (components, files) = (components(&world), name("files"));
    finish(components.stopped(&files, Generation(1), ComponentState::Starting)).unwrap();
    finish(components.begin_generation(&files)).unwrap();
    let stale = "generation 1 of files is over: the newest is 2";
    check(finish(components.record_identity(&files, Generation(1), &process(9))), stale);
    check(finish(components.stopped(&files, Generation(1), ComponentState::Ready)), stale);
    check(finish(components.mark_unsafe(&files, Generation(1))), stale);
    check(finish(components.set_state(&files, Generation(1), ComponentState::Ready, None)), stale);
    check(
        finish(components.record_identity(&files, Generation(3), &process(9))),
        "generation 3 of files is over",
    );
}

#[test]
fn an_identity_is_recorded_once_per_generation() {
    let world = World::of(&[]);
    let (components, files) = (components(&world), name("files"));
    let generation = finish(components.begin_generation(&files)).unwrap().generation;
    finish(components.record_identity(&files, generation, &process(9))).unwrap();
    finish(components.record_identity(&files, generation, &process(9))).unwrap();
    check(
        finish(components.record_identity(&files, generation, &process(10))),
        "may still be running (pid 9)",
    );
}

#[test]
fn an_operation_that_owns_a_component_is_the_only_one_to_start_it() {
    let world = World::of(&["files"]);
    let (components, files) = (components(&world), name("files"));
    world.approved("a");
    finish(components.stopped(&files, Generation(1), ComponentState::Unavailable)).unwrap();
    let refusal = finish(components.begin_generation(&files)).unwrap_err();
    assert!(refusal.to_string().contains("files belongs to operation a"), "{refusal}");
    assert_eq!(refusal.next_action().kind(), "WaitForRestart");
    check(
        finish(components.set_state(&files, Generation(1), ComponentState::Ready, None)),
        "files belongs to operation a",
    );
}

#[test]
fn a_start_that_races_with_an_approval_is_decided_anew() {
    let world = World::of(&["files"]);
    let (components, files) = (components(&world), name("files"));
    finish(components.stopped(&files, Generation(1), ComponentState::Unavailable)).unwrap();
    let refusal = finish(async {
        let mut begin = Box::pin(components.begin_generation(&files));
        // It has read that nobody owns the component, and is about to commit.
        assert!(nudge(&mut begin).await.is_none());
        world.approved("a");
        begin.await
    });
    check(refusal, "files belongs to operation a");
    assert_eq!(world.component("files").generation, Generation(1));
}

#[test]
fn the_unsafe_mark_sticks_until_it_is_cleared_or_the_generation_is_over() {
    let world = World::of(&["files"]);
    let (components, files) = (components(&world), name("files"));
    let marked = |expected: bool, component: Component| assert_eq!(component.unsafe_possible, expected);
    marked(false, finish(components.get(&files)).unwrap());
    marked(true, finish(components.mark_unsafe(&files, Generation(1))).unwrap());
    let commits = world.store.commits();
    marked(true, finish(components.mark_unsafe(&files, Generation(1))).unwrap());
    assert_eq!(world.store.commits(), commits, "a mark that is there is not written again");
    marked(false, finish(components.clear_unsafe(&files, Generation(1))).unwrap());
    marked(true, finish(components.mark_unsafe(&files, Generation(1))).unwrap());
    marked(false, finish(components.stopped(&files, Generation(1), ComponentState::Starting)).unwrap());
    marked(false, finish(components.begin_generation(&files)).unwrap());
}

#[test]
fn an_uncertain_beginning_begins_one_generation() {
    for fault in [Fault::UncertainApplied, Fault::UncertainLost] {
        let world = World::of(&[]);
        let mut faults = vec![fault];
        world.store.inner.set_faults(move |_: &_| faults.pop().unwrap_or(Fault::None));
        let begun = finish(components(&world).begin_generation(&name("files"))).unwrap();
        assert_eq!(begun.generation, Generation(1));
        assert_eq!(world.component("files").generation, Generation(1));
    }
}

#[test]
fn fields_of_a_newer_version_survive_a_rewrite() {
    let world = World::of(&["files"]);
    let key = Component::key(&name("files"));
    let mut json = serde_json::to_value(world.component("files")).unwrap();
    json["colour"] = "green".into();
    let txn = tidegate_store::Txn::new().put_bytes(&key, json.to_string().as_bytes());
    finish(tidegate_store::Store::commit(&world.store, txn)).unwrap();
    finish(components(&world).mark_unsafe(&name("files"), Generation(1))).unwrap();
    assert_eq!(world.component("files").extra["colour"], "green");
}
