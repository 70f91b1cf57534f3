//! The check itself: controls and subject in every condition, each run compared with the first, all of it decided on.

use std::collections::{BTreeMap, BTreeSet};

use crate::cause;
use crate::clock::Progress;
use crate::compare::Trace;
use crate::controls;
use crate::error::RunError;
use crate::executor::{self, Job, Levers, Native, Part, Program, Task};
use crate::guard::Guard;
use crate::load::Load;
use crate::normalise::{self, normalise};
use crate::plan::{Condition, Plan, millis};
use crate::record::{
    self, Cell, Channel, Context, ControlResult, Cost, Divergence, Observation, Reason, Record, Rule,
    ScriptSummary, SeedProbe, VERSION, Workload,
};
use crate::report;
use crate::selftest;
use crate::subject;
use crate::verdict::{self, Facts, Failure};

/// Divergences in the record: one per condition, stream and cause, so that more than this is noise. The verdict counts
/// all of them.
const MAX_DIVERGENCES: usize = 100;
/// Records shown before a divergence.
const CONTEXT: usize = 5;
/// Characters of a record that are shown.
const MAX_SHOWN: usize = 400;

/// Runs the check that a plan describes.
///
/// Starts processes, waits for them and kills what is left of each; `progress` gets a line every two seconds. The
/// subject runs in process groups of its own and dies with this process even when that is killed.
///
/// # Errors
///
/// When the plan asks for something impossible or the companion can't be started. A subject that fails to start, to end
/// or to write anything is a [`Record`] without result, not an error.
pub fn run(plan: &Plan, progress: &mut dyn FnMut(&str)) -> Result<Record, RunError> {
    plan.validate()?;
    let mut progress = Progress::new(progress);
    let guard = Guard::start(&plan.companion)?;
    let mut executor = Native { companion: &plan.companion, guard: &guard };
    let cpu_before = report::cpu_of_children();
    let mut seen = Seen { controls: selftest::run(selftest::first_difference), ..Seen::default() };
    for condition in &plan.conditions {
        if seen.failure.is_some() {
            break;
        }
        seen.condition(plan, *condition, &mut executor, &mut progress)?;
    }
    drop(guard);
    seen.compare_conditions();
    let cost = Cost {
        wall_s: report::seconds(progress.elapsed()),
        cpu_s: report::seconds(report::cpu_of_children().saturating_sub(cpu_before)),
        external_spend: 0,
    };
    Ok(seen.into_record(plan, cost))
}

/// What a check has seen so far.
#[derive(Debug, Default)]
struct Seen {
    cells: Vec<Cell>,
    /// The reference run of each condition that had one.
    references: Vec<(Condition, Trace)>,
    controls: Vec<ControlResult>,
    divergences: Vec<Divergence>,
    failure: Option<Failure>,
    seed_probe: Option<SeedProbe>,
    records: BTreeMap<&'static str, u64>,
    address_hits: u64,
}

impl Seen {
    fn condition(
        &mut self,
        plan: &Plan,
        condition: Condition,
        executor: &mut dyn executor::Executor,
        progress: &mut Progress<'_>,
    ) -> Result<(), RunError> {
        let load = match condition {
            Condition::Idle => None,
            Condition::Loaded => Some(Load::start(&plan.companion, plan.hogs)?),
        };
        self.controls.extend(controls::run_all(executor, condition, plan.seed, progress));
        let subject = self.subject(plan, condition, executor, progress);
        let loaded = load.map_or(Ok(()), Load::finish);
        self.failure = subject.and(loaded).err();
        Ok(())
    }

