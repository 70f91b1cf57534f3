//! Who appends: a thread of its own for everything that waits, or whoever commits alone on its own thread. One lock, one
//! append and one sync carry a batch; nothing is acknowledged, not even a conflict, before what it rests on is on
//! stable storage.

use super::engine::Shared;
use super::error::{FileError, refused, told};
use super::queue::{CompactReply, Request, Work};
use super::replica::{Ground, Replica};
use super::rewrite::{Contents, rewrite};
use crate::lock::{Held, LockFile};
use crate::{CommitError, Committed, LockError, Txn};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How long the store has to be quiet before what is durable is marked so. Long against the gaps between the commits
/// of one piece of work, short against a person pulling a plug.
const IDLE: Duration = Duration::from_millis(100);

/// How often a watched journal is looked at for commits of other processes: unnoticeable to people, and one `stat`.
const WATCH_PAUSE: Duration = Duration::from_millis(20);

/// Below this size a journal is never rewritten by itself, in bytes: reading it takes milliseconds.
const COMPACT_BYTES: u64 = 4 << 20;

/// A journal this many times larger than what lives in it is rewritten, so that rewriting costs at most a third more
/// than was appended anyway.
const COMPACT_RATIO: u64 = 4;

/// What a record takes in a journal besides its key and value, about.
const RECORD_OVERHEAD: u64 = 24;

const SYNC_FAILED: &str = "a sync failed earlier, so nobody knows what is stored; run `tidegate store compact`, which writes everything anew";

type Outcome = (Result<Committed, CommitError>, Ground);

/// What whoever appends has to itself.
#[derive(Debug)]
pub(super) struct Writer {
    shared: Arc<Shared>,
    lock: Option<LockFile>,
    /// How long nothing was asked of it.
    quiet: Duration,
    /// Whether the thread sleeps until it is called, because there was nothing to look after.
    asleep: bool,
    /// The journal's end when marking it failed: tried again once it has moved on.
    unmarkable: u64,
    /// The journal's end from which compacting is tried by itself.
    compact_from: u64,
}

/// Tells everybody when the thread ends, however it ends.
struct Leaving(Arc<Shared>);

impl Drop for Leaving {
    fn drop(&mut self) {
        self.0.queue.abandon();
        self.0.progress.notify(usize::MAX);
    }
}

impl Writer {
    pub(super) fn new(shared: Arc<Shared>, lock: Option<LockFile>) -> Self {
        let quiet = Duration::ZERO;
        Self { shared, lock, quiet, asleep: false, unmarkable: 0, compact_from: COMPACT_BYTES }
    }

    /// One commit, on the thread that asks for it.
    pub(super) fn commit(&mut self, txn: Txn) -> Result<Committed, CommitError> {
        let outcome = self.append(vec![txn]).pop();
        let synced = self.sync();
        // What the thread does when the store is quiet or has grown is left to it.
        if std::mem::take(&mut self.asleep) || self.is_compaction_due() {
            self.shared.queue.sync();
        }
        match outcome {
            Some(outcome) => self.settle(outcome, &synced),
            None => unreachable!("a batch of one has one outcome"),
        }
    }

    fn serve(&mut self, commits: Vec<Request>, compactions: Vec<CompactReply>) {
        self.quiet = Duration::ZERO;
        let (txns, replies): (Vec<_>, Vec<_>) = commits.into_iter().map(|r| (r.txn, r.reply)).unzip();
        let outcomes = self.append(txns);
        let compacted = if compactions.is_empty() { Ok(()) } else { self.compact() };
        let synced = self.sync();
        for (reply, outcome) in replies.into_iter().zip(outcomes) {
            reply.send(self.settle(outcome, &synced));
        }
        for reply in compactions {
            reply.send(compacted.clone());
        }
        if self.is_compaction_due() {
            let compacted = self.compact();
            // After a failure the journal has to grow before it is worth another try.
            self.compact_from = if compacted.is_ok() {
                COMPACT_BYTES
            } else {
                self.shared.replica().journal.end() + COMPACT_BYTES
            };
        }
    }

    /// How long to wait for work before looking around; for ever when there would be nothing to see.
    fn pause(&self) -> Option<Duration> {
        if self.shared.queue.is_watched() { Some(WATCH_PAUSE) } else { self.wants_mark().then_some(IDLE) }
    }

    fn look_around(&mut self) {
        if self.shared.queue.is_watched() {
            let news = {
                let mut replica = self.shared.replica();
                let before = replica.ground();
                replica.refresh(&*self.shared.medium).is_err() || replica.ground() != before
            };
            if news {
                // Wakes the watchers, who are told what went wrong when they look for themselves.
                let _ = self.sync();
            }
        }
        if self.quiet >= IDLE {
            self.mark();
        }
    }

