//! What the simulator's program is asked, and what it answers: JSON both ways, so that whoever asks can be built without
//! any planted bug, and at any level of optimisation.

use crate::case::Case;
use crate::planted::Hunt;
use crate::run::{Plan, Summary};
use serde::{Deserialize, Serialize};

/// What to do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Job {
    /// Run seeds. The answer is a [`Summary`].
    Run(Plan),
    /// Plant these bugs, one after the other, and run seeds until each is caught. The answer is a [`Hunt`] for each.
    Hunt {
        /// Their names.
        bugs: Vec<String>,
        /// How many seeds each has at most.
        seeds: u64,
    },
    /// Play one seed, with a bug planted or without. The answer is a [`Case`].
    Seed {
        /// The seed.
        seed: u64,
        /// The bug.
        bug: Option<String>,
        /// Make the world of a failure smaller first.
        shrink: bool,
    },
    /// Play a case that was stored. The answer is a [`Case`]: what came of it now.
    Replay(Box<Case>),
}

/// What came of a job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Done {
    /// Of [`Job::Run`].
    Ran(Box<Summary>),
    /// Of [`Job::Hunt`].
    Hunted(Vec<Hunt>),
    /// Of [`Job::Seed`] and [`Job::Replay`].
    Played(Box<Case>),
}
