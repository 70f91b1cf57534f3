//! Runs the scenario files against the real shell; the transcripts are the snapshots.

use crate::fixture::{World, actor, wait};
use tidegate_incidents::{Incident, IncidentKind, Report, Severity, WhoIsNext, render_work_state};
use tidegate_scenario::{Scenario, ScenarioError, Step, Timeline, scenarios_in};

#[test]
fn every_scenario_reads_as_its_timeline() {
    let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/scenarios/incidents");
    let scenarios = scenarios_in(directory).unwrap();
    assert_eq!(scenarios.len(), 5, "a scenario was added or lost");
    for (name, scenario) in scenarios {
        let transcript = run(&scenario).unwrap_or_else(|error| panic!("{name}: {error}"));
        insta::assert_snapshot!(name, transcript);
    }
}

fn run(scenario: &Scenario) -> Result<String, ScenarioError> {
    let world = World::new();
    let mut timeline = Timeline::of(scenario);
    for step in &scenario.steps {
        world.clock.advance_to(step.at_ms);
        let outcome = act(&world, step)?;
        timeline.step(step, outcome);
    }
    Ok(timeline.to_string())
}

fn act(world: &World, step: &Step) -> Result<String, ScenarioError> {
    let incidents = &world.incidents;
    let by = actor(&step.actor);
    let note = step.option::<String>("note")?.unwrap_or_default();
    let told = |result: Result<Incident, _>| match result {
        Ok(incident) => incident.state.to_string(),
        Err(error) => format!("refused: {error}"),
    };
    Ok(match step.verb.as_str() {
        "report" => {
            let reported = wait(incidents.report(&report(step)?)).map_err(|e| step.error(e))?;
            let flapping = if reported.flapping { ", flapping" } else { "" };
            format!("{} {:?}, count {}{flapping}", reported.id, reported.outcome, reported.count)
        }
        "recovered" => {
            match wait(incidents.recovered(step.arg(0)?, &step.arg::<String>(1)?, "it runs again")) {
                Ok(Some(state)) => state.to_string(),
                Ok(None) => "nothing was reported".to_owned(),
                Err(error) => return Err(step.error(error)),
            }
        }
        "settle" => {
            let resolved = wait(incidents.settle()).map_err(|e| step.error(e))?;
            if resolved.is_empty() { "nothing to do".to_owned() } else { format!("resolved {resolved:?}") }
        }
        "ack" => told(wait(incidents.acknowledge(&step.arg(0)?, &by, &note))),
        "resolve" => told(wait(incidents.resolve(&step.arg(0)?, &by, &note))),
        "list" => rows(wait(incidents.list()).map_err(|e| step.error(e))?.iter().map(|i| {
            format!("{} {} {} {}: {}, count {}", i.id, i.state, i.severity, i.kind, i.title, i.count)
        })),
        "outbox" => rows(
            wait(incidents.outbox())
                .map_err(|e| step.error(e))?
                .iter()
                .map(|o| format!("{} {:?} at {}", o.delivery, o.step, o.at)),
        ),
        "raw" => format!(
            "{} mentions of a secret",
            ["hunter", "s3cr3t", "alice", "abc"]
                .map(|s| world.raw().matches(s).count())
                .iter()
                .sum::<usize>()
        ),
        "show" => format!("\n{}", render_work_state(&found(world, step)?)),
        "evidence" => {
            rows(found(world, step)?.evidence.iter().map(|(name, value)| format!("{name}: {value}")))
        }
        "history" => rows(
            found(world, step)?
                .history
                .iter()
                .map(|h| format!("{} {:?} by {} {}", h.at, h.step, h.by, h.note).trim_end().to_owned()),
        ),
        _ => return Err(step.unknown_verb()),
    })
}

fn found(world: &World, step: &Step) -> Result<Incident, ScenarioError> {
    wait(world.incidents.get(&step.arg(0)?)).map_err(|e| step.error(e))
}

fn rows(rows: impl Iterator<Item = String>) -> String {
    rows.fold(String::new(), |all, row| all + "\n" + &row)
}

/// Every option that is not a part of the report is evidence.
fn report(step: &Step) -> Result<Report, ScenarioError> {
    let kind: IncidentKind = step.arg(0)?;
    let severity = step.option("severity")?.unwrap_or(Severity::Info);
    let mut report = Report::new(
        kind,
        step.arg::<String>(1)?,
        severity,
        step.option::<String>("title")?.unwrap_or_default(),
    );
    report.who_is_next = step.option("next")?.unwrap_or(WhoIsNext::Operator);
    report.next_prompt = step.option("prompt")?;
    let parts = ["severity", "title", "next", "prompt"];
    let evidence = step.options.iter().filter(|(name, _)| !parts.contains(&name.as_str()));
    report.evidence.extend(evidence.cloned());
    Ok(report)
}
