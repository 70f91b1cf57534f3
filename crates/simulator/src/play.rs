//! Plays one world to its end and judges it after every step: the safety phase while things go wrong, then the liveness
//! phase in which everything has to come to an end, within a bound of time and of steps.

use crate::executor::Stepped;
use crate::observe::{Call, CallId, Coverage, Observer, Rule, Violation};
use crate::people;
use crate::story::Story;
use crate::world::World;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use tidegate_core::NextAction;
use tidegate_governor::{ComponentState, Phase};

/// Once nothing goes wrong any more, everything has settled within this much virtual time: the longest deadline of a
/// request (60 s), that of a drain and a store's repair before it, and as much again.
pub const SETTLES_WITHIN_MS: u64 = 120_000;
/// And within so many steps: ten times what the slowest of twenty thousand worlds took.
pub const SETTLES_WITHIN_STEPS: u64 = 100_000;
/// More steps than any world takes before that: a run that gets here goes round in circles.
pub const MAX_STEPS: u64 = 2_000_000;
/// After a new phase the daemon is killed within so many steps, where it is killed at all.
const KILLED_WITHIN: u64 = 60;
/// Outside a restart's scope no call takes longer than this many times what it takes without the restart, in percent.
const MOST_PERCENT: u64 = 150;

/// What one seed came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// The seed.
    pub seed: u64,
    /// How many steps it took.
    pub steps: u64,
    /// How many of them after nothing went wrong any more.
    pub settling_steps: u64,
    /// Virtual time, in milliseconds.
    pub simulated_ms: u64,
    /// Everything that happened, a line each.
    pub timeline: String,
    /// The rule that was broken.
    pub broken: Option<String>,
    /// How it was broken: the evidence.
    pub evidence: String,
    /// What was reached.
    pub coverage: Coverage,
}

impl Outcome {
    /// What was broken, and the evidence.
    #[must_use]
    pub fn violation(&self) -> Option<String> {
        self.broken.as_ref().map(|rule| format!("{rule}: {}", self.evidence))
    }

    fn breaks(&mut self, violation: &Violation) {
        self.broken = Some(violation.rule.to_string());
        self.evidence.clone_from(&violation.what);
    }
}

/// Runs one seed.
#[must_use]
pub fn run_seed(seed: u64) -> Outcome {
    run_story(&Story::of(seed))
}

/// Runs one world. A calm one runs twice, with its restart and without, and the two are compared.
#[must_use]
pub fn run_story(story: &Story) -> Outcome {
    let mut played = play(story.clone());
    if story.calm && played.outcome.broken.is_none() {
        let undisturbed = play(story.without_its_restart());
        played.outcome.steps += undisturbed.outcome.steps;
        played.outcome.broken = undisturbed.outcome.broken;
        played.outcome.evidence = undisturbed.outcome.evidence;
        if let Some(slower) = slower(story, &played.calls, &undisturbed.calls) {
            played.outcome.breaks(&Violation::new(Rule::Bullet(9), slower));
        }
        played.outcome.coverage.mark("compared with an undisturbed run");
    }
    played.outcome
}

struct Played {
    outcome: Outcome,
    calls: BTreeMap<CallId, Call>,
}

fn play(story: Story) -> Played {
    let world = World::new(story);
    let mut run = Run::new(&world);
    // A broken invariant of the crates themselves panics: that is a failure of this seed, and not of the run.
    let ended = catch_unwind(AssertUnwindSafe(|| run.run_out()));
    let violation = ended.unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("without a word");
        Some(Violation::new(Rule::Once, format!("something panics: {text}")))
    });
    let Run { observer, steps, calm_since, .. } = run;
    let mut outcome = Outcome {
        seed: world.story.seed,
        steps,
        settling_steps: calm_since.map_or(0, |since| steps - since),
        simulated_ms: world.executor.now_ms(),
        timeline: world.timeline(),
        broken: None,
        evidence: String::new(),
        coverage: observer.coverage,
    };
    if let Some(violation) = violation {
        outcome.breaks(&violation);
    }
    world.close();
    Played { outcome, calls: observer.truth.calls }
}

struct Run<'a> {
    world: &'a std::sync::Arc<World>,
    observer: Observer,
    steps: u64,
    /// The step in which things stopped going wrong.
    calm_since: Option<u64>,
    phases: Phases,
    kills: fastrand::Rng,
    /// The daemon is killed in so many steps.
    kill_in: Option<u64>,
}

impl<'a> Run<'a> {
    fn new(world: &'a std::sync::Arc<World>) -> Self {
        let (observer, kills) = (Observer::new(world), world.generator("kills by phase"));
        Self { world, observer, steps: 0, calm_since: None, phases: Phases::default(), kills, kill_in: None }
    }

    fn run_out(&mut self) -> Option<Violation> {
        let busy = people::arrive(self.world);
        let chaos_ms = self.world.story.chaos_ms;
        loop {
            self.world.next_step();
            let stepped = self.world.executor.step();
            self.steps += 1;
            if let Err(violation) = self.observer.look(self.world) {
                return Some(violation);
            }
            self.kill_by_phase();
            let settling = self.calm_since.map_or(0, |since| self.steps - since);
            let too_long = self.steps >= MAX_STEPS || settling >= SETTLES_WITHIN_STEPS;
            if stepped == Stepped::Polled && !too_long {
                continue;
            }
            let now_ms = self.world.executor.now_ms();
            if self.calm_since.is_none() && now_ms >= chaos_ms {
                self.calm_since = Some(self.steps);
                self.world.calm_down();
            }
            let left = match self.calm_since {
                Some(_) if !busy.any() => unsettled(&self.observer),
                _ => Some("people are busy".to_owned()),
            };
            let Some(left) = left else { return self.observer.at_the_end() };
            if stepped == Stepped::Idle || now_ms >= chaos_ms + SETTLES_WITHIN_MS || too_long {
                return Some(Violation::new(Rule::Settles, left));
            }
        }
    }

    /// Kills the daemon soon after an operation has come to a new phase, as often as the story has it.
    fn kill_by_phase(&mut self) {
        if self.phases.moved_on(&self.observer) && self.world.is_chaos() {
            let kill = self.kills.u32(..1_000) < self.world.story.faults.kill_per_phase;
            self.kill_in = kill.then(|| self.kills.u64(1..KILLED_WITHIN)).or(self.kill_in);
        }
        if self.kill_in == Some(0) {
            people::kill(self.world, "is killed at an await");
        }
        self.kill_in = self.kill_in.and_then(|left| left.checked_sub(1));
    }
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
        let serves = |name| self.truth.components.get(name).is_some_and(|it| it.serving);
        let mut components = self.durable.components.values();
        let gone = components.find(|it| it.state == ComponentState::Unavailable && serves(&it.name));
        if let Some(gone) = gone {
            let what = format!("{} serves, and is on record as unavailable", gone.name);
            return Some(Violation::new(Rule::Bullet(10), what));
        }
        let lasting = self.durable.checkpoints.iter().filter(|(_, checkpoint)| checkpoint.ended.is_none());
        for (session, checkpoint) in lasting {
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
        // Where the restart has changed what a session does, the same number is another call.
        let same = without.get(id).filter(|it| it.tool == call.tool && it.component == call.component)?;
        let (took, takes) = (call.latency_ms?, same.latency_ms?);
        (took * 100 > takes * MOST_PERCENT).then(|| {
            format!(
                "{id} on {} took {took} ms, and {takes} ms without the restart of {restarted}",
                call.component
            )
        })
    })
}