    /// All runs of the subject in one condition, and in the first one the probe with another seed.
    fn subject(
        &mut self,
        plan: &Plan,
        condition: Condition,
        executor: &mut dyn executor::Executor,
        progress: &mut Progress<'_>,
    ) -> Result<(), Failure> {
        progress.step(format!("{condition}: run 1 of {}", plan.runs));
        let before = self.total();
        let reference = self.once(plan, plan.seed, executor, progress)?;
        if self.total() == before {
            let detail = format!("the first run in the condition {condition} wrote nothing");
            return Err(Failure { reason: Reason::NoRecords, detail });
        }
        let mut outcomes = BTreeSet::from([reference.fingerprint()]);
        let (mut ended, mut equal) = (1, 0);
        let mut failure = None;
        for run in 1..plan.runs {
            progress.step(format!("{condition}: run {} of {}", run + 1, plan.runs));
            match self.once(plan, plan.seed, executor, progress) {
                Ok(trace) => {
                    ended += 1;
                    outcomes.insert(trace.fingerprint());
                    equal += u32::from(self.compare(&condition.to_string(), run, &reference, &trace));
                }
                Err(reason) => {
                    failure = Some(reason);
                    break;
                }
            }
        }
        let distinct = u32::try_from(outcomes.len()).unwrap_or(u32::MAX);
        let all_equal = failure.is_none() && distinct == 1;
        self.cells.push(verdict::cell(condition, plan.seed, ended, equal, distinct));
        if all_equal && self.references.is_empty() {
            let seed = plan.seed.wrapping_add(1);
            progress.step(format!("{condition}: one run from seed {seed}"));
            let probe = self.once(plan, seed, executor, progress)?;
            let differs = probe.fingerprint() != reference.fingerprint();
            self.seed_probe = Some(SeedProbe { seed, differs });
        }
        self.references.push((condition, reference));
        failure.map_or(Ok(()), Err)
    }

    /// One run, counted and ready to be compared.
    fn once(
        &mut self,
        plan: &Plan,
        seed: u64,
        executor: &mut dyn executor::Executor,
        progress: &mut Progress<'_>,
    ) -> Result<Trace, Failure> {
        let (program, arguments) =
            plan.argv.split_first().map_or(("", &[][..]), |(first, rest)| (first, rest));
        let task = Task { program: Program::Subject(program), arguments, script: plan.script.as_ref() };
        let job = Job {
            tasks: &[task],
            seed,
            deadline: plan.deadline,
            part: Part::Boot,
            levers: &Levers::default(),
        };
        let run = executor.run(&job, progress)?;
        let recording = run.recordings.into_iter().next().unwrap_or_default();
        for (channel, records) in recording.written() {
            *self.records.entry(channel).or_default() += records;
        }
        let mut streams = recording.streams();
        self.address_hits += normalise(&mut streams);
        Ok(Trace::new(recording.pid, streams))
    }

    /// Records that the subject wrote so far.
    fn total(&self) -> u64 {
        self.records.values().sum()
    }

    /// Notes where two runs differ; true when they don't.
    fn compare(&mut self, condition: &str, run: u32, reference: &Trace, other: &Trace) -> bool {
        let differences = reference.differences(other);
        for difference in &differences {
            let stream = difference.stream.as_str();
            let events = (reference.events(stream), other.events(stream));
            for (index, cause) in cause::explain(stream, events, difference.index, (reference.pid, other.pid))
            {
                let known = self.divergences.iter().any(|divergence| {
                    (divergence.condition.as_str(), divergence.stream.as_str(), divergence.cause)
                        == (condition, stream, cause)
                });
                if known || self.divergences.len() == MAX_DIVERGENCES {
                    continue;
                }
                self.divergences.push(Divergence {
                    condition: condition.to_owned(),
                    run,
                    stream: stream.to_owned(),
                    index,
                    context: context(events, index),
                    cause,
                    confidence: cause::confidence(cause),
                    levers: cause::levers(cause),
                });
            }
        }
        differences.is_empty()
    }

    /// Each condition may agree with itself and not with another one: the same seed, two outcomes. Where one already
    /// differs from itself this would say nothing new.
    fn compare_conditions(&mut self) {
        if !self.divergences.is_empty() {
            return;
        }
        let references = std::mem::take(&mut self.references);
        for pair in references.windows(2) {
            let ((left, reference), (right, other)) = (&pair[0], &pair[1]);
            self.compare(&format!("{left}/{right}"), 0, reference, other);
        }
    }

