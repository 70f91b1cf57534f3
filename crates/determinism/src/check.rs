//! The check itself: which executors run the subject, what each has shown, and one record of all of it.

use std::collections::BTreeMap;

use crate::ablate::ablate;
use crate::ablation::{self, Ablation};
use crate::clock::Progress;
use crate::error::RunError;
use crate::examine::{Examination, examine};
use crate::executor::antithesis::{self, HandOver};
use crate::executor::{Executor, Native, Sandbox, Vm};
use crate::go_no_go::{self, GoNoGo, ImageFacts, Question};
use crate::guard::Guard;
use crate::normalise;
use crate::plan::{ExecutorKind, Plan, millis};
use crate::record::{
    self, Channel, Cost, Level, Observation, Outcome, Qualifier, Reason, Record, Rule, ScriptSummary,
    VERSION, Workload,
};
use crate::report::{self, Meter};
use crate::subject;
use crate::verdict::{self, Facts, Failure};

/// A native run shorter than this is below what the system counts processor time in: no ratio is given.
const LEAST_CPU_S: f64 = 0.005;
/// Natively a subject runs beside another executor to show what that one has to settle: a rate, for which a bound of a
/// few per cent is not needed.
const MAX_RUNS_BESIDE: u32 = 20;

/// Runs the check that a plan describes.
///
/// Starts processes, waits for them and kills what is left of each; `progress` gets a line every two seconds. The
/// subject runs in process groups of its own and dies with this process even when that is killed. Beside any other
/// executor the subject runs natively too, in the same check.
///
/// # Errors
///
/// When the plan asks for something impossible or the companion can't be started. A subject that fails to start, to end
/// or to write anything, and an executor that isn't there, are a [`Record`] without result, not an error.
pub fn run(plan: &Plan, progress: &mut dyn FnMut(&str)) -> Result<Record, RunError> {
    plan.validate()?;
    let mut progress = Progress::new(progress);
    let guard = Guard::start(&plan.companion)?;
    let native = Native { companion: &plan.companion, guard: &guard, root: plan.root.as_ref() };
    let meter = Meter::start();

    let mut beside = Vec::new();
    if !matches!(plan.executor, ExecutorKind::Native | ExecutorKind::Antithesis) {
        let fewer = Plan { runs: plan.runs.min(MAX_RUNS_BESIDE), ..plan.clone() };
        beside.push(show(&fewer, &mut native.clone(), &mut progress)?);
    }
    let mut matrix = None;
    let mut main = match find(plan, native) {
        Ok(mut executor) => {
            let shown = show(plan, &mut *executor, &mut progress)?;
            if plan.ablate && shown.verdict.level >= Level::Diverged {
                matrix = ablate(plan, &mut *executor, &mut progress);
            }
            shown
        }
        Err(why) => not_run(plan, why),
    };
    drop(guard);

    let native = beside.first().or(Some(&main)).and_then(|outcome| outcome.cost.runs.first());
    let native_cpu_s = native.map_or(0.0, |run| run.cpu_s);
    for outcome in beside.iter_mut().chain([&mut main]) {
        relate(outcome, native_cpu_s);
    }
    if let Some(matrix) = &matrix {
        confirm(&mut main, &mut beside, matrix);
    }
    main.cost = Cost { runs: main.cost.runs, ..meter.stop() };
    Ok(record(plan, main, beside, matrix))
}

/// The executor of a plan, or what is missing and how to get it.
fn find<'a>(plan: &'a Plan, native: Native<'a>) -> Result<Box<dyn Executor + 'a>, String> {
    match plan.executor {
        ExecutorKind::Native => Ok(Box::new(native)),
        ExecutorKind::Sandbox => Sandbox::find(native).map(|sandbox| Box::new(sandbox) as Box<dyn Executor>),
        ExecutorKind::Vm => {
            match &plan.root {
                Some(root) => Vm::prepare(&plan.cache, root, native.guard)
                    .map(|vm| Box::new(vm) as Box<dyn Executor>)
                    .map_err(|failure| failure.detail),
                None => Err("the executor `vm` needs a root file system: give --image PATH or --rootfs DIR"
                    .to_owned()),
            }
        }
        ExecutorKind::Antithesis => Err(hand_over(plan)),
    }
}

/// Writes what whoever decides would hand over, and says where it is and what is wrong with it.
fn hand_over(plan: &Plan) -> String {
    let never = "it is only prepared for, never started";
    let Some(directory) = &plan.hand_over else { return never.to_owned() };
    let hand_over = HandOver {
        image: &plan.image,
        argv: &plan.argv,
        environment: &BTreeMap::new(),
        script: plan.script.as_ref(),
    };
    match antithesis::prepare(directory, &hand_over).and_then(|()| antithesis::lint(directory)) {
        Ok(findings) if findings.is_empty() => format!("{never}: prepared in {}", directory.display()),
        Ok(findings) => {
            let said: Vec<String> = findings.into_iter().map(|finding| finding.to_string()).collect();
            format!("{never}: prepared in {}; its lint says {}", directory.display(), said.join(", "))
        }
        Err(error) => format!("{never}, and failed to be prepared: {error}"),
    }
}

/// Everything that one executor shows of the subject.
fn show(plan: &Plan, executor: &mut dyn Executor, progress: &mut Progress<'_>) -> Result<Outcome, RunError> {
    let meter = Meter::start();
    let seen = examine(plan, executor, progress)?;
    let described = describe(plan, executor);
    Ok(outcome(plan, described, seen, meter.stop()))
}

