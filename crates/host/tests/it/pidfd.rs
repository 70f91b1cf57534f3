//! Pidfds: waiting for a death, and signalling nobody else.

use crate::{PATIENCE, end, waiting_child};
use std::os::unix::process::ExitStatusExt;
use tidegate_host::{HostError, Pidfd, Signal, stat_of};

#[test]
fn a_pidfd_sees_the_death_and_stays_harmless_after_it() {
    let mut child = waiting_child("pidfd");
    let stat = stat_of(child.id()).unwrap();
    let fd = Pidfd::open(stat.pid, stat.start_ticks).unwrap();
    assert!(!fd.has_exited().unwrap());

    fd.signal(Signal::TERM).unwrap();
    assert!(fd.wait(PATIENCE).unwrap());
    assert_eq!(child.wait().unwrap().signal(), Some(Signal::TERM.as_raw()));
    fd.signal(Signal::KILL).unwrap();
    assert!(fd.has_exited().unwrap());
}

#[test]
fn a_pidfd_is_not_opened_for_the_next_owner_of_a_pid() {
    let child = waiting_child("pidfd");
    let stat = stat_of(child.id()).unwrap();
    let opened = Pidfd::open(stat.pid, stat.start_ticks - 1);
    assert!(matches!(opened, Err(HostError::Gone { pid }) if pid == stat.pid));
    end(child);
}