    /// Decides and appends a batch. Returns what became of each, and what that rests on.
    fn append(&mut self, txns: Vec<Txn>) -> Vec<Outcome> {
        let count = txns.len();
        let outcomes = if txns.is_empty() { Ok(Vec::new()) } else { self.try_append(txns) };
        outcomes.unwrap_or_else(|error| vec![(Err(error), Ground::none()); count])
    }

    fn try_append(&mut self, txns: Vec<Txn>) -> Result<Vec<Outcome>, CommitError> {
        let shared = self.shared.clone();
        let held = self.acquire(shared.patience).map_err(|e| refused(&e.into()))?;
        let mut replica = shared.replica();
        ready(&mut replica, &shared, &held)?;
        let mut batch = replica.state.batch();
        let decided: Vec<_> = txns.into_iter().map(|txn| batch.admit(txn)).collect();
        let commits = batch.into_commits();
        if !commits.is_empty() {
            let record = replica.journal.commits_record(&commits);
            let end = replica.journal.end() + record.len() as u64;
            drop(replica);
            shared.write(&record)?;
            replica = shared.replica();
            // What is acknowledged is what a reader finds, so it is read back rather than assumed.
            let read_back = replica.read_back(end).map_err(|e| uncertain(told(&e)))?;
            let last = commits.last().map_or(replica.state.revision, |commit| commit.revision);
            if read_back.is_some() || replica.state.revision != last {
                return Err(uncertain("the record didn't read back as it was written".to_owned()));
            }
        }
        let ground = replica.ground();
        let outcome = |decision: Result<_, _>| {
            (decision.map(|fence| Committed { fence }).map_err(|key| CommitError::Conflict { key }), ground)
        };
        Ok(decided.into_iter().map(outcome).collect())
    }

    /// Syncs if anything rests on it, and wakes everybody who waits for that, whoever did it.
    fn sync(&mut self) -> Result<(), String> {
        let result = self.try_sync();
        self.shared.progress.notify(usize::MAX);
        result
    }

    fn try_sync(&mut self) -> Result<(), String> {
        let (file, end, generation, failed) = {
            let replica = self.shared.replica();
            let journal = &replica.journal;
            if !journal.has_unsynced() {
                return Ok(());
            }
            let generation = journal.header.generation;
            (journal.file.clone(), journal.end(), generation, replica.sync_failed >= generation)
        };
        let result = if failed {
            Err(SYNC_FAILED.to_owned())
        } else {
            self.shared.medium.sync(&file).map_err(|error| {
                self.set_failed(generation);
                told(&FileError::io("sync", &self.shared.path)(error))
            })
        };
        // A sync that succeeds after another process's has failed proves nothing.
        let result = result
            .and_then(|()| if self.has_failed(generation) { Err(SYNC_FAILED.to_owned()) } else { Ok(()) });
        let mut replica = self.shared.replica();
        if replica.journal.header.generation == generation {
            match &result {
                Ok(()) => replica.journal.settle(end),
                Err(_) => replica.sync_failed = generation,
            }
        }
        result
    }

    /// What to answer after the sync.
    fn settle(
        &self,
        (result, ground): Outcome,
        synced: &Result<(), String>,
    ) -> Result<Committed, CommitError> {
        let reason = match self.shared.replica().holds(ground) {
            Ok(true) => return result,
            Ok(false) => synced.as_ref().err().map_or("it was not synced", |reason| reason).to_owned(),
            Err(reason) => synced.as_ref().err().map_or(reason, |reason| reason).to_owned(),
        };
        match result {
            Ok(_) => Err(uncertain(reason)),
            Err(_) => Err(CommitError::Rejected { reason }),
        }
    }

    fn wants_mark(&self) -> bool {
        let replica = self.shared.replica();
        !self.shared.read_only && replica.journal.wants_mark() && replica.journal.end() != self.unmarkable
    }

    /// Leaves a mark after what is durable and not said to be.
    fn mark(&mut self) {
        if !self.wants_mark() {
            return;
        }
        let marked = self.sync().is_ok() && self.try_mark().is_ok();
        if marked {
            let file = self.shared.replica().journal.file.clone();
            // A mark that isn't stored makes nothing worse.
            let _ = self.shared.medium.sync(&file);
        } else {
            self.unmarkable = self.shared.replica().journal.end();
        }
    }

    fn try_mark(&mut self) -> Result<(), CommitError> {
        let shared = self.shared.clone();
        let held = self.acquire(Duration::ZERO).map_err(|e| refused(&e.into()))?;
        let mut replica = shared.replica();
        ready(&mut replica, &shared, &held)?;
        if replica.journal.wants_mark() && !replica.journal.has_unsynced() {
            let record = replica.journal.mark_record();
            drop(replica);
            shared.write(&record)?;
            shared.replica().refresh(&*shared.medium).map_err(|e| refused(&e))?;
        }
        Ok(())
    }

