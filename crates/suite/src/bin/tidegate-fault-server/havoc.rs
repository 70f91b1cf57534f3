//! The faults of a process: dying, noise, children left behind, signals ignored, a port held.

use crate::flags::{Flags, Phase};
use std::io::Write as _;
use std::net::TcpListener;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::sync::mpsc;
use std::time::Duration;

/// The hidden first argument of a grandchild.
const GRANDCHILD_ARG: &str = "__grandchild";
/// How long a grandchild lives when nobody ends it: no test runs that long, and no machine keeps it for ever.
const GRANDCHILD_LIFE: Duration = Duration::from_secs(600);
/// Set once SIGTERM is ignored.
const TERM_IGNORED_VAR: &str = "TIDEGATE_FAULT_TERM_IGNORED";
/// Between two looks for a file.
const GLANCE: Duration = Duration::from_millis(2);

/// Dies if the flags say so for this phase of this start.
pub(crate) fn die_if(flags: &Flags, phase: Phase, start: u64) {
    if flags.die_at.iter().any(|(at, starts)| *at == phase && starts.contains(&start)) {
        if let Some(message) = &flags.die_message {
            let _ = writeln!(std::io::stderr(), "{message}");
        }
        std::process::exit(flags.die_code);
    }
}

/// Does nothing for a while.
pub(crate) fn pause(limit: Duration) {
    let (_never, nothing) = mpsc::channel::<()>();
    let _ = nothing.recv_timeout(limit);
}

/// Does nothing until there is such a file, or `given_up` says that there is no need any more.
pub(crate) fn await_file(path: &Path, given_up: impl Fn() -> bool) {
    while !path.exists() && !given_up() {
        pause(GLANCE);
    }
}

/// Writes that many bytes to standard error, in lines of 100 bytes or in none at all.
pub(crate) fn noise(bytes: usize, newlines: bool) {
    let mut text = vec![b'x'; bytes];
    if newlines {
        text.iter_mut().skip(99).step_by(100).for_each(|b| *b = b'\n');
    }
    let _ = std::io::stderr().write_all(&text);
}

/// Takes a port of the loopback interface for as long as the listener lives.
pub(crate) fn bind(port: u16) -> Result<TcpListener, String> {
    TcpListener::bind(("127.0.0.1", port)).map_err(|e| format!("cannot bind 127.0.0.1:{port}: {e}"))
}

/// Becomes a process that ignores SIGTERM: the same pid, started again by a shell that ignores it.
///
/// A disposition to ignore survives `exec`; setting one without a shell takes `unsafe`. Children inherit it.
pub(crate) fn ignore_term() -> Result<(), String> {
    if std::env::var_os(TERM_IGNORED_VAR).is_some() {
        return Ok(());
    }
    let own = std::env::current_exe().map_err(|e| format!("cannot find my own program: {e}"))?;
    let error = Command::new("/bin/sh")
        .args(["-c", r#"trap '' TERM; exec "$0" "$@""#])
        .arg(own)
        .args(std::env::args_os().skip(1))
        .env(TERM_IGNORED_VAR, "1")
        .exec();
    Err(format!("cannot start /bin/sh: {error}"))
}

/// A child that outlives the server unless somebody ends it. It holds standard output and error open.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Grandchild {
    /// In the server's process group.
    Child,
    /// In a session and a group of its own.
    Setsid,
    /// As `Setsid`, and without the server's environment.
    SetsidBare,
}

impl std::str::FromStr for Grandchild {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        serde_json::from_value(text.into())
            .map_err(|_| format!("--grandchild child|setsid|setsid-bare, not {text:?}"))
    }
}

/// Starts a grandchild, waits until it is where it was told to go, and gives its pid.
pub(crate) fn grandchild(kind: Grandchild) -> Result<u32, String> {
    let told = |e: std::io::Error| format!("cannot start a grandchild: {e}");
    let mut command = Command::new(std::env::current_exe().map_err(told)?);
    command.arg(GRANDCHILD_ARG);
    if kind != Grandchild::Child {
        command.arg("setsid");
    }
    if kind == Grandchild::SetsidBare {
        command.env_clear();
    }
    // Its input closes when it has arrived; everything else it shares with the server.
    let mut child = command.stdin(Stdio::piped()).spawn().map_err(told)?;
    let pid = child.id();
    let mut arrived = child.stdin.take().ok_or("a grandchild without an input")?;
    while arrived.write_all(b".").is_ok() {
        pause(GLANCE);
    }
    Ok(pid)
}

/// Runs the grandchild if this process was started as one.
pub(crate) fn grandchild_main(args: &[String]) -> Option<ExitCode> {
    let (first, rest) = args.split_first()?;
    if first != GRANDCHILD_ARG {
        return None;
    }
    if rest.iter().any(|arg| arg == "setsid") && rustix::process::setsid().is_err() {
        return Some(ExitCode::FAILURE);
    }
    // Standard input is closed by becoming something that has none.
    let error = Command::new("/bin/sh")
        .args(["-c", &format!("exec 0<&-; exec sleep {}", GRANDCHILD_LIFE.as_secs())])
        .exec();
    let _ = writeln!(std::io::stderr(), "cannot start /bin/sh: {error}");
    Some(ExitCode::FAILURE)
}
