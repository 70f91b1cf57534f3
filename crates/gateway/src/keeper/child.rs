//! The daemon's side of a keeper: started beside a server, dismissed before that server is stopped.

use super::process::KEEP_ARG;
use super::{CallTable, Kept};
use crate::process::reap;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::process::Stdio;
use tidegate_core::ProcessIdentity;
use tidegate_host::own_identity;
use tokio::process::{Child, Command};
use tokio::sync::{oneshot, watch};

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
        let mut command = Command::new(binary);
        command.arg0("tidegate").arg(KEEP_ARG);
        command.args([daemon.pid.to_string(), daemon.start_ticks.to_string()]);
        command.args([server.pid.to_string(), server.start_ticks.to_string()]);
        command.arg(&kept.calls).arg(&kept.answers);
        // Nothing of the daemon's is its business: no token, no nonce, no place from which a disk can't be unmounted.
        command.env_clear().current_dir("/").process_group(0);
        command
            .stdin(Stdio::from(pipes.stdout))
            .stdout(Stdio::from(pipes.stdin))
            .stderr(Stdio::from(pipes.stderr));
        let child = match reap::spawn(&mut command) {
            Ok(child) => child,
            Err(error) => {
                table.remove();
                return Err(error);
            }
        };
        let ((dismiss, dismissed), (gone_tx, gone)) = (oneshot::channel(), watch::channel(false));
        tokio::spawn(watch_over(child, dismissed, gone_tx));
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

/// Waits for the keeper's end, and brings it about when it is dismissed.
async fn watch_over(mut child: Child, dismissed: oneshot::Receiver<()>, gone: watch::Sender<bool>) {
    let pid = child.id();
    let ended = tokio::select! {
        ended = child.wait() => Some(ended),
        _ = dismissed => None,
    };
    if ended.is_none() {
        let _ = child.kill().await; // one that has ended is what was wanted
    }
    pid.into_iter().for_each(reap::forget);
    gone.send_replace(true);
}
