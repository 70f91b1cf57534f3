//! What a check is asked to do, and the bounds on it. Runs nothing.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::error::RunError;
use crate::executor::{Executor, Part};
use crate::go_no_go::{ImageFacts, OnRecord};
use crate::image::Root;
use crate::script::Script;

/// Fewer than two runs compare nothing.
pub(crate) const MIN_RUNS: u32 = 2;
/// 1000 runs bound the rate at 0.3 %; more belongs to an executor that explores instead of sampling.
pub(crate) const MAX_RUNS: u32 = 1_000;
/// A run shorter than this says more about the scheduler than about the subject.
pub(crate) const MIN_DEADLINE: Duration = Duration::from_millis(10);
/// A run longer than an hour would make a check of five runs in two conditions last a working day.
pub(crate) const MAX_DEADLINE: Duration = Duration::from_secs(3_600);
/// More busy processes than this starve the machine instead of loading it.
pub(crate) const MAX_HOGS: u32 = 64;
/// The default number of runs: a first look; its bound of 52.7 % is in the answer, so nobody mistakes it for proof.
pub(crate) const DEFAULT_RUNS: u32 = 5;
/// Where `cargo xtask setup` leaves what a machine is made of.
pub const DEFAULT_CACHE: &str = "target/tidegate";
/// The default seed.
pub(crate) const DEFAULT_SEED: u64 = 1;
/// The default deadline of one run: beyond the start of a language runtime on a loaded machine.
pub(crate) const DEFAULT_DEADLINE: Duration = Duration::from_secs(60);

/// What the machine does beside the subject. Conditions are reported one by one and never pooled.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, clap::ValueEnum,
)]
#[serde(rename_all = "lowercase")]
pub enum Condition {
    /// Nothing that this check started.
    Idle,
    /// Busy processes on every core.
    Loaded,
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Idle => "idle",
            Self::Loaded => "loaded",
        })
    }
}

/// How a subject is run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum ExecutorKind {
    /// As a process of this machine: the control, which pins nothing.
    Native,
    /// In namespaces, on one processor, with a fixed environment and fixed addresses.
    Sandbox,
    /// In an emulated machine that counts instructions.
    Vm,
    /// By a commercial service: only prepared for, never started.
    Antithesis,
}

impl ExecutorKind {
    /// Its name on the command line and in a record.
    pub fn name(self) -> &'static str {
        match self {
            Self::Native => "native",
            Self::Sandbox => "sandbox",
            Self::Vm => "vm",
            Self::Antithesis => "antithesis",
        }
    }
}

/// Everything that a check needs to know.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The command and its arguments.
    pub argv: Vec<String>,
    /// The client's side of the conversation; without one the subject's input is empty.
    pub script: Option<Script>,
    /// How it is run. Beside any other executor it runs natively too.
    pub executor: ExecutorKind,
    /// The parts of its life to run, where an executor has several; none means all that it has.
    pub parts: Vec<Part>,
    /// Whether one factor after the other is changed, to confirm causes.
    pub ablate: bool,
    /// The file system that the subject is in; without one it's a command of this machine.
    pub root: Option<Root>,
    /// Where kernels, snapshots and unpacked images are kept from one check to the next.
    pub cache: PathBuf,
    /// The image as `NAME@sha256:…`, where the subject is one; else what stands for it.
    pub image: String,
    /// What is known about that image; `None` where the subject isn't one.
    pub image_facts: Option<ImageFacts>,
    /// Images that were asked about and can't be had: each gets a go/no-go record.
    pub wanted: Vec<String>,
    /// Where the hand-over to the commercial service is written.
    pub hand_over: Option<PathBuf>,
    /// Decisions about access and cost that were made: shown in the record, never asked for again.
    pub on_record: Vec<OnRecord>,
    /// Runs per condition and part, the reference run included.
    pub runs: u32,
    /// The conditions, in the order in which they are tried.
    pub conditions: Vec<Condition>,
    /// Handed to the subject as `TIDEGATE_SEED`.
    pub seed: u64,
    /// The longest that one run may take.
    pub deadline: Duration,
    /// How long the subject's runs may take together, shared out evenly over conditions and parts; those that no longer
    /// fit are not made, and the record says how many were.
    pub budget: Option<Duration>,
    /// Busy processes in the condition `loaded`.
    pub hogs: u32,
    /// The `tidegate-determinism` binary, which holds controls, load and guard.
    pub companion: PathBuf,
    /// The command that repeats this check.
    pub reproduce: String,
}

