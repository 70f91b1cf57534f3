//! Finding what an incarnation has started by the nonce in its environment, whatever group or session it fled to.
//!
//! A process shows the environment it was started with. One of another user can't be read and isn't found: servers are
//! never given a way to change users.

use crate::stat::pids;
use crate::{HostError, stat_of};
use std::fs;

/// The longest environment that is read: the kernel's usual limit for arguments and environment together is 2 MiB.
const MAX_ENVIRON_BYTES: u64 = 4 << 20;

/// Whether the environment of `pid` has `var=value`. No when it can't be read, is gone or a zombie.
#[must_use]
pub fn carries(pid: u32, var: &str, value: &str) -> bool {
    use std::io::Read;
    let Ok(file) = fs::File::open(format!("/proc/{pid}/environ")) else { return false };
    let mut environ = Vec::new();
    if file.take(MAX_ENVIRON_BYTES).read_to_end(&mut environ).is_err() {
        return false;
    }
    let wanted = format!("{var}={value}");
    environ.split(|b| *b == 0).any(|entry| entry == wanted.as_bytes())
}

/// The running processes whose environment has `var=nonce`, by one pass over `/proc` (see [`crate::process_table`] for what a pass
/// can miss).
///
/// # Errors
/// [`HostError::Unreadable`] when `/proc` can't be listed.
pub fn processes_with_nonce(var: &str, nonce: &str) -> Result<Vec<u32>, HostError> {
    let mut found = pids()?;
    found.retain(|pid| carries(*pid, var, nonce) && stat_of(*pid).is_ok_and(|s| s.is_running()));
    Ok(found)
}
