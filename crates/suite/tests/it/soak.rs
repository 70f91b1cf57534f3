//! The soak: small among the tests, whole by `cargo xtask soak`. The same code, and the same goals but for times.

use std::time::Duration;
use tidegate_suite::soak::{Course, Goals, run};

/// The whole one's length, in seconds.
const SECONDS_VAR: &str = "TIDEGATE_SOAK_SECONDS";
/// Names the seed to run again with.
const SEED_VAR: &str = "TIDEGATE_SEED";

#[test]
fn sessions_under_kills_and_restarts_lose_double_and_wait_for_nothing() {
    let number = |name: &str| std::env::var(name).ok().map(|text| text.parse::<u64>().unwrap());
    let seed = number(SEED_VAR).unwrap_or_else(|| fastrand::u64(..));
    println!("seed {seed}: run again with {SEED_VAR}={seed}");
    let (course, goals) = match number(SECONDS_VAR) {
        Some(seconds) => (Course::whole(Duration::from_secs(seconds), seed), Goals::RELEASE),
        None => (Course::small(seed), Goals::AMONG_TESTS),
    };
    let outcome = run(&course);
    println!("{}", serde_json::to_string_pretty(&outcome).unwrap());
    assert!(outcome.daemon_kills + outcome.server_kills > 0 && !outcome.restarts.is_empty(), "{outcome:?}");
    assert_eq!(outcome.faults(&goals), Vec::<String>::new());
}
