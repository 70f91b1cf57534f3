//! Zombies: the daemon adopts the orphans of its servers, so that they end as nobody's zombies, and reaps them.
//!
//! It must never reap a child that the runtime waits for. Those it knows: they were started here, or run in the
//! daemon's own process group; an orphan of a server does neither.

use rustix::process::{Pid, WaitId, WaitIdOptions, getpgrp, set_child_subreaper, waitid};
use std::collections::BTreeSet;
use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};
use tidegate_host::{HostError, ProcTable, own_children};
use tokio::process::{Child, Command};

/// The children that the runtime waits for. One list per process, as there is one set of children per process.
static AWAITED: Mutex<BTreeSet<u32>> = Mutex::new(BTreeSet::new());

fn awaited() -> MutexGuard<'static, BTreeSet<u32>> {
    // A set of numbers is whole after a panic, too.
    AWAITED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Makes this process the parent of what its servers leave behind.
pub(super) fn adopt_orphans() -> io::Result<()> {
    let me = i32::try_from(std::process::id()).ok().and_then(Pid::from_raw);
    Ok(set_child_subreaper(me)?)
}

/// Starts a child whose end the runtime will wait for.
pub(crate) fn spawn(command: &mut Command) -> io::Result<Child> {
    // Under the lock, so that it can't be taken for an orphan between its start and its being listed.
    let mut awaited = awaited();
    let child = command.spawn()?;
    awaited.extend(child.id());
    Ok(child)
}

/// The runtime has reaped this child.
pub(crate) fn forget(pid: u32) {
    awaited().remove(&pid);
}

/// Reaps the adopted zombies of `table`.
pub(super) fn adopted(table: &ProcTable) {
    let me = std::process::id();
    let own_group = getpgrp().as_raw_nonzero().get().unsigned_abs();
    let awaited = awaited();
    for stat in table.values() {
        let is_orphan = stat.parent == me && stat.group != own_group && !awaited.contains(&stat.pid);
        if is_orphan
            && stat.is_zombie()
            && let Some(pid) = i32::try_from(stat.pid).ok().and_then(Pid::from_raw)
        {
            // Not a child any more: somebody else was faster, which is as good.
            let _ = waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOHANG);
        }
    }
}

/// As [`adopted`], of the children that there are now.
pub(super) fn sweep() -> Result<(), HostError> {
    adopted(&own_children()?);
    Ok(())
}
