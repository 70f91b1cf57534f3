//! What is to become of how a component is started: another command, or what its configuration says now. Data only.

use crate::{LaunchIdentity, Launches, Verified};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use tidegate_core::ComponentName;

/// How a component is to be started other than it is now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Change {
    /// By another command, in force for as long as its configuration names the command that it replaces.
    Command(Replacement),
    /// As its configuration says now.
    Configured,
}

/// A command in place of the configured one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Replacement {
    /// The program and its arguments.
    pub command: Vec<String>,
    /// What the configuration says.
    pub instead_of: Vec<String>,
}

impl Replacement {
    /// The command that is in force where the configuration says `configured`.
    #[must_use]
    pub fn over<'a>(&'a self, configured: &'a [String]) -> &'a [String] {
        if self.instead_of == configured { &self.command } else { configured }
    }
}

/// Changes by component.
pub type Changes = BTreeMap<ComponentName, Change>;

/// The part of an operation that is about changes: empty in a plain restart.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Upgrade {
    /// What changes.
    #[serde(default, skip_serializing_if = "Changes::is_empty")]
    pub changes: Changes,
    /// What the whole scope was started as before: what a rollback starts.
    #[serde(default, skip_serializing_if = "Launches::is_empty")]
    pub previous: Launches,
    /// What failed under the new identity, and what it said. Not empty: the old one is being brought back, or was.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub rejected: BTreeMap<ComponentName, String>,
}

impl Upgrade {
    /// Whether a failure leads back instead of to another try.
    #[must_use]
    pub fn can_roll_back(&self) -> bool {
        !self.previous.is_empty() && !self.is_rolling_back()
    }

    /// Whether the old identity is what is started now.
    #[must_use]
    pub fn is_rolling_back(&self) -> bool {
        !self.rejected.is_empty()
    }

    /// What is started of `launches`, as approved, now.
    #[must_use]
    pub fn launch<'a>(&'a self, launches: &'a Launches, name: &ComponentName) -> Option<&'a LaunchIdentity> {
        if self.is_rolling_back() { self.previous.get(name) } else { launches.get(name) }
    }

    /// Whether the version really changed, in a sentence per changed component.
    #[must_use]
    pub fn outcome(&self, verified: &BTreeMap<ComponentName, Verified>) -> String {
        let sentence = |name: &ComponentName| {
            let seen = verified.get(name)?;
            Some(match (&seen.previous_version, &seen.version) {
                (Some(before), Some(after)) if before == after => {
                    format!("{name} states the same version as before, {after}: this was no upgrade")
                }
                (Some(before), Some(after)) => format!("{name} went from version {before} to {after}"),
                (None, Some(after)) => {
                    format!("{name} states version {after}; what it was before is not known")
                }
                (_, None) => format!("{name} does not state a version"),
            })
        };
        self.changes.keys().filter_map(sentence).collect::<Vec<_>>().join("; ")
    }
}
