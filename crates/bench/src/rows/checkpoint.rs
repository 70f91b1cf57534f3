//! A session's checkpoint of 4 KiB, beside the usual way of replacing a small file durably.

use super::{Bench, Commits, file_store};
use crate::row::{Goal, Round, Subject};
use crate::stopwatch::{median, micros};
use pollster::block_on;
use std::fs::File;
use std::io::Write as _;
use std::sync::Arc;
use tidegate_checkpoints::{Checkpoints, Draft};
use tidegate_host::{OsEntropy, ProcProbe, SystemClock};

const THEIRS: &str = "temporary file of 4 KiB, fsync, rename, fsync of the directory";

pub(super) const ON_CALLER: Subject = Subject {
    name: "checkpoint",
    ours: "Checkpoints::checkpoint, 4 KiB, on a thread that waits for it",
    theirs: THEIRS,
    unit: "us at p50",
    goal: Goal::AtMost(0.45),
};

pub(super) const HANDED_OVER: Subject = Subject {
    name: "checkpoint-handed",
    ours: "Checkpoints::checkpoint, 4 KiB, by the store's own thread",
    theirs: THEIRS,
    unit: "us at p50",
    goal: Goal::None,
};

const BYTES: usize = 4 << 10;
/// Names of leases that make up the checkpoint.
const FACTS: usize = 8;
const PAIRS: u32 = 20;

pub(super) fn on_caller(bench: &Bench<'_>) -> anyhow::Result<Vec<Round>> {
    measure(bench, Commits::OnCaller)
}

pub(super) fn handed_over(bench: &Bench<'_>) -> anyhow::Result<Vec<Round>> {
    measure(bench, Commits::HandedOver)
}

fn measure(bench: &Bench<'_>, commits: Commits) -> anyhow::Result<Vec<Round>> {
    let place = bench.place()?;
    let store = file_store(&place.path().join("store"), commits)?;
    let (clock, probe) = (Arc::new(SystemClock::new()?), Arc::new(ProcProbe::new()?));
    let checkpoints = Checkpoints::new(store, clock, Arc::new(OsEntropy), probe);
    let mut number = 0;
    let mut pair = || {
        number += 1;
        let mut draft = Draft::new("local/bench".parse()?);
        let fact = |n: usize| format!("{n}-{number:08}-{}", "x".repeat(BYTES / FACTS - 16));
        draft.leases = Some((0..FACTS).map(fact).collect());
        let (ours, _) = micros(|| Ok(block_on(checkpoints.checkpoint(&[draft]))?))?;
        let content = vec![b'x'; BYTES];
        let (theirs, ()) = micros(|| {
            let mut file = tempfile::NamedTempFile::new_in(place.path())?;
            file.write_all(&content)?;
            file.as_file().sync_all()?;
            file.persist(place.path().join("checkpoint"))?;
            Ok(File::open(place.path())?.sync_all()?)
        })?;
        anyhow::Ok((ours, theirs))
    };
    (0..bench.effort.rounds)
        .map(|_| {
            let pairs = (0..bench.times(PAIRS)).map(|_| pair());
            let (ours, theirs): (Vec<f64>, Vec<f64>) =
                pairs.collect::<anyhow::Result<Vec<_>>>()?.into_iter().unzip();
            Ok(Round { ours: median(&ours), theirs: median(&theirs) })
        })
        .collect()
}
