//! Three operations as readable stories: what was durable, and what was done, in that order.

use crate::support::{crash_after, finish};
use crate::world::{Drains, World, holder, name};
use tidegate_core::{OperationId, WorkClass};
use tidegate_governor::{Ask, Caller, Phase};
use tidegate_store::Txn;

/// Writes each phase that becomes durable into the diary.
fn keep_diary(world: &World) {
    let shared = world.diary_of_phases();
    world.store.inner.set_faults(move |txn: &Txn| {
        shared(txn);
        tidegate_store::Fault::None
    });
}

fn story(world: &World, id: &OperationId) -> String {
    let operation = world.operation(id);
    let mut story = world.state().diary.join("\n");
    story.push_str(&format!("\n\n{} ends {}", operation.id, operation.phase));
    if !operation.note.is_empty() {
        story.push_str(&format!(": {}", operation.note));
    }
    for incident in world.open_incidents() {
        story.push_str(&format!("\n\n{}", tidegate_incidents::render_work_state(&incident)));
    }
    story
}

#[test]
fn a_governed_restart() {
    let world = World::of(&["files"]);
    keep_diary(&world);
    let governor = world.governor();
    let ask = Ask::restart(name("op-1"), vec![name("files")], "its cache is stale");
    let operation = finish(governor.request(&Caller::local(), &ask, &world)).unwrap();
    world.clock.advance(20_000);
    finish(governor.approve(&Caller::operator(name("ops")), &operation.id, &world)).unwrap();
    finish(governor.run(&operation.id, &world)).unwrap();
    insta::assert_snapshot!(story(&world, &operation.id));
}

#[test]
fn a_refused_restart() {
    let world = World::of(&["files"]);
    world.state().drains = Drains::Refused(vec![holder("write_file", WorkClass::Mutating, 1_200)]);
    keep_diary(&world);
    let id = world.approved("op-1");
    finish(world.governor().run(&id, &world)).unwrap();
    insta::assert_snapshot!(story(&world, &id));
}

#[test]
fn a_recovered_restart() {
    for polls in 0.. {
        let world = World::of(&["files"]);
        keep_diary(&world);
        let id = world.approved("op-1");
        assert!(crash_after(polls, world.governor().run(&id, &world)).is_none());
        if world.operation(&id).phase == Phase::Starting && !world.state().running.is_empty() {
            world.say("the governor is killed");
            world.clock.advance(4_000);
            finish(world.governor().recover(&world)).unwrap();
            insta::assert_snapshot!(story(&world, &id));
            return;
        }
    }
}

#[test]
fn the_document_of_an_operation() {
    let world = World::of(&["files"]);
    world.state().drains = Drains::Refused(vec![holder("write_file", WorkClass::Mutating, 1_200)]);
    let id = world.approved("op-1");
    let operation = finish(world.governor().run(&id, &world)).unwrap();
    let now = tidegate_core::Clock::now(&*world.clock);
    insta::assert_json_snapshot!(operation.to_json(&now));
}
