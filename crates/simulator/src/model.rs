//! The small model by which the executor's speed is compared with that of other schedulers: workers that pass a gate, and
//! one who closes it and waits until nobody is inside. One seed, one schedule.

use crate::chance::generator;
use crate::executor::{Executor, Group, Stepped, pause};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tidegate_core::{BootId, DrainId, Now, WallTime, WorkClass};
use tidegate_drain::{Gate, WorkInfo};

/// How many workers there are.
pub const MODEL_WORKERS: u64 = 4;
/// How often each of them passes the gate.
pub const MODEL_PASSES: u64 = 8;

const NOW: Now = Now { boot: BootId(1), boot_ms: 1, wall: WallTime(0) };

/// Plays one schedule of the model and answers how many steps it took. The same with any other scheduler: each worker
/// asks the gate for admission, lets others go first, and finishes, [`MODEL_PASSES`] times or until the gate is closed; the
/// closer lets others go first [`MODEL_PASSES`] times, closes, and goes on doing so until nobody is inside.
///
/// # Panics
/// When somebody is let in behind the closed gate: it isn't the model then that is wrong.
#[must_use]
pub fn play_model(seed: u64) -> u64 {
    let executor = Executor::new(Some(generator(seed, "model")));
    let gate = Gate::new(crate::story::name("files"), 64);
    let work = Arc::new(WorkInfo {
        session: crate::story::name("local/s1"),
        component: gate.component().clone(),
        tool: "write".into(),
        class: WorkClass::Mutating,
    });
    let late = Arc::new(AtomicU64::new(0));
    for _ in 0..MODEL_WORKERS {
        let (gate, work, late) = (gate.clone(), work.clone(), late.clone());
        executor.spawn(Group::WORLD, async move {
            for _ in 0..MODEL_PASSES {
                let open = gate.is_open();
                let Ok(permit) = gate.admit(&work, &NOW) else { return };
                late.fetch_add(u64::from(!open), Ordering::Relaxed);
                pause().await;
                permit.finish();
            }
        });
    }
    let (closer, drain): (Gate, DrainId) = (gate.clone(), crate::story::name("d1"));
    executor.spawn(Group::WORLD, async move {
        for _ in 0..MODEL_PASSES {
            pause().await;
        }
        let closed = closer.close(drain);
        while closed.is_ok() && closer.in_flight() > 0 {
            pause().await;
        }
    });
    let mut steps = 0;
    while executor.step() != Stepped::Idle {
        steps += 1;
    }
    assert_eq!((late.load(Ordering::Relaxed), gate.in_flight()), (0, 0), "a closed gate lets nobody in");
    steps
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_is_a_schedule_and_every_schedule_ends() {
        let steps: Vec<u64> = (0..50).map(play_model).collect();
        assert_eq!(steps, (0..50).map(play_model).collect::<Vec<_>>());
        assert!(steps.iter().any(|it| *it != steps[0]) && steps.iter().all(|it| (9..200).contains(it)));
    }
}
