//! The record of a check: the shapes of `determinism.json`. Data only; `schemas/determinism.schema.json` says the same.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::ablation::Ablation;
use crate::go_no_go::GoNoGo;
use crate::plan::Condition;

/// The version of the format.
pub(crate) const VERSION: u32 = 1;

/// Everything a check found out.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// Version of the format: 1.
    pub version: u32,
    /// What was run.
    pub subject: Subject,
    /// What an executor needs before it may start, and what that blocks when it's missing.
    pub prerequisites: Vec<Prerequisite>,
    /// How it was run.
    pub executor: Executor,
    /// How often, under which conditions, with which input.
    pub workload: Workload,
    /// What was looked at.
    pub observation: Observation,
    /// One row per condition.
    pub cells: Vec<Cell>,
    /// The programs of our own that ran beside the subject.
    pub controls: Vec<ControlResult>,
    /// The first divergence of every stream and cause.
    pub divergences: Vec<Divergence>,
    /// The answer.
    pub verdict: Verdict,
    /// What to do with it.
    pub recommendation: Recommendation,
    /// What it took.
    pub cost: Cost,
    /// The one command that repeats it.
    pub reproduce: String,
    /// The same subject under other executors, in the same check.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub beside: Vec<Outcome>,
    /// Which factor makes which records differ; absent where none was changed alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ablation: Option<Ablation>,
    /// What was not started, and why.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub decisions: Vec<GoNoGo>,
}

/// What one more executor showed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// How the subject was run.
    pub executor: Executor,
    /// What was looked at.
    pub observation: Observation,
    /// One row per condition and part.
    pub cells: Vec<Cell>,
    /// The programs of our own that ran beside the subject.
    pub controls: Vec<ControlResult>,
    /// The first divergence of every stream and cause.
    pub divergences: Vec<Divergence>,
    /// The answer.
    pub verdict: Verdict,
    /// What it took.
    pub cost: Cost,
}

/// What was run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Subject {
    /// `command`; images and root file systems come later.
    pub kind: String,
    /// SHA-256 over the command line and the bytes of `files`.
    pub digest: String,
    /// The command line.
    pub argv: Vec<String>,
    /// The program that the first argument stands for; `null` when there is none.
    pub executable: Option<String>,
    /// The executable, and the files that arguments name.
    pub files: Vec<SubjectFile>,
}

/// One file of the subject.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SubjectFile {
    /// Where it is.
    pub path: String,
    /// What is in it.
    pub sha256: String,
}

/// Something that must be there before an executor may start.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Prerequisite {
    /// Which.
    pub name: String,
    /// `met` or `missing`.
    pub state: String,
    /// The executors that it blocks while it's missing.
    pub blocks: Vec<String>,
    /// How that is known.
    pub evidence: String,
    /// Who can change it.
    pub owner: String,
    /// By when somebody wants it decided.
    pub decide_by: Option<String>,
}

/// How the subject was run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Executor {
    /// `native`, `sandbox` or `vm`.
    pub name: String,
    /// What the executor pinned; nothing natively.
    pub pins: Vec<String>,
    /// What the executor leaves free, as far as that is known.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub not_pinned: Vec<String>,
    /// What the command line or the environment pinned.
    pub relaxations: Vec<String>,
    /// The machine.
    pub host: Host,
}

/// The machine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Host {
    /// Operating system.
    pub os: String,
    /// Release of its kernel.
    pub kernel: String,
    /// Architecture.
    pub arch: String,
    /// Processors that this check may use.
    pub cpus: u32,
}

/// How often, under which conditions, with which input.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Workload {
    /// Runs per condition that were asked for.
    pub runs: u32,
    /// The conditions that were asked for.
    pub conditions: Vec<Condition>,
    /// Busy processes in the condition `loaded`.
    pub hogs: u32,
    /// The longest that one run could take.
    pub deadline_ms: u64,
    /// The client's side of the conversation.
    pub script: Option<ScriptSummary>,
}

/// The client's side of the conversation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ScriptSummary {
    /// The file.
    pub path: String,
    /// What is in it.
    pub sha256: String,
    /// Its steps.
    pub steps: usize,
}

/// What was looked at.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Observation {
    /// Records compared in all runs.
    pub records: u64,
    /// Where they came from.
    pub channels: Vec<Channel>,
    /// The rules that rewrite records before they are compared.
    pub rules: Vec<Rule>,
    /// How the subject ended in its first run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit: Option<String>,
    /// What no channel shows.
    pub not_compared: Vec<String>,
    /// One more run, from another seed; `null` when it wasn't reached.
    pub seed_probe: Option<SeedProbe>,
}

/// A place where records came from, over all runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Channel {
    /// `stdout`, `stderr` or `exit`.
    pub name: String,
    /// How many.
    pub records: u64,
}

/// A rule that rewrites records before they are compared.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Rule {
    /// Which.
    pub name: String,
    /// What it does.
    pub description: String,
    /// How often it did so.
    pub hits: u64,
}

/// One more run, from another seed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SeedProbe {
    /// The other seed.
    pub seed: u64,
    /// Whether it did something else than the reference run.
    pub differs: bool,
}

/// The runs of one condition.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Cell {
    /// The condition.
    pub condition: Condition,
    /// `boot`: the whole life was run. `restored`: what follows a snapshot was.
    pub part: String,
    /// The seed.
    pub seed: u64,
    /// Runs that ended, the reference run included.
    pub runs: u32,
    /// Runs that did the same as the reference run, not counting itself.
    pub equal: u32,
    /// Different outcomes.
    pub distinct: u32,
    /// At 95 %, at most this share of runs differs; `null` once something differed.
    pub bound_95: Option<f64>,
    /// The share of repetitions that differed; `null` while nothing did.
    pub rate: Option<f64>,
}

