//! Starting a server in two steps: identity first, then the server itself.

use super::launch::{LAUNCH_ARG, RELEASE};
use super::reap;
use super::resolve::{ResolveError, resolve};
use super::server::Server;
use super::stdin::{ServerStdin, WriteError};
use super::stdout::ServerStdout;
use crate::keeper::{CallTable, Duplicates, Keeper};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use tidegate_core::ProcessIdentity;
use tidegate_host::{HostError, identity_of};
use tokio::process::Command;
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::JoinHandle;

/// The variable by which everything a server starts is known, whatever group or session it moves to.
pub(crate) const NONCE_VAR: &str = "TIDEGATE_NONCE";
/// The variable that holds a caller's credential. No server sees it.
const TOKEN_VAR: &str = "TIDEGATE_TOKEN";
/// This binary, even after its file was replaced.
const OWN_BINARY: &str = "/proc/self/exe";

/// How a server is started.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct LaunchSpec {
    /// The program and its arguments.
    pub(crate) command: Vec<String>,
    /// Its working directory; the daemon's where there is none.
    pub(crate) cwd: Option<PathBuf>,
    /// Variables beside the daemon's own.
    pub(crate) env: BTreeMap<String, String>,
}

impl LaunchSpec {
    /// The `PATH` that the server is given, where there is one.
    pub(crate) fn path(&self) -> Option<OsString> {
        self.env.get("PATH").map(OsString::from).or_else(|| std::env::var_os("PATH"))
    }
}

/// A server that was not started.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum SpawnError {
    /// The command can't be one.
    #[error(transparent)]
    Command(#[from] ResolveError),
    /// The launcher could not be started.
    #[error("cannot start the launcher: check the limits on processes and open files")]
    Launcher(#[source] io::Error),
    /// The launcher can't be identified.
    #[error(transparent)]
    Identity(#[from] HostError),
    /// Nobody would hold the server's pipes if the daemon died.
    #[error("cannot start the keeper: check the limits on processes and open files, and the state directory")]
    Keeper(#[source] io::Error),
    /// The launcher has ended without having been released.
    #[error("the launcher was ended before it became the server; start it again")]
    Release(#[source] WriteError),
}

/// Starts servers. One per daemon: it makes the daemon the parent of what its servers leave behind.
#[derive(Debug)]
pub(crate) struct Spawner {
    launcher: PathBuf,
    /// Where the tables of calls go; no keepers without it.
    kept: Option<PathBuf>,
    reaper: JoinHandle<()>,
}

impl Spawner {
    /// To be called within the runtime, once.
    ///
    /// # Errors
    /// When the kernel lets this process neither adopt orphans nor hear of the end of its children.
    pub(crate) fn new(kept: &Path) -> io::Result<Self> {
        Self::with_launcher(OWN_BINARY.into(), Some(kept.to_owned()))
    }

    /// With another binary that calls [`super::launch_main`] and [`crate::keeper::keep_main`].
    pub(super) fn with_launcher(launcher: PathBuf, kept: Option<PathBuf>) -> io::Result<Self> {
        reap::adopt_orphans()?;
        let mut child_ended = signal(SignalKind::child())?;
        let reaper = tokio::spawn(async move {
            while child_ended.recv().await.is_some() {
                // A sweep that fails is made up for by the next one, and by every census of a stop.
                let _ = tokio::task::spawn_blocking(reap::sweep).await;
            }
        });
        Ok(Self { launcher, kept, reaper })
    }

    /// Starts a launcher in a process group of its own. The server isn't running yet.
    ///
    /// # Errors
    /// [`SpawnError`]; nothing is left running.
    pub(crate) fn spawn(&self, spec: &LaunchSpec, nonce: &str) -> Result<Spawned, SpawnError> {
        let program = spec.command.first().ok_or(ResolveError::Empty)?;
        resolve(program, spec.cwd.as_deref(), spec.path().as_deref())?;

        let mut command = Command::new(&self.launcher);
        command.arg0("tidegate").arg(LAUNCH_ARG).args(&spec.command);
        command.envs(&spec.env).env(NONCE_VAR, nonce).env_remove(TOKEN_VAR);
        if let Some(cwd) = &spec.cwd {
            command.current_dir(cwd);
        }
        command.process_group(0).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = reap::spawn(&mut command).map_err(SpawnError::Launcher)?;

        let pipes = (child.stdin.take(), child.stdout.take(), child.stderr.take(), child.id());
        let (Some(stdin), Some(stdout), Some(stderr), Some(pid)) = pipes else {
            return Err(SpawnError::Launcher(io::ErrorKind::BrokenPipe.into()));
        };
        // From an error here on, the closed input ends the launcher and the runtime reaps it.
        let identity = identity_of(pid, nonce).inspect_err(|_| reap::forget(pid))?;
        let kept = match &self.kept {
            Some(dir) => {
                let pipes = Duplicates::of(&stdin, &stdout, &stderr);
                let kept = pipes.and_then(|pipes| Keeper::start(&self.launcher, dir, &identity, pipes));
                let (keeper, calls) = kept.inspect_err(|_| reap::forget(pid)).map_err(SpawnError::Keeper)?;
                (Some(keeper), calls)
            }
            None => (None, CallTable::default()),
        };
        let ends = ServerStdin::new(stdin).and_then(|stdin| Ok((stdin, ServerStdout::new(stdout)?)));
        let (stdin, stdout) = ends.inspect_err(|_| reap::forget(pid)).map_err(SpawnError::Launcher)?;
        Ok(Spawned { server: Server::new(identity, child, (stdin, stdout, stderr), kept) })
    }
}

impl Drop for Spawner {
    fn drop(&mut self) {
        self.reaper.abort();
    }
}

/// A launcher that waits to become the server. Dropped, it ends without having started anything: its keeper is dismissed,
/// and its input closes.
#[derive(Debug)]
pub(crate) struct Spawned {
    server: Server,
}

impl Spawned {
    /// Who the server will be; to be made durable before [`Self::release`].
    pub(crate) fn identity(&self) -> &ProcessIdentity {
        self.server.handle.identity()
    }

    /// Lets the launcher become the server.
    ///
    /// A program that can't be executed after all shows as an early [`super::Exit`] with the reason on its standard error.
    ///
    /// # Cancel safety
    /// Dropping the future ends the launcher, unless it was released already: then the server sees the end of its input.
    ///
    /// # Errors
    /// [`SpawnError::Release`] when the launcher is gone.
    pub(crate) async fn release(self) -> Result<Server, SpawnError> {
        self.server.stdin.write_line(&[RELEASE]).await.map_err(SpawnError::Release)?;
        Ok(self.server)
    }
}
