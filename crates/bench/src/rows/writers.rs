//! Sixteen who write at the same time, each a record of its own on the condition that nobody else has written it.

use super::{Bench, Round};
use crate::rivals::{Etcd, Writers};
use crate::row::{Goal, Subject};
use crate::stopwatch::Stopwatch;
use anyhow::{Context as _, bail};
use pollster::block_on;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Barrier;
use std::time::Duration;
use tidegate_core::Revision;
use tidegate_store::{Condition, FileStore, Key, OpenOptions, Store, Txn};

const WRITERS: usize = 16;
const VALUE: [u8; 256] = [b'v'; 256];

/// Commits of each writer in one measurement: about a second of each.
const OURS_EACH: u32 = 200;
const SQLITE_EACH: u32 = 15;
const ETCD_EACH: u32 = 60;

/// How long one of our writers waits for its turn: as long as it takes, like SQLite's. One that is refused as busy, on a
/// machine where others want the disk too, would leave nothing measured.
const PATIENCE: Duration = Duration::from_secs(600);

/// What a process says when it has the store open.
const READY: &str = "ready";

pub(super) const SQLITE: Subject = Subject {
    name: "writers-sqlite",
    ours: "16 processes, one FileStore each",
    theirs: "16 processes, SQLite WAL, synchronous=FULL",
    unit: "commits/s",
    goal: Goal::AtLeast(10.0),
};

pub(super) const ETCD: Subject = Subject {
    name: "writers-etcd",
    ours: "16 processes, one FileStore each",
    theirs: "16 connections to one etcd on loopback",
    unit: "commits/s",
    goal: Goal::AtLeast(1.5),
};

pub(super) fn beside_sqlite(bench: &Bench<'_>) -> anyhow::Result<Vec<Round>> {
    let each = bench.times(SQLITE_EACH);
    let theirs = || {
        let place = bench.place()?;
        let database = place.path().join("database");
        let writers = Writers::start(&database, WRITERS)?;
        per_second(each, || writers.commit(&database, each, &VALUE))
    };
    bench.rounds(|| ours(bench), theirs)
}

pub(super) fn beside_etcd(bench: &Bench<'_>) -> anyhow::Result<Vec<Round>> {
    let place = bench.place()?;
    let etcd = Etcd::start(place.path())?;
    let (each, mut round) = (bench.times(ETCD_EACH), 0);
    let theirs = || {
        round += 1;
        let start = Barrier::new(WRITERS + 1);
        std::thread::scope(|scope| {
            let write = |n: usize| {
                let client = etcd.client();
                start.wait();
                let mut client = client?;
                let key = format!("{round}/{n}");
                (0..each).try_fold(0, |revision, _| client.put_if(&key, revision, &VALUE))
            };
            let writers: Vec<_> = (0..WRITERS).map(|n| scope.spawn(move || write(n))).collect();
            start.wait();
            per_second(each, || {
                for writer in writers {
                    writer.join().map_err(|_| anyhow::anyhow!("a thread panicked"))??;
                }
                Ok(())
            })
        })
    };
    bench.rounds(|| ours(bench), theirs)
}

fn ours(bench: &Bench<'_>) -> anyhow::Result<f64> {
    let place = bench.place()?;
    let each = bench.times(OURS_EACH);
    drop(FileStore::open(place.path(), OpenOptions::new().create(true))?);
    let mut processes = Vec::new();
    for n in 0..WRITERS {
        let mut process = Command::new(std::env::current_exe()?)
            .arg("write")
            .arg(place.path())
            .args([n.to_string(), each.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let mut said = String::new();
        BufReader::new(process.stdout.take().context("a writer has an output")?).read_line(&mut said)?;
        if said.trim() != READY {
            bail!("a writer didn't get ready");
        }
        processes.push(process);
    }
    let rate = per_second(each, || {
        for process in &mut processes {
            process.stdin.take();
        }
        for process in &mut processes {
            let status = process.wait()?;
            if !status.success() {
                bail!("a writer failed: {status}");
            }
        }
        Ok(())
    })?;
    let (store, _) = FileStore::open(place.path(), OpenOptions::new())?;
    let (revision, expected) = (block_on(store.list(""))?.revision.0, u64::from(each) * WRITERS as u64);
    if revision != expected {
        bail!("{expected} commits, and the store is at revision {revision}");
    }
    Ok(rate)
}

/// What one of our processes does: waits for the end of its input, then commits so often.
pub(crate) fn write(dir: &Path, name: &str, count: u32) -> anyhow::Result<()> {
    let (store, _) = FileStore::open(dir, OpenOptions::new().lock_patience(PATIENCE))?;
    let key = Key::new(name)?;
    let mut stdout = std::io::stdout();
    writeln!(stdout, "{READY}")?;
    stdout.flush()?;
    std::io::copy(&mut std::io::stdin(), &mut std::io::sink())?;
    let mut condition = Condition::Absent;
    for _ in 0..count {
        let mut txn = Txn::new().put_bytes(&key, &VALUE);
        txn.expect.insert(key.clone(), condition);
        let Revision(revision) = block_on(store.commit(txn))?.fence.revision;
        condition = Condition::At(Revision(revision));
    }
    Ok(())
}

fn per_second(each: u32, work: impl FnOnce() -> anyhow::Result<()>) -> anyhow::Result<f64> {
    let watch = Stopwatch::start();
    work()?;
    Ok(f64::from(each) * WRITERS as f64 / watch.elapsed().as_secs_f64())
}
