//! `/proc/PID/stat`: the fields that tell processes, groups and incarnations apart.

use crate::HostError;
use crate::offset::BootOffset;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

/// More than fifty numbers and a name ever have.
const STAT_BYTES: usize = 2 << 10;

/// A few fields of `/proc/PID/stat`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProcStat {
    /// Field 1.
    pub pid: u32,
    /// Field 3: `R`, `S`, `Z`, …
    pub state: char,
    /// Field 4: its parent; 0 when that is outside the pid namespace.
    pub parent: u32,
    /// Field 5: its process group.
    pub group: u32,
    /// Field 6: its session.
    pub session: u32,
    /// Field 20: its threads.
    pub threads: u64,
    /// Field 22: clock ticks from boot to its start, whatever time namespace this is read in.
    pub start_ticks: u64,
}

impl ProcStat {
    /// Whether it can still do something. A zombie can't, unless only its first thread has ended.
    #[must_use]
    pub fn is_running(&self) -> bool {
        !self.is_zombie()
    }

    /// Whether it has ended and waits to be reaped.
    #[must_use]
    pub fn is_zombie(&self) -> bool {
        matches!(self.state, 'Z' | 'X' | 'x') && self.threads <= 1
    }

    /// Reads one line. The command name (field 2) may hold anything, `)` and newlines too, so it ends at the last `)`.
    fn parse(line: &[u8]) -> Option<Self> {
        let open = line.iter().position(|b| *b == b'(')?;
        let close = line.iter().rposition(|b| *b == b')')?;
        let pid = std::str::from_utf8(line.get(..open)?).ok()?.trim().parse().ok()?;
        let fields = fields(line.get(close + 1..)?)?;
        let number = |field: usize| fields.get(field - 3)?.parse::<u64>().ok();
        let small = |field: usize| u32::try_from(number(field)?).ok();
        Some(Self {
            pid,
            state: fields.first()?.chars().next()?,
            parent: small(4)?,
            group: small(5)?,
            session: small(6)?,
            threads: number(20)?,
            start_ticks: number(22)?,
        })
    }
}

/// The fields behind the command name: the first is field 3.
fn fields(rest: &[u8]) -> Option<Vec<&str>> {
    Some(std::str::from_utf8(rest).ok()?.split_ascii_whitespace().collect())
}

/// Whether the line is of a process that was reaped while it was being read: it has no threads, group or session any
/// more, which the kernel writes as 0 and -1.
fn is_reaped(line: &[u8]) -> bool {
    let close = line.iter().rposition(|b| *b == b')');
    let fields = close.and_then(|close| fields(&line[close + 1..])).unwrap_or_default();
    let is = |field: usize, text: &str| fields.get(field - 3) == Some(&text);
    is(5, "-1") && is(6, "-1") && is(20, "0")
}

/// What `/proc` says of `pid` now.
///
/// # Errors
/// [`HostError::Gone`] when there is no such process, else as the file can't be read or understood.
pub fn stat_of(pid: u32) -> Result<ProcStat, HostError> {
    let path = PathBuf::from(format!("/proc/{pid}/stat"));
    let line = contents(&path, STAT_BYTES, u64::MAX).map_err(|source| unreadable(pid, &path, source))?;
    match ProcStat::parse(&line) {
        Some(stat) => {
            let start_ticks = BootOffset::of_this_process().real_ticks(stat.start_ticks);
            Ok(ProcStat { start_ticks, ..stat })
        }
        None if is_reaped(&line) => Err(HostError::Gone { pid }),
        None => Err(HostError::malformed(path, &line)),
    }
}