    fn is_compaction_due(&self) -> bool {
        let replica = self.shared.replica();
        let records = replica.state.records().len() as u64;
        let live = replica.state.bytes() as u64 + records * RECORD_OVERHEAD;
        let due = replica.journal.end() > self.compact_from.max(live.saturating_mul(COMPACT_RATIO));
        due && !self.shared.read_only
    }

    /// Rewrites the journal. This is what forgets a failed sync: the new file holds nothing that isn't stored.
    fn compact(&mut self) -> Result<(), CommitError> {
        let shared = self.shared.clone();
        let held = self.acquire(shared.patience).map_err(|e| refused(&e.into()))?;
        let contents = {
            let mut replica = shared.replica();
            catch_up(&mut replica, &shared)?;
            let failed = held.flags().failed;
            Contents {
                store: Some(replica.journal.header.store),
                epoch: replica.state.epoch,
                generation: replica.journal.header.generation.max(failed) + 1,
                revision: replica.state.revision,
                records: replica.state.records().cloned().collect(),
            }
        };
        // Readers go on meanwhile; nothing is appended, for the lock is held.
        rewrite(&shared.dir, &shared.path, &*shared.medium, &held, &contents).map_err(|e| refused(&e))?;
        shared.replica().refresh(&*shared.medium).map_err(|e| refused(&e))?;
        shared.progress.notify(usize::MAX);
        Ok(())
    }

    fn acquire(&mut self, patience: Duration) -> Result<Held<'_>, LockError> {
        if self.lock.is_none() {
            self.lock = Some(LockFile::open(&self.shared.lock_path, false)?);
        }
        match &mut self.lock {
            Some(lock) => lock.acquire(patience),
            None => Err(LockError::Missing { path: self.shared.lock_path.clone() }),
        }
    }

    /// Whether a sync of this journal is known to have failed, here or in another process.
    fn has_failed(&self, generation: u64) -> bool {
        let told = self.lock.as_ref().and_then(|lock| lock.flags().ok()).map_or(0, |flags| flags.failed);
        told.max(self.shared.replica().sync_failed) >= generation
    }

    fn set_failed(&self, generation: u64) {
        self.shared.replica().sync_failed = generation;
        if let Some(lock) = &self.lock {
            // Where even that can't be written, this process at least acknowledges nothing any more.
            let _ = lock.set_failed(generation);
        }
    }
}

/// The writer's thread.
pub(super) fn run(writer: &Mutex<Writer>) {
    let shared = lock(writer).shared.clone();
    let _leaving = Leaving(shared.clone());
    loop {
        let (pause, end) = {
            let mut writer = lock(writer);
            let pause = writer.pause();
            writer.asleep = pause.is_none();
            (pause, shared.replica().journal.end())
        };
        let work = shared.queue.next(pause);
        let mut writer = lock(writer);
        writer.asleep = false;
        match work {
            Work::Serve { commits, compactions } => writer.serve(commits, compactions),
            Work::Idle => {
                // Who commits on a thread of its own doesn't wake this one.
                let is_quiet = shared.replica().journal.end() == end;
                writer.quiet =
                    if is_quiet { writer.quiet + pause.unwrap_or_default() } else { Duration::ZERO };
                writer.look_around();
            }
            Work::Closed => {
                writer.mark();
                return;
            }
        }
    }
}

fn lock(writer: &Mutex<Writer>) -> MutexGuard<'_, Writer> {
    // A panic under it came from a broken invariant of one commit; what is on the disk is read again by the next.
    writer.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Catches up under the lock, and refuses a journal in which nothing may be committed.
fn ready(replica: &mut Replica, shared: &Shared, held: &Held<'_>) -> Result<(), CommitError> {
    catch_up(replica, shared)?;
    if held.flags().failed.max(replica.sync_failed) >= replica.journal.header.generation {
        return Err(CommitError::Rejected { reason: SYNC_FAILED.to_owned() });
    }
    Ok(())
}

/// For the holder of the lock: a torn tail is cut, damage refused. So is a copy, which is left as it is.
fn catch_up(replica: &mut Replica, shared: &Shared) -> Result<(), CommitError> {
    let tail = replica.refresh(&*shared.medium).map_err(|e| refused(&e))?;
    if let Some(reason) = replica.journal.copied() {
        return Err(CommitError::Rejected { reason });
    }
    tail.map_or(Ok(()), |tail| replica.cut(tail, &*shared.medium)).map_err(|e| refused(&e))
}

pub(super) fn uncertain(reason: String) -> CommitError {
    CommitError::Uncertain { reason }
}
