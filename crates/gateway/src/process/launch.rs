//! The launcher: a process that waits to be released and then becomes the server.
//!
//! It reads one byte of its standard input and no more: what follows belongs to the server. It must never start
//! anything when that byte doesn't come.

use super::resolve::why_not;
use std::ffi::OsString;
use std::io::Write as _;
use std::os::fd::AsFd as _;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, ExitCode};

/// The hidden subcommand. It is not part of the command line's contract.
pub(super) const LAUNCH_ARG: &str = "__launch";
/// What releases the launcher.
pub(super) const RELEASE: u8 = b'\n';
/// As shells say it: the command was not found.
const NOT_FOUND: u8 = 127;
/// As shells say it: the command was found and could not be executed.
const NOT_EXECUTABLE: u8 = 126;

/// Runs the launcher if this process was started as one; to be called first thing in `main`, before any thread.
///
/// Returns `None` in every other process. On release it doesn't return: the process is the server then.
pub(crate) fn launch_main() -> Option<ExitCode> {
    let mut args = std::env::args_os().skip(1);
    if args.next()? != LAUNCH_ARG {
        return None;
    }
    let command: Vec<OsString> = args.collect();
    Some(match wait_for_release() {
        Ok(true) => become_server(&command),
        Ok(false) => ExitCode::SUCCESS,
        Err(e) => complain(&format!("the launcher cannot read its standard input: {e}"), NOT_EXECUTABLE),
    })
}

/// Whether the release came; no at the end of the input.
fn wait_for_release() -> std::io::Result<bool> {
    let mut byte = [0];
    loop {
        // Not through std's stdin: its buffer would swallow the server's input.
        match rustix::io::read(std::io::stdin().as_fd(), &mut byte) {
            Ok(n) => return Ok(n == 1 && byte[0] == RELEASE),
            Err(rustix::io::Errno::INTR) => {}
            Err(e) => return Err(e.into()),
        }
    }
}

fn become_server(command: &[OsString]) -> ExitCode {
    let Some((program, args)) = command.split_first() else {
        return complain("the launcher was given no command", NOT_EXECUTABLE);
    };
    let error = Command::new(program).args(args).exec();
    let code = if error.kind() == std::io::ErrorKind::NotFound { NOT_FOUND } else { NOT_EXECUTABLE };
    complain(&why_not(program, &error), code)
}

fn complain(what: &str, code: u8) -> ExitCode {
    // Nobody is left to tell when this fails; the status still says it.
    let _ = writeln!(std::io::stderr(), "tidegate: {what}");
    ExitCode::from(code)
}
