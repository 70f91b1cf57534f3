//! The way in to a server: written at once where its pipe takes it, else queued, within bounds.
//!
//! The keeper's table is told of an unsafe call before its first byte and after its last. Nothing here knows what a line
//! means, or what becomes of one that was never written.

use crate::process::{ServerHandle, ServerStdin};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::sync::mpsc::{self, error::TrySendError};
use tokio::task::JoinHandle;

/// Lines that wait for the pipe. More than the gate admits, so that a request never waits here for room.
const MAX_WAITING: usize = 4_096;

/// A line that the pipe has not taken, or not wholly.
struct Waiting {
    line: Vec<u8>,
    /// What the pipe has of it.
    taken: usize,
    /// The id of the unsafe call in it, where there is one.
    call: Option<u64>,
    /// The table has been told that it begins.
    begun: bool,
}

/// The one place that writes to a server that is up.
pub(super) struct Inlet {
    stdin: ServerStdin,
    server: ServerHandle,
    queue: mpsc::Sender<Waiting>,
    /// Lines that are queued or being written from the queue: nothing overtakes them.
    backlog: Arc<AtomicUsize>,
    writing: JoinHandle<Vec<Vec<u8>>>,
}

impl Inlet {
    /// Takes a server's input; a task of its own writes what doesn't go in at once.
    pub(super) fn new(stdin: ServerStdin, server: ServerHandle) -> Self {
        let (queue, waiting) = mpsc::channel(MAX_WAITING);
        let backlog = Arc::new(AtomicUsize::new(0));
        let writing = tokio::spawn(write_backlog(stdin.clone(), server.clone(), waiting, backlog.clone()));
        Self { stdin, server, queue, backlog, writing }
    }

    /// Writes a line, its newline included, or queues it behind what waits; gives it back when there is no room.
    pub(super) fn send(&self, line: Vec<u8>, call: Option<u64>) -> Result<(), Vec<u8>> {
        let mut waiting = Waiting { line, taken: 0, call, begun: false };
        if self.backlog.load(Ordering::Acquire) == 0 {
            waiting.begin(&self.server);
            waiting.taken = self.stdin.try_write(&waiting.line);
            if waiting.taken == waiting.line.len() {
                waiting.is_whole(&self.server);
                return Ok(());
            }
        }
        self.backlog.fetch_add(1, Ordering::AcqRel);
        match self.queue.try_send(waiting) {
            Err(TrySendError::Full(Waiting { line, .. })) => {
                self.backlog.fetch_sub(1, Ordering::AcqRel);
                Err(line)
            }
            // Closed: its task was dropped with the runtime.
            Ok(()) | Err(TrySendError::Closed(_)) => Ok(()),
        }
    }

    /// Nothing more is to be written. What is given ends when the pipe has failed or everything is written, with the lines
    /// that the pipe took nothing of.
    pub(super) fn close(self) -> JoinHandle<Vec<Vec<u8>>> {
        self.writing
    }
}

impl Waiting {
    fn begin(&mut self, server: &ServerHandle) {
        if !std::mem::replace(&mut self.begun, true) {
            self.call.into_iter().for_each(|id| server.calls().begin(id));
        }
    }

    fn is_whole(&self, server: &ServerHandle) {
        self.call.into_iter().for_each(|id| server.calls().whole(id));
    }
}

async fn write_backlog(
    stdin: ServerStdin,
    server: ServerHandle,
    mut queue: mpsc::Receiver<Waiting>,
    backlog: Arc<AtomicUsize>,
) -> Vec<Vec<u8>> {
    let mut unwritten = Vec::new();
    while let Some(mut waiting) = queue.recv().await {
        waiting.begin(&server);
        // A pipe that fails means a server that has ended, which its exit tells; nothing more is written then.
        if let Err(error) = stdin.write_rest(&waiting.line, waiting.taken).await {
            unwritten.extend(error.took_nothing().then_some(waiting.line));
            break;
        }
        waiting.is_whole(&server);
        backlog.fetch_sub(1, Ordering::AcqRel);
    }
    while let Some(Waiting { line, .. }) = queue.recv().await {
        unwritten.push(line);
    }
    unwritten
}
