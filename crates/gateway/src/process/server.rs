//! A running server: its pipes, its end, and the last of what it said on standard error.

use super::end::{self, Doubt, StopError, StopReport};
use super::reap;
use super::ring::Ring;
use super::stdin::ServerStdin;
use super::stdout::ServerStdout;
use crate::keeper::{CallTable, Keeper};
use crate::lines::Lines;
use std::fmt;
use std::os::unix::process::ExitStatusExt as _;
use std::process::ExitStatus;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tidegate_core::ProcessIdentity;
use tokio::io::AsyncReadExt as _;
use tokio::process::{Child, ChildStderr};
use tokio::sync::watch;
use tokio::task::AbortHandle;

/// How long [`ServerHandle::final_stderr`] waits for the pipe's end. A process that outlives the server may hold it open for ever.
const STDERR_DRAIN: Duration = Duration::from_millis(500);
/// One read of standard error.
const STDERR_CHUNK_BYTES: usize = 8 << 10;

/// How a server ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Exit {
    /// Its status, where it exited.
    pub(crate) code: Option<i32>,
    /// The signal, where one killed it.
    pub(crate) signal: Option<i32>,
}

impl From<ExitStatus> for Exit {
    fn from(status: ExitStatus) -> Self {
        Self { code: status.code(), signal: status.signal() }
    }
}

impl fmt::Display for Exit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.code, self.signal) {
            (Some(code), _) => write!(f, "exited with status {code}"),
            (None, Some(signal)) => write!(f, "was killed by signal {signal}"),
            (None, None) => f.write_str("ended, nobody knows how"),
        }
    }
}

/// A released server. Dropping it closes the pipes and kills nothing.
#[derive(Debug)]
pub(crate) struct Server {
    /// Where lines to it are written.
    pub(crate) stdin: ServerStdin,
    /// Where its lines are read.
    pub(crate) stdout: Lines<ServerStdout>,
    /// Everything else.
    pub(crate) handle: ServerHandle,
}

impl Server {
    pub(super) fn new(
        identity: ProcessIdentity,
        child: Child,
        (stdin, stdout, stderr): (ServerStdin, ServerStdout, ChildStderr),
        (keeper, calls): (Option<Keeper>, CallTable),
    ) -> Self {
        let ring = Arc::new(Mutex::new(Ring::default()));
        let (exit_tx, exit) = watch::channel(None);
        tokio::spawn(await_exit(child, identity.pid, exit_tx));
        let (end_tx, stderr_end) = watch::channel(());
        let draining = tokio::spawn(drain(stderr, Arc::clone(&ring), end_tx)).abort_handle();
        let keeper = Mutex::new(keeper);
        let watched = Watched {
            identity,
            stdin: stdin.clone(),
            exit,
            ring,
            stderr_end,
            draining,
            keeper,
            calls,
            junk: AtomicU64::new(0),
        };
        Self { stdin, stdout: Lines::new(stdout), handle: ServerHandle(Arc::new(watched)) }
    }
}

#[derive(Debug)]
struct Watched {
    identity: ProcessIdentity,
    stdin: ServerStdin,
    exit: watch::Receiver<Option<Exit>>,
    ring: Arc<Mutex<Ring>>,
    /// Its sender is gone once standard error has ended.
    stderr_end: watch::Receiver<()>,
    draining: AbortHandle,
    /// Until it is dismissed.
    keeper: Mutex<Option<Keeper>>,
    calls: CallTable,
    /// Lines of its standard output that were no message, before it was ready.
    junk: AtomicU64,
}

/// What is known of a server, and the way to end it. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct ServerHandle(Arc<Watched>);

impl ServerHandle {
    /// Who it is.
    pub(crate) fn identity(&self) -> &ProcessIdentity {
        &self.0.identity
    }

    /// How it ended, once it has.
    pub(crate) fn exited(&self) -> Option<Exit> {
        *self.0.exit.borrow()
    }

    /// Waits for the end of the server's first process. Others of its tree may live on: only [`Self::stop`] proves anything.
    ///
    /// # Cancel safety
    /// Safe.
    pub(crate) async fn exit(&self) -> Exit {
        let mut exit = self.0.exit.clone();
        // An error: the waiting task was dropped with the runtime, and this one is about to be.
        exit.wait_for(Option::is_some)
            .await
            .ok()
            .and_then(|exit| *exit)
            .unwrap_or(Exit { code: None, signal: None })
    }

    /// The unsafe calls that it is working on, for its keeper.
    pub(crate) fn calls(&self) -> &CallTable {
        &self.0.calls
    }

    /// The last lines of its standard error so far.
    pub(crate) fn stderr_tail(&self, lines: usize) -> String {
        self.ring().tail(lines)
    }

    /// Every byte that it has written to standard error.
    pub(crate) fn stderr_bytes(&self) -> u64 {
        self.ring().total()
    }

    /// Counts a line of its standard output that is no message.
    pub(crate) fn count_junk(&self) {
        self.0.junk.fetch_add(1, Ordering::Relaxed);
    }

    /// The lines that [`Self::count_junk`] has counted.
    pub(crate) fn junk_lines(&self) -> u64 {
        self.0.junk.load(Ordering::Relaxed)
    }

    /// As [`Self::stderr_tail`], for a server that has ended: waits (bounded) until its last words have been read.
    ///
    /// # Cancel safety
    /// Safe.
    pub(crate) async fn final_stderr(&self, lines: usize) -> String {
        self.drained().await;
        self.stderr_tail(lines)
    }

    /// Ends the server's whole tree: closes its input, waits `grace`, SIGTERM, waits, SIGKILL, waits, proof.
    ///
    /// Also to be called for a server that has exited by itself: what it has started may live on.
    ///
    /// # Cancel safety
    /// Steps taken stay taken; call it again.
    ///
    /// # Errors
    /// [`StopError`] when there is no proof; the next generation must not be started then.
    pub(crate) async fn stop(&self, grace: Duration) -> Result<StopReport, StopError> {
        let keeper = self.0.keeper.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(keeper) = keeper {
            keeper.dismiss().await;
        }
        let report = end::stop(&self.0.identity, &self.0.stdin, &self.0.exit, grace, Doubt::IsOurs).await?;
        self.drained().await;
        self.0.draining.abort();
        self.0.calls.remove();
        Ok(report)
    }

    async fn drained(&self) {
        let mut end = self.0.stderr_end.clone();
        // Nothing is ever sent: the channel closes.
        let _ = tokio::time::timeout(STDERR_DRAIN, end.changed()).await;
    }

    fn ring(&self) -> MutexGuard<'_, Ring> {
        // Bytes are bytes, after a panic too.
        self.0.ring.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn await_exit(mut child: Child, pid: u32, exit: watch::Sender<Option<Exit>>) {
    let status = child.wait().await;
    reap::forget(pid);
    exit.send_replace(Some(status.map_or(Exit { code: None, signal: None }, Exit::from)));
}

/// Reads standard error to its end. `_end` closes with it.
async fn drain(mut stderr: ChildStderr, ring: Arc<Mutex<Ring>>, _end: watch::Sender<()>) {
    let mut chunk = [0; STDERR_CHUNK_BYTES];
    while let Ok(n @ 1..) = stderr.read(&mut chunk).await {
        ring.lock().unwrap_or_else(PoisonError::into_inner).push(&chunk[..n]);
    }
}
