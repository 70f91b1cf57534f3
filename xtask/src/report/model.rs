//! The shapes of the report and of what it is made from. The names are a public contract, and `schemas/report.schema.json`
//! says the same once more for readers that aren't ours; nothing here decides.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::nextest::Slice;

/// Version of `report.json` and of `run.json`.
pub(crate) const VERSION: u32 = 1;

/// How a bullet is shown to hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Level {
    Simulated,
    Process,
    External,
}

impl Level {
    pub(crate) const ALL: [Self; 3] = [Self::Simulated, Self::Process, Self::External];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Simulated => "simulated",
            Self::Process => "process",
            Self::External => "external",
        }
    }
}

/// A test that the suite's manifest promises for a bullet and level.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Listed {
    pub(crate) bullet: u8,
    pub(crate) level: Level,
    pub(crate) test: String,
    /// Why this can't be proved here, if it can't.
    #[serde(default)]
    pub(crate) pending: Option<Pending>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Pending {
    #[serde(default)]
    pub(crate) reason: String,
    #[serde(default)]
    pub(crate) issue: String,
}

/// What a test of the suite writes when it starts, and again when it ends.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Evidence {
    pub(crate) test: String,
    pub(crate) bullet: u8,
    pub(crate) level: Level,
    pub(crate) outcome: Recorded,
    #[serde(default)]
    pub(crate) seeds: Option<u64>,
    #[serde(default)]
    pub(crate) duration_ms: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Recorded {
    Started,
    Passed,
    Failed,
}

/// The record of one run of the tests, whole or a slice.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Run {
    pub(crate) version: u32,
    pub(crate) commit: String,
    pub(crate) partition: Slice,
    /// Every test there is.
    pub(crate) whole: BTreeSet<String>,
    /// Those that this run ran.
    pub(crate) ran: BTreeSet<String>,
    /// The steps of this run that failed.
    pub(crate) failed_steps: Vec<String>,
}

/// What one partition left, by the name of its directory.
#[derive(Clone, Debug, Default)]
pub(crate) struct Part {
    pub(crate) name: String,
    pub(crate) run: Option<Run>,
    pub(crate) evidence: Vec<Evidence>,
    pub(crate) bench: Option<Value>,
    pub(crate) simulation: Option<Value>,
    pub(crate) determinism: Option<Value>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Link {
    pub(crate) title: String,
    pub(crate) url: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Release {
    Allowed,
    Blocked,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Status {
    Proven,
    Failed,
    Pending,
    NotApplicable,
}

/// `report.json`.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Report {
    pub(crate) version: u32,
    pub(crate) commit: String,
    pub(crate) links: Vec<Link>,
    pub(crate) release: Release,
    /// Why the release is blocked, in words; empty when it is allowed.
    pub(crate) blockers: Vec<String>,
    pub(crate) tests: Tests,
    pub(crate) bullets: Vec<Bullet>,
    pub(crate) simulation: Option<Value>,
    pub(crate) determinism: Option<Value>,
    /// What was measured beside others; absent where nothing was. It never blocks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) bench: Option<Value>,
}

/// How many tests there are, and in how many partitions they ran.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Tests {
    pub(crate) total: usize,
    pub(crate) partitions: usize,
}

#[derive(Clone, Debug, Serialize)]
pub(crate) struct Bullet {
    pub(crate) id: u8,
    pub(crate) title: &'static str,
    pub(crate) levels: BTreeMap<Level, Proof>,
}

#[derive(Clone, Debug, Serialize)]
pub(crate) struct Proof {
    pub(crate) status: Status,
    pub(crate) pending: Option<Pending>,
    pub(crate) evidence: Vec<Shown>,
}

/// One piece of evidence as the report shows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Shown {
    pub(crate) test: String,
    pub(crate) outcome: Outcome,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) seeds: Option<u64>,
    pub(crate) duration_ms: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Outcome {
    Passed,
    Failed,
}
