//! The ten restart-safety bullets as a suite, against the simulator and against real processes.
//!
//! [`manifest`] says which tests prove which bullet at which [`Level`]; each of them leaves [`Evidence`] when it starts
//! and when it ends, so that a test which never ran is told from one that passed. What is not listed proves nothing.
//!
//! ```
//! use tidegate_suite::{Evidence, Level, manifest};
//!
//! let listed = manifest().into_iter().find(|it| it.bullet == 4 && it.level == Level::Simulated).unwrap();
//! # let dir = std::env::temp_dir().join(format!("tidegate-suite-{}", std::process::id()));
//! let evidence = Evidence::start_in(&dir, listed.test, listed.bullet, listed.level)?;
//! assert_eq!(2 + 2, 4); // the proof; a panic here would leave `failed`
//! evidence.finish()?;
//! # std::fs::remove_dir_all(&dir).unwrap();
//! # Ok::<(), tidegate_suite::EvidenceError>(())
//! ```

mod evidence;
pub mod harness;
mod manifest;
pub mod soak;

pub use evidence::{Evidence, EvidenceError, directory};
pub use manifest::{Level, Listed, Pending, manifest};

/// The README's examples, compiled and run.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;
