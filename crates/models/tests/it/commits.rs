//! The group commit under shuttle: what callers hand to the writer's thread, and how each hears what became of it.

#![allow(dead_code, reason = "the queue's files are whole; a model uses a part of them")]

#[path = "../../../store/src/file/queue.rs"]
mod queue;
#[path = "../../../store/src/file/reply.rs"]
mod reply;

use queue::{Queue, Work};
use shuttle::future::block_on;
use shuttle::sync::Mutex;
use shuttle::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;
use tidegate_core::{Epoch, Fence, Revision};
use tidegate_store::{CommitError, Committed, Key, Txn};

const SCHEDULES: usize = 1_000;
const PREEMPTIONS: usize = 3;

fn explore(model: fn()) {
    shuttle::check_random(model, SCHEDULES);
    shuttle::check_pct(model, SCHEDULES, PREEMPTIONS);
}

/// A journal of which only what lies before `synced` is on stable storage.
#[derive(Default)]
struct Journal {
    appended: Mutex<u64>,
    synced: AtomicU64,
}

/// The writer's thread as the engine runs it: a batch is appended, then synced, and only then answered.
fn write(queue: &Queue, journal: &Journal) {
    loop {
        match queue.next(None) {
            Work::Serve { commits, compactions } => {
                let mut replies = Vec::new();
                for request in commits {
                    let mut appended = journal.appended.lock().unwrap();
                    *appended += 1;
                    replies.push((request.reply, *appended));
                }
                let end = *journal.appended.lock().unwrap();
                shuttle::thread::yield_now();
                journal.synced.store(end, Ordering::SeqCst);
                for (reply, revision) in replies {
                    reply.send(Ok(Committed { fence: Fence::new(Epoch(1), Revision(revision)) }));
                }
                compactions.into_iter().for_each(|reply| reply.send(Ok(())));
            }
            Work::Idle => unreachable!("it waits for ever"),
            Work::Closed => return,
        }
    }
}

fn txn() -> Txn {
    Txn::new().put_bytes(&Key::new("k").unwrap(), b"v")
}

#[test]
fn everybody_is_answered_once_and_after_the_sync() {
    explore(|| {
        let (queue, journal) = (Arc::new(Queue::default()), Arc::new(Journal::default()));
        let writer = {
            let (queue, journal) = (queue.clone(), journal.clone());
            shuttle::thread::spawn(move || write(&queue, &journal))
        };
        let callers: Vec<_> = (0..3)
            .map(|_| {
                let (queue, journal) = (queue.clone(), journal.clone());
                shuttle::thread::spawn(move || {
                    let revision = block_on(queue.commit(txn())).unwrap().fence.revision.0;
                    assert!(
                        journal.synced.load(Ordering::SeqCst) >= revision,
                        "acknowledged before its sync"
                    );
                    revision
                })
            })
            .collect();
        let mut revisions: Vec<u64> = callers.into_iter().map(|caller| caller.join().unwrap()).collect();
        revisions.sort_unstable();
        assert_eq!(revisions, [1, 2, 3]);
        queue.close();
        writer.join().unwrap();
    });
}

#[test]
fn what_is_handed_over_while_the_store_closes_is_done_or_refused() {
    explore(|| {
        let (queue, journal) = (Arc::new(Queue::default()), Arc::new(Journal::default()));
        let writer = {
            let (queue, journal) = (queue.clone(), journal.clone());
            shuttle::thread::spawn(move || {
                write(&queue, &journal);
                queue.abandon();
            })
        };
        let callers: Vec<_> = (0..2)
            .map(|_| {
                let queue = queue.clone();
                shuttle::thread::spawn(move || block_on(queue.commit(txn())))
            })
            .collect();
        queue.close();
        let done = callers.into_iter().map(|caller| match caller.join().unwrap() {
            Ok(_) => 1,
            Err(CommitError::Rejected { .. }) => 0,
            Err(other) => panic!("nothing is left open by a store that closes: {other}"),
        });
        let done: u64 = done.sum();
        writer.join().unwrap();
        assert_eq!(*journal.appended.lock().unwrap(), done, "what is refused wasn't written");
    });
}

#[test]
fn a_writer_that_ends_leaves_nobody_waiting() {
    explore(|| {
        let queue = Arc::new(Queue::default());
        let callers: Vec<_> = (0..2)
            .map(|_| {
                let queue = queue.clone();
                shuttle::thread::spawn(move || block_on(queue.commit(txn())))
            })
            .collect();
        let writer = {
            let queue = queue.clone();
            shuttle::thread::spawn(move || {
                // It takes what it finds and dies with it.
                drop(queue.next(None));
                queue.abandon();
            })
        };
        for caller in callers {
            let told = caller.join().unwrap();
            assert!(
                matches!(told, Err(CommitError::Uncertain { .. } | CommitError::Rejected { .. })),
                "nothing was done: {told:?}"
            );
        }
        writer.join().unwrap();
    });
}
