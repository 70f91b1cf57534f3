//! Runs seeds: one seed is one world, played to its end and judged after every step.

use crate::executor::Stepped;
use crate::observe::{Call, CallId, Coverage, Observer, Rule, Violation};
use crate::people;
use crate::story::Story;
use crate::world::World;
use serde::Serialize;
use sha2::{Digest as _, Sha256};
use std::collections::BTreeMap;
use std::fmt;
use tidegate_core::NextAction;
use tidegate_governor::Phase;

/// Once nothing goes wrong any more, everything has settled within this much virtual time: the longest deadline of a
/// request (60 s), that of a drain and a store's repair before it, and as much again.
pub const SETTLES_WITHIN_MS: u64 = 120_000;
/// More steps than any world takes: a run that gets here goes round in circles.
pub const MAX_STEPS: u64 = 2_000_000;
/// After a new phase the daemon is killed within so many steps, where it is killed at all.
const KILLED_WITHIN: u64 = 60;
/// The last lines of a timeline that a failure shows.
const SHOWN_LINES: usize = 40;
/// Outside a restart's scope no call takes longer than this many times what it takes without the restart, in percent.
const MOST_PERCENT: u64 = 150;

/// What to run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// The first seed.
    pub first_seed: u64,
    /// How many seeds, one after the other.
    pub seeds: u64,
    /// How many broken schedules are enough.
    pub stop_after: usize,
}

/// How far a run has got.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// Seeds that are done.
    pub done: u64,
    /// Of so many.
    pub seeds: u64,
    /// Broken schedules so far.
    pub failures: usize,
}

/// One broken schedule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Failure {
    /// The seed.
    pub seed: u64,
    /// What was broken, and the evidence.
    pub violation: String,
    /// The last lines of its timeline.
    pub timeline: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "seed {} breaks {}", self.seed, self.violation)?;
        writeln!(f, "{}", self.timeline)?;
        write!(f, "replay it: cargo xtask simulate --seed {}", self.seed)
    }
}

/// What a run of several seeds came to: the `simulation` object of the report, and more.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Summary {
    /// How many seeds were run.
    pub seeds: u64,
    /// How many steps they took.
    pub steps: u64,
    /// Over all timelines, in the order of the seeds.
    pub transcript_sha256: String,
    /// Bugs that were planted on purpose: none here.
    pub planted: Vec<String>,
    /// Virtual time, in milliseconds.
    pub simulated_ms: u64,
    /// What was reached.
    pub coverage: Coverage,
    /// What could have been reached and was not.
    pub not_reached: Vec<String>,
    /// Broken schedules.
    pub failures: Vec<Failure>,
}

/// What one seed came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// The seed.
    pub seed: u64,
    /// How many steps it took.
    pub steps: u64,
    /// Virtual time, in milliseconds.
    pub simulated_ms: u64,
    /// Everything that happened, a line each.
    pub timeline: String,
    /// What was broken, and the evidence.
    pub violation: Option<String>,
    /// What was reached.
    pub coverage: Coverage,
}

impl Outcome {
    fn failure(&self) -> Option<Failure> {
        let violation = self.violation.clone()?;
        let lines: Vec<&str> = self.timeline.lines().collect();
        let timeline = lines[lines.len().saturating_sub(SHOWN_LINES)..].join("\n");
        Some(Failure { seed: self.seed, violation, timeline })
    }
}

/// Runs the seeds of a plan, and says after each how far it is.
pub fn run(plan: &Plan, progress: &mut dyn FnMut(Progress)) -> Summary {
    let (mut steps, mut simulated_ms, mut done) = (0, 0, 0);
    let (mut hash, mut coverage, mut failures) = (Sha256::new(), Coverage::default(), Vec::new());
    for seed in (0..plan.seeds).map(|n| plan.first_seed.wrapping_add(n)) {
        let outcome = run_seed(seed);
        done += 1;
        steps += outcome.steps;
        simulated_ms += outcome.simulated_ms;
        hash.update(outcome.timeline.as_bytes());
        failures.extend(outcome.failure());
        coverage.merge(outcome.coverage);
        progress(Progress { done, seeds: plan.seeds, failures: failures.len() });
        if failures.len() >= plan.stop_after {
            break;
        }
    }
    let hash = hash.finalize();
    Summary {
        seeds: done,
        steps,
        transcript_sha256: hash.iter().map(|byte| format!("{byte:02x}")).collect(),
        planted: Vec::new(),
        simulated_ms,
        not_reached: coverage.missing(),
        coverage,
        failures,
    }
}

/// Runs one seed. A calm one runs twice, with its restart and without, and the two are compared.
#[must_use]
pub fn run_seed(seed: u64) -> Outcome {
    let mut played = play(Story::of(seed, false));
    if played.story.calm && played.outcome.violation.is_none() {
        let undisturbed = play(Story::of(seed, true));
        played.outcome.steps += undisturbed.outcome.steps;
        played.outcome.violation = undisturbed.outcome.violation.or_else(|| {
            let slower = slower(&played.story, &played.calls, &undisturbed.calls)?;
            Some(Violation::new(Rule::Bullet(9), slower).to_string())
        });
        played.outcome.coverage.mark("compared with an undisturbed run");
    }
    played.outcome
}

