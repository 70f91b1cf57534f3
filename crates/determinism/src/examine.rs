//! What one executor shows: controls and subject in every condition and part, each run compared with the first.
//!
//! Must never pool conditions or parts, and never go on behind a failure.

use std::collections::{BTreeMap, BTreeSet};

use crate::cause;
use crate::clock::{Progress, now};
use crate::compare::Trace;
use crate::controls;
use crate::error::RunError;
use crate::executor::{Executor, Job, Levers, Part, Program, Run, Spent, Task};
use crate::load::Load;
use crate::network;
use crate::normalise::normalise;
use crate::plan::{Condition, MIN_RUNS, Plan};
use crate::record::{Cell, Context, ControlResult, Divergence, Reason, RunCost, SeedProbe};
use crate::report;
use crate::selftest;
use crate::verdict::{self, Failure};

/// Divergences in the record: one per condition, part, stream and cause, so that more than this is noise. The verdict
/// counts all of them.
const MAX_DIVERGENCES: usize = 100;
/// Records shown before a divergence.
const CONTEXT: usize = 5;
/// Characters of a record that are shown.
const MAX_SHOWN: usize = 400;
/// What a machine did, beside what the subject wrote.
pub(crate) const MACHINE: &str = "machine/";

/// What one executor has shown so far.
#[derive(Debug, Default)]
pub(crate) struct Examination {
    pub(crate) cells: Vec<Cell>,
    /// The reference run of each condition and part that had one.
    references: Vec<(Condition, Part, Trace)>,
    pub(crate) controls: Vec<ControlResult>,
    pub(crate) divergences: Vec<Divergence>,
    pub(crate) failure: Option<Failure>,
    pub(crate) seed_probe: Option<SeedProbe>,
    /// Records by their channel.
    pub(crate) records: BTreeMap<&'static str, u64>,
    pub(crate) address_hits: u64,
    /// Whether a machine's trace, kernel log and files were compared too.
    pub(crate) machine_seen: bool,
    /// How the subject ended in its first run.
    pub(crate) exit: Option<String>,
    spent: BTreeMap<Part, Vec<Spent>>,
}

/// Runs everything that a plan asks of an executor.
pub(crate) fn examine(
    plan: &Plan,
    executor: &mut dyn Executor,
    progress: &mut Progress<'_>,
) -> Result<Examination, RunError> {
    let mut seen =
        Examination { controls: selftest::run(selftest::first_difference), ..Examination::default() };
    let parts = plan.parts_of(executor);
    let runs = plan.runs.saturating_mul(u32::try_from(plan.conditions.len() * parts.len()).unwrap_or(1));
    progress.expect(runs);
    for condition in &plan.conditions {
        if seen.failure.is_some() {
            break;
        }
        let load = match condition {
            Condition::Idle => None,
            Condition::Loaded => Some(Load::start(&plan.companion, plan.hogs)?),
        };
        let subject =
            parts.iter().try_for_each(|part| seen.part(plan, *condition, *part, executor, progress));
        let loaded = load.map_or(Ok(()), Load::finish);
        seen.failure = subject.and(loaded).err();
    }
    seen.compare_conditions();
    Ok(seen)
}

impl Examination {
    /// Nothing was seen, for a reason.
    pub(crate) fn failed(failure: Failure) -> Self {
        Self { failure: Some(failure), ..Self::default() }
    }

    /// Records that were compared so far.
    pub(crate) fn total(&self) -> u64 {
        self.records.values().sum()
    }

    /// What a run took, by part; the ratio is for who knows the native one.
    pub(crate) fn cost_of_runs(&self) -> Vec<RunCost> {
        self.spent.iter().map(|(part, spent)| report::cost_of_runs(part.name(), spent)).collect()
    }

    /// Controls and all runs of the subject in one condition and part, and once the probe with another seed.
    fn part(
        &mut self,
        plan: &Plan,
        condition: Condition,
        part: Part,
        executor: &mut dyn Executor,
        progress: &mut Progress<'_>,
    ) -> Result<(), Failure> {
        self.controls.extend(controls::run_all(executor, condition, part, plan.seed, progress));
        if let Some(control) = self.controls.iter().find(|control| !control.passed) {
            // Nothing that follows would count; a machine's runs are too dear for nothing.
            let detail = format!("control `{}`: observed {}", control.name, control.observed);
            return Err(Failure { reason: Reason::ControlFailed, detail });
        }
        let name = format!("{condition}, {}", part.name());
        progress.step(format!("{name}: run 1 of {}", plan.runs));
        let before = self.total();
        let reference = self.once(plan, part, plan.seed, executor, progress)?;
        if self.total() == before {
            let detail = format!("the first run in the condition {condition} wrote nothing");
            return Err(Failure { reason: Reason::NoRecords, detail });
        }
        let mut outcomes = BTreeSet::from([reference.fingerprint()]);
        let (mut ended, mut equal) = (1, 0);
        let mut failure = None;
        let began = now();
        let share = plan.share_of_budget(executor);
        for run in 1..plan.runs {
            if run >= MIN_RUNS && share.is_some_and(|share| now().duration_since(began) >= share) {
                break;
            }
            progress.step(format!("{name}: run {} of {}", run + 1, plan.runs));
            match self.once(plan, part, plan.seed, executor, progress) {
                Ok(trace) => {
                    ended += 1;
                    outcomes.insert(trace.fingerprint());
                    equal += u32::from(self.compare(&condition.to_string(), part, run, &reference, &trace));
                }
                Err(reason) => {
                    failure = Some(reason);
                    break;
                }
            }
        }
        let distinct = u32::try_from(outcomes.len()).unwrap_or(u32::MAX);
        let all_equal = failure.is_none() && distinct == 1;
        self.cells.push(verdict::cell(condition, part.name(), plan.seed, ended, equal, distinct));
        if all_equal && self.seed_probe.is_none() {
            let seed = plan.seed.wrapping_add(1);
            progress.step(format!("{name}: one run from seed {seed}"));
            let probe = self.once(plan, part, seed, executor, progress)?;
            self.seed_probe = Some(SeedProbe { seed, differs: differ_in_output(&reference, &probe) });
        }
        self.references.push((condition, part, reference));
        failure.map_or(Ok(()), Err)
    }

