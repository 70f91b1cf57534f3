//! The durable record: who drains, until when, and what a crash leaves.

use crate::world::{World, begin, component, wait, work};
use tidegate_core::{ComponentName, WorkClass};
use tidegate_drain::{
    Begin, Begun, DrainError, DrainState, Drained, End, Recovery, decide_begin, decide_end, key, recover,
};
use tidegate_store::{Fault, Store, Txn};

fn known() -> Vec<ComponentName> {
    vec![component("files"), component("search")]
}

/// Asks; answers `started ID`, `already ID of WHOM` or the error.
fn ask(world: &World, asked: &Begin) -> String {
    match wait(world.drains.begin(asked)) {
        Ok(Begun::Started(record)) => format!("started {} {}", record.id, name(record.state)),
        Ok(Begun::Already(record)) => format!("already {} of {}", record.id, record.requested_by),
        Err(error) => error.to_string(),
    }
}

fn name(state: DrainState) -> String {
    serde_json::to_value(state).unwrap().as_str().unwrap().to_owned()
}

#[test]
fn a_drain_asked_for_twice_or_by_two_principals_is_one_drain() {
    let world = World::new();
    assert_eq!(ask(&world, &begin("d1", "reviewer", &["files"], 60_000)), "started d1 closed");
    assert_eq!(ask(&world, &begin("d1", "reviewer", &["files"], 60_000)), "started d1 closed");
    assert_eq!(ask(&world, &begin("d2", "ops", &["files"], 60_000)), "already d1 of reviewer");
    assert_eq!(ask(&world, &begin("d3", "ops", &["search", "files"], 60_000)), "already d1 of reviewer");
    assert_eq!(ask(&world, &begin("d4", "ops", &["search"], 60_000)), "started d4 closed");
    assert_eq!(world.gate("files").closed_by().unwrap().as_str(), "d1");
}

