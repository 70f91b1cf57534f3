//! Runs the scenario files against the real shell; the transcripts are the snapshots.

use crate::fixture::{World, process, session, wait};
use std::collections::BTreeMap;
use tidegate_checkpoints::{
    Actions, Attach, CallFact, CheckpointError, Clear, Draft, Fact, NextAction, Resume, Subscription, Wanted,
};
use tidegate_core::{Generation, PrincipalName, SessionId, SessionName};
use tidegate_scenario::{Scenario, ScenarioError, Step, Timeline, scenarios_in};

#[test]
fn every_scenario_reads_as_its_timeline() {
    let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/scenarios/checkpoints");
    let scenarios = scenarios_in(directory).unwrap();
    assert_eq!(scenarios.len(), 6, "a scenario was added or lost");
    for (name, scenario) in scenarios {
        let transcript = Run::default().all(&scenario).unwrap_or_else(|error| panic!("{name}: {error}"));
        insta::assert_snapshot!(name, transcript);
    }
}

/// A world, how many connections each client has made, and what each session was last answered.
struct Run {
    world: World,
    streams: BTreeMap<String, u32>,
    answered: BTreeMap<SessionId, Resume>,
}

impl Default for Run {
    fn default() -> Self {
        Self { world: World::new(), streams: BTreeMap::new(), answered: BTreeMap::new() }
    }
}

impl Run {
    fn all(&mut self, scenario: &Scenario) -> Result<String, ScenarioError> {
        let mut timeline = Timeline::of(scenario);
        for step in &scenario.steps {
            self.world.clock.advance_to(step.at_ms);
            timeline.step(step, self.act(step)?);
        }
        Ok(timeline.to_string())
    }

    fn act(&mut self, step: &Step) -> Result<String, ScenarioError> {
        let sessions = self.world.sessions.clone();
        let named = || step.arg::<SessionName>(0).map(|name| session(name.as_str()));
        let record = |fact: Fact| Ok(said(wait(sessions.record(&named()?, &[fact]))));
        match step.verb.as_str() {
            "attach" => self.attach(step),
            "detach" => {
                let stream: String = step.arg(0)?;
                let all = wait(sessions.list()).unwrap();
                let found = all.iter().find(|c| c.streams.iter().any(|s| s.stream == stream)).unwrap();
                Ok(said(wait(sessions.detach(&found.session, Some(&stream)))))
            }
            "detach-all" => {
                for checkpoint in wait(sessions.list()).unwrap() {
                    wait(sessions.detach(&checkpoint.session, None)).unwrap();
                }
                Ok("durable".to_owned())
            }
            "dies" => {
                self.world.probe.dies(pid(step)?);
                Ok("dead".to_owned())
            }
            "power-cut" => {
                self.world.store.crash(|_| false);
                self.world.sessions = self.world.fresh_process();
                Ok("everything not synced is gone".to_owned())
            }
            "note" => Ok(said(wait(sessions.note(&named()?, &step.arg::<String>(1)?)))),
            "subscribe" => {
                record(Fact::Subscribed(Subscription { component: step.arg(1)?, uri: step.arg(2)? }))
            }
            "log-level" => record(Fact::LogLevel { component: step.arg(1)?, level: step.arg(2)? }),
            "lease" => record(Fact::LeaseHeld(step.arg(1)?)),
            "checkpoint" => {
                let next = wait(sessions.checkpoint(&[draft(step)?])).unwrap();
                Ok(rows(next.iter().map(|(session, action)| format!("{session}: {}", short(action)))))
            }
            "queue" | "over" => {
                let next = wait(sessions.change_actions(&changes(&self.world, step)?)).unwrap();
                Ok(rows(next.iter().map(|(session, action)| format!("{session}: {}", short(action)))))
            }
            "next" => Ok(short(&wait(sessions.resume(&named()?)).unwrap().next_action)),
            "resume" => {
                let answer = wait(sessions.resume(&named()?)).unwrap();
                let told = tell(&answer);
                self.answered.insert(named()?, answer);
                Ok(told)
            }
            "resume-other" => Ok(match wait(sessions.resume_other(&principal(step)?, &named()?)) {
                Ok(answer) => tell(&answer),
                Err(error) => format!("refused: {error}"),
            }),
            "told" => Ok(said(wait(sessions.told(&self.answered[&named()?])))),
            "end" => {
                let reason: String = step.option("reason")?.unwrap_or_default();
                let operator = step.option("operator")?.unwrap_or_default();
                Ok(match wait(sessions.end(&named()?, &principal(step)?, operator, &reason)) {
                    Ok(cut) => format!("ended, cut {cut:?}"),
                    Err(error) => format!("refused: {error}"),
                })
            }
            "list" => Ok(rows(wait(sessions.list()).unwrap().iter().map(|c| {
                let streams: Vec<_> = c.streams.iter().map(|s| s.stream.as_str()).collect();
                let ended = c.ended.as_ref().map(|e| format!(" ended by {}: {}", e.by, e.reason));
                format!("{} [{}]{}", c.session, streams.join(" "), ended.unwrap_or_default())
            }))),
            "steals" => {
                let checkpoint = wait(sessions.get(&named()?)).unwrap().unwrap();
                Ok(rows(checkpoint.steals.iter().map(|s| {
                    let from = s.from.as_ref().map_or("nobody".to_owned(), |p| format!("process {}", p.pid));
                    format!("{} by {} from {from}, cut {:?}", s.at, s.by, s.cut)
                })))
            }
            "json" => {
                let json = wait(sessions.resume(&named()?)).unwrap().to_json();
                Ok(format!("\n{}", serde_json::to_string_pretty(&json).unwrap()))
            }
            _ => Err(step.unknown_verb()),
        }
    }

