//! What is done to the daemon and its servers while the sessions work: calm quarters and stormy ones.

use super::{Course, STORMY, memory};
use crate::harness::{GLANCE, Rig, Stopwatch, until};
use rustix::process::{Pid, Signal, kill_process};
use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Duration;

/// Of so many kills one is the daemon's.
const DAEMONS: u32 = 3;
/// For so long after a daemon is back, what its death has cost is still felt, and isn't counted as a restart's cost.
const AFTERMATH: Duration = Duration::from_secs(1);

/// What happened.
#[derive(Debug, Default)]
pub(super) struct Passed {
    /// The stormy quarters.
    pub(super) storms: Vec<Range<Duration>>,
    /// When there was no daemon, and a moment after.
    pub(super) outages: Vec<Range<Duration>>,
    pub(super) server_kills: u32,
    pub(super) daemon_kills: u32,
    /// Governed restarts by how they ended.
    pub(super) restarts: BTreeMap<String, u32>,
    /// Memory of the daemon in the course of time, in KiB.
    pub(super) daemon_kib: Vec<u64>,
    /// The most that a shim had, in KiB.
    pub(super) shim_kib: u64,
}

pub(super) struct Weather<'a> {
    course: &'a Course,
    shims: &'a [u32],
    random: fastrand::Rng,
    passed: Passed,
    /// The operation that was asked for last, until it has ended.
    open: Option<String>,
    restarts: usize,
}

impl<'a> Weather<'a> {
    pub(super) fn new(course: &'a Course, shims: &'a [u32]) -> Self {
        let random = fastrand::Rng::with_seed(course.seed);
        Self { course, shims, random, passed: Passed::default(), open: None, restarts: 0 }
    }

    /// Four quarters, every second one stormy.
    pub(super) fn pass(mut self, rig: &mut Rig, clock: &Stopwatch) -> Passed {
        let quarter = self.course.length / 4;
        for stormy in [false, true, false, true] {
            let begins = clock.elapsed();
            let ends = begins + quarter;
            if stormy {
                self.storm(rig, clock, ends);
                self.passed.storms.push(begins..ends);
            }
            while clock.elapsed() < ends {
                std::thread::park_timeout(GLANCE);
            }
            self.settle(rig);
            self.weigh(rig);
        }
        self.passed
    }

    fn storm(&mut self, rig: &mut Rig, clock: &Stopwatch, ends: Duration) {
        let (mut restart_at, mut kill_at) = (clock.elapsed(), clock.elapsed() + self.kill_pause());
        while clock.elapsed() < ends {
            if clock.elapsed() >= restart_at {
                restart_at += self.course.restart_every;
                self.settle(rig);
                self.restart(rig);
            }
            if clock.elapsed() >= kill_at {
                kill_at = clock.elapsed() + self.kill_pause();
                self.kill(rig, clock);
                self.weigh(rig);
            }
            std::thread::park_timeout(GLANCE);
        }
    }

    fn kill_pause(&mut self) -> Duration {
        self.course.kill_every.mul_f64(0.5 + self.random.f64())
    }

    fn restart(&mut self, rig: &Rig) {
        let component = STORMY[self.restarts % STORMY.len()];
        self.restarts += 1;
        let asked = rig.ops(&["restart", "request", component, "--reason", "the soak says so"]);
        match asked.code {
            0 => self.open = asked.document()["operation"]["id"].as_str().map(str::to_owned),
            _ => *self.passed.restarts.entry("not accepted".to_owned()).or_default() += 1,
        }
    }

    /// Waits for the end of the operation that is under way.
    fn settle(&mut self, rig: &Rig) {
        let Some(id) = self.open.take() else { return };
        let phase = until("the restart ends", || {
            let phase = rig.operation(&id)["phase"].as_str().unwrap_or_default().to_owned();
            let ends = ["Completed", "Refused", "Failed", "RolledBack", "Cancelled", "Expired"];
            ends.contains(&phase.as_str()).then_some(phase)
        });
        *self.passed.restarts.entry(phase).or_default() += 1;
    }

    fn kill(&mut self, rig: &mut Rig, clock: &Stopwatch) {
        if self.random.u32(0..DAEMONS) == 0 {
            let begins = clock.elapsed();
            rig.kill();
            rig.serve();
            self.passed.outages.push(begins..clock.elapsed() + AFTERMATH);
            self.passed.daemon_kills += 1;
        } else {
            let victim = STORMY[self.random.usize(0..STORMY.len())];
            let pid = rig.component(victim)["pid"].as_i64().and_then(|pid| i32::try_from(pid).ok());
            if let Some(pid) = pid.and_then(Pid::from_raw) {
                let _ = kill_process(pid, Signal::KILL); // one that has ended meanwhile was going to
                self.passed.server_kills += 1;
            }
        }
    }

    fn weigh(&mut self, rig: &Rig) {
        self.passed.daemon_kib.extend(memory::kib(rig.daemon().pid()));
        let heaviest = self.shims.iter().filter_map(|pid| memory::kib(*pid)).max();
        self.passed.shim_kib = self.passed.shim_kib.max(heaviest.unwrap_or(0));
    }
}
