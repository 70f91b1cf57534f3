//! Finding what an incarnation has started by the nonce in its environment, whatever group or session it fled to.
//!
//! A process shows the environment it was started with. One of another user, or one that hides itself from its own user
//! (as `ssh-agent` does), can't be read and isn't found.

use crate::stat::{contents, pids, unreadable};
use crate::{HostError, stat_of};
use std::io;
use std::path::PathBuf;

/// The longest environment that is read: the kernel's usual limit for arguments and environment together is 2 MiB.
const MAX_ENVIRON_BYTES: u64 = 4 << 20;
/// What most fit in.
const USUAL_ENVIRON_BYTES: usize = 8 << 10;

/// Whether the environment of `pid` has `var=value`. No for one that has ended or may not be looked at.
///
/// # Errors
/// [`HostError::Unreadable`] when looking failed for another reason (no descriptor left, no `/proc`).
pub fn carries(pid: u32, var: &str, value: &str) -> Result<bool, HostError> {
    let path = PathBuf::from(format!("/proc/{pid}/environ"));
    let environ = match contents(&path, USUAL_ENVIRON_BYTES, MAX_ENVIRON_BYTES) {
        Err(e) if e.kind() == io::ErrorKind::PermissionDenied => return Ok(false),
        Err(e) => match unreadable(pid, &path, e) {
            HostError::Gone { .. } => return Ok(false),
            blind => return Err(blind),
        },
        Ok(environ) => environ,
    };
    let wanted = format!("{var}={value}");
    Ok(environ.split(|b| *b == 0).any(|entry| entry == wanted.as_bytes()))
}

/// The running processes whose environment has `var=nonce`, by one pass over `/proc` (see [`crate::process_table`] for what
/// a pass can miss).
///
/// # Errors
/// As [`carries`].
pub fn processes_with_nonce(var: &str, nonce: &str) -> Result<Vec<u32>, HostError> {
    let mut found = Vec::new();
    for pid in pids()? {
        if carries(pid, var, nonce)? && stat_of(pid).is_ok_and(|stat| stat.is_running()) {
            found.push(pid);
        }
    }
    Ok(found)
}
