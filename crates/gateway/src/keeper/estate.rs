//! What the keepers of an earlier daemon have left: which calls may still be running, and late answers.
//!
//! Only looks and waits. Whether a tree may be ended is decided by who asks.

use super::{KEPT_DIR, Kept, table};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};
use tidegate_core::Now;
use tidegate_relay::answered_call;
use tokio::sync::watch;

/// What is kept is the owner's alone.
const DIR_MODE: u32 = 0o700;
/// How long what is kept of a server that is gone is there for a shim that comes back: machines sleep over night.
const KEEP_FOR: Duration = Duration::from_secs(24 * 3_600);

/// A call as the server knows it: which server, by its nonce, and the id it was written with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct KeptCall {
    pub(crate) server: String,
    pub(crate) id: u64,
}

/// The state directory's part that keepers write to.
#[derive(Debug)]
pub(crate) struct Estate {
    dir: PathBuf,
    /// How long anybody waits for a late answer.
    patience: Duration,
    /// Servers of earlier daemons of which it isn't known yet what became of them.
    open: watch::Sender<BTreeSet<String>>,
}

impl Estate {
    /// The estate in a state directory; made where there is none.
    ///
    /// # Errors
    /// The file system's.
    pub(crate) fn open(state_dir: &Path, patience: Duration) -> io::Result<Self> {
        // A keeper is somewhere else, and stays when the daemon is gone.
        let dir = std::path::absolute(state_dir)?.join(KEPT_DIR);
        std::fs::DirBuilder::new().recursive(true).mode(DIR_MODE).create(&dir)?;
        Ok(Self { dir, patience, open: watch::Sender::default() })
    }

    /// Where new servers' tables go.
    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    /// This server of an earlier daemon may still be working.
    pub(crate) fn expect(&self, nonce: &str) {
        self.open.send_if_modified(|open| open.insert(nonce.to_owned()));
    }

    /// What became of this server is known: its late answers are all there, or none will come.
    pub(crate) fn settled(&self, nonce: &str) {
        self.open.send_if_modified(|open| open.remove(nonce));
    }

    /// Whether it is sure that no unsafe call is running in this server. "Cannot tell" is no.
    pub(crate) fn nothing_runs(&self, nonce: &str) -> bool {
        table::read(&Kept::of(&self.dir, nonce).calls).is_ok_and(|slots| slots.is_empty())
    }

    /// The late answer to a call, waiting as long as one may come; `None` when there is none.
    ///
    /// # Cancel safety
    /// Safe: it only waits and reads.
    pub(crate) async fn answer(&self, call: &KeptCall) -> Option<Vec<u8>> {
        let mut open = self.open.subscribe();
        let over = open.wait_for(|open| !open.contains(&call.server));
        // What it gives doesn't matter: after that nobody waits any longer.
        let _ = tokio::time::timeout(self.patience, over).await;
        let text = std::fs::read(Kept::of(&self.dir, &call.server).answers).ok()?;
        text.split(|byte| *byte == b'\n')
            .find(|line| answered_call(line) == Some(call.id))
            .map(<[u8]>::to_vec)
    }

    /// Removes what was kept for longer than anybody asks for it, but for servers that aren't settled.
    pub(crate) fn sweep(&self, now: &Now) {
        let open = self.open.borrow().clone();
        for entry in std::fs::read_dir(&self.dir).into_iter().flatten().flatten() {
            let name = entry.file_name();
            let nonce = Path::new(&name).file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
            let written = entry.metadata().and_then(|m| m.modified()).ok();
            let written_ms =
                written.and_then(|at| at.duration_since(UNIX_EPOCH).ok()).map(|at| at.as_millis());
            let is_old = |at: u128| at + KEEP_FOR.as_millis() < u128::from(now.wall.0.unsigned_abs());
            if !open.contains(nonce) && written_ms.is_some_and(is_old) {
                let _ = std::fs::remove_file(entry.path()); // tried again by the next daemon
            }
        }
    }
}