impl Plan {
    /// A plan with the defaults: five runs, idle and loaded, seed 1, a minute for each run.
    pub fn new<S: Into<String>>(argv: impl IntoIterator<Item = S>, companion: impl Into<PathBuf>) -> Self {
        Self {
            argv: argv.into_iter().map(Into::into).collect(),
            script: None,
            executor: ExecutorKind::Native,
            parts: Vec::new(),
            ablate: false,
            root: None,
            cache: PathBuf::from(DEFAULT_CACHE),
            image: NO_IMAGE.to_owned(),
            image_facts: None,
            wanted: Vec::new(),
            hand_over: None,
            on_record: Vec::new(),
            runs: DEFAULT_RUNS,
            conditions: vec![Condition::Idle, Condition::Loaded],
            seed: DEFAULT_SEED,
            deadline: DEFAULT_DEADLINE,
            budget: None,
            hogs: default_hogs(),
            companion: companion.into(),
            reproduce: String::new(),
        }
    }

    /// The parts that an executor has and this plan asks for; all that it has where it has none of those.
    pub(crate) fn parts_of(&self, executor: &dyn Executor) -> Vec<Part> {
        let has = executor.parts();
        let asked: Vec<Part> = has.iter().copied().filter(|part| self.parts.contains(part)).collect();
        if asked.is_empty() { has.to_vec() } else { asked }
    }

    /// How long the runs in one condition and part may take.
    pub(crate) fn share_of_budget(&self, executor: &dyn Executor) -> Option<Duration> {
        let shares = u32::try_from(self.conditions.len() * self.parts_of(executor).len()).ok()?;
        self.budget?.checked_div(shares)
    }

    /// Refuses what would compare nothing or never end.
    pub(crate) fn validate(&self) -> Result<(), RunError> {
        if self.argv.first().is_none_or(String::is_empty) {
            return Err(RunError::NoCommand);
        }
        bounded("--runs", self.runs.into(), MIN_RUNS.into(), MAX_RUNS.into())?;
        bounded("--hogs", self.hogs.into(), 1, MAX_HOGS.into())?;
        bounded("the number of conditions", self.conditions.len() as u64, 1, 2)?;
        bounded(
            "--deadline in milliseconds",
            millis(self.deadline),
            millis(MIN_DEADLINE),
            millis(MAX_DEADLINE),
        )
    }
}

/// What stands for an image where the subject isn't one.
pub(crate) const NO_IMAGE: &str = "none";

/// Two busy processes per core, so that the subject always has to wait for its turn.
pub(crate) fn default_hogs() -> u32 {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    u32::try_from(cores.saturating_mul(2)).unwrap_or(MAX_HOGS).min(MAX_HOGS)
}

pub(crate) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

fn bounded(what: &'static str, value: u64, min: u64, max: u64) -> Result<(), RunError> {
    if (min..=max).contains(&value) { Ok(()) } else { Err(RunError::OutOfBounds { what, value, min, max }) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(change: impl FnOnce(&mut Plan), expected: &str) {
        let mut plan = Plan::new(["true"], "companion");
        change(&mut plan);
        let said = plan.validate().err().map(|error| error.to_string()).unwrap_or_default();
        assert!(said.starts_with(expected) && said.is_empty() == expected.is_empty(), "{said:?}");
    }

    #[test]
    fn a_plan_that_would_compare_nothing_or_never_end_is_refused() {
        check(|_| (), "");
        check(|plan| plan.runs = 1, "--runs is 1; give a value from 2 to 1000");
        check(|plan| plan.runs = 1_001, "--runs is 1001");
        check(|plan| plan.argv.clear(), "nothing to run");
        check(|plan| plan.argv = vec![String::new()], "nothing to run");
        check(|plan| plan.hogs = 0, "--hogs is 0");
        check(|plan| plan.conditions.clear(), "the number of conditions is 0");
        check(|plan| plan.deadline = Duration::ZERO, "--deadline in milliseconds is 0");
        check(|plan| plan.deadline = Duration::MAX, "--deadline in milliseconds is");
    }
}
