//! The load beside the subject in the condition `loaded`: busy processes, and the proof that they were busy.

use std::io::{self, Read, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::error::RunError;
use crate::helper::{Helper, READY};
use crate::record::Reason;
use crate::verdict::Failure;

pub(crate) const ROLE: &str = "hog";

/// Busy processes; they end with this value.
#[derive(Debug)]
pub(crate) struct Load(Vec<Helper>);

impl Load {
    /// Returns once every process is busy.
    pub(crate) fn start(companion: &Path, hogs: u32) -> Result<Self, RunError> {
        (0..hogs).map(|_| Helper::start(companion, &[ROLE])).collect::<Result<_, _>>().map(Self)
    }

    /// Ends the load; an error when a process was not busy until now.
    pub(crate) fn finish(self) -> Result<(), Failure> {
        let all = self.0.len();
        let busy = self.0.into_iter().filter_map(Helper::finish).filter(|line| was_busy(line)).count();
        if busy == all {
            return Ok(());
        }
        Err(Failure {
            reason: Reason::LoadAbsent,
            detail: format!("{busy} of {all} busy processes were busy until the end"),
        })
    }
}

fn was_busy(last_line: &str) -> bool {
    last_line.strip_prefix("turns ").and_then(|turns| turns.parse().ok()).is_some_and(|turns: u64| turns > 0)
}

/// The side of the helper: spins until its input ends, then says how often it turned.
pub(crate) fn serve(mut input: impl Read, mut output: impl Write) -> io::Result<()> {
    let stop = Arc::new(AtomicBool::new(false));
    let spinner = std::thread::spawn({
        let stop = Arc::clone(&stop);
        move || {
            let mut turns: u64 = 0;
            while !stop.load(Ordering::Relaxed) {
                turns += 1;
                std::hint::spin_loop();
            }
            turns
        }
    });
    writeln!(output, "{READY}")?;
    output.flush()?;
    input.read_to_end(&mut Vec::new())?;
    stop.store(true, Ordering::Relaxed);
    let turns = spinner.join().unwrap_or(0);
    writeln!(output, "turns {turns}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hog_that_never_turned_or_died_was_not_busy() {
        assert!(was_busy("turns 1"));
        for line in ["turns 0", "turns", "", "ready"] {
            assert!(!was_busy(line), "{line:?}");
        }
    }
}
