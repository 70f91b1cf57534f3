//! Faults that only a kernel can make need rights and tools. Where they are lacking a test says so: in CI that fails
//! it, for there the proof must be complete; elsewhere the test is passed over, with its reason on stderr.

use std::process::{Command, Stdio};

/// Set to anything by every CI service.
const CI: &str = "CI";

/// The beginning of a command that runs a program in namespaces of its own: `["--mount"]`, `["--time", "--boottime",
/// "3600"]`, … as `unshare(1)` calls them. A program and its arguments are to follow. Without root, a user namespace is
/// made as well.
///
/// `None` where that can't be done and the test is to be passed over.
///
/// # Panics
/// In CI, where it can't be done: with what is lacking.
#[must_use]
pub fn in_namespaces(kinds: &[&str]) -> Option<Command> {
    let begin = || {
        let mut command = Command::new("unshare");
        if !runs_as_root() {
            command.args(["--user", "--map-root-user"]);
        }
        command.args(kinds).arg("--");
        command
    };
    match begin().arg("true").stdin(Stdio::null()).output() {
        Ok(output) if output.status.success() => Some(begin()),
        Ok(output) => {
            let said = String::from_utf8_lossy(&output.stderr);
            lacking(&format!("the right to `unshare {}`", kinds.join(" ")), said.trim(), "run as root")
        }
        Err(error) => lacking("unshare", &error.to_string(), "install util-linux"),
    }
}

/// The beginning of a command that runs a program under `tool`, checked with arguments that only make it show itself.
/// `None` and panics as for [`in_namespaces`].
#[must_use]
pub fn under(tool: &str, check: &[&str], args: &[&str]) -> Option<Command> {
    match Command::new(tool).args(check).stdin(Stdio::null()).output() {
        Ok(output) if output.status.success() => {
            let mut command = Command::new(tool);
            command.args(args);
            Some(command)
        }
        Ok(output) => lacking(tool, String::from_utf8_lossy(&output.stderr).trim(), "cargo xtask setup"),
        Err(error) => lacking(tool, &error.to_string(), "cargo xtask setup"),
    }
}

#[allow(clippy::print_stderr, reason = "a test that is passed over has to say so")]
fn lacking(what: &str, why: &str, remedy: &str) -> Option<Command> {
    assert!(std::env::var_os(CI).is_none(), "this test needs {what}, and CI must have it: {why}; {remedy}");
    eprintln!("PASSED OVER: this test needs {what}: {why}; {remedy}");
    None
}

fn runs_as_root() -> bool {
    // The owner of a process's entry is its effective user.
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata("/proc/self").is_ok_and(|entry| entry.uid() == 0)
}
