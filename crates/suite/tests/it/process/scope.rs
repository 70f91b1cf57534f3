//! Bullet 9: outside of its scope nobody notices a restart.

use serde_json::json;
use std::time::Duration;
use tidegate_suite::harness::{Client, Plan, Rig, Stopwatch};

/// Pairs of a run with a restart behind the same daemon and a run with one behind another daemon.
const PAIRS: usize = 5;
/// Calls of one run, about two seconds of them: a restart in each is ten times as often as the soak's. A stop and a start
/// cost some ten calls a few milliseconds each, for the processors that the new processes take; one percent is twice that.
const CALLS: usize = 2_000;
/// What a restart outside of the scope may cost at the 99th percentile.
const FACTOR: f64 = 1.5;

/// Calls outside the scope, one after the other; gives their latencies.
fn run(session: &mut Client, mut midway: impl FnMut()) -> Vec<Duration> {
    let timed = |number| {
        if number == CALLS / 4 {
            midway();
        }
        let watch = Stopwatch::start();
        session.tool("read", json!({ "key": "k" }));
        watch.elapsed()
    };
    (0..CALLS).map(timed).collect()
}

fn p99(mut latencies: Vec<Duration>) -> Duration {
    latencies.sort();
    latencies[latencies.len() * 99 / 100]
}

/// Asks for a restart of `inside`; gives the operation.
fn restart(rig: &Rig) -> String {
    rig.request("ops", &["inside"])
}

pub(super) fn only_the_scope_notices() {
    let rig = Plan::new().fault("inside", &[]).fault("outside", &[]).start();
    // A stop and a start take the machine's time wherever they happen, and a run of a second feels that on two cores.
    // The run to compare with has the same restart in it, behind a daemon that shares nothing with this one.
    let apart = Plan::new().fault("inside", &[]).start();
    let mut session = rig.connect("outside", "s1");
    let mut inside = rig.connect("inside", "s2");
    let before = rig.is_ready("outside");
    session.tool("append", json!({ "text": "warm" }));
    run(&mut session, || {});

    // Interleaved, so that whatever else the machine does meanwhile concerns both alike; and taken together, as its hiccups
    // last for a dozen calls and come once in a run or not at all.
    let (mut without, mut with) = (Vec::new(), Vec::new());
    for _ in 0..PAIRS {
        for (rig, runs) in [(&apart, &mut without), (&rig, &mut with)] {
            let mut id = String::new();
            runs.extend(run(&mut session, || id = restart(rig)));
            assert_eq!(rig.operation(&id)["phase"], "Completed", "the restart fell into the run");
        }
    }
    let (with, without) = (p99(with), p99(without));
    let ratio = with.as_secs_f64() / without.as_secs_f64();
    assert!(
        ratio <= FACTOR,
        "p99 outside the scope is {ratio:.2} times what it is with a restart apart: {with:?} and {without:?}"
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
