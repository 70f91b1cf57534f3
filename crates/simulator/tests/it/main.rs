//! What a run promises: the same from the same seed, something else from another, shards that are the whole; and what is
//! kept of earlier runs.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod cases;
mod planted;

use std::num::NonZeroUsize;
use tidegate_simulator::{Plan, run, run_seed};

#[test]
fn one_seed_is_one_schedule() {
    for seed in [3, 8, 21] {
        let (first, second) = (run_seed(seed), run_seed(seed));
        assert_eq!(first.timeline, second.timeline, "seed {seed}");
        assert_eq!((first.steps, first.simulated_ms), (second.steps, second.simulated_ms), "seed {seed}");
        assert_eq!(first.violation(), None, "seed {seed}");
    }
    assert_ne!(run_seed(3).timeline, run_seed(4).timeline);
}

#[test]
fn a_summary_is_made_of_its_seeds_in_their_order_whoever_ran_them() {
    let whole = run(&Plan::new(40, 6), &mut |_| {});
    let threads = NonZeroUsize::new(3).unwrap();
    assert_eq!(whole, run(&Plan { threads, ..Plan::new(40, 6) }, &mut |_| {}));
    let shards = [run(&Plan::new(40, 2), &mut |_| {}), run(&Plan::new(42, 4), &mut |_| {})];
    assert_eq!(whole.seeds, shards.iter().map(|it| it.seeds).sum::<u64>());
    assert_eq!(whole.steps, shards.iter().map(|it| it.steps).sum::<u64>());
    assert!(shards.iter().all(|it| it.transcript_sha256 != whole.transcript_sha256));
}

#[test]
fn progress_is_told_after_every_seed_and_the_report_has_its_names() {
    let mut told = Vec::new();
    let summary = run(&Plan::new(50, 3), &mut |progress| told.push((progress.done, progress.seeds)));
    assert_eq!(told, [(1, 3), (2, 3), (3, 3)]);
    let json = serde_json::to_value(&summary).unwrap();
    assert_eq!(json["transcript_sha256"].as_str().unwrap().len(), 64);
    assert_eq!((&json["seeds"], &json["planted"]), (&3.into(), &serde_json::json!([])));
    assert!(json["steps"].as_u64().unwrap() > 0 && json["coverage"]["phases"].is_object());
}
