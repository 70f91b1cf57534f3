//! The daemon's side of a keeper: started beside a server, replaced when somebody has killed it, dismissed before that
//! server is stopped.

use super::process::KEEP_ARG;
use super::{CallTable, Kept};
use crate::log::{self, Level};
use crate::process::reap;
use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use tidegate_core::ProcessIdentity;
use tidegate_host::own_identity;
use tokio::process::{Child, Command};
use tokio::sync::{oneshot, watch};

/// How often the keeper of one server is replaced. Whoever kills it more often doesn't want one.
const MAX_REPLACED: u32 = 16;

/// Duplicates of the daemon's ends of a server's pipes.
pub(crate) struct Duplicates {
    stdin: OwnedFd,
    stdout: OwnedFd,
    stderr: OwnedFd,
}

impl Duplicates {
    /// # Errors
    /// When there are no descriptors left.
    pub(crate) fn of(stdin: impl AsFd, stdout: impl AsFd, stderr: impl AsFd) -> io::Result<Self> {
        let duplicate = |fd: &dyn AsFd| fd.as_fd().try_clone_to_owned();
        Ok(Self { stdin: duplicate(&stdin)?, stdout: duplicate(&stdout)?, stderr: duplicate(&stderr)? })
    }
}

/// A running keeper. Dropped, it is dismissed; when the daemon itself ends, it is left, and takes over.
#[derive(Debug)]
pub(crate) struct Keeper {
    dismiss: Option<oneshot::Sender<()>>,
    gone: watch::Receiver<bool>,
}

impl Keeper {
    /// Starts a keeper beside a server, and the table of its calls.
    ///
    /// # Errors
    /// Those of the file system and of a start; nothing is left then.
    pub(crate) fn start(
        binary: &Path,
        dir: &Path,
        server: &ProcessIdentity,
        pipes: Duplicates,
    ) -> io::Result<(Self, CallTable)> {
        let kept = Kept::of(dir, &server.nonce);
        let daemon = own_identity("").map_err(io::Error::other)?;
        let table = CallTable::create(kept.calls.clone())?;
        let numbers = [daemon.pid.into(), daemon.start_ticks, server.pid.into(), server.start_ticks];
        let words = numbers.map(|number| number.to_string().into());
        let args = words.into_iter().chain([kept.calls.into(), kept.answers.into()]).collect();
        let charge = Charge { binary: binary.to_owned(), args, server: server.pid, pipes };
        let child = match charge.start() {
            Ok(child) => child,
            Err(error) => {
                table.remove();
                return Err(error);
            }
        };
        let ((dismiss, dismissed), (gone_tx, gone)) = (oneshot::channel(), watch::channel(false));
        tokio::spawn(watch_over(charge, child, dismissed, gone_tx));
        Ok((Self { dismiss: Some(dismiss), gone }, table))
    }

    /// Ends the keeper, so that the server sees its pipes close when the daemon closes them.
    ///
    /// # Cancel safety
    /// It is dismissed all the same.
    pub(crate) async fn dismiss(mut self) {
        drop(self.dismiss.take());
        // An error: whoever watched over it has ended, with the daemon.
        let _ = self.gone.wait_for(|gone| *gone).await;
    }
}

/// What a keeper of one server is started with, as often as it takes.
struct Charge {
    binary: PathBuf,
    args: Vec<OsString>,
    server: u32,
    pipes: Duplicates,
}

impl Charge {
    fn start(&self) -> io::Result<Child> {
        let Duplicates { stdin, stdout, stderr } = &self.pipes;
        let mut command = Command::new(&self.binary);
        command.arg0("tidegate").arg(KEEP_ARG).args(&self.args);
        // Nothing of the daemon's is its business: no token, no nonce, no place from which a disk can't be unmounted.
        command.env_clear().current_dir("/").process_group(0);
        command.stdin(stdout.try_clone()?).stdout(stdin.try_clone()?).stderr(stderr.try_clone()?);
        reap::spawn(&mut command)
    }

    /// Another keeper in the place of one that was killed.
    fn replace(&self, ended: &str) -> Option<Child> {
        let server = self.server;
        match self.start() {
            Ok(child) => {
                let text =
                    format!("the keeper of the server {server} {ended}; another one holds its pipes now");
                log::line(Level::Warning, &[], &text);
                Some(child)
            }
            Err(error) => {
                let text =
                    format!("the keeper of the server {server} {ended} and can't be replaced: {error}");
                log::line(Level::Warning, &[], &text);
                None
            }
        }
    }
}

/// Waits for the keeper's end, and brings it about when it is dismissed. One that was killed is replaced: without it the
/// server would see the end of its input if the daemon died.
async fn watch_over(
    charge: Charge,
    child: Child,
    mut dismissed: oneshot::Receiver<()>,
    gone: watch::Sender<bool>,
) {
    let mut next = Some(child);
    let mut replaced = 0;
    while let Some(mut child) = next.take() {
        let pid = child.id();
        let ended = tokio::select! {
            ended = child.wait() => Some(ended),
            _ = &mut dismissed => None,
        };
        if ended.is_none() {
            let _ = child.kill().await; // one that has ended is what was wanted
        }
        pid.into_iter().for_each(reap::forget);
        // One that ends by itself has seen its server's end.
        let killed = ended.and_then(Result::ok).filter(|status| !status.success());
        if let Some(status) = killed.filter(|_| replaced < MAX_REPLACED) {
            replaced += 1;
            next = charge.replace(&format!("ended ({status})"));
        }
    }
    drop(charge);
    gone.send_replace(true);
}
