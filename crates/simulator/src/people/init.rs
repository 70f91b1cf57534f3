//! Whoever starts the daemon, and whatever ends it: a signal, a kill, the machine's clock being set.

use crate::daemon::Daemon;
use crate::executor::Group;
use crate::world::World;
use std::sync::Arc;

/// The longest time without a daemon.
const LONGEST_GAP_MS: u64 = 1_500;

pub(crate) fn arrives(world: &Arc<World>) {
    drop(world.running_is(Some(Daemon::start(world))));
    let faults = world.story.faults;
    let mut rng = world.generator("init");
    for _ in 0..faults.kills {
        let at_ms = rng.u64(..world.story.chaos_ms);
        let politely = rng.u32(..3) == 0;
        at(world, at_ms, move |world| if politely { terminate(world) } else { kill(world, "is killed") });
    }
    for _ in 0..faults.wall_jumps {
        let (at_ms, by_ms) = (rng.u64(..world.story.chaos_ms), rng.i64(-86_400_000..86_400_000));
        at(world, at_ms, move |world| {
            world.say("world", format!("the wall clock jumps by {by_ms} ms"));
            world.clock.jump_wall(by_ms);
        });
    }
    if !world.story.calm && rng.u32(..4) == 0 {
        let at_ms = rng.u64(..world.story.chaos_ms);
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
        drop(world.running_is(Some(Daemon::start(&world))));
    });
}
