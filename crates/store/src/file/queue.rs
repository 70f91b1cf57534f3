//! What futures want from the writer thread, bounded, and how the thread waits for it.

use super::reply::{Reply, reply};
use crate::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use crate::{CommitError, Committed, Txn};
use event_listener::Event;
use std::collections::VecDeque;
use std::time::Duration;

/// How many commits may wait. Futures beyond it wait for room, so that a stalled disk can't take all memory.
const MAX_WAITING: usize = 1024;

/// When a batch is full, in bytes of keys and values. One more transaction may follow; the sync that it shares costs
/// more than writing this much.
const MAX_BATCH_BYTES: usize = 4 << 20;

/// A transaction and who waits for it.
#[derive(Debug)]
pub(super) struct Request {
    pub(super) txn: Txn,
    pub(super) reply: CommitReply,
}

/// Who waits for a transaction.
pub(super) type CommitReply = Reply<Result<Committed, CommitError>>;

/// Who waits for a compaction.
pub(super) type CompactReply = Reply<Result<(), CommitError>>;

/// What the writer thread does next.
#[derive(Debug)]
pub(super) enum Work {
    /// Some of these, and a sync when anything rests on unsynced revisions.
    Serve { commits: Vec<Request>, compactions: Vec<CompactReply> },
    /// Nothing came within the pause.
    Idle,
    /// No more will come.
    Closed,
}

#[derive(Debug, Default)]
pub(super) struct Queue {
    waiting: Mutex<Waiting>,
    work: Condvar,
    room: Event,
}

#[derive(Debug, Default)]
struct Waiting {
    commits: VecDeque<Request>,
    compactions: Vec<CompactReply>,
    sync: bool,
    closed: bool,
    watchers: usize,
}

impl Waiting {
    fn is_empty(&self) -> bool {
        self.commits.is_empty() && self.compactions.is_empty() && !self.sync
    }
}

impl Queue {
    /// Hands a transaction over and waits for what becomes of it.
    pub(super) async fn commit(&self, txn: Txn) -> Result<Committed, CommitError> {
        let (reply, answer) = reply();
        let mut request = Request { txn, reply };
        loop {
            let listener = self.room.listen();
            match self.offer(request)? {
                None => break,
                Some(refused) => request = refused,
            }
            listener.await;
        }
        let gone = || CommitError::Uncertain { reason: "the store's writer ended".to_owned() };
        answer.wait().await.unwrap_or_else(|| Err(gone()))
    }

    /// Asks for a compaction and waits for it.
    pub(super) async fn compact(&self) -> Result<(), CommitError> {
        let (reply, answer) = reply();
        {
            let mut waiting = self.lock();
            if waiting.closed {
                return Err(closed());
            }
            waiting.compactions.push(reply);
        }
        self.work.notify_one();
        answer.wait().await.unwrap_or_else(|| Err(closed()))
    }

    /// Asks for a sync; whoever needs it waits for its effect.
    pub(super) fn sync(&self) {
        self.lock().sync = true;
        self.work.notify_one();
    }

    pub(super) fn is_closed(&self) -> bool {
        self.lock().closed
    }

    /// Whether nobody waits for anything.
    pub(super) fn is_empty(&self) -> bool {
        self.lock().is_empty()
    }

    /// Counts one more who needs the journal looked at without being asked. Wakes the thread, which then keeps looking.
    pub(super) fn begin_watch(&self) {
        self.lock().watchers += 1;
        self.sync();
    }

    /// Counts one less.
    pub(super) fn end_watch(&self) {
        self.lock().watchers -= 1;
    }

    pub(super) fn is_watched(&self) -> bool {
        self.lock().watchers > 0
    }

    /// No more work: what waits already is still done.
    pub(super) fn close(&self) {
        self.lock().closed = true;
        self.work.notify_one();
        self.room.notify(usize::MAX);
    }

    /// Forgets what waits: its futures are told that no answer comes.
    pub(super) fn abandon(&self) {
        self.close();
        let mut waiting = self.lock();
        waiting.commits.clear();
        waiting.compactions.clear();
    }

    /// Waits for work, at most `pause`.
    pub(super) fn next(&self, pause: Option<Duration>) -> Work {
        let waiting = self.lock();
        let quiet = |waiting: &mut Waiting| waiting.is_empty() && !waiting.closed;
        let mut waiting = match pause {
            None => self.work.wait_while(waiting, quiet).unwrap_or_else(PoisonError::into_inner),
            Some(pause) => {
                let (waiting, timeout) = self
                    .work
                    .wait_timeout_while(waiting, pause, quiet)
                    .unwrap_or_else(PoisonError::into_inner);
                if timeout.timed_out() {
                    return Work::Idle;
                }
                waiting
            }
        };
        if waiting.is_empty() {
            return Work::Closed;
        }
        waiting.sync = false;
        let (mut commits, mut bytes) = (Vec::new(), 0);
        while let Some(request) = waiting.commits.pop_front_if(|_| bytes < MAX_BATCH_BYTES) {
            bytes += request.txn.bytes();
            commits.push(request);
        }
        self.room.notify(commits.len());
        Work::Serve { commits, compactions: std::mem::take(&mut waiting.compactions) }
    }

    /// Takes the request, gives it back when there is no room, or says that it is too late.
    fn offer(&self, request: Request) -> Result<Option<Request>, CommitError> {
        let mut waiting = self.lock();
        if waiting.closed {
            return Err(closed());
        }
        if waiting.commits.len() >= MAX_WAITING {
            return Ok(Some(request));
        }
        waiting.commits.push_back(request);
        self.work.notify_one();
        Ok(None)
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        // Every change to it is a single step, so a panic elsewhere leaves it sound.
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn closed() -> CommitError {
    CommitError::Rejected { reason: "the store is closed".to_owned() }
}
