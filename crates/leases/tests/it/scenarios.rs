//! Fake sessions contending for leases, driven by scenario files; each transcript is a story to review.
//!
//! A manager sweeps every second of the story unless it is frozen. Verbs: see `Story::outcome`.

use crate::world::{Client, World, event, key, session};
use pollster::block_on;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use tempfile::TempDir;
use tidegate_core::{Fence, Liveness, WorkClass};
use tidegate_leases::{
    Acquire, Acquired, Adopt, By, FenceGuard, Freshness, Granted, GuardError, Kept, LeaseEffect, LeaseError,
    LeaseKey, LeaseState, Release, Renew, SWEEP_EVERY, Settle,
};
use tidegate_scenario::{Scenario, ScenarioError, Step, Timeline, scenarios_in, seconds};

#[test]
fn the_stories_of_the_scenario_files() {
    let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/scenarios/leases");
    let scenarios = scenarios_in(directory).unwrap();
    assert!(scenarios.len() >= 6, "only {} scenarios in {directory}", scenarios.len());
    for (name, scenario) in scenarios {
        let timeline = Story::tell(&scenario).unwrap_or_else(|error| panic!("{name}.txt, {error}"));
        insta::assert_snapshot!(name, timeline);
    }
}

/// What a session believes to hold.
struct Belief {
    renewal: Renew,
    freshness: Freshness,
    ttl: Duration,
}

struct Story {
    world: World,
    clients: BTreeMap<String, Client>,
    beliefs: BTreeMap<(String, LeaseKey), Belief>,
    resources: TempDir,
    frozen: bool,
    timeline: Timeline,
}

impl Story {
    fn tell(scenario: &Scenario) -> Result<Timeline, ScenarioError> {
        let mut story = Self {
            world: World::new(),
            clients: BTreeMap::new(),
            beliefs: BTreeMap::new(),
            resources: tempfile::tempdir().unwrap(),
            frozen: false,
            timeline: Timeline::of(scenario),
        };
        for step in &scenario.steps {
            story.pass_time(step.at_ms);
            let outcome = story.outcome(step)?;
            story.timeline.step(step, outcome);
        }
        Ok(story.timeline)
    }

    fn pass_time(&mut self, until_ms: u64) {
        let every = u64::try_from(SWEEP_EVERY.as_millis()).unwrap();
        while !self.frozen && self.world.now().boot_ms + every <= until_ms {
            self.world.clock.advance_to(self.world.now().boot_ms + every);
            self.sweep();
        }
        self.world.clock.advance_to(until_ms);
    }

    fn sweep(&mut self) {
        let (_, effects) = block_on(self.world.leases.sweep()).unwrap();
        for effect in effects {
            self.timeline.note(self.world.now().boot_ms, format!("the manager notes: {}", told(&effect)));
        }
    }

    fn outcome(&mut self, step: &Step) -> Result<String, ScenarioError> {
        let actor = step.actor.as_str();
        match step.verb.as_str() {
            "is-remote" => {
                self.clients.insert(actor.to_owned(), self.world.remote(actor));
                Ok("there is no process to look at".to_owned())
            }
            "dies" => self.turns(actor, Liveness::Dead, "proved dead"),
            "hides" => self.turns(actor, Liveness::Unknown, "cannot tell"),
            "comes-back" => {
                let client = self.world.client(actor);
                self.clients.insert(actor.to_owned(), client.clone());
                let process = client.owner.process.clone();
                self.world
                    .people
                    .session(&client.owner.session, |s| (s.attached, s.process) = (true, process));
                Ok("attached with a new process".to_owned())
            }
            "has-unsettled-calls" => {
                let unsettled = step.arg::<bool>(0)?;
                self.world.people.session(&session(actor), |s| s.unsettled_calls = unsettled);
                Ok("noted".to_owned())
            }
            "holds-up" => {
                for name in &step.args {
                    self.world.people.session(&session(name), |s| s.held_up = true);
                }
                Ok("their time stands still".to_owned())
            }
            "acquire" => self.acquire(step),
            "renew" => self.renew(step),
            "release" => self.release(step),
            "writes" => self.writes(step),
            "works" => {
                let renewed = block_on(self.world.leases.touch(&session(actor))).unwrap();
                Ok(if renewed.is_empty() {
                    "nothing was due".to_owned()
                } else {
                    format!("renewed {renewed:?}")
                })
            }
            "reattach" => {
                let owner = self.client(actor).owner;
                let keys = block_on(self.world.leases.reattach(&owner)).unwrap();
                let rows = keys.iter().map(|key| format!("\n{key} under {}", self.believes(actor, key)));
                Ok(rows.collect())
            }
            "adopt" => self.adopt(step),
            "settle" => self.settle(step),
            "history" => {
                let key = step.arg(0)?;
                let lease = self.lease(&key);
                Ok(lease.history.iter().map(|entry| format!("\n{}", event(entry))).collect())
            }
            "freezes" => {
                self.frozen = true;
                Ok("sweeps no more".to_owned())
            }
            "thaws" => {
                self.frozen = false;
                self.sweep();
                Ok("sweeps again".to_owned())
            }
            "jumps" => {
                let back = step.option::<bool>("back")?.unwrap_or(false);
                let by = i64::try_from(step.millis("by")?).unwrap();
                self.world.clock.jump_wall(if back { -by } else { by });
                Ok(format!("it is {}", self.world.now().wall))
            }
            _ => Err(step.unknown_verb()),
        }
    }

