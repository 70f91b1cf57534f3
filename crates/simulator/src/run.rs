//! Runs many seeds, on several threads, and sums up what came of them in the order of the seeds: how many threads there
//! were can't be seen in the summary.

use crate::observe::Coverage;
use crate::planted::Hunt;
use crate::play::{Outcome, run_seed};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use std::collections::BTreeMap;
use std::fmt;
use std::num::NonZeroUsize;
use std::sync::mpsc;
use std::thread;

/// The last lines of a timeline that a failure shows.
const SHOWN_LINES: usize = 40;
/// How many seeds a thread takes at a time: few enough that the others aren't waited for, enough to be worth it.
const BATCH: u64 = 16;

/// What to run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// The first seed.
    pub first_seed: u64,
    /// How many seeds, one after the other.
    pub seeds: u64,
    /// How many broken schedules are enough.
    pub stop_after: usize,
    /// On how many threads.
    pub threads: NonZeroUsize,
}

impl Plan {
    /// These seeds, on one thread, up to the first failure.
    #[must_use]
    pub fn new(first_seed: u64, seeds: u64) -> Self {
        Self { first_seed, seeds, stop_after: 1, threads: NonZeroUsize::MIN }
    }
}

/// How far a run has got.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// Seeds that are done.
    pub done: u64,
    /// Of so many.
    pub seeds: u64,
    /// Broken schedules so far.
    pub failures: usize,
}

/// One broken schedule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// The seed.
    pub seed: u64,
    /// What was broken, and the evidence.
    pub violation: String,
    /// The last lines of its timeline.
    pub timeline: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "seed {} breaks {}", self.seed, self.violation)?;
        writeln!(f, "{}", self.timeline)?;
        write!(f, "replay it: cargo xtask simulate --seed {}", self.seed)
    }
}

/// What a run of several seeds came to: the `simulation` object of the report, and more.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Summary {
    /// How many seeds were run.
    pub seeds: u64,
    /// How many steps they took.
    pub steps: u64,
    /// Over all timelines, in the order of the seeds.
    pub transcript_sha256: String,
    /// Bugs that were planted on purpose, and which seed caught each.
    pub planted: Vec<Hunt>,
    /// Virtual time, in milliseconds.
    pub simulated_ms: u64,
    /// The most steps that a world took to settle after things stopped going wrong.
    pub settling_steps: u64,
    /// What was reached.
    pub coverage: Coverage,
    /// What could have been reached and was not.
    pub not_reached: Vec<String>,
    /// Broken schedules.
    pub failures: Vec<Failure>,
}

impl Outcome {
    fn failure(&self) -> Option<Failure> {
        let violation = self.violation()?;
        let lines: Vec<&str> = self.timeline.lines().collect();
        let timeline = lines[lines.len().saturating_sub(SHOWN_LINES)..].join("\n");
        Some(Failure { seed: self.seed, violation, timeline })
    }
}

/// What is kept of a seed: its timeline is a number by then.
struct Digested {
    outcome: Outcome,
    failure: Option<Failure>,
    sha256: Vec<u8>,
}

fn digest(mut outcome: Outcome) -> Digested {
    let failure = outcome.failure();
    let sha256 = Sha256::digest(std::mem::take(&mut outcome.timeline).as_bytes()).to_vec();
    Digested { outcome, failure, sha256 }
}

/// Runs the seeds of a plan, and says after each how far it is.
pub fn run(plan: &Plan, progress: &mut dyn FnMut(Progress)) -> Summary {
    let mut sum = Sum::default();
    if plan.threads.get() == 1 {
        for seed in (0..plan.seeds).map(|nth| plan.first_seed.wrapping_add(nth)) {
            sum.add(digest(run_seed(seed)));
            progress(Progress { done: sum.seeds, seeds: plan.seeds, failures: sum.failures.len() });
            if sum.failures.len() >= plan.stop_after {
                break;
            }
        }
        return sum.summary();
    }
    thread::scope(|scope| {
        let (threads, (sender, digests)) =
            (plan.threads.get() as u64, mpsc::sync_channel(2 * BATCH as usize));
        for thread in 0..threads {
            let sender = sender.clone();
            scope.spawn(move || {
                let batches = (0..plan.seeds).filter(|nth| nth / BATCH % threads == thread);
                for nth in batches {
                    let digest = digest(run_seed(plan.first_seed.wrapping_add(nth)));
                    if sender.send((nth, digest)).is_err() {
                        return; // there are failures enough
                    }
                }
            });
        }
        drop(sender);
        // They come as they are done, and are counted in their order.
        let mut early = BTreeMap::new();
        for (nth, digest) in digests {
            early.insert(nth, digest);
            while let Some(digest) = early.remove(&sum.seeds) {
                sum.add(digest);
                progress(Progress { done: sum.seeds, seeds: plan.seeds, failures: sum.failures.len() });
                if sum.failures.len() >= plan.stop_after {
                    return;
                }
            }
        }
    });
    sum.summary()
}

#[derive(Default)]
struct Sum {
    seeds: u64,
    steps: u64,
    simulated_ms: u64,
    settling_steps: u64,
    hash: Sha256,
    coverage: Coverage,
    failures: Vec<Failure>,
}

impl Sum {
    fn add(&mut self, digested: Digested) {
        let Digested { outcome, failure, sha256 } = digested;
        self.seeds += 1;
        self.steps += outcome.steps;
        self.simulated_ms += outcome.simulated_ms;
        self.settling_steps = self.settling_steps.max(outcome.settling_steps);
        self.hash.update(&sha256);
        self.coverage.merge(outcome.coverage);
        self.failures.extend(failure);
    }

    fn summary(self) -> Summary {
        let hash = self.hash.finalize();
        Summary {
            seeds: self.seeds,
            steps: self.steps,
            transcript_sha256: hash.iter().map(|byte| format!("{byte:02x}")).collect(),
            planted: Vec::new(),
            simulated_ms: self.simulated_ms,
            settling_steps: self.settling_steps,
            not_reached: self.coverage.missing(),
            coverage: self.coverage,
            failures: self.failures,
        }
    }
}
