//! The clock and the boot id, against what the kernel says.

use std::collections::BTreeSet;
use tidegate_core::{Clock, Entropy};
use tidegate_host::{OsEntropy, SystemClock, boot_id};

#[test]
fn the_boot_clock_counts_on_and_names_its_boot() {
    let clock = SystemClock::new().unwrap();
    let first = clock.now();
    assert_eq!(first.boot, boot_id().unwrap());
    crate::eventually("the clock moves", || clock.now().boot_ms > first.boot_ms);
    // 2020: whatever is wrong with this machine's wall clock, it is set.
    assert!(first.wall.0 > 1_577_836_800_000, "{}", first.wall);
}

#[test]
fn ids_do_not_repeat() {
    let ids: BTreeSet<_> = (0..1_000).map(|_| OsEntropy.id("n")).collect();
    assert_eq!(ids.len(), 1_000);
}
