//! Whoever starts the daemon, and whatever ends it: a signal, a kill, a restore; and what happens to the machine: its wall
//! clock is set, it sleeps, its disk is full.

use crate::daemon::Daemon;
use crate::executor::Group;
use crate::observe::Seen;
use crate::world::World;
use std::sync::{Arc, Mutex, PoisonError};
use tidegate_core::Clock as _;
use tidegate_core::planted::is_planted;
use tidegate_store::Backup;

/// The longest time without a daemon.
const LONGEST_GAP_MS: u64 = 1_500;
/// The longest time that the daemon is stopped for: longer than any lease lives unrenewed.
const LONGEST_FREEZE_MS: u64 = 12_000;
/// The longest sleep of the machine.
const LONGEST_SLEEP_MS: u64 = 30_000;
/// The longest time without space on the disk.
const LONGEST_FULL_MS: u64 = 3_000;
/// Between two looks of somebody who waits.
const GLANCE_MS: u64 = 50;

pub(crate) fn arrives(world: &Arc<World>) {
    start(world);
    let (faults, until_ms) = (world.story.faults, world.story.chaos_ms);
    let mut rng = world.generator("init");
    for _ in 0..faults.kills {
        let at_ms = rng.u64(..until_ms);
        let politely = rng.u32(..3) == 0;
        at(world, at_ms, move |world| if politely { terminate(world) } else { kill(world, "is killed") });
    }
    for _ in 0..faults.wall_jumps {
        let (at_ms, by_ms) = (rng.u64(..until_ms), rng.i64(-86_400_000..86_400_000));
        at(world, at_ms, move |world| {
            world.say("world", format!("the wall clock jumps by {by_ms} ms"));
            world.clock.jump_wall(by_ms);
        });
    }
    for _ in 0..faults.freezes {
        let (at_ms, for_ms) = (rng.u64(..until_ms), rng.u64(1_000..LONGEST_FREEZE_MS));
        at(world, at_ms, move |world| freeze(world, for_ms));
    }
    for _ in 0..faults.suspends {
        let (at_ms, for_ms) = (rng.u64(..until_ms), rng.u64(1_000..LONGEST_SLEEP_MS));
        at(world, at_ms, move |world| {
            world.say("world", format!("the machine sleeps for {for_ms} ms"));
            world.see(Seen::Mark("machine slept"));
            world.executor.sleep_machine(for_ms);
        });
    }
    for _ in 0..faults.full_disks {
        let (at_ms, for_ms) = (rng.u64(..until_ms), rng.u64(100..LONGEST_FULL_MS));
        at(world, at_ms, move |world| {
            world.say("world", format!("no space is left for {for_ms} ms"));
            world.see(Seen::Mark("disk full"));
            world.store.is_full(for_ms);
        });
    }
    for _ in 0..faults.keeper_kills {
        let at_ms = rng.u64(..until_ms);
        at(world, at_ms, |world| world.kill_keeper(&mut world.generator("killed keepers")));
    }
    for _ in 0..faults.restores {
        let taken_ms = rng.u64(..until_ms / 2);
        let at_ms = rng.u64(taken_ms..until_ms);
        restore(world, taken_ms, at_ms);
    }
    if !world.story.calm && rng.u32(..4) == 0 {
        let at_ms = rng.u64(..until_ms);
        let component = world.story.components[0].name.clone();
        at(world, at_ms, move |world| world.replace_executable(&component, 2));
    }
}

fn at(world: &Arc<World>, at_ms: u64, act: impl FnOnce(&Arc<World>) + Send + 'static) {
    let world = world.clone();
    world.executor.clone().spawn(Group::WORLD, async move {
        world.executor.sleep(at_ms).await;
        act(&world);
    });
}

fn start(world: &Arc<World>) {
    drop(world.running_is(Some(Daemon::start(world))));
}

/// Kills the daemon where it stands.
pub(crate) fn kill(world: &Arc<World>, how: &str) {
    if let Some(daemon) = world.running_is(None) {
        daemon.dies(how);
        start_later(world);
    }
}

fn terminate(world: &Arc<World>) {
    let Some(daemon) = world.running() else { return };
    let incarnation = daemon.incarnation();
    world.say("daemon", "is told to end");
    let mut ended = daemon.terminate();
    drop(daemon);
    let world = world.clone();
    world.executor.clone().spawn(Group::WORLD, async move {
        let by_itself = ended.recv().await.is_some();
        if by_itself && world.running().is_some_and(|it| it.incarnation() == incarnation) {
            kill(&world, "exits");
        }
    });
}

fn start_later(world: &Arc<World>) {
    let world = world.clone();
    world.executor.clone().spawn(Group::WORLD, async move {
        let at_ms = world.executor.now_ms();
        let gap_ms = world.generator(&format!("gap {at_ms}")).u64(10..LONGEST_GAP_MS);
        world.executor.sleep(gap_ms).await;
        while world.is_maintained() {
            world.executor.sleep(GLANCE_MS).await;
        }
        if world.running().is_none() {
            start(&world);
        }
    });
}

/// The daemon is stopped; somebody takes it for dead and starts another one; then it goes on, beside that one if there is
/// one. There is none: a daemon holds the lock for life, stopped or not.
fn freeze(world: &Arc<World>, for_ms: u64) {
    let Some(group) = world.running().map(|daemon| daemon.incarnation()) else { return };
    world.say("daemon", format!("is stopped ({})", group.0));
    world.see(Seen::Mark("daemon stopped"));
    world.executor.stop(group);
    let world = world.clone();
    world.executor.clone().spawn(Group::WORLD, async move {
        world.executor.sleep(for_ms / 2).await;
        if world.running().is_some() && !is_planted("a-stopped-daemon-loses-its-lock") {
            world.say("daemon", "another one is refused: the lock is held");
            world.see(Seen::Mark("second daemon refused"));
        } else if !world.is_maintained() {
            start(&world);
        }
        world.executor.sleep(for_ms / 2).await;
        if world.executor.wake(group) {
            world.say("daemon", format!("goes on ({})", group.0));
        }
    });
}

/// A backup is taken, and later the store is restored from it, with no daemon and no server running, and adopted.
fn restore(world: &Arc<World>, taken_ms: u64, at_ms: u64) {
    let backup: Arc<Mutex<Option<Backup>>> = Arc::default();
    let taken = backup.clone();
    at(world, taken_ms, move |world| {
        world.say("world", "a backup is taken");
        *taken.lock().unwrap_or_else(PoisonError::into_inner) = Some(world.store.memory().backup());
    });
    let world = world.clone();
    world.executor.clone().spawn(Group::WORLD, async move {
        world.executor.sleep(at_ms).await;
        let backup = backup.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(backup) = backup else { return };
        world.maintain(true);
        if let Some(daemon) = world.running_is(None) {
            daemon.dies("is ended for a restore");
        }
        world.end_keepers();
        while world.any_server() {
            world.executor.sleep(GLANCE_MS).await;
        }
        world.store.memory().restore(&backup);
        let unix_seconds = u64::try_from(world.clock.now().wall.0 / 1_000).unwrap_or(0);
        let epoch = world.store.memory().adopt(unix_seconds);
        world.say("world", format!("the store is restored and adopted (epoch {epoch})"));
        world.see(Seen::Restored);
        world.maintain(false);
        start_later(&world);
    });
}
