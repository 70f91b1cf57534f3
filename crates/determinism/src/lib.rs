//! Run a subject again and again from one seed, compare what it did, and say what broke it.
//!
//! A check runs the same command in fresh processes, on an idle machine and beside a CPU load, and compares every
//! run with the first one, stream by stream. Beside the subject it runs programs of its own that must differ (a clock,
//! random bytes, a hash map's order, …) and programs that must not; a check whose controls fail has no result.
//! The answer is a [`Record`]: a level on a ladder, with a bound, and never the bare word "deterministic".
//!
//! What it must never do: strip numbers or times before comparing, count zero records as equal, pool conditions, or
//! call a cause confirmed that no lever has moved. The native executor can't pin anything, so it
//! claims at most [`Level::OutputEqual`].
//!
//! # Examples
//!
//! The check runs its helpers (controls, load, guard) from the binary of this crate, whose path is part of the plan.
//!
//! ```no_run
//! use tidegate_determinism::{Plan, run};
//!
//! let mut plan = Plan::new(["date", "+%N"], "target/debug/tidegate-determinism");
//! plan.runs = 20;
//! let record = run(&plan, &mut |line| eprintln!("{line}"))?;
//! println!("{}", record.answer());
//! record.write("target/tidegate/determinism".as_ref())?;
//! # Ok::<(), tidegate_determinism::RunError>(())
//! ```

mod ablate;
mod ablation;
mod args;
mod cause;
mod check;
mod clock;
pub mod companion;
mod compare;
mod controls;
pub mod document;
mod error;
mod examine;
mod executor;
mod explore;
mod factor;
pub mod go_no_go;
mod guard;
mod helper;
pub mod image;
mod load;
mod network;
mod normalise;
mod pictures;
mod plan;
mod questions;
mod record;
mod report;
mod scratch;
mod script;
mod selftest;
mod story;
mod stream;
mod subject;
mod verdict;

pub use ablation::{Ablation, Line, Moved};
pub use args::CheckArgs;
pub use check::run;
pub use error::RunError;
pub use executor::{MACHINE_MODULES, Part};
pub use explore::{Visit, explore};
pub use factor::Factor;
pub use plan::{Condition, DEFAULT_CACHE, ExecutorKind, Plan};
pub use record::{
    Cause, Cell, Channel, Confidence, Context, ControlResult, Cost, Decision, Divergence, Executor, Host,
    Level, Observation, Outcome, Prerequisite, Qualifier, Reason, Recommendation, Record, Rule, RunCost,
    ScriptSummary, SeedProbe, Subject, SubjectFile, Verdict, Workload,
};
pub use script::{Script, ScriptError, Step};
