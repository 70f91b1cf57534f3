//! Bullet 9: outside of its scope nobody notices a restart.

use serde_json::json;
use std::time::Duration;
use tidegate_suite::harness::{Client, Plan, Rig, Stopwatch};

/// Pairs of a run with a restart elsewhere and a run without.
const PAIRS: usize = 5;
/// Calls of one run: enough that one percent of them is more than a few.
const CALLS: usize = 800;
/// What a restart elsewhere may cost at the 99th percentile.
const FACTOR: f64 = 1.5;

/// Calls outside the scope, one after the other; gives the 99th percentile of their latencies.
fn p99(session: &mut Client, mut midway: impl FnMut()) -> Duration {
    let mut latencies: Vec<Duration> = (0..CALLS)
        .map(|number| {
            if number == CALLS / 4 {
                midway();
            }
            let watch = Stopwatch::start();
            session.tool("read", json!({ "key": "k" }));
            watch.elapsed()
        })
        .collect();
    latencies.sort();
    latencies[CALLS * 99 / 100]
}

fn median(runs: &[Duration]) -> Duration {
    let mut runs = runs.to_vec();
    runs.sort();
    runs[runs.len() / 2]
}

fn restart(rig: &Rig) -> String {
    rig.request("ops", &["inside"])
}

pub(super) fn only_the_scope_notices() {
    let rig = Plan::new().fault("inside", &[]).fault("outside", &[]).start();
    let mut session = rig.connect("outside", "s1");
    let mut inside = rig.connect("inside", "s2");
    let before = rig.is_ready("outside");
    session.tool("append", json!({ "text": "warm" }));
    p99(&mut session, || {});

    // Interleaved, so that whatever else the machine does meanwhile concerns both alike.
    let (mut without, mut with) = (Vec::new(), Vec::new());
    for _ in 0..PAIRS {
        without.push(p99(&mut session, || {}));
        let mut id = String::new();
        with.push(p99(&mut session, || id = restart(&rig)));
        assert_eq!(rig.operation(&id)["phase"], "Completed", "the restart fell into the run");
    }
    let ratio = median(&with).as_secs_f64() / median(&without).as_secs_f64();
    assert!(
        ratio <= FACTOR,
        "p99 outside the scope is {ratio:.2} times what it is without a restart: {with:?} and {without:?}"
    );

    // No refusal and no error came (each call was a success); nothing was cancelled; it is the same process.
    let after = rig.component("outside");
    for what in ["pid", "generation", "restarts"] {
        assert_eq!(after[what], before[what]);
    }
    let received = rig.server("outside").received();
    assert!(received.iter().all(|it| it["message"]["method"] != "notifications/cancelled"));
    assert_eq!(
        received.iter().filter(|it| it["message"]["method"] == "tools/call").count(),
        1 + CALLS * (1 + 2 * PAIRS)
    );
    let start = inside.tool("read", json!({ "key": "k" }))["structuredContent"]["start"].clone();
    assert_eq!(start, 1 + PAIRS);
}