    fn acquire(&mut self, step: &Step) -> Result<String, ScenarioError> {
        let owner = self.client(&step.actor).owner;
        let class = step.option("class")?.unwrap_or(WorkClass::Mutating);
        let base = self.world.request(&Client { owner }, class);
        let request = Acquire {
            key: step.arg(0)?,
            ttl: Duration::from_millis(step.option_millis("ttl")?.unwrap_or(30_000)),
            max_ttl: step.option_millis("max_ttl")?.map(Duration::from_millis),
            ..base
        };
        Ok(match block_on(self.world.leases.acquire(request)) {
            Ok(acquired) => {
                self.believes(&step.actor, &acquired.key);
                got(&acquired)
            }
            Err(error) => self.refused(&error),
        })
    }

    fn renew(&mut self, step: &Step) -> Result<String, ScenarioError> {
        let sent = self.world.now();
        let belief = self.belief(step)?;
        let request = belief.renewal.clone();
        Ok(match block_on(self.world.leases.renew(&request)) {
            Ok(until) => {
                let belief = self.belief(step)?;
                belief.freshness.renewed(&sent, belief.ttl);
                format!("until {}", seconds(until.at_ms))
            }
            Err(error) => {
                if error.is_lost() {
                    self.belief(step)?.freshness.lost();
                }
                self.refused(&error)
            }
        })
    }

    fn release(&mut self, step: &Step) -> Result<String, ScenarioError> {
        let belief = self.belief(step)?;
        belief.freshness.lost();
        let Renew { key, owner, fence } = belief.renewal.clone();
        let request = Release { key, by: By::Holder(owner.session), fence };
        let result = block_on(self.world.leases.release(&request));
        Ok(result.map_or_else(|error| self.refused(&error), |_| "free".to_owned()))
    }

    /// A write to the resource: a careful holder asks its freshness first, a careless one leaves it to the guard.
    fn writes(&mut self, step: &Step) -> Result<String, ScenarioError> {
        let careless = step.option::<bool>("careless")?.unwrap_or(false);
        let now = self.world.now();
        let belief = self.belief(step)?;
        let fence = belief.renewal.fence;
        if !careless && !belief.freshness.is_fresh(&now) {
            return Ok(format!("holds back, {fence} is not fresh"));
        }
        let file = belief.renewal.key.as_str().replace('/', "-");
        match FenceGuard::beside(self.resources.path().join(file)).enter(fence) {
            Ok(entered) => Ok(format!("written under {}", entered.fence())),
            Err(GuardError::Stale { fence, highest, .. }) => {
                Ok(format!("the resource refuses {fence}, it has seen {highest}"))
            }
            Err(error) => Err(step.error(error)),
        }
    }

    fn adopt(&mut self, step: &Step) -> Result<String, ScenarioError> {
        let key: LeaseKey = step.arg(0)?;
        let to = step.option::<String>("to")?.ok_or_else(|| step.error("to=… is missing"))?;
        let owner = self.client(&to).owner;
        let adopt = Adopt {
            fence: self.lease(&key).fence,
            by: step.actor.parse().map_err(|e| step.error(e))?,
            why: step.option("why")?.unwrap_or_default(),
            nonce: format!("line-{}", step.line),
            to: owner,
            max_ttl: None,
            key,
        };
        Ok(match block_on(self.world.leases.adopt(&adopt)) {
            Ok((_, effects)) => {
                let fence = self.believes(&to, &adopt.key);
                let told = effects.iter().map(told).collect::<Vec<_>>().join(", ");
                format!("{to} has it under {fence}; {told}")
            }
            Err(error) => self.refused(&error),
        })
    }