    /// One run, counted and ready to be compared.
    fn once(
        &mut self,
        plan: &Plan,
        part: Part,
        seed: u64,
        executor: &mut dyn Executor,
        progress: &mut Progress<'_>,
    ) -> Result<Trace, Failure> {
        let run = run_subject(plan, part, seed, &Levers::default(), executor, progress)?;
        progress.done();
        self.spent.entry(part).or_default().push(run.spent);
        let recording = run.recordings.first();
        if let Some(said) = recording.filter(|_| !executor.has_network()).and_then(network::missed) {
            let detail =
                format!("it failed where there is no network, and said: {}", shown(said.as_bytes(), 0));
            return Err(Failure { reason: Reason::NetworkRequired, detail });
        }
        let written = recording.map_or([("stdout", 0), ("stderr", 0)], |recording| recording.written());
        for (channel, records) in written {
            *self.records.entry(channel).or_default() += records;
        }
        if self.exit.is_none() {
            self.exit = recording.map(|recording| recording.exit.clone());
        }
        if let Some(machine) = &run.machine {
            if machine.trace.is_empty() || machine.kernel_log.is_empty() {
                let detail = "the machine left no trace, or no kernel log".to_owned();
                return Err(Failure { reason: Reason::NoRecords, detail });
            }
            self.machine_seen = true;
            for (channel, records) in [
                ("trace", &machine.trace),
                ("schedule", &machine.schedule),
                ("kernel log", &machine.kernel_log),
                ("files", &machine.changed_files),
            ] {
                *self.records.entry(channel).or_default() += records.len() as u64;
            }
        }
        let (trace, hits) = trace_of(run);
        self.address_hits += hits;
        Ok(trace)
    }

    /// Notes where two runs differ; true when they don't.
    fn compare(&mut self, condition: &str, part: Part, run: u32, reference: &Trace, other: &Trace) -> bool {
        let differences = reference.differences(other);
        let condition =
            if part == Part::Boot { condition.to_owned() } else { format!("{condition}, {}", part.name()) };
        for difference in &differences {
            let stream = difference.stream.as_str();
            let events = (reference.events(stream), other.events(stream));
            for (index, cause) in cause::explain(stream, events, difference.index, (reference.pid, other.pid))
            {
                let known = self.divergences.iter().any(|divergence| {
                    (&divergence.condition, divergence.stream.as_str(), divergence.cause)
                        == (&condition, stream, cause)
                });
                if known || self.divergences.len() == MAX_DIVERGENCES {
                    continue;
                }
                self.divergences.push(Divergence {
                    condition: condition.clone(),
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
        for (at, (left, part, reference)) in references.iter().enumerate() {
            let same_part = |(_, other, _): &&(Condition, Part, Trace)| other == part;
            if let Some((right, _, other)) = references[at + 1..].iter().find(same_part) {
                self.compare(&format!("{left}/{right}"), *part, 0, reference, other);
            }
        }
    }
}

/// One run of the subject.
pub(crate) fn run_subject(
    plan: &Plan,
    part: Part,
    seed: u64,
    levers: &Levers,
    executor: &mut dyn Executor,
    progress: &mut Progress<'_>,
) -> Result<Run, Failure> {
    let (program, arguments) = plan.argv.split_first().map_or(("", &[][..]), |(first, rest)| (first, rest));
    let task = Task { program: Program::Subject(program), arguments, script: plan.script.as_ref() };
    executor.run(&Job { tasks: &[task], seed, deadline: plan.deadline, part, levers }, progress)
}

/// The causal streams of a run, and how many addresses were rewritten in them. What a machine did stays as it is.
pub(crate) fn trace_of(run: Run) -> (Trace, u64) {
    let recording = run.recordings.into_iter().next().unwrap_or_default();
    let mut streams = recording.streams();
    let hits = normalise(&mut streams);
    if let Some(machine) = run.machine {
        for (name, events) in [
            ("trace", machine.trace),
            ("schedule", machine.schedule),
            ("kernel", machine.kernel_log),
            ("files", machine.changed_files),
        ] {
            streams.insert(format!("{MACHINE}{name}"), events);
        }
    }
    (Trace::new(recording.pid, streams), hits)
}

/// Whether two runs differ in what the subject wrote or how it ended; a machine's own records follow every seed.
fn differ_in_output(left: &Trace, right: &Trace) -> bool {
    left.differences(right).iter().any(|difference| !difference.stream.starts_with(MACHINE))
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
