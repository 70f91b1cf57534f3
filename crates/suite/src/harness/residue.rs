//! What is left of a rig: processes, zombies, descriptors. Only looks, except for [`Residue::end`].

use super::plan::MARK_VAR;
use super::wait::until;
use rustix::process::{Pid, Signal, kill_process};
use std::path::Path;

/// A process that belongs to a rig: its command line or its environment names the rig's directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Residue {
    /// Its process id.
    pub pid: u32,
    /// Its command line.
    pub command: String,
}

impl Residue {
    /// Every running process of the rig at `root`.
    #[must_use]
    pub fn of(root: &Path) -> Vec<Self> {
        let Some(root) = root.to_str() else { return Vec::new() };
        let mark = format!("{MARK_VAR}={root}");
        let table = tidegate_host::process_table().unwrap();
        let running = table.values().filter(|stat| stat.is_running() && stat.pid != std::process::id());
        running
            .filter_map(|stat| {
                // One that has ended meanwhile reads as nothing.
                let read =
                    |file: &str| std::fs::read(format!("/proc/{}/{file}", stat.pid)).unwrap_or_default();
                let command = String::from_utf8_lossy(&read("cmdline")).replace('\0', " ");
                let marked = read("environ").split(|byte| *byte == 0).any(|entry| entry == mark.as_bytes());
                (marked || command.contains(root)).then_some(Self { pid: stat.pid, command })
            })
            .collect()
    }

    /// Kills the process.
    pub fn end(&self) {
        if let Some(pid) = i32::try_from(self.pid).ok().and_then(Pid::from_raw) {
            let _ = kill_process(pid, Signal::KILL); // one that has ended is what was wanted
        }
    }

    /// Ends everything of the rig, until nothing is left.
    pub(super) fn end_all(root: &Path) {
        until("everything of the rig is gone", || {
            let left = Self::of(root);
            left.iter().for_each(Self::end);
            left.is_empty().then_some(())
        });
    }
}

/// How many descriptors a process has open.
#[must_use]
pub fn descriptors(pid: u32) -> usize {
    std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap().count()
}

/// The children of a process that have ended and were not waited for.
#[must_use]
pub fn zombies_of(pid: u32) -> Vec<u32> {
    let table = tidegate_host::process_table().unwrap();
    table.values().filter(|stat| stat.parent == pid && !stat.is_running()).map(|stat| stat.pid).collect()
}
