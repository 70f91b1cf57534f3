//! How fast the simulator is: schedules of one small model beside shuttle's, and simulated time beside real time.

use super::Bench;
use crate::row::{Goal, Round, Subject};
use crate::stopwatch::Processor;
use anyhow::bail;
use std::sync::Arc;
use tidegate_core::{BootId, DrainId, Now, WallTime, WorkClass};
use tidegate_drain::{Gate, WorkInfo};
use tidegate_simulator::{MODEL_PASSES, MODEL_WORKERS, Plan, play_model, run};

pub(super) const SHUTTLE: Subject = Subject {
    name: "schedules",
    ours: "the simulator's executor, one small model",
    theirs: "shuttle, the same model",
    unit: "schedules/s",
    goal: Goal::AtLeast(3.0),
};

pub(super) const REAL_TIME: Subject = Subject {
    name: "simulated-time",
    ours: "simulated seconds of whole worlds",
    theirs: "seconds of a processor",
    unit: "s",
    goal: Goal::AtLeast(1_000.0),
};

const SCHEDULES: u32 = 500;
const WORLDS: u32 = 10;
const NOW: Now = Now { boot: BootId(1), boot_ms: 1, wall: WallTime(0) };

pub(super) fn beside_shuttle(bench: &Bench<'_>) -> anyhow::Result<Vec<Round>> {
    let count = bench.times(SCHEDULES);
    let mut seed = 0;
    let per_second = |watch: Processor| Ok(f64::from(count) / watch.elapsed().as_secs_f64());
    bench.rounds(
        || {
            let watch = Processor::start();
            for _ in 0..count {
                seed += 1;
                let _steps = play_model(seed);
            }
            per_second(watch)
        },
        || {
            let watch = Processor::start();
            shuttle::check_random(model, count as usize);
            per_second(watch)
        },
    )
}

pub(super) fn beside_real_time(bench: &Bench<'_>) -> anyhow::Result<Vec<Round>> {
    let worlds = u64::from(bench.times(WORLDS));
    (0..bench.effort.rounds as u64)
        .map(|round| {
            let watch = Processor::start();
            let summary = run(&Plan::new(1 + round * worlds, worlds), &mut |_| {});
            if let Some(failure) = summary.failures.first() {
                bail!("a world broke a rule: {failure}");
            }
            Ok(Round { ours: summary.simulated_ms as f64 / 1_000.0, theirs: watch.elapsed().as_secs_f64() })
        })
        .collect()
}

/// What `play_model` plays, on shuttle's threads.
fn model() {
    #[allow(clippy::expect_used, reason = "these names are names")]
    let (files, session, drain) = (
        "files".parse::<tidegate_core::ComponentName>().expect("a name"),
        "local/s1".parse().expect("a name"),
        "d1".parse::<DrainId>().expect("a name"),
    );
    let gate = Gate::new(files.clone(), 64);
    let work =
        Arc::new(WorkInfo { session, component: files, tool: "write".into(), class: WorkClass::Mutating });
    let mut threads = Vec::new();
    for _ in 0..MODEL_WORKERS {
        let (gate, work) = (gate.clone(), work.clone());
        threads.push(shuttle::thread::spawn(move || {
            for _ in 0..MODEL_PASSES {
                let Ok(permit) = gate.admit(&work, &NOW) else { return };
                shuttle::thread::yield_now();
                permit.finish();
            }
        }));
    }
    let closer = gate.clone();
    threads.push(shuttle::thread::spawn(move || {
        for _ in 0..MODEL_PASSES {
            shuttle::thread::yield_now();
        }
        let closed = closer.close(drain);
        while closed.is_ok() && closer.in_flight() > 0 {
            shuttle::thread::yield_now();
        }
    }));
    for thread in threads {
        let ended = thread.join();
        assert!(ended.is_ok(), "a thread of the model panicked");
    }
    assert_eq!(gate.in_flight(), 0);
}