fn describe(plan: &Plan, executor: &dyn Executor) -> record::Executor {
    record::Executor {
        name: executor.name().to_owned(),
        pins: executor.pins(),
        not_pinned: executor.not_pinned(),
        relaxations: subject::relaxations(&plan.argv, std::env::vars_os()),
        host: executor.host().unwrap_or_else(report::host),
    }
}

fn outcome(plan: &Plan, executor: record::Executor, seen: Examination, cost: Cost) -> Outcome {
    let verdict = verdict::decide(&Facts {
        cells: &seen.cells,
        conditions: &plan.conditions,
        controls: &seen.controls,
        failure: seen.failure.as_ref(),
        divergences: seen.divergences.len(),
        records: seen.total(),
        machine: seen.machine_seen,
        seed_probe: seen.seed_probe.as_ref(),
        normalised: !executor.relaxations.is_empty(),
    });
    let channels =
        seen.records.iter().map(|(name, records)| Channel { name: (*name).to_owned(), records: *records });
    let observation = Observation {
        records: seen.total(),
        channels: channels.collect(),
        rules: vec![Rule {
            name: normalise::RULE.to_owned(),
            description: normalise::RULE_DESCRIPTION.to_owned(),
            hits: seen.address_hits,
        }],
        exit: seen.exit.clone(),
        not_compared: report::not_compared(seen.machine_seen),
        seed_probe: seen.seed_probe.clone(),
    };
    let cost = Cost { runs: seen.cost_of_runs(), ..cost };
    Outcome {
        executor,
        observation,
        cells: seen.cells,
        controls: seen.controls,
        divergences: seen.divergences,
        verdict,
        cost,
    }
}

/// What stands for an executor that isn't there.
fn not_run(plan: &Plan, why: String) -> Outcome {
    let executor = record::Executor {
        name: plan.executor.name().to_owned(),
        pins: Vec::new(),
        not_pinned: Vec::new(),
        relaxations: Vec::new(),
        host: report::host(),
    };
    let failure = Failure { reason: Reason::ExecutorUnavailable, detail: why };
    outcome(plan, executor, Examination::failed(failure), Cost::default())
}

/// Sets the processor time of each run in relation to that of a native one.
fn relate(outcome: &mut Outcome, native_cpu_s: f64) {
    for run in &mut outcome.cost.runs {
        run.ratio_to_native = (native_cpu_s >= LEAST_CPU_S).then(|| report::tenths(run.cpu_s / native_cpu_s));
    }
}

/// What the matrix confirms, under any executor of the check.
fn confirm(main: &mut Outcome, beside: &mut [Outcome], matrix: &Ablation) {
    let mut any = false;
    for outcome in beside {
        if ablation::confirm(&mut outcome.divergences, matrix) {
            outcome.verdict.qualifiers.insert(Qualifier::CauseConfirmed);
            any = true;
        }
    }
    if ablation::confirm(&mut main.divergences, matrix) || any {
        main.verdict.qualifiers.insert(Qualifier::CauseConfirmed);
    }
}

fn record(plan: &Plan, main: Outcome, beside: Vec<Outcome>, ablation: Option<Ablation>) -> Record {
    let subject = subject::identify(plan, std::env::var_os("PATH").as_deref());
    let recommendation = verdict::recommend(&main.verdict, &main.cells, &main.executor.name);
    let decisions = decisions(plan, &main, &beside, &subject.digest);
    Record {
        version: VERSION,
        prerequisites: report::prerequisites(&subject, plan, &main),
        subject,
        executor: main.executor,
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
        observation: main.observation,
        cells: main.cells,
        controls: main.controls,
        divergences: main.divergences,
        verdict: main.verdict,
        recommendation,
        cost: main.cost,
        reproduce: plan.reproduce.clone(),
        beside,
        ablation,
        decisions,
    }
}

/// What was not started: this check's executor where it isn't there, and the commercial one in any case.
fn decisions(plan: &Plan, main: &Outcome, beside: &[Outcome], subject: &str) -> Vec<GoNoGo> {
    let paid = ExecutorKind::Antithesis;
    let mut outcomes = beside.iter().chain([main]);
    let needs_network = outcomes.any(|outcome| outcome.verdict.reason == Some(Reason::NetworkRequired));
    let facts = plan.image_facts.clone().map(|facts| ImageFacts { needs_network, ..facts });
    let question = Question {
        executor: paid.name(),
        subject: if facts.is_some() { &plan.image } else { subject },
        image: facts.as_ref().map_or(go_no_go::Image::NotOne, go_no_go::Image::Known),
        unavailable: None,
        paid: true,
        buys: "a search through many schedules and injected faults, on machines that are somebody else's",
        flake: None,
        on_record: &plan.on_record,
    };
    let mut decisions = vec![go_no_go::answer(&question)];
    if main.verdict.level == Level::NotRun && plan.executor != paid {
        decisions.push(go_no_go::answer(&Question {
            executor: &main.executor.name,
            image: go_no_go::Image::NotOne,
            unavailable: main.verdict.detail.as_deref(),
            paid: false,
            buys: "the level that this executor can show",
            ..question.clone()
        }));
    }
    decisions.extend(plan.wanted.iter().map(|name| {
        go_no_go::answer(&Question {
            executor: ExecutorKind::Vm.name(),
            subject: name,
            image: go_no_go::Image::Unavailable,
            paid: false,
            buys: "the answer for the image that was asked about, instead of one of the same make",
            ..question.clone()
        })
    }));
    decisions
}

#[cfg(test)]
mod tests;
