//! Everybody who uses the daemon or does something to it: sessions with their clients and shims, operators, agents, and
//! whoever starts and kills it.

mod init;
mod operators;
mod session;
mod shim;

pub(crate) use init::kill;

use crate::executor::Group;
use crate::world::World;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// How many people still have something to do.
pub(crate) struct Busy(AtomicUsize);

impl Busy {
    pub(crate) fn any(&self) -> bool {
        self.0.load(Ordering::Relaxed) > 0
    }

    fn begins(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    fn ends(&self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Everybody arrives. Answers who is still busy.
pub(crate) fn arrive(world: &Arc<World>) -> Arc<Busy> {
    let busy = Arc::new(Busy(AtomicUsize::new(0)));
    init::arrives(world);
    for plan in world.story.sessions.clone() {
        busy.begins();
        let (world, busy) = (world.clone(), busy.clone());
        world.executor.clone().spawn(Group::WORLD, async move {
            session::lives(&world, plan, &busy).await;
        });
    }
    operators::arrive(world);
    busy
}
