//! Leaving nothing behind: every process of a run carries a mark in its environment, by which it is found and killed.
//!
//! A helper does the same when the check itself dies, so that neither Ctrl-C nor kill -9 leaves a subject running. The
//! mark is the same for all runs of a check, or it would make them differ. A process that both leaves its group and
//! clears its environment can't be found.

use std::fs;
use std::io::{self, Read, Write};
use std::path::Path;
use std::thread;

use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open, pidfd_send_signal};

use crate::error::RunError;
use crate::helper::{Helper, READY};

pub(crate) const ROLE: &str = "guard";
/// The variable that holds the mark.
pub(crate) const MARK_VARIABLE: &str = "TIDEGATE_CHECK";
/// Passes over all processes: each pass but the last kills something, and what was killed starts nothing more, so this
/// is only reached by a process that can't die.
const MAX_PASSES: usize = 1_000;

/// The side of the check.
#[derive(Debug)]
pub(crate) struct Guard {
    mark: String,
    _helper: Helper,
}

impl Guard {
    /// From now on everything with the mark dies with this process.
    pub(crate) fn start(companion: &Path) -> Result<Self, RunError> {
        let mark = fs::read_to_string("/proc/sys/kernel/random/uuid")
            .map_err(|source| RunError::Companion { path: companion.to_owned(), source })?;
        let mark = mark.trim().to_owned();
        let helper = Helper::start(companion, &[ROLE, &mark])?;
        Ok(Self { mark, _helper: helper })
    }

    /// What a run has to carry in [`MARK_VARIABLE`].
    pub(crate) fn mark(&self) -> &str {
        &self.mark
    }

    /// Kills a process group, whose leader must not be reaped yet, and everything with the mark.
    pub(crate) fn kill(&self, group: u32) {
        if let Some(group) = pid(group) {
            // An empty group is what is wanted.
            let _ = kill_process_group(group, Signal::KILL);
        }
        kill_marked(&self.mark);
    }
}

/// The side of the helper: waits for the end of its input, then kills what still has the mark.
pub(crate) fn serve(mark: &str, mut input: impl Read, mut output: impl Write) -> io::Result<()> {
    writeln!(output, "{READY}")?;
    output.flush()?;
    input.read_to_end(&mut Vec::new())?;
    kill_marked(mark);
    Ok(())
}

fn kill_marked(mark: &str) {
    let entry = format!("{MARK_VARIABLE}={mark}");
    for _ in 0..MAX_PASSES {
        let Ok(processes) = fs::read_dir("/proc") else { return };
        let names = processes.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
        if names.filter(|process| kill_if_marked(*process, &entry)).count() == 0 {
            return;
        }
        thread::yield_now();
    }
}

/// Holds on to the process while it looks, so that its number can't go to another one.
fn kill_if_marked(process: u32, entry: &str) -> bool {
    let Some(handle) = pid(process).and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok()) else {
        return false;
    };
    let environment = fs::read(format!("/proc/{process}/environ")).unwrap_or_default();
    environment.split(|byte| *byte == 0).any(|variable| variable == entry.as_bytes())
        && pidfd_send_signal(handle, Signal::KILL).is_ok()
}

fn pid(number: u32) -> Option<Pid> {
    i32::try_from(number).ok().and_then(Pid::from_raw)
}
