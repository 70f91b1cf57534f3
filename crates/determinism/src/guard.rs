//! Ending what was started when this process can't: a helper that kills the watched process groups at the end of its
//! input, so that neither Ctrl-C nor kill -9 leaves a subject behind.
//!
//! A group is watched from just after its start until just before its leader is reaped, so that its number can't have
//! gone to somebody else.

use std::collections::BTreeSet;
use std::io::{self, BufRead, Write};
use std::path::Path;

use rustix::process::{Pid, Signal, kill_process_group};

use crate::error::RunError;
use crate::helper::{Helper, READY};

pub(crate) const ROLE: &str = "guard";

/// The side of the check.
#[derive(Debug)]
pub(crate) struct Guard(Helper);

impl Guard {
    pub(crate) fn start(companion: &Path) -> Result<Self, RunError> {
        Helper::start(companion, ROLE).map(Self)
    }

    /// From now on the group dies with this process.
    pub(crate) fn watch(&mut self, group: u32) -> io::Result<()> {
        self.0.tell(&format!("+{group}"))
    }

    /// The group is gone.
    pub(crate) fn forget(&mut self, group: u32) -> io::Result<()> {
        self.0.tell(&format!("-{group}"))
    }
}

/// The side of the helper: watches until its input ends, then kills what is still watched.
pub(crate) fn serve(input: impl BufRead, mut output: impl Write) -> io::Result<()> {
    writeln!(output, "{READY}")?;
    output.flush()?;
    let mut watched = BTreeSet::new();
    for line in input.lines().map_while(Result::ok) {
        follow(&mut watched, &line);
    }
    watched.into_iter().for_each(kill);
    Ok(())
}

fn follow(watched: &mut BTreeSet<u32>, line: &str) {
    match (line.strip_prefix('+').map(str::parse), line.strip_prefix('-').map(str::parse)) {
        (Some(Ok(group)), _) => {
            watched.insert(group);
        }
        (_, Some(Ok(group))) => {
            watched.remove(&group);
        }
        _ => {}
    }
}

/// Kills every process of a group; one that is gone already is fine.
pub(crate) fn kill(group: u32) {
    if let Some(group) = i32::try_from(group).ok().and_then(Pid::from_raw) {
        let _ = kill_process_group(group, Signal::KILL);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_is_watched_until_it_is_forgotten() {
        let mut watched = BTreeSet::new();
        for line in ["+12", "+13", "-12", "rubbish", "+", "--", "-99", "+x"] {
            follow(&mut watched, line);
        }
        assert_eq!(watched, BTreeSet::from([13]));
    }
}
