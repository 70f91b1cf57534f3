//! The kernel's own record of which thread ran when. It shows a divergence that no output shows.

use std::fs;
use std::io;

const TRACING: &str = "/sys/kernel/tracing";
/// Who ran, and who was started, became another program, and ended.
const EVENTS: [&str; 4] = ["sched_switch", "sched_process_fork", "sched_process_exec", "sched_process_exit"];
/// Room for some hundred thousand switches. What has no room pushes out the oldest, in every run the same.
const BUFFER_KIB: &str = "16384";
/// Lines at the beginning that only explain the others.
const EXPLAINS: u8 = b'#';

pub(crate) fn start() -> io::Result<()> {
    set("buffer_size_kb", BUFFER_KIB)?;
    for event in EVENTS {
        set(&format!("events/sched/{event}/enable"), "1")?;
    }
    set("tracing_on", "1")
}

/// Forgets what was recorded so far.
pub(crate) fn forget() -> io::Result<()> {
    set("trace", "")
}

/// Ends the record and returns its lines.
pub(crate) fn finish() -> io::Result<Vec<Vec<u8>>> {
    set("tracing_on", "0")?;
    let text = fs::read(format!("{TRACING}/trace"))?;
    let lines = text.split(|byte| *byte == b'\n');
    Ok(lines
        .map(<[u8]>::trim_ascii)
        .filter(|line| line.first().is_some_and(|first| *first != EXPLAINS))
        .map(<[u8]>::to_vec)
        .collect())
}

fn set(name: &str, value: &str) -> io::Result<()> {
    fs::write(format!("{TRACING}/{name}"), value)
        .map_err(|error| io::Error::other(format!("set {name} of the kernel's trace: {error}")))
}
