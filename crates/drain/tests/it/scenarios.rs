//! Runs the scenario files against the real shell; the transcripts are the snapshots.

use crate::world::{World, begin, poll_once, wait, work};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::pin::Pin;
use std::rc::Rc;
use tidegate_core::{Clock, ComponentName};
use tidegate_drain::{DrainError, DrainRecord, Drained, Holder, Permit, Recovery};
use tidegate_scenario::{Scenario, ScenarioError, Step, Timeline, scenarios_in};

#[test]
fn every_scenario_reads_as_its_timeline() {
    let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/scenarios/drain");
    let scenarios = scenarios_in(directory).unwrap();
    assert_eq!(scenarios.len(), 6, "a scenario was added or lost");
    for (name, scenario) in scenarios {
        let mut play = Play::new(&scenario);
        let transcript = play.run(&scenario).unwrap_or_else(|error| panic!("{name}: {error}"));
        insta::assert_snapshot!(name, transcript);
    }
}

type Running = Pin<Box<dyn Future<Output = Result<Drained, DrainError>>>>;

struct Play {
    world: World,
    timeline: Rc<RefCell<Timeline>>,
    /// Work in flight and who asked for it, by name.
    permits: BTreeMap<String, (String, Permit)>,
    /// Drains under way, by id; a crash ends them all.
    running: BTreeMap<String, Running>,
    records: BTreeMap<String, DrainRecord>,
}

impl Play {
    fn new(scenario: &Scenario) -> Self {
        Self {
            world: World::new(),
            timeline: Rc::new(RefCell::new(Timeline::of(scenario))),
            permits: BTreeMap::new(),
            running: BTreeMap::new(),
            records: BTreeMap::new(),
        }
    }

    fn run(&mut self, scenario: &Scenario) -> Result<String, ScenarioError> {
        for step in &scenario.steps {
            while let Some(alarm) = self.world.next_alarm(step.at_ms) {
                self.world.clock.advance_to(alarm);
                self.poll();
            }
            self.world.clock.advance_to(step.at_ms);
            let outcome = self.act(step)?;
            self.timeline.borrow_mut().step(step, outcome);
            self.poll();
        }
        Ok(self.timeline.borrow().to_string())
    }

    fn act(&mut self, step: &Step) -> Result<String, ScenarioError> {
        let permit = |play: &mut Self| {
            let name: String = step.arg(0)?;
            play.permits.remove(&name).map(|(_, it)| it).ok_or_else(|| step.error("no such work"))
        };
        Ok(match step.verb.as_str() {
            "call" => {
                let target: String = step.arg(0)?;
                let (component, tool) = target.split_once('/').ok_or_else(|| step.error("COMPONENT/TOOL"))?;
                let class = step.option("class")?.unwrap_or(tidegate_core::WorkClass::Mutating);
                let work = work(&step.actor, component, tool, class);
                match self.world.gate(component).admit(&work, &self.world.now()) {
                    Ok(permit) => {
                        let name = step.option("as")?.unwrap_or(target);
                        self.permits.insert(name, (step.actor.clone(), permit));
                        "admitted".to_owned()
                    }
                    Err(refusal) => format!("refused: {refusal}"),
                }
            }
            "answers" => {
                permit(self)?.finish();
                "done".to_owned()
            }
            "vanishes" => {
                for (_, permit) in self.permits.values_mut().filter(|(by, _)| *by == step.actor) {
                    permit.detach();
                }
                "nobody waits for its calls any more".to_owned()
            }
            "panics" => {
                drop(permit(self)?);
                "its permit is dropped".to_owned()
            }
            "dies" => {
                let gate = self.world.gate(&step.actor).clone();
                format!("{} abandoned calls are over", gate.settle_all_dead())
            }
            "drain" => self.drain(step)?,
            "reopen" => {
                let record =
                    self.records.get(&step.arg::<String>(0)?).ok_or_else(|| step.error("no drain"))?;
                match wait(self.world.drains.reopen(record, "restarted")) {
                    Ok(record) => format!("{} is open", names(&record.scope)),
                    Err(error) => format!("refused: {error}"),
                }
            }
            "crashes" => {
                self.running.clear();
                for (_, permit) in std::mem::take(&mut self.permits).into_values() {
                    permit.finish();
                }
                self.world.crash();
                "everything in memory is gone".to_owned()
            }
            "starts" => {
                let found = wait(self.world.drains.recover()).map_err(|e| step.error(e))?;
                for (record, recovery) in &found {
                    if *recovery == Recovery::Resume {
                        self.resume(record.clone());
                    }
                }
                let told = |(record, recovery): &(DrainRecord, Recovery)| match recovery {
                    Recovery::Resume => format!("{} goes on", record.id),
                    Recovery::Reopen => {
                        format!("{} reopened: {}", record.id, record.reason.as_deref().unwrap_or("?"))
                    }
                };
                if found.is_empty() {
                    "nothing to recover".to_owned()
                } else {
                    found.iter().map(told).collect::<Vec<_>>().join("; ")
                }
            }
            _ => return Err(step.unknown_verb()),
        })
    }

