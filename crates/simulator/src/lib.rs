//! Fake sessions, seeded schedules, faults, and the ten invariants checked after every step.
//!
//! One seed is one world: components with fake servers, sessions of several manners, operators and agents, a daemon that is
//! made of the crates' own decisions and shells, a store that fails in each of its ways. Virtual time, one thread, and one
//! choice at each step of who goes next, all of which follow from the seed. An observer who knows what the servers carried
//! out and what every session was told checks the ten bullets after each step, and in the end that everything has settled.
//!
//! ```
//! use tidegate_simulator::{Plan, run};
//!
//! let summary = run(&Plan::new(0, 3), &mut |_| {});
//! assert!(summary.failures.is_empty(), "{}", summary.failures[0]);
//! assert_eq!(summary.seeds, 3);
//! ```

mod case;
mod chance;
mod channel;
mod daemon;
mod executor;
mod job;
mod model;
mod observe;
mod people;
mod planted;
mod play;
mod run;
mod shrink;
mod story;
mod world;

pub use case::{CASE_VERSION, Case};
pub use job::{Done, Job};
pub use model::{MODEL_PASSES, MODEL_WORKERS, play_model};
pub use observe::{Coverage, UNREACHABLE};
pub use planted::{BUGS, Bug, CAUGHT_WITHIN, Hunt};
#[cfg(feature = "planted")]
pub use planted::{hunt, with_planted};
pub use play::{MAX_STEPS, Outcome, SETTLES_WITHIN_MS, SETTLES_WITHIN_STEPS, run_seed, run_story};
pub use run::{Failure, Plan, Progress, Summary, run};
pub use shrink::shrink;
pub use story::Story;
