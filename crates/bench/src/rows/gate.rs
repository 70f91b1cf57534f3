//! The gate that every call passes, beside what tokio has for counting work: both say how much is inside, and only one
//! says who.

use super::Bench;
use crate::row::{Goal, Round, Subject};
use crate::stopwatch::nanos_each;
use std::hint::black_box;
use std::sync::Arc;
use tidegate_core::{BootId, Now, WallTime, WorkClass};
use tidegate_drain::{Gate, WorkInfo};
use tokio::sync::Semaphore;
use tokio_util::task::TaskTracker;

const OURS: &str = "Gate::admit + Permit::finish";

pub(super) const TRACKER: Subject = Subject {
    name: "gate-tracker",
    ours: OURS,
    theirs: "tokio_util TaskTracker token, made and dropped",
    unit: "ns",
    goal: Goal::AtMost(3.0),
};

pub(super) const SEMAPHORE: Subject = Subject {
    name: "gate-semaphore",
    ours: OURS,
    theirs: "tokio Semaphore::try_acquire_owned, dropped",
    unit: "ns",
    goal: Goal::AtMost(1.0),
};

pub(super) const BORROWED: Subject = Subject {
    name: "gate-borrowed",
    ours: OURS,
    theirs: "tokio Semaphore::try_acquire (a permit that can't leave its scope)",
    unit: "ns",
    goal: Goal::None,
};

const PASSES: u32 = 200_000;
const CAPACITY: usize = 256;
const NOW: Now = Now { boot: BootId(1), boot_ms: 1, wall: WallTime(0) };

pub(super) fn beside_a_tracker(bench: &Bench<'_>) -> anyhow::Result<Vec<Round>> {
    let tracker = TaskTracker::new();
    beside(bench, || {
        drop(black_box(tracker.token()));
    })
}

pub(super) fn beside_a_semaphore(bench: &Bench<'_>) -> anyhow::Result<Vec<Round>> {
    let semaphore = Arc::new(Semaphore::new(CAPACITY));
    beside(bench, || {
        black_box(semaphore.clone().try_acquire_owned().is_ok());
    })
}

pub(super) fn beside_a_borrowed_permit(bench: &Bench<'_>) -> anyhow::Result<Vec<Round>> {
    let semaphore = Semaphore::new(CAPACITY);
    beside(bench, || {
        black_box(semaphore.try_acquire().is_ok());
    })
}

fn beside(bench: &Bench<'_>, mut theirs: impl FnMut()) -> anyhow::Result<Vec<Round>> {
    let gate = Gate::new("files".parse()?, CAPACITY);
    let work = Arc::new(WorkInfo {
        session: "local/bench".parse()?,
        component: "files".parse()?,
        tool: "write_file".into(),
        class: WorkClass::Mutating,
    });
    let count = bench.times(PASSES);
    bench.rounds(
        || {
            Ok(nanos_each(count, || {
                if let Ok(permit) = black_box(&gate).admit(&work, &NOW) {
                    permit.finish();
                }
            }))
        },
        || Ok(nanos_each(count, &mut theirs)),
    )
}
