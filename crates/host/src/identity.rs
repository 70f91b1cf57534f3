//! Who a process is: pid, start time, boot and pid namespace, read together.

use crate::stat::unreadable;
use crate::{HostError, boot_id, stat_of};
use std::fs;
use std::path::PathBuf;
use tidegate_core::ProcessIdentity;

/// The inode of the pid namespace of `pid`.
///
/// # Errors
/// [`HostError`] when the process is gone or belongs to another user.
pub fn pid_namespace(pid: u32) -> Result<u64, HostError> {
    let path = PathBuf::from(format!("/proc/{pid}/ns/pid"));
    let target = fs::read_link(&path).map_err(|source| unreadable(pid, &path, source))?;
    let text = target.to_string_lossy();
    text.strip_prefix("pid:[")
        .and_then(|rest| rest.strip_suffix(']'))
        .and_then(|inode| inode.parse().ok())
        .ok_or_else(|| HostError::malformed(path, text.as_bytes()))
}

/// The identity of the process that has `pid` now, with the nonce its starter gave it.
///
/// # Errors
/// [`HostError::Gone`] when there is none (a zombie is still one), else as `/proc` can't be read.
pub fn identity_of(pid: u32, nonce: &str) -> Result<ProcessIdentity, HostError> {
    let before = stat_of(pid)?;
    let pid_ns = pid_namespace(pid)?;
    // The pid could have changed hands between the two reads.
    if stat_of(pid)?.start_ticks != before.start_ticks {
        return Err(HostError::Gone { pid });
    }
    Ok(ProcessIdentity {
        boot: boot_id()?,
        pid_ns,
        pid,
        start_ticks: before.start_ticks,
        nonce: nonce.to_owned(),
    })
}

/// The identity of this process.
///
/// # Errors
/// As [`identity_of`].
pub fn own_identity(nonce: &str) -> Result<ProcessIdentity, HostError> {
    identity_of(std::process::id(), nonce)
}

/// The identity of the process that started this one: a shim's client.
///
/// # Errors
/// [`HostError::ParentOutside`] when it can't be named from here, else as [`identity_of`].
pub fn parent_identity(nonce: &str) -> Result<ProcessIdentity, HostError> {
    let parent = || rustix::process::getppid().map(|pid| pid.as_raw_nonzero().get().unsigned_abs());
    let pid = parent().ok_or(HostError::ParentOutside)?;
    let identity = identity_of(pid, nonce)?;
    // An orphan gets another parent, and its old parent's pid another owner.
    if parent() == Some(pid) { Ok(identity) } else { Err(HostError::Gone { pid }) }
}
