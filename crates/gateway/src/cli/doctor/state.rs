//! The state directory: whose it is, what it lies on, whether its locks work, whether its journal is whole.

use super::configuration::readable_by_others;
use super::finding::Finding;
use crate::config::{Config, MAX_SOCKET_PATH};
use crate::exit::with_causes;
use rustix::fs::{Access, access, statfs};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use tidegate_store::{CheckReport, FileError, LockError};

const CHECK: &str = "state";
/// Less than this is filled by a few hours' records and one compaction beside them.
const LEAST_FREE: u64 = 64 << 20;

/// File systems by the number that the kernel gives them, and what is wrong with those that hold state badly.
const DOUBTFUL: [(u64, &str, &str); 6] = [
    (0x6969, "nfs", REMOTE),
    (0xfe53_4d42, "smb2", REMOTE),
    (0xff53_4d42, "cifs", REMOTE),
    (0x0102_1997, "9p", REMOTE),
    (0x0102_1994, "tmpfs", "is gone when the machine starts again"),
    (0x8584_58f6, "ramfs", "is gone when the machine starts again"),
];
const REMOTE: &str = "is on another machine: locks and syncs may not mean what they say";

/// Adds what there is to say; answers whether a daemon holds the directory.
pub(super) fn look(config: &Config, findings: &mut Vec<Finding>) -> bool {
    let dir = &config.state_dir;
    let socket = config.socket();
    let length = socket.as_os_str().len();
    if length > MAX_SOCKET_PATH {
        findings.push(Finding::failed(
            CHECK,
            format!("the socket's path has {length} bytes, the kernel takes {MAX_SOCKET_PATH}: {}", socket.display()),
            "choose a shorter directory for [state] store, or start from nearer to it with a relative --config",
        ));
    }
    if !dir.exists() {
        findings.push(to_be_made(dir));
        return false;
    }
    if let Some(finding) = ownership(dir) {
        findings.push(finding);
        return false;
    }
    findings.extend(file_system(dir));
    let (locked, finding) = locks(dir);
    findings.extend(finding);
    findings.push(journal(dir, &tidegate_store::check(dir)));
    locked
}

fn to_be_made(dir: &Path) -> Finding {
    let parent = dir.ancestors().skip(1).map(|dir| if dir == Path::new("") { Path::new(".") } else { dir });
    let Some(above) = parent.into_iter().find(|dir| dir.exists()) else {
        return Finding::failed(CHECK, format!("{} can't be made", dir.display()), "check the path");
    };
    if !above.is_dir() {
        let said = format!("{} can't be made: {} is no directory", dir.display(), above.display());
        return Finding::failed(CHECK, said, "choose another directory for [state] store");
    }
    match access(above, Access::WRITE_OK) {
        Ok(()) => Finding::ok(CHECK, format!("{} will be made when the daemon starts", dir.display())),
        Err(error) => Finding::failed(
            CHECK,
            format!("{} can't be made: {} is not writable ({error})", dir.display(), above.display()),
            "choose another directory for [state] store, or make this one",
        ),
    }
}

fn ownership(dir: &Path) -> Option<Finding> {
    let (me, shown) = (rustix::process::geteuid().as_raw(), dir.display());
    let meta = match std::fs::metadata(dir) {
        Ok(meta) if meta.is_dir() => meta,
        Ok(_) => return Some(Finding::failed(CHECK, format!("{shown} is no directory"), "move it away")),
        Err(error) => {
            return Some(Finding::failed(CHECK, format!("{shown}: {error}"), "check its permissions"));
        }
    };
    if meta.uid() != me {
        let said = format!("{shown} belongs to user {}, and you are {me}", meta.uid());
        return Some(Finding::failed(CHECK, said, "run every tidegate command as the same user"));
    }
    readable_by_others(dir).then(|| {
        let said = format!("others can look into {shown}");
        Finding::warning(CHECK, said, format!("chmod 700 {shown}"))
    })
}

fn file_system(dir: &Path) -> Vec<Finding> {
    let Ok(seen) = statfs(dir) else { return Vec::new() };
    let mut findings = Vec::new();
    // The kernel's number is 32 bits wide, whatever the type that carries it.
    let kind = seen.f_type as u64 & 0xffff_ffff;
    if let Some((_, name, why)) = DOUBTFUL.iter().find(|(number, ..)| *number == kind) {
        findings.push(Finding::warning(
            CHECK,
            format!("{} is on {name}, which {why}", dir.display()),
            "put it on a local disk: [state] store",
        ));
    }
    let free = seen.f_bavail.saturating_mul(u64::try_from(seen.f_bsize).unwrap_or(0));
    if free < LEAST_FREE {
        findings.push(Finding::failed(
            CHECK,
            format!("{} MiB are free where {} is", free >> 20, dir.display()),
            "make room: what can't be recorded is refused",
        ));
    }
    findings
}

/// Whether a daemon has the lock, and what is wrong with locks.
fn locks(dir: &Path) -> (bool, Option<Finding>) {
    match crate::daemon::hold(dir) {
        Ok(_) => (false, None),
        Err(LockError::Busy { .. }) => (true, None),
        Err(error) => {
            (false, Some(Finding::failed(CHECK, error.to_string(), "put [state] store on a local disk")))
        }
    }
}

pub(super) fn journal(dir: &Path, checked: &Result<CheckReport, FileError>) -> Finding {
    let shown = dir.display();
    match checked {
        Ok(CheckReport { adopt: Some(why), .. }) => Finding::failed(
            CHECK,
            why.clone(),
            "stop everything that uses the directory, then run: tidegate store adopt",
        ),
        Ok(CheckReport { sync_failed: true, .. }) => Finding::failed(
            CHECK,
            format!("a sync of {shown} has failed: nothing is recorded until that is settled"),
            "look at the kernel's log, then run: tidegate store compact",
        ),
        Ok(report) => Finding::ok(
            CHECK,
            format!(
                "{shown}: {} records, {} KiB of journal, revision {}",
                report.records,
                report.journal_bytes.div_ceil(1024),
                report.revision
            ),
        ),
        Err(FileError::NoStore { .. }) => Finding::ok(CHECK, format!("{shown} holds nothing yet")),
        Err(error @ FileError::JournalMissing { .. }) => {
            Finding::failed(CHECK, error.to_string(), "docs/operations.md has each case")
        }
        Err(error) => Finding::failed(
            CHECK,
            with_causes(error),
            "don't touch the file: copy the directory away and restore it from a backup; docs/operations.md has each case",
        ),
    }
}