    fn settle(&mut self, step: &Step) -> Result<String, ScenarioError> {
        let sessions: BTreeSet<_> = step.args.iter().map(|name| session(name)).collect();
        let held = Duration::from_millis(step.millis("held")?);
        let settle = Settle { restart: format!("line-{}", step.line), sessions, held };
        let (outcomes, effects) = block_on(self.world.leases.settle(&settle)).unwrap();
        let mut rows = String::new();
        for outcome in outcomes {
            let lease = self.lease(&outcome.key);
            let until = if lease.state == LeaseState::Held {
                format!(" until {}", seconds(lease.deadline.at_ms))
            } else {
                String::new()
            };
            let what = serde_json::to_value(outcome.outcome).unwrap();
            rows += &format!(
                "\n{} of {}: {} {}{until}",
                outcome.key,
                outcome.session.name,
                what.as_str().unwrap(),
                lease.fence
            );
        }
        for name in &step.args {
            self.world.people.session(&session(name), |s| s.held_up = false);
        }
        for effect in &effects {
            rows += &format!("\n{}", told(effect));
        }
        Ok(rows)
    }

    fn turns(&mut self, actor: &str, liveness: Liveness, outcome: &str) -> Result<String, ScenarioError> {
        let client = self.client(actor);
        self.world.people.is_now(client.owner.process.as_ref().unwrap(), liveness);
        self.world.people.session(&client.owner.session, |s| (s.attached, s.process) = (false, None));
        Ok(outcome.to_owned())
    }

    fn client(&mut self, name: &str) -> Client {
        let world = &self.world;
        self.clients.entry(name.to_owned()).or_insert_with(|| world.client(name)).clone()
    }

    fn belief(&mut self, step: &Step) -> Result<&mut Belief, ScenarioError> {
        let believer = (step.actor.clone(), step.arg(0)?);
        self.beliefs.get_mut(&believer).ok_or_else(|| step.error("the actor never got that lease"))
    }

    /// The actor learns that it has the lease, just now.
    fn believes(&mut self, actor: &str, key: &LeaseKey) -> Fence {
        let lease = self.lease(key);
        let freshness = Freshness::new(lease.fence, &self.world.now(), lease.ttl);
        let renewal = Renew { key: key.clone(), owner: lease.owner, fence: lease.fence };
        self.beliefs.insert((actor.to_owned(), key.clone()), Belief { renewal, freshness, ttl: lease.ttl });
        lease.fence
    }

    fn lease(&self, name: &LeaseKey) -> tidegate_leases::Lease {
        block_on(self.world.leases.get(&key(name.as_str()))).unwrap().unwrap()
    }

    fn refused(&self, error: &LeaseError) -> String {
        match error {
            LeaseError::Held { by, free_in, kept: Kept::Unexpired, .. } => {
                format!("held by {} until {}", by.name, seconds(self.world.now().deadline(*free_in).at_ms))
            }
            LeaseError::Held { by, kept, .. } => format!("held by {}: {kept}", by.name),
            other => format!("refused: {other}"),
        }
    }
}

fn got(acquired: &Acquired) -> String {
    let until = seconds(acquired.expires.at_ms);
    let how = match &acquired.how {
        Granted::Fresh => "",
        Granted::Already { .. } => ", as before",
        Granted::Adopted => ", its own before",
        Granted::RunOut { .. } => ", whose time had run out",
        Granted::HolderDead { .. } => ", whose holder is proved dead",
    };
    let lost = acquired.effects.iter().map(|effect| format!("; {}", told(effect))).collect::<String>();
    format!("granted {} until {until}{how}{lost}", acquired.fence)
}

fn told(effect: &LeaseEffect) -> String {
    match effect {
        LeaseEffect::Orphaned { key, session, fence, why } => {
            format!("{key} of {} is orphaned ({fence}): {why}", session.name)
        }
        LeaseEffect::Lost { key, session, fence } => format!("{} has lost {key} ({fence})", session.name),
        other => format!("{other:?}"),
    }
}
