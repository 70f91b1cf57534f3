//! Looking for a tree in `/proc`, and signalling what was found. Blocking: callers put it on a thread for that.

use super::reap;
use super::spawn::NONCE_VAR;
use super::tree::{Member, Members, members};
use rustix::process::{Pid, Signal, kill_process_group};
use std::collections::BTreeSet;
use tidegate_core::ProcessIdentity;
use tidegate_host::{HostError, Pidfd, carries, process_table};

/// How many passes in a row must find nothing before nothing is there: a process that is being forked can slip through one.
const PROOF_PASSES: usize = 2;

/// Where the boot clock of a time namespace is set off by less than whole ticks, the start of a process is unsure by one.
const TICKS_UNSURE: u64 = 1;

/// What runs of the tree of `leader`; empty only when [`PROOF_PASSES`] passes agree. Reaps the dead on its way.
pub(super) fn census(leader: &ProcessIdentity, known: &BTreeSet<Member>) -> Result<Members, HostError> {
    let me = std::process::id();
    for _ in 1..PROOF_PASSES {
        let found = pass(leader, known, me)?;
        if !found.is_empty() {
            return Ok(found);
        }
    }
    pass(leader, known, me)
}

fn pass(leader: &ProcessIdentity, known: &BTreeSet<Member>, me: u32) -> Result<Members, HostError> {
    let table = process_table()?;
    let mut carriers = BTreeSet::new();
    // What was there before the leader is none of what it has started: most of a machine needn't be looked into.
    for stat in table.values().filter(|stat| stat.start_ticks + TICKS_UNSURE >= leader.start_ticks) {
        if carries(stat.pid, NONCE_VAR, &leader.nonce)? {
            carriers.insert(stat.pid);
        }
    }
    reap::adopted(&table);
    Ok(members(&table, &carriers, known, leader, me))
}

/// Signals every given member, and the tree's group where its number is surely the tree's.
///
/// One that has just ended is no error; one that can't be signalled shows in the next census.
pub(super) fn signal(
    leader: &ProcessIdentity,
    targets: &BTreeSet<Member>,
    group_is_ours: bool,
    signal: Signal,
) {
    if group_is_ours && let Some(group) = i32::try_from(leader.pid).ok().and_then(Pid::from_raw) {
        // At once, so that members that keep forking don't outrun it.
        let _ = kill_process_group(group, signal);
    }
    for member in targets {
        if let Ok(process) = Pidfd::open(member.pid, member.start_ticks) {
            let _ = process.signal(signal);
        }
    }
}