/// What one control did.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ControlResult {
    /// Which.
    pub name: String,
    /// `positive` must differ, `negative` must not, `seed` must between seeds, `comparer` must be noticed.
    pub kind: String,
    /// Where it ran; `null` for the comparer's, which run no process.
    pub condition: Option<Condition>,
    /// `boot` or `restored`, where an executor has both.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub part: Option<String>,
    /// What it had to do.
    pub expected: String,
    /// What it did.
    pub observed: String,
    /// Whether that is the same.
    pub passed: bool,
}

/// The first place where a stream differed for one cause.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Divergence {
    /// `idle`, `loaded`, or `idle/loaded` where the two conditions differ from one another.
    pub condition: String,
    /// The run that differed from the reference run 0.
    pub run: u32,
    /// The stream.
    pub stream: String,
    /// The record in it, counted from zero.
    pub index: usize,
    /// What stood there.
    pub context: Context,
    /// What the difference looks like.
    pub cause: Cause,
    /// How far to trust that.
    pub confidence: Confidence,
    /// What an executor would have to pin and unpin to confirm it.
    pub levers: Vec<String>,
}

/// A divergence with what came before it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Context {
    /// Up to five records before it, the same in both runs unless an earlier divergence is listed.
    pub before: Vec<String>,
    /// In the reference run; `null` where its stream had ended.
    pub expected: Option<String>,
    /// In the other run; `null` where its stream had ended.
    pub observed: Option<String>,
}

/// What a difference looks like.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Cause {
    /// Dates and times.
    Clock,
    /// Random identifiers.
    Entropy,
    /// Process numbers.
    Pid,
    /// Places in memory.
    Address,
    /// The same answers, in another order.
    Schedule,
    /// The same records or words in another order: threads or a hash seed, which look the same from outside.
    Order,
    /// Anything else.
    Unclassified,
}

/// How far to trust a cause.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Confidence {
    /// Pinning it removes the divergence and unpinning brings it back: only where an executor's levers were moved.
    Confirmed,
    /// The shape of the difference suggests it.
    Probable,
    /// No shape was recognised.
    Unclassified,
}

/// The ladder of claims.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Level {
    /// It never started.
    #[serde(rename = "not_run")]
    NotRun,
    /// It started and has no answer.
    #[serde(rename = "no_result")]
    NoResult,
    /// Two runs differed.
    #[serde(rename = "diverged")]
    Diverged,
    /// What it wrote, and how it ended, was equal.
    #[serde(rename = "E1_output_equal")]
    OutputEqual,
    /// What it executed was equal; needs an executor that sees it.
    #[serde(rename = "E2_trace_equal")]
    TraceEqual,
    /// What it left behind was equal too; needs an executor that sees it.
    #[serde(rename = "E3_state_equal")]
    StateEqual,
}

/// What is to be added to a level.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Qualifier {
    /// It holds beside a CPU load too.
    Loaded,
    /// Another seed gives another outcome.
    SeedSensitive,
    /// Every control did what it had to.
    ControlsPassed,
    /// Something was pinned by the command line or the environment.
    Normalised,
    /// A cause of what differs is confirmed by an executor's levers.
    CauseConfirmed,
    /// Equal on several machines; never natively.
    CrossHost,
}

/// Why there is no result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Reason {
    /// A control or the comparer did not do what it had to.
    ControlFailed,
    /// A run did not end before its deadline.
    Timeout,
    /// A run could not be started.
    StartFailed,
    /// A run wrote nothing, so that nothing was compared.
    NoRecords,
    /// The subject ended before the conversation did.
    ScriptIncomplete,
    /// A run wrote more than is kept.
    OutputTooLarge,
    /// The subject failed for want of a network, which this executor doesn't have.
    NetworkRequired,
    /// The load beside the subject was not there all the time.
    LoadAbsent,
    /// The executor, or something that it needs, isn't there.
    ExecutorUnavailable,
}

/// The answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Verdict {
    /// The claim.
    pub level: Level,
    /// What is to be added to it.
    pub qualifiers: BTreeSet<Qualifier>,
    /// Why there is no result; `null` where there is one.
    pub reason: Option<Reason>,
    /// The reason in words.
    pub detail: Option<String>,
}

/// What to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Decision {
    /// Rely on it.
    Adopt,
    /// Look again when a reason has changed.
    Revisit,
    /// Don't look again. Needs an executor that pins things, so never natively.
    Drop,
    /// Not answered, on record so that it isn't argued again.
    NoGo,
}

/// What to do, and why.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Recommendation {
    /// What to do.
    pub decision: Decision,
    /// Codes, each followed by what would change it.
    pub reasons: Vec<String>,
    /// A concrete flake that cheaper means can't reach; `null` when none was found.
    pub flake: Option<String>,
}

/// What the check took.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Cost {
    /// Time on the wall, in seconds.
    pub wall_s: f64,
    /// Processor time of everything that was started, in seconds.
    pub cpu_s: f64,
    /// Money: always zero.
    pub external_spend: u32,
    /// The subject's runs, by part.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub runs: Vec<RunCost>,
}

/// What a run of the subject took.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunCost {
    /// `boot` or `restored`.
    pub part: String,
    /// Runs that this is the mean of.
    pub runs: u32,
    /// Time on the wall, in seconds.
    pub wall_s: f64,
    /// Processor time, in seconds.
    pub cpu_s: f64,
    /// The largest memory of any of them, where it was measured.
    pub resident_mib: Option<f64>,
    /// Processor time over that of a native run of the same check; `null` where there was none.
    pub ratio_to_native: Option<f64>,
}
