//! Becoming the subject: into its root, its directory and its user, and then its program. The number stays the same.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

use crate::machine::ROOT;

/// The first argument of a process that becomes the subject: `enter USER GROUP DIRECTORY PROGRAM ARGUMENT…`.
pub(crate) const ROLE: &str = "enter";
/// The first argument of a process that only takes a number.
pub(crate) const NOTHING: &str = "nothing";
/// What a shell says of a command that it can't start.
pub(crate) const NOT_STARTED: u8 = 127;

/// Returns only when it fails.
pub(crate) fn become_subject(
    user: &str,
    group: &str,
    directory: &str,
    program: &str,
    arguments: &[&str],
) -> io::Error {
    let enter = || -> io::Result<(u32, u32)> {
        rustix::process::chroot(ROOT)?;
        std::env::set_current_dir(directory)?;
        let number = |text: &str| text.parse().map_err(io::Error::other);
        Ok((number(user)?, number(group)?))
    };
    match enter() {
        // The environment is the subject's already.
        Ok((user, group)) => Command::new(program).args(arguments).uid(user).gid(group).exec(),
        Err(error) => error,
    }
}
