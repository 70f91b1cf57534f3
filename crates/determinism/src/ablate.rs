//! Running an ablation: everything pinned, then one factor changed at a time, then everything pinned again.
//!
//! The thin shell around `ablation`. Must never change two factors at once.

use crate::ablation::{Ablation, Runs, matrix};
use crate::clock::Progress;
use crate::compare::Trace;
use crate::examine::{run_subject, trace_of};
use crate::executor::{Executor, Levers, Run};
use crate::factor::Factor;
use crate::plan::{ExecutorKind, Plan};
use crate::verdict::Failure;

/// Another date than any executor starts with: the first second of 2001.
const OTHER_RTC_BASE: u64 = 978_307_200;
/// Sixteen nanoseconds for an instruction instead of one.
const OTHER_SHIFT: u8 = 4;
/// Half as much again as a machine has by default.
const OTHER_MEMORY_MIB: u32 = 960;
/// The same processor without two groups of instructions that libraries choose their code by.
const OTHER_CPU: &str = "max,-pku,-avx2,-bmi2";
/// Runs of each change where something is left free: a race between two agrees four times once in eight.
const REPEATS: usize = 4;
/// Processes that were started before.
const OTHER_PID_OFFSET: u32 = 7;
const OTHER_VARIABLE: (&str, &str) = ("TIDEGATE_ABLATION", "one variable more");

/// Moves every lever that an executor has; `None` where it has none or everything pinned has no result.
pub(crate) fn ablate(
    plan: &Plan,
    executor: &mut dyn Executor,
    progress: &mut Progress<'_>,
) -> Option<Ablation> {
    let levers = executor.levers();
    // A run that begins at the beginning repeats itself under every lever, and its records stand where a native run has
    // them. Another snapshot would be another machine in more than the one factor.
    let part = executor.parts().first().copied()?;
    if levers.is_empty() {
        return None;
    }
    // A machine repeats itself to the bit; what a sandbox leaves free must not be taken for what a factor moved.
    let repeats = if plan.executor == ExecutorKind::Vm { 1 } else { REPEATS };
    progress.expect(u32::try_from(levers.len() * repeats + repeats + 1).unwrap_or(u32::MAX));
    let mut once = |what: &str, seed, change: &Levers| -> Result<Trace, Failure> {
        progress.step(format!("ablation: {what}"));
        let run = run_subject(plan, part, seed, change, executor, progress)?;
        // Every record of a machine follows every factor: the matrix is about the subject's.
        let run = Run { machine: None, ..run };
        progress.done();
        Ok(trace_of(run).0)
    };
    let mut runs = Runs {
        executor: plan.executor.name(),
        part: part.name(),
        pinned: vec![once("everything pinned", plan.seed, &Levers::default()).ok()?],
        moved: Vec::new(),
    };
    for factor in Factor::ALL {
        let (change, seed, moved) = changed(factor, plan);
        if !levers.contains(&factor) {
            runs.moved.push((factor, "this executor can't move it alone".to_owned(), Vec::new()));
            continue;
        }
        let traces: Result<Vec<Trace>, Failure> =
            (0..repeats).map(|_| once(factor.name(), seed, &moved)).collect();
        let (change, traces) = match traces {
            Ok(traces) => (change, traces),
            Err(failure) => (format!("{change}: no result, {}", failure.detail), Vec::new()),
        };
        runs.moved.push((factor, change, traces));
    }
    let again =
        (0..repeats).map_while(|_| once("everything pinned again", plan.seed, &Levers::default()).ok());
    runs.pinned.extend(again);
    matrix(&runs)
}

/// One factor changed: in words, and as what a run is asked for.
fn changed(factor: Factor, plan: &Plan) -> (String, u64, Levers) {
    let (mut seed, mut levers) = (plan.seed, Levers::default());
    let change = match factor {
        Factor::Seed => {
            seed = plan.seed.wrapping_add(1);
            format!("seed {} instead of {}", seed, plan.seed)
        }
        Factor::RtcBase => {
            levers.rtc_base = Some(OTHER_RTC_BASE);
            "the clock starts in 2001".to_owned()
        }
        Factor::IcountShift => {
            levers.shift = Some(OTHER_SHIFT);
            format!("an instruction lasts {} ns", 1_u32 << OTHER_SHIFT)
        }
        Factor::AddressLayout => {
            // The machine randomises addresses from its seed; the sandbox doesn't at all.
            let randomised = plan.executor != ExecutorKind::Vm;
            levers.aslr = Some(randomised);
            if randomised { "addresses randomised" } else { "addresses not randomised" }.to_owned()
        }
        Factor::CpuModel => {
            levers.cpu_model = Some(OTHER_CPU.to_owned());
            format!("processor {OTHER_CPU}")
        }
        Factor::MemorySize => {
            levers.memory_mib = Some(OTHER_MEMORY_MIB);
            format!("{OTHER_MEMORY_MIB} MiB of memory")
        }
        Factor::Environment => {
            levers.environment.insert(OTHER_VARIABLE.0.to_owned(), OTHER_VARIABLE.1.to_owned());
            format!("{} is set", OTHER_VARIABLE.0)
        }
        Factor::FileOrder => "names are listed in another order".to_owned(),
        Factor::PidOffset => {
            levers.pid_offset = OTHER_PID_OFFSET;
            format!("{OTHER_PID_OFFSET} processes before it")
        }
    };
    (change, seed, levers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_factor_changes_exactly_one_thing() {
        let plan = Plan::new(["true"], "companion");
        for factor in Factor::ALL {
            let (change, seed, levers) = changed(factor, &plan);
            let changes = [
                seed != plan.seed,
                levers.rtc_base.is_some(),
                levers.shift.is_some(),
                levers.aslr.is_some(),
                levers.cpu_model.is_some(),
                levers.memory_mib.is_some(),
                !levers.environment.is_empty(),
                levers.pid_offset != 0,
            ];
            let expected = usize::from(factor != Factor::FileOrder);
            assert_eq!(changes.into_iter().filter(|changed| *changed).count(), expected, "{change}");
        }
    }
}
