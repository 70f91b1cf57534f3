//! One writer alone: what a durable lease costs beyond the append and the sync that nothing durable can do without.

use super::{Bench, Commits, file_store, leases};
use crate::row::{Goal, Round, Subject};
use crate::stopwatch::{median, micros};
use pollster::block_on;
use std::fs::File;
use std::io::Write as _;
use std::time::Duration;
use tidegate_core::WorkClass;
use tidegate_host::own_identity;
use tidegate_leases::{Acquire, By, Owner, Release};

const THEIRS: &str = "append of as many bytes + fdatasync";

pub(super) const ON_CALLER: Subject = Subject {
    name: "acquire-alone",
    ours: "Leases::acquire, durable, on a thread that waits for it",
    theirs: THEIRS,
    unit: "us at p50",
    goal: Goal::AtMost(1.15),
};

pub(super) const HANDED_OVER: Subject = Subject {
    name: "acquire-handed",
    ours: "Leases::acquire, durable, by the store's own thread",
    theirs: THEIRS,
    unit: "us at p50",
    goal: Goal::None,
};

/// Pairs of operations in one round.
const PAIRS: u32 = 20;

pub(super) fn on_caller(bench: &Bench<'_>) -> anyhow::Result<Vec<Round>> {
    measure(bench, Commits::OnCaller)
}

pub(super) fn handed_over(bench: &Bench<'_>) -> anyhow::Result<Vec<Round>> {
    measure(bench, Commits::HandedOver)
}

fn measure(bench: &Bench<'_>, commits: Commits) -> anyhow::Result<Vec<Round>> {
    let place = bench.place()?;
    let store_dir = place.path().join("store");
    let leases = leases(file_store(&store_dir, commits)?)?;
    let journal = store_dir.join("journal");
    let mut raw = File::options().append(true).create(true).open(place.path().join("raw"))?;
    let owner = Owner { session: "local/bench".parse()?, process: Some(own_identity("bench")?) };
    let mut number = 0_u32;
    let mut acquire_and_append = || {
        number += 1;
        let acquire = Acquire {
            key: "repo/main".parse()?,
            owner: owner.clone(),
            class: WorkClass::Mutating,
            ttl: Duration::from_secs(600),
            max_ttl: None,
            nonce: number.to_string(),
        };
        let before = journal.metadata()?.len();
        let (ours, acquired) = micros(|| Ok(block_on(leases.acquire(acquire))?))?;
        let appended = journal.metadata()?.len().saturating_sub(before);
        let record = vec![b'r'; usize::try_from(appended)?];
        let (theirs, ()) = micros(|| {
            raw.write_all(&record)?;
            Ok(raw.sync_data()?)
        })?;
        let by = By::Holder(owner.session.clone());
        block_on(leases.release(&Release { key: acquired.key, by, fence: acquired.fence }))?;
        // A release is followed by a sync that the next acquisition isn't to be measured behind: the raw file takes it.
        raw.write_all(b"-")?;
        raw.sync_data()?;
        anyhow::Ok((ours, theirs))
    };
    (0..bench.effort.rounds)
        .map(|_| {
            let pairs = (0..bench.times(PAIRS)).map(|_| acquire_and_append());
            let (ours, theirs): (Vec<f64>, Vec<f64>) =
                pairs.collect::<anyhow::Result<Vec<_>>>()?.into_iter().unzip();
            Ok(Round { ours: median(&ours), theirs: median(&theirs) })
        })
        .collect()
}