#[test]
fn a_scope_that_cannot_be_drained_is_a_clear_error() {
    let world = World::new();
    let many: Vec<String> = (0..300).map(|n| format!("c{n}")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    for (scope, expected) in [
        (&["nosuch"][..], "there is no component nosuch; there is files, search"),
        (&["files", "nosuch"], "there is no component nosuch; there is files, search"),
        (&[], "a drain needs at least one component"),
        (&many, "a drain closes at most 256 components, not 300"),
    ] {
        assert_eq!(ask(&world, &begin("d1", "ops", scope, 0)), expected);
    }
    assert!(world.gates.iter().all(tidegate_drain::Gate::is_open));
    assert_eq!(world.view().under("").count(), 0, "nothing was written");
    ask(&world, &begin("d1", "ops", &["files"], 0));
    assert_eq!(
        ask(&world, &begin("d1", "ops", &["files", "search"], 0)),
        "the drain d1 is one of files; ask with another id"
    );
}

#[test]
fn a_deadline_set_after_the_drain_began_does_not_count() {
    let world = World::new();
    ask(&world, &begin("d1", "ops", &["files"], 10_000));
    world.clock.advance_to(4_000);
    let Begun::Started(record) = wait(world.drains.begin(&begin("d1", "ops", &["files"], 90_000))).unwrap()
    else {
        panic!("the same drain");
    };
    assert_eq!(record.deadline.at_ms, 10_000);
}

#[test]
fn zero_deadline_and_no_work_end_at_once() {
    let world = World::new();
    let quiet = wait(world.drains.drain(&begin("d1", "ops", &["search"], 60_000), |_| panic!("waited")));
    assert!(matches!(quiet, Ok(Drained::Drained { .. })), "{quiet:?}");
    let write = work("s1", "files", "write", WorkClass::Mutating);
    let permit = world.gate("files").admit(&write, &world.now()).unwrap();
    let refused = wait(world.drains.drain(&begin("d2", "ops", &["files"], 0), |_| panic!("waited")));
    let Ok(Drained::Refused(record)) = refused else { panic!("{refused:?}") };
    assert_eq!((record.holder_count, &*record.holders[0].tool), (1, "write"));
    assert!(world.gate("files").is_open());
    permit.finish();
}

#[test]
fn asking_again_for_a_drain_that_is_over_repeats_its_end_and_closes_nothing() {
    let world = World::new();
    let permit = world.gate("files").admit(&work("s1", "files", "w", WorkClass::Mutating), &world.now());
    let asked = begin("d1", "ops", &["files"], 0);
    let first = wait(world.drains.drain(&asked, |_| {})).unwrap();
    permit.unwrap().finish();
    assert_eq!(wait(world.drains.drain(&asked, |_| {})).unwrap(), first);
    assert!(world.gate("files").is_open());

    let Ok(Drained::Drained { record, .. }) =
        wait(world.drains.drain(&begin("d2", "ops", &["files"], 0), |_| {}))
    else {
        panic!("nothing is in flight");
    };
    wait(world.drains.reopen(&record, "restarted")).unwrap();
    let again = wait(world.drains.drain(&begin("d2", "ops", &["files"], 0), |_| {}));
    assert!(matches!(again, Err(DrainError::NotUnderWay { .. })), "{again:?}");
}

/// Every end of a drain in every state it may be in.
#[test]
fn a_drain_ends_once_and_saying_so_again_changes_nothing() {
    let drained = || End::Drained;
    let refused = || End::Refused { holders: vec![] };
    let reopened = || End::Reopened { reason: "cancelled".to_owned() };
    let over = "d1 is not under way on files; a late end of an old drain changes nothing";
    for (ends, expected) in [
        (vec![drained()], "drained"),
        (vec![refused()], "refused"),
        (vec![reopened()], "reopened"),
        (vec![drained(), drained()], "drained"),
        (vec![drained(), reopened()], "reopened"),
        (vec![drained(), reopened(), reopened()], "reopened"),
        (vec![refused(), refused()], "refused"),
        (vec![drained(), refused()], over),
        (vec![refused(), reopened()], over),
        (vec![refused(), drained()], over),
        (vec![reopened(), drained()], over),
        (vec![reopened(), refused()], over),
    ] {
        let world = World::new();
        ask(&world, &begin("d1", "ops", &["files"], 1_000));
        let end = |end| wait(world.drains.end(&[component("files")], &"d1".parse().unwrap(), end));
        let told = ends.iter().map(end).reduce(|_, last| last).unwrap();
        let told = told.map_or_else(|error| error.to_string(), |record| name(record.state));
        assert_eq!(told, expected, "{ends:?}");
    }
}

#[test]
fn the_late_end_of_an_old_drain_leaves_its_successor_closed() {
    let world = World::new();
    ask(&world, &begin("d1", "ops", &["files"], 1_000));
    let reopen = End::Reopened { reason: "cancelled".to_owned() };
    let end = |id: &str| wait(world.drains.end(&[component("files")], &id.parse().unwrap(), &reopen));
    end("d1").unwrap();
    ask(&world, &begin("d2", "ops", &["files"], 1_000));
    assert!(matches!(end("d1"), Err(DrainError::NotUnderWay { .. })));
    assert!(!world.gate("files").is_open());
}

#[test]
fn after_a_crash_a_drain_is_resumed_while_its_deadline_lasts_and_else_reopened_with_a_record() {
    for (down_until, expected, open) in [(9_999, Recovery::Resume, false), (10_000, Recovery::Reopen, true)] {
        let mut world = World::new();
        ask(&world, &begin("d1", "ops", &["files", "search"], 10_000));
        world.clock.advance_to(down_until);
        world.crash();
        assert!(world.gate("files").is_open(), "a fresh process knows nothing yet");
        let found = wait(world.drains.recover()).unwrap();
        assert_eq!(
            found.iter().map(|(r, what)| (r.id.as_str(), *what)).collect::<Vec<_>>(),
            [("d1", expected)]
        );
        for name in ["files", "search"] {
            assert_eq!(world.gate(name).is_open(), open);
            let record = world.view().read::<tidegate_drain::DrainRecord>(&key(&component(name))).unwrap();
            let record = record.unwrap();
            assert_eq!(record.deadline.at_ms, 10_000, "recovery moves no deadline");
            assert_eq!(record.state, if open { DrainState::Reopened } else { DrainState::Closed });
            assert_eq!(record.reason.is_some(), open, "never silently open");
        }
    }
}

#[test]
fn a_reboot_ends_every_deadline() {
    let mut world = World::new();
    ask(&world, &begin("d1", "ops", &["files"], 10_000));
    world.clock.reboot();
    world.crash();
    assert_eq!(wait(world.drains.recover()).unwrap()[0].1, Recovery::Reopen);
    assert_eq!(ask(&world, &begin("d2", "ops", &["files"], 10_000)), "started d2 closed");
}

#[test]
fn drains_that_are_over_are_nobodys_to_recover() {
    let world = World::new();
    wait(world.drains.drain(&begin("d1", "ops", &["files"], 0), |_| {})).unwrap();
    let record = wait(world.drains.recover()).unwrap().remove(0).0;
    wait(world.drains.reopen(&record, "restarted")).ok();
    assert_eq!(recover(&world.view(), &world.now()).unwrap(), []);
}

#[test]
fn an_uncertain_commit_is_recognised_as_ones_own() {
    let world = World::new();
    let mut failures = [Fault::UncertainApplied].into_iter();
    world.store.set_faults(move |_: &Txn| failures.next().unwrap_or(Fault::None));
    assert_eq!(ask(&world, &begin("d1", "ops", &["files"], 1_000)), "started d1 closed");
    assert!(!world.gate("files").is_open());
}

#[test]
fn fields_of_a_newer_version_are_kept() {
    let world = World::new();
    ask(&world, &begin("d1", "ops", &["files"], 1_000));
    let at = key(&component("files"));
    let record = world.view().record(&at).unwrap().clone();
    let mut newer: serde_json::Value = serde_json::from_slice(&record.value).unwrap();
    newer["colour"] = "green".into();
    wait(world.store.commit(Txn::new().put(&world.view(), &at, &newer))).unwrap();
    let ended =
        decide_end(&world.view(), &[component("files")], &"d1".parse().unwrap(), &End::Drained, &world.now());
    assert_eq!(ended.unwrap().reply.extra["colour"], "green");
}

#[test]
fn a_drain_of_the_most_components_that_it_may_have_begins() {
    let world = World::new();
    let most: Vec<_> = (0..256).map(|n| component(&format!("c{n}"))).collect();
    let asked = Begin { scope: most.clone(), ..begin("d1", "ops", &[], 1) };
    let decision = decide_begin(&world.view(), &asked, &most, &world.now()).unwrap();
    assert!(matches!(decision.reply, Begun::Started(record) if record.scope.len() == 256));
}

#[test]
fn beginning_is_conditional_on_every_component_of_the_scope() {
    let world = World::new();
    let view = world.view();
    let decision =
        decide_begin(&view, &begin("d1", "ops", &["files", "search", "files"], 1), &known(), &world.now());
    let keys: Vec<String> = decision.unwrap().txn.expect.keys().map(ToString::to_string).collect();
    assert_eq!(keys, ["drain/files", "drain/search"]);
}