    fn into_record(self, plan: &Plan, cost: Cost) -> Record {
        let records = self.total();
        let relaxations = subject::relaxations(&plan.argv, std::env::vars_os());
        let verdict = verdict::decide(&Facts {
            cells: &self.cells,
            conditions: &plan.conditions,
            controls: &self.controls,
            failure: self.failure.as_ref(),
            divergences: self.divergences.len(),
            records,
            seed_probe: self.seed_probe.as_ref(),
            normalised: !relaxations.is_empty(),
        });
        let recommendation = verdict::recommend(&verdict, &self.cells);
        let subject = subject::identify(plan, std::env::var_os("PATH").as_deref());
        Record {
            version: VERSION,
            prerequisites: report::prerequisites(&subject),
            subject,
            executor: record::Executor {
                name: "native".to_owned(),
                pins: Vec::new(),
                relaxations,
                host: report::host(),
            },
            workload: Workload {
                runs: plan.runs,
                conditions: plan.conditions.clone(),
                hogs: plan.hogs,
                deadline_ms: millis(plan.deadline),
                script: plan.script.as_ref().map(|script| ScriptSummary {
                    path: script.path.display().to_string(),
                    sha256: script.sha256.clone(),
                    steps: script.steps.len(),
                }),
            },
            observation: Observation {
                records,
                channels: self
                    .records
                    .iter()
                    .map(|(name, records)| Channel { name: (*name).to_owned(), records: *records })
                    .collect(),
                rules: vec![Rule {
                    name: normalise::RULE.to_owned(),
                    description: normalise::RULE_DESCRIPTION.to_owned(),
                    hits: self.address_hits,
                }],
                not_compared: report::not_compared(),
                seed_probe: self.seed_probe,
            },
            cells: self.cells,
            controls: self.controls,
            divergences: self.divergences,
            verdict,
            recommendation,
            cost,
            reproduce: plan.reproduce.clone(),
        }
    }
}

fn context((left, right): (&[Vec<u8>], &[Vec<u8>]), index: usize) -> Context {
    let (expected, observed) = (left.get(index), right.get(index));
    let before = left[..index.min(left.len())].iter().rev().take(CONTEXT).rev();
    // Long records are cut around the place where they part.
    let parting = match (expected, observed) {
        (Some(a), Some(b)) => a.iter().zip(b).take_while(|(a, b)| a == b).count(),
        _ => 0,
    };
    Context {
        before: before.map(|event| shown(event, 0)).collect(),
        expected: expected.map(|event| shown(event, parting)),
        observed: observed.map(|event| shown(event, parting)),
    }
}

/// A record as text, without its line end, cut to a window around the place of interest.
fn shown(event: &[u8], place: usize) -> String {
    let start = place.saturating_sub(MAX_SHOWN / 2);
    let start = if event.len() <= MAX_SHOWN { 0 } else { start };
    let end = event.len().min(start + MAX_SHOWN);
    let (head, tail) = (if start > 0 { "…" } else { "" }, if end < event.len() { "…" } else { "" });
    let text = String::from_utf8_lossy(&event[start..end]);
    format!("{head}{}{tail}", text.strip_suffix('\n').unwrap_or(&text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_divergence_is_shown_with_five_records_before_it() {
        let events = |last: &str| -> Vec<Vec<u8>> {
            (0..8)
                .map(|number| format!("{number}\n").into_bytes())
                .chain([last.as_bytes().to_vec()])
                .collect()
        };
        let context = context((&events("a\n"), &events("b\n")), 8);
        assert_eq!(context.before, ["3", "4", "5", "6", "7"]);
        assert_eq!((context.expected.as_deref(), context.observed.as_deref()), (Some("a"), Some("b")));
    }

    #[test]
    fn a_long_record_is_cut_around_the_place_where_it_parts() {
        let long =
            |middle: &str| format!("{}{middle}{}\n", "x".repeat(1_000), "y".repeat(1_000)).into_bytes();
        let context = context((&[long("1")], &[long("2")]), 0);
        let expected = context.expected.unwrap();
        assert!(expected.contains("x1y") && context.observed.unwrap().contains("x2y"));
        assert_eq!(expected.chars().count(), MAX_SHOWN + 2);
    }

    #[test]
    fn a_stream_that_ended_has_no_record_there() {
        let context = context((&[b"a".to_vec()], &[]), 0);
        assert_eq!(
            (context.before.len(), context.expected.as_deref(), context.observed),
            (0, Some("a"), None)
        );
    }
}