    fn attach(&mut self, step: &Step) -> Result<String, ScenarioError> {
        let number = self.streams.entry(step.actor.clone()).or_default();
        *number += 1;
        let caller = principal(step)?;
        let wanted = Wanted {
            owner: step.option("owner")?.unwrap_or_else(|| caller.clone()),
            caller,
            operator: step.option("operator")?.unwrap_or_default(),
            name: step.args.first().map(|name| name.parse().map_err(|e| step.error(e))).transpose()?,
            client: Some(process(pid(step)?)),
            steal: step.option("steal")?.unwrap_or_default(),
        };
        let attach = Attach::new(wanted, format!("{}-{number}", step.actor), step.option("component")?);
        Ok(match wait(self.world.sessions.attach(&attach)) {
            Err(error) => format!("refused: {error}"),
            Ok(attached) => {
                let notice = attached.resolution.notice().map(|notice| format!("\n{notice}"));
                let cut =
                    Some(attached.cut).filter(|cut| !cut.is_empty()).map(|cut| format!("\ncut {cut:?}"));
                format!("{}{}{}", attached.session, notice.unwrap_or_default(), cut.unwrap_or_default())
            }
        })
    }
}

fn pid(step: &Step) -> Result<u32, ScenarioError> {
    step.actor.trim_start_matches('c').parse().map_err(|e| step.error(e))
}

/// Clients are `local` unless they say otherwise.
fn principal(step: &Step) -> Result<PrincipalName, ScenarioError> {
    let default = if step.actor == "ops" { "ops" } else { "local" };
    Ok(step.option("principal")?.unwrap_or_else(|| default.parse().unwrap()))
}

fn draft(step: &Step) -> Result<Draft, ScenarioError> {
    let mut draft = Draft::new(session(&step.arg::<String>(0)?));
    let component: tidegate_core::ComponentName = step.option("covers")?.unwrap();
    let generation = Generation(step.option("generation")?.unwrap_or_default());
    draft.generations.insert(component.clone(), generation);
    draft.covers.insert(component.clone());
    let call: String = step.option("call")?.unwrap();
    let [tool, class, state] = call.split(':').collect::<Vec<_>>()[..] else {
        return Err(step.error("a call is TOOL:CLASS:STATE"));
    };
    draft.calls.push(CallFact {
        id: "7".to_owned(),
        component,
        tool: tool.to_owned(),
        class: class.parse().map_err(|e| step.error(e))?,
        state: serde_json::from_value(state.into()).map_err(|e| step.error(e))?,
    });
    Ok(draft)
}

fn changes(world: &World, step: &Step) -> Result<BTreeMap<SessionId, Actions>, ScenarioError> {
    if step.verb == "over" {
        let over = Actions::clear([Clear::Restart(step.arg(0)?)]);
        let all = wait(world.sessions.list()).unwrap();
        return Ok(all.into_iter().map(|c| (c.session, over.clone())).collect());
    }
    let mut actions = Actions::default();
    if let Some(component) = step.option("wait")? {
        let operation = step.option("operation")?;
        actions.add.push(NextAction::WaitForRestart { component, operation, retry_after_ms: 5_000 });
    }
    if let Some(component) = step.option("reset")? {
        actions.add.push(NextAction::StateReset { component });
    }
    Ok(step.arg::<String>(0)?.split(',').map(|name| (session(name), actions.clone())).collect())
}

fn short(action: &NextAction) -> String {
    match action {
        NextAction::VerifyThenRetry { component, tool, .. } | NextAction::RetryCall { component, tool } => {
            format!("{} {tool} on {component}", action.kind())
        }
        NextAction::WaitForRestart { component, .. } | NextAction::StateReset { component } => {
            format!("{} {component}", action.kind())
        }
        _ => action.kind().to_owned(),
    }
}

fn tell(answer: &Resume) -> String {
    let notes = answer.facts.notes.iter().map(|note| format!("note: {}", note.text));
    let calls = answer.facts.calls.iter().map(|c| format!("call {}: {} {:?}", c.id, c.tool, c.state));
    let next = [format!("next: {}", answer.next_action.prompt())];
    rows(notes.chain(calls).chain(next))
}

fn said(result: Result<(), CheckpointError>) -> String {
    result.map_or_else(|error| format!("refused: {error}"), |()| "durable".to_owned())
}

fn rows(rows: impl Iterator<Item = String>) -> String {
    rows.fold(String::new(), |all, row| all + "\n" + &row)
}
