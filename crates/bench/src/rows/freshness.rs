//! May I still act? Asked before every step of a holder, so it must cost next to nothing.

use super::Bench;
use crate::row::{Goal, Round, Subject};
use crate::stopwatch::{instant, nanos_each};
use std::hint::black_box;
use std::time::Duration;
use tidegate_core::{Clock, Epoch, Fence, Revision};
use tidegate_host::SystemClock;
use tidegate_leases::Freshness;

pub(super) const SUBJECT: Subject = Subject {
    name: "freshness",
    ours: "Freshness::is_fresh, with the clock read",
    theirs: "Instant::now()",
    unit: "ns",
    goal: Goal::AtMost(3.0),
};

const CHECKS: u32 = 200_000;

pub(super) fn measure(bench: &Bench<'_>) -> anyhow::Result<Vec<Round>> {
    let clock = SystemClock::new()?;
    let fence = Fence::new(Epoch(1), Revision(1));
    let freshness = Freshness::new(fence, &clock.now(), Duration::from_secs(3600));
    let count = bench.times(CHECKS);
    bench.rounds(
        || {
            Ok(nanos_each(count, || {
                black_box(freshness.is_fresh(&clock.now()));
            }))
        },
        || {
            Ok(nanos_each(count, || {
                black_box(instant());
            }))
        },
    )
}
