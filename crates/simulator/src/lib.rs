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
//! let summary = run(&Plan { first_seed: 0, seeds: 3, stop_after: 1 }, &mut |_| {});
//! assert!(summary.failures.is_empty(), "{}", summary.failures[0]);
//! assert_eq!(summary.seeds, 3);
//! ```

mod chance;
mod channel;
mod daemon;
mod executor;
mod observe;
mod people;
mod run;
mod story;
mod world;

pub use observe::Coverage;
pub use run::{Failure, MAX_STEPS, Outcome, Plan, Progress, SETTLES_WITHIN_MS, Summary, run, run_seed};
