//! For tests: scenario files with one step a line, transcripts that read as timelines, a clock and ids set by hand.
//!
//! A scenario is a text file. Comments at the top are its title, every other line is
//! `TIME ACTOR VERB [ARGUMENT…] [NAME=VALUE…]`, in the order of time; a value with spaces is put in double quotes.
//! What the verbs mean is the business of the test that runs it.
//!
//! ```
//! use tidegate_scenario::{Scenario, Timeline};
//!
//! let scenario: Scenario = "
//!     ## Two sessions want the same branch.
//!     0s      s1  acquire repo/main  ttl=30s class=mutating
//!     1.200s  s2  acquire repo/main  ttl=30s class=mutating
//! ".parse()?;
//! assert_eq!(scenario.title, "Two sessions want the same branch.");
//!
//! let mut timeline = Timeline::of(&scenario);
//! for step in &scenario.steps {
//!     let ttl_ms = step.millis("ttl")?; // an error names the line
//!     timeline.step(step, format!("asked for {ttl_ms} ms"));
//! }
//! assert_eq!(timeline.to_string(), "\
//! Two sessions want the same branch.
//!
//! t=0.000s  s1 acquire repo/main ttl=30s class=mutating → asked for 30000 ms
//! t=1.200s  s2 acquire repo/main ttl=30s class=mutating → asked for 30000 ms
//! ");
//! # Ok::<(), tidegate_scenario::ScenarioError>(())
//! ```

mod files;
mod manual;
mod parse;
mod rights;
mod timeline;

pub use files::scenarios_in;
pub use manual::{CountingIds, ManualClock};
pub use parse::{Scenario, ScenarioError, Step, parse_millis};
pub use rights::{in_namespaces, under};
pub use timeline::{Timeline, seconds};
