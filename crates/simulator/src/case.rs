//! A case: one world that is kept, with what is expected of it. A failure becomes one when it has been made small; it stays
//! a test afterwards.

use crate::play::{Outcome, run_story};
use crate::story::Story;
use serde::{Deserialize, Serialize};

/// The version of the file's format.
pub const CASE_VERSION: u32 = 1;

/// One world, stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Case {
    /// The version of this format.
    pub version: u32,
    /// The wrong decision that has to be planted; none: the code as it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bug: Option<String>,
    /// The rule that is broken; none: nothing is, and once something was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub breaks: Option<String>,
    /// How, as it was when the case was made. For the reader.
    pub evidence: String,
    /// What happens, as it did when the case was made. For the reader.
    pub timeline: Vec<String>,
    /// The world.
    pub story: Story,
}

impl Case {
    /// The case of what came of a story.
    #[must_use]
    pub fn of(story: &Story, bug: Option<&str>, outcome: &Outcome) -> Self {
        Self {
            version: CASE_VERSION,
            bug: bug.map(str::to_owned),
            breaks: outcome.broken.clone(),
            evidence: outcome.evidence.clone(),
            timeline: outcome.timeline.lines().map(str::to_owned).collect(),
            story: story.clone(),
        }
    }

    /// Plays it. Whatever is to be planted has to be planted by then.
    #[must_use]
    pub fn play(&self) -> Outcome {
        run_story(&self.story)
    }
}
