//! Waiting at closed gates: what is told, when it ends, and that no change is missed.

use crate::world::{World, begin, poll_once, wait, work};
use std::cell::RefCell;
use std::pin::Pin;
use tidegate_core::WorkClass::{Mutating, ReadOnly};
use tidegate_drain::{Begun, Holder, Verdict};

#[test]
fn holders_are_told_at_once_at_every_change_and_every_second() {
    let world = World::new();
    let told = RefCell::new(Vec::new());
    let write = world.gate("files").admit(&work("s1", "files", "write", Mutating), &world.now()).unwrap();
    let mut index =
        world.gate("search").admit(&work("s2", "search", "index", Mutating), &world.now()).unwrap();
    let Ok(Begun::Started(record)) =
        wait(world.drains.begin(&begin("d1", "ops", &["files", "search"], 3_000)))
    else {
        panic!("nobody else drains");
    };
    let progress = |holders: &[Holder]| {
        let names: Vec<String> = holders.iter().map(ToString::to_string).collect();
        told.borrow_mut().push(names.join(", "));
    };
    let mut drain: Pin<Box<dyn Future<Output = Verdict>>> = Box::pin(world.drains.wait(&record, progress));
    assert_eq!(poll_once(&mut drain), None);
    assert_eq!(poll_once(&mut drain), None, "nothing has happened");
    world.clock.advance_to(400);
    index.detach();
    assert_eq!(poll_once(&mut drain), None);
    world.clock.advance_to(1_400);
    assert_eq!(poll_once(&mut drain), None);
    write.finish();
    assert_eq!(poll_once(&mut drain), None);
    index.finish();
    assert_eq!(poll_once(&mut drain), Some(Verdict::Drained { read_only: vec![] }));
    drop(drain);
    assert_eq!(
        told.into_inner(),
        [
            "local/s1 files/write mutating 0.000s, local/s2 search/index mutating 0.000s",
            "local/s1 files/write mutating 0.400s, local/s2 search/index mutating 0.400s detached",
            "local/s1 files/write mutating 1.400s, local/s2 search/index mutating 1.400s detached",
            "local/s2 search/index mutating 1.400s detached",
        ]
    );
}

#[test]
fn at_the_deadline_read_only_work_is_left_behind_and_named() {
    let world = World::new();
    let read = world.gate("files").admit(&work("s1", "files", "read", ReadOnly), &world.now()).unwrap();
    let Ok(Begun::Started(record)) = wait(world.drains.begin(&begin("d1", "ops", &["files"], 500))) else {
        panic!("nobody else drains");
    };
    let mut drain: Pin<Box<dyn Future<Output = Verdict>>> = Box::pin(world.drains.wait(&record, |_| {}));
    assert_eq!(poll_once(&mut drain), None);
    world.clock.advance_to(499);
    assert_eq!(poll_once(&mut drain), None);
    world.clock.advance_to(500);
    let Some(Verdict::Drained { read_only }) = poll_once(&mut drain) else {
        panic!("the deadline has passed")
    };
    assert_eq!(read_only.len(), 1);
    assert!(!world.gate("files").is_open(), "a drained gate stays closed");
    read.finish();
}

#[test]
fn a_drain_that_ends_on_another_thread_wakes_whoever_waits() {
    let world = World::new();
    let write = world.gate("files").admit(&work("s1", "files", "write", Mutating), &world.now()).unwrap();
    let Ok(Begun::Started(record)) = wait(world.drains.begin(&begin("d1", "ops", &["files"], 60_000))) else {
        panic!("nobody else drains");
    };
    let verdict = std::thread::scope(|scope| {
        scope.spawn(|| write.finish());
        // The alarm never rings: only the change itself can end this.
        wait(world.drains.wait(&record, |_| {}))
    });
    assert_eq!(verdict, Verdict::Drained { read_only: vec![] });
}