/// A file of `/proc` up to `most` bytes. Such files have no length, and every read of them is work for the kernel: with
/// `room` from the beginning there is one read, and one that finds the end.
pub(crate) fn contents(path: &Path, room: usize, most: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(room);
    File::open(path)?.take(most).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// A failed read of a file of `/proc/PID`: told apart whether the process has gone or the file is closed to us.
pub(crate) fn unreadable(pid: u32, path: &Path, source: io::Error) -> HostError {
    let gone = source.kind() == io::ErrorKind::NotFound
        || source.raw_os_error() == Some(rustix::io::Errno::SRCH.raw_os_error());
    // Without /proc every process would look gone: that is never a proof.
    if gone && Path::new("/proc/self/stat").exists() {
        HostError::Gone { pid }
    } else {
        HostError::Unreadable { path: path.to_owned(), source }
    }
}

/// Every process that can be seen, by pid.
pub type ProcTable = BTreeMap<u32, ProcStat>;

/// One pass over `/proc`.
///
/// Not a snapshot: what starts or ends during the pass may be missing or already gone. A proof of absence needs two
/// passes that agree.
///
/// # Errors
/// As [`stat_of`] for any process that hasn't just ended: a table with a hole proves nothing.
pub fn process_table() -> Result<ProcTable, HostError> {
    table_of(pids()?)
}

/// The children of this process, zombies too; where the kernel lists them, nobody else is looked at.
///
/// Not a snapshot either: one that comes while the list is read may be missing.
///
/// # Errors
/// As [`process_table`].
pub fn own_children() -> Result<ProcTable, HostError> {
    let me = std::process::id();
    let mut table = match listed_children() {
        Ok(pids) => table_of(pids)?,
        Err(_) => process_table()?, // a kernel without such lists, or a thread that has just ended
    };
    table.retain(|_, stat| stat.parent == me);
    Ok(table)
}

/// Each thread has a list of its own.
fn listed_children() -> io::Result<Vec<u32>> {
    let mut pids = Vec::new();
    for thread in fs::read_dir("/proc/self/task")? {
        let list = fs::read_to_string(thread?.path().join("children"))?;
        pids.extend(list.split_ascii_whitespace().filter_map(|pid| pid.parse::<u32>().ok()));
    }
    Ok(pids)
}

fn table_of(pids: Vec<u32>) -> Result<ProcTable, HostError> {
    let mut table = ProcTable::new();
    for pid in pids {
        match stat_of(pid) {
            Ok(stat) => table.insert(pid, stat),
            Err(HostError::Gone { .. }) => None,
            Err(e) => return Err(e),
        };
    }
    Ok(table)
}

pub(crate) fn pids() -> Result<Vec<u32>, HostError> {
    let unreadable = |source| HostError::Unreadable { path: "/proc".into(), source };
    let mut pids = Vec::new();
    for entry in fs::read_dir("/proc").map_err(unreadable)? {
        let name = entry.map_err(unreadable)?.file_name();
        if let Some(pid) = name.to_str().and_then(|name| name.parse().ok()) {
            pids.push(pid);
        }
    }
    Ok(pids)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(line: &str, expected: Option<(u32, char, u32, u32, u64)>) {
        let found = ProcStat::parse(line.as_bytes());
        assert_eq!(found.map(|s| (s.pid, s.state, s.parent, s.group, s.start_ticks)), expected, "{line}");
    }

    #[test]
    fn the_command_name_may_hold_anything() {
        let rest = "7 9 8 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 777 9 9";
        for name in ["cat", "a b", "a) S 1 1 1", "((", ")", "", "a\nb", "node (v26)"] {
            check(&format!("42 ({name}) S {rest}\n"), Some((42, 'S', 7, 9, 777)));
        }
    }

    #[test]
    fn a_process_that_is_reaped_while_it_is_read_is_gone() {
        let reaped =
            "27256 (sleep) R 0 -1 -1 0 -1 4228108 171 0 0 0 0 0 0 0 20 0 0 0 1355314 2990080 413 0 9 9 14";
        check(reaped, None);
        assert!(is_reaped(reaped.as_bytes()));
        assert!(!is_reaped(b"1 (sh) S 0 1 1 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 7 1 1"));
        assert!(!is_reaped(b"1 (sh) S 0 -1"));
        assert!(!is_reaped(b"nonsense"));
    }

    #[test]
    fn a_line_cut_short_is_not_understood() {
        for line in ["", "42", "42 (cat", "42 (cat)", "42 (cat) S 7 9", "x (cat) S 7 9 8 0 -1 0 1 2 3"] {
            check(line, None);
        }
    }

    #[test]
    fn a_zombie_is_over_unless_other_threads_go_on() {
        let zombie = |state, threads| {
            ProcStat { pid: 1, state, parent: 0, group: 1, session: 1, threads, start_ticks: 0 }.is_zombie()
        };
        assert_eq!(
            [zombie('Z', 1), zombie('X', 0), zombie('Z', 3), zombie('S', 1), zombie('T', 1)],
            [true, true, false, false, false]
        );
    }
}