    fn drain(&mut self, step: &Step) -> Result<String, ScenarioError> {
        let id: String = step.arg(0)?;
        let scope: String = step.arg(1)?;
        let scope: Vec<&str> = scope.split(',').collect();
        let asked = begin(&id, &step.actor, &scope, step.millis("deadline")?);
        let (drains, progress) = (self.world.drains.clone(), self.progress(&id));
        self.running.insert(id, Box::pin(async move { drains.drain(&asked, progress).await }));
        Ok("asked".to_owned())
    }

    /// Goes on waiting for a drain found after a crash.
    fn resume(&mut self, record: DrainRecord) {
        let id = record.id.to_string();
        let asked = tidegate_drain::Begin {
            id: record.id,
            operation: record.operation,
            scope: record.scope,
            requested_by: record.requested_by,
            deadline: std::time::Duration::ZERO,
        };
        let (drains, progress) = (self.world.drains.clone(), self.progress(&id));
        self.running.insert(id, Box::pin(async move { drains.drain(&asked, progress).await }));
    }

    fn progress(&self, id: &str) -> impl FnMut(&[Holder]) + 'static {
        let (timeline, clock, id) = (self.timeline.clone(), self.world.clock.clone(), id.to_owned());
        move |holders| {
            let names: Vec<String> = holders.iter().map(ToString::to_string).collect();
            let at_ms = clock.now().boot_ms;
            timeline.borrow_mut().note(at_ms, format!("{id} waits for\n{}", names.join("\n")));
        }
    }

    fn poll(&mut self) {
        let mut ended = Vec::new();
        for (id, running) in &mut self.running {
            if let Some(outcome) = poll_once(running) {
                ended.push((id.clone(), outcome));
            }
        }
        for (id, outcome) in ended {
            self.running.remove(&id);
            let told = match outcome {
                Ok(Drained::Drained { record, read_only }) => {
                    self.records.insert(id.clone(), record.clone());
                    let left = match read_only.len() {
                        0 => String::new(),
                        n => format!(", {n} read-only left"),
                    };
                    format!("drained{left}; {} stays closed", names(&record.scope))
                }
                Ok(Drained::Refused(record)) => {
                    let holders: Vec<String> = record.holders.iter().map(ToString::to_string).collect();
                    format!("refused; {} is open\n{}", names(&record.scope), holders.join("\n"))
                }
                Ok(Drained::Already(record)) => {
                    format!("not begun: {} of {} is under way", record.id, record.requested_by)
                }
                Err(error) => format!("not begun: {error}"),
            };
            self.timeline.borrow_mut().note(self.world.now().boot_ms, format!("{id} {told}"));
        }
    }
}

fn names(scope: &[ComponentName]) -> String {
    scope.iter().map(ComponentName::as_str).collect::<Vec<_>>().join(", ")
}
