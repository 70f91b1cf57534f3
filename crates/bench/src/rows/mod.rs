//! The rows, one file for each kind of thing that is measured. Every row measures both sides in turns.

mod checkpoint;
mod freshness;
mod gate;
mod lone;
mod renew;
mod schedules;
mod writers;

use crate::row::{Round, Row, Subject};
use anyhow::Context as _;
use std::path::Path;
use std::sync::Arc;
use tempfile::TempDir;
use tidegate_host::{OsEntropy, ProcProbe, SystemClock};
use tidegate_leases::Leases;
use tidegate_store::{FileStore, OpenOptions, Store};

pub(crate) use writers::write;

/// How much is measured.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Effort {
    /// Pairs of measurements.
    pub(crate) rounds: usize,
    /// Multiplies what one measurement does.
    pub(crate) scale: u32,
}

impl Effort {
    /// Seconds: enough to notice that something has become several times slower.
    pub(crate) const QUICK: Self = Self { rounds: 3, scale: 1 };
    /// A minute or two: enough to compare with a goal.
    pub(crate) const FULL: Self = Self { rounds: 9, scale: 4 };
}

/// Where a measurement puts its files, and how much it does.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bench<'a> {
    pub(crate) dir: &'a Path,
    pub(crate) effort: Effort,
}

type Measure = fn(&Bench<'_>) -> anyhow::Result<Vec<Round>>;

/// Every row, in the order of the report.
pub(crate) const ROWS: [(Subject, Measure); 14] = [
    (lone::ON_CALLER, lone::on_caller),
    (lone::HANDED_OVER, lone::handed_over),
    (writers::SQLITE, writers::beside_sqlite),
    (writers::ETCD, writers::beside_etcd),
    (renew::ACTIVITY, renew::by_activity),
    (renew::DURABLE, renew::durably),
    (freshness::SUBJECT, freshness::measure),
    (gate::TRACKER, gate::beside_a_tracker),
    (gate::SEMAPHORE, gate::beside_a_semaphore),
    (checkpoint::ON_CALLER, checkpoint::on_caller),
    (checkpoint::HANDED_OVER, checkpoint::handed_over),
    (schedules::SHUTTLE, schedules::beside_shuttle),
    (schedules::REAL_TIME, schedules::beside_real_time),
    (gate::BORROWED, gate::beside_a_borrowed_permit),
];

/// Measures one row.
pub(crate) fn run(subject: Subject, measure: Measure, bench: &Bench<'_>) -> Row {
    Row::of(subject, measure(bench))
}

impl Bench<'_> {
    /// A directory of one measurement, on the file system that is measured.
    fn place(&self) -> anyhow::Result<TempDir> {
        tempfile::tempdir_in(self.dir).with_context(|| format!("make a directory in {}", self.dir.display()))
    }

    /// `count`, as often as this effort wants.
    fn times(&self, count: u32) -> u32 {
        count * self.effort.scale
    }

    /// Both sides, in turns; who begins changes with each round, so that neither always follows the other.
    fn rounds(
        &self,
        mut ours: impl FnMut() -> anyhow::Result<f64>,
        mut theirs: impl FnMut() -> anyhow::Result<f64>,
    ) -> anyhow::Result<Vec<Round>> {
        let round = |n: usize| {
            if n.is_multiple_of(2) {
                let ours = ours()?;
                Ok(Round { ours, theirs: theirs()? })
            } else {
                let theirs = theirs()?;
                Ok(Round { ours: ours()?, theirs })
            }
        };
        (0..self.effort.rounds).map(round).collect()
    }
}

/// Who makes a commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Commits {
    /// The thread that asks, as in a program that waits for each commit.
    OnCaller,
    /// The store's own thread, as in a program whose executor isn't to wait for the disk.
    HandedOver,
}

fn file_store(dir: &Path, commits: Commits) -> anyhow::Result<Arc<dyn Store>> {
    let options = OpenOptions::new().create(true).commit_on_caller(commits == Commits::OnCaller);
    Ok(Arc::new(FileStore::open(dir, options)?.0))
}

fn leases(store: Arc<dyn Store>) -> anyhow::Result<Leases> {
    let (clock, probe) = (Arc::new(SystemClock::new()?), Arc::new(ProcProbe::new()?));
    Ok(Leases::new(store, clock, Arc::new(OsEntropy), probe))
}