struct Played {
    outcome: Outcome,
    story: Story,
    calls: BTreeMap<CallId, Call>,
}

fn play(story: Story) -> Played {
    let world = World::new(story.clone());
    let busy = people::arrive(&world);
    let mut observer = Observer::new(&world);
    let mut kill_rng = world.generator("kills by phase");
    let (mut steps, mut phases, mut kill_in) = (0, Phases::default(), None);
    let settled_by = story.chaos_ms + SETTLES_WITHIN_MS;
    let mut calmed = false;
    let violation = loop {
        world.next_step();
        let stepped = world.executor.step();
        steps += 1;
        if let Err(violation) = observer.look(&world) {
            break Some(violation);
        }
        if phases.moved_on(&observer) && world.is_chaos() {
            let kill = kill_rng.u32(..1_000) < story.faults.kill_per_phase;
            kill_in = kill.then(|| kill_rng.u64(1..KILLED_WITHIN)).or(kill_in);
        }
        kill_in = match kill_in {
            Some(0) => {
                people::kill(&world, "is killed at an await");
                None
            }
            left => left.map(|left: u64| left - 1),
        };
        if stepped == Stepped::Polled && steps < MAX_STEPS {
            continue;
        }
        let now_ms = world.executor.now_ms();
        if !calmed && now_ms >= story.chaos_ms {
            calmed = true;
            world.calm_down();
        }
        let left =
            if calmed && !busy.any() { unsettled(&observer) } else { Some("people are busy".to_owned()) };
        let Some(left) = left else { break observer.at_the_end() };
        if stepped == Stepped::Idle || now_ms >= settled_by || steps >= MAX_STEPS {
            break Some(Violation::new(Rule::Settles, left));
        }
    };
    let timeline = world.timeline();
    let simulated_ms = world.executor.now_ms();
    world.close();
    let outcome = Outcome {
        seed: story.seed,
        steps,
        simulated_ms,
        timeline,
        violation: violation.map(|violation| violation.to_string()),
        coverage: observer.coverage,
    };
    Played { outcome, story, calls: observer.truth.calls }
}

/// The phases of all operations, as last seen.
#[derive(Default)]
struct Phases {
    version: u64,
    last: BTreeMap<String, Phase>,
}

impl Phases {
    /// Whether any operation is in another phase than when this was last asked.
    fn moved_on(&mut self, observer: &Observer) -> bool {
        if std::mem::replace(&mut self.version, observer.durable.version()) == observer.durable.version() {
            return false;
        }
        let mut moved = false;
        for operation in observer.durable.operations.values() {
            let before = self.last.insert(operation.id.to_string(), operation.phase);
            moved |= before != Some(operation.phase);
        }
        moved
    }
}

/// What has not come to its end yet.
fn unsettled(observer: &Observer) -> Option<String> {
    let (truth, durable) = (&observer.truth, &observer.durable);
    let waits = |(id, call): (&CallId, &Call)| {
        (call.outcome.is_none() && !call.given_up).then(|| format!("{id} of {} has no answer", call.session))
    };
    let runs = |operation: &tidegate_governor::Operation| {
        let ended = operation.phase.is_end() && !operation.is_to_reopen();
        (!ended).then(|| format!("{} is still {}", operation.id, operation.phase))
    };
    let closed = |(name, component): (&tidegate_core::ComponentName, &crate::observe::ComponentTruth)| {
        component.closed_in.map(|_| format!("the gate of {name} is still closed"))
    };
    let daemon = (!truth.daemon).then(|| "there is no daemon".to_owned());
    daemon
        .or_else(|| truth.calls.iter().find_map(waits))
        .or_else(|| durable.operations.values().find_map(runs))
        .or_else(|| truth.components.iter().find_map(closed))
}

impl Observer {
    /// What must be true of a world that has settled.
    fn at_the_end(&mut self) -> Option<Violation> {
        for (session, checkpoint) in &self.durable.checkpoints {
            for pending in &checkpoint.pending {
                let waits_for = match &pending.action {
                    NextAction::WaitForRestart { operation: Some(operation), .. }
                    | NextAction::RequestApproval { operation } => operation,
                    _ => continue,
                };
                let over = self.durable.operations.get(waits_for).is_none_or(|o| o.phase.is_end());
                if over && !self.truth.unrecorded.contains(session) {
                    let action = pending.action.kind();
                    let what = format!("{session} is told {action} for {waits_for}, which is over");
                    return Some(Violation::new(Rule::Bullet(7), what));
                }
            }
        }
        None
    }
}

/// A call outside the restart's scope that took longer than it does without the restart.
fn slower(story: &Story, with: &BTreeMap<CallId, Call>, without: &BTreeMap<CallId, Call>) -> Option<String> {
    let restarted = &story.components[0].name;
    let outside = with.iter().filter(|(_, call)| call.component != *restarted);
    outside.into_iter().find_map(|(id, call)| {
        let (took, takes) = (call.latency_ms?, without.get(id)?.latency_ms?);
        (took * 100 > takes * MOST_PERCENT).then(|| {
            format!(
                "{id} on {} took {took} ms, and {takes} ms without the restart of {restarted}",
                call.component
            )
        })
    })
}
