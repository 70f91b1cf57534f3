//! The controls: which programs of our own run beside the subject, what each has to do under an executor, and whether it
//! did.

use std::time::Duration;

use tidegate_guest::Program;

use crate::clock::Progress;
use crate::compare::Trace;
use crate::executor::{self, Executor, Job, Levers, Part, Task};
use crate::normalise::normalise;
use crate::plan::{Condition, ExecutorKind};
use crate::record::{ControlResult, Reason};
use crate::stream::Recording;
use crate::verdict::Failure;

/// Runs of each control in each condition and part. The positive ones practically can't agree twice, so two would do; a
/// third gives the negative ones another chance to be caught differing.
const RUNS: usize = 3;
/// In a machine a run is dear, and what differs there differs by a fault that two runs show as well.
const RUNS_IN_A_MACHINE: usize = 2;
/// A control takes milliseconds; a machine on which one takes longer than this can't be measured on.
const DEADLINE: Duration = Duration::from_secs(30);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Differs by its nature: between runs, unless an executor pins what it shows.
    Positive,
    /// Must not differ.
    Negative,
    /// Must differ between seeds, and only there.
    Seed,
}

const CONTROLS: [(Program, Kind); 10] = [
    (Program::Urandom, Kind::Positive),
    (Program::Clock, Kind::Positive),
    (Program::Pid, Kind::Positive),
    (Program::HashOrder, Kind::Positive),
    (Program::LockOrder, Kind::Positive),
    (Program::AddressOrder, Kind::Positive),
    (Program::PureNumbers, Kind::Negative),
    (Program::PureText, Kind::Negative),
    (Program::Address, Kind::Negative),
    (Program::Seed, Kind::Seed),
];

/// How a control has to end.
const WELL: &str = "exit 0";
/// What a control did, in the words of the record.
const EQUAL: &str = "equal";
const DIFFERS: &str = "differs";
const DIFFERS_BETWEEN_SEEDS: &str = "differs between seeds only";

/// What a control is called, and what it has to do, under an executor.
fn expected(executor: &str, program: Program, kind: Kind) -> (&'static str, &'static str) {
    let in_a_machine = executor == ExecutorKind::Vm.name();
    match (kind, program) {
        // The seed must reach the kernel's randomness, not just the environment.
        (Kind::Positive, Program::Urandom | Program::HashOrder) if in_a_machine => {
            ("positive", DIFFERS_BETWEEN_SEEDS)
        }
        (Kind::Positive, _) if in_a_machine => ("positive", EQUAL),
        (Kind::Positive, Program::Pid | Program::AddressOrder)
            if executor == ExecutorKind::Sandbox.name() =>
        {
            ("positive", EQUAL)
        }
        (Kind::Positive, _) => ("positive", DIFFERS),
        (Kind::Negative, _) => ("negative", EQUAL),
        (Kind::Seed, _) => ("seed", DIFFERS_BETWEEN_SEEDS),
    }
}

/// Runs every control in the present condition: all of them one after the other, again and again, and once more from
/// another seed.
pub(crate) fn run_all(
    executor: &mut dyn Executor,
    condition: Condition,
    part: Part,
    seed: u64,
    progress: &mut Progress<'_>,
) -> Vec<ControlResult> {
    let name = executor.name();
    let shown_part = (executor.parts().len() > 1).then(|| part.name().to_owned());
    let runs = if name == ExecutorKind::Vm.name() { RUNS_IN_A_MACHINE } else { RUNS };
    let mut all = |seed, what: String| {
        progress.step(format!("{name}, {condition}: controls, {what}"));
        once(executor, part, seed, progress)
    };
    let same_seed: Result<Vec<_>, Failure> =
        (0..runs).map(|run| all(seed, format!("run {} of {runs}", run + 1))).collect();
    let outcomes =
        same_seed.and_then(|same| Ok((same, all(seed.wrapping_add(1), "another seed".to_owned())?)));
    let judged = |(at, (program, kind)): (usize, (Program, Kind))| {
        let (kind, expected) = expected(name, program, kind);
        let observed = match &outcomes {
            Ok((same, other)) => observed(same, other, at),
            Err(failure) => failure.detail.clone(),
        };
        ControlResult {
            name: program.name().to_owned(),
            kind: kind.to_owned(),
            condition: Some(condition),
            part: shown_part.clone(),
            expected: expected.to_owned(),
            passed: did(expected, &observed),
            observed,
        }
    };
    CONTROLS.into_iter().enumerate().map(judged).collect()
}

/// What each control left in one run: a hash of its streams, or how it went wrong.
type Left = Vec<Result<[u8; 32], String>>;

fn once(
    executor: &mut dyn Executor,
    part: Part,
    seed: u64,
    progress: &mut Progress<'_>,
) -> Result<Left, Failure> {
    let arguments = CONTROLS.map(|(program, _)| ["control".to_owned(), program.name().to_owned()]);
    let tasks: Vec<Task<'_>> = arguments
        .iter()
        .map(|arguments| Task { program: executor::Program::Companion, arguments, script: None })
        .collect();
    let job = Job { tasks: &tasks, seed, deadline: DEADLINE, part, levers: &Levers::default() };
    let run = executor.run(&job, progress)?;
    if run.recordings.len() != CONTROLS.len() {
        let detail = format!("{} of {} controls left a record", run.recordings.len(), CONTROLS.len());
        return Err(Failure { reason: Reason::ControlFailed, detail });
    }
    Ok(run.recordings.into_iter().map(left).collect())
}

fn left(recording: Recording) -> Result<[u8; 32], String> {
    if recording.exit != WELL || recording.stdout.is_empty() {
        // Two crashes are equal too.
        return Err(format!("ended with {} after {} bytes", recording.exit, recording.stdout.len()));
    }
    let mut streams = recording.streams();
    normalise(&mut streams);
    Ok(Trace::new(recording.pid, streams).fingerprint())
}

fn observed(same: &[Left], other: &Left, at: usize) -> String {
    let went_wrong = same.iter().chain([other]).find_map(|run| run[at].as_ref().err());
    if let Some(wrong) = went_wrong {
        return wrong.clone();
    }
    let equal = same.windows(2).all(|pair| pair[0][at] == pair[1][at]);
    match (equal, same.first().is_some_and(|first| first[at] == other[at])) {
        (false, _) => DIFFERS,
        (true, true) => EQUAL,
        (true, false) => DIFFERS_BETWEEN_SEEDS,
    }
    .to_owned()
}

/// Whether a control did what it had to. One that must be equal may follow the seed where an executor has one to give:
/// the clock of a machine does.
fn did(expected: &str, observed: &str) -> bool {
    expected == observed || (expected == EQUAL && observed == DIFFERS_BETWEEN_SEEDS)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(executor: &str, program: Program, kind: Kind, same: [u8; 2], other: u8, passes: bool) {
        let left = |mark: u8| vec![Ok([mark; 32])];
        let observed = observed(&same.map(left), &left(other), 0);
        let (_, expected) = expected(executor, program, kind);
        assert_eq!(did(expected, &observed), passes, "{executor} {program:?}: {expected}, {observed}");
    }

    #[test]
    fn a_control_passes_only_by_doing_what_it_has_to_under_its_executor() {
        use Kind::{Negative, Positive, Seed};
        for executor in ["native", "sandbox", "vm"] {
            check(executor, Program::PureText, Negative, [1, 1], 1, true);
            check(executor, Program::PureText, Negative, [1, 2], 1, false);
            check(executor, Program::Seed, Seed, [1, 1], 2, true);
            check(executor, Program::Seed, Seed, [1, 1], 1, false);
            check(executor, Program::Seed, Seed, [1, 2], 3, false);
        }
        check("native", Program::Clock, Positive, [1, 2], 3, true);
        check("native", Program::Clock, Positive, [1, 1], 1, false);
        check("native", Program::Clock, Positive, [1, 1], 2, false);
        check("sandbox", Program::Clock, Positive, [1, 2], 3, true);
        check("sandbox", Program::Pid, Positive, [1, 1], 1, true);
        check("sandbox", Program::Pid, Positive, [1, 2], 3, false);
        check("vm", Program::Clock, Positive, [1, 1], 1, true);
        check("vm", Program::Clock, Positive, [1, 1], 2, true);
        check("vm", Program::Clock, Positive, [1, 2], 3, false);
        check("vm", Program::LockOrder, Positive, [1, 2], 1, false);
    }

    #[test]
    fn a_snapshot_whose_seeds_do_not_differ_is_caught_by_the_kernels_randomness() {
        check("vm", Program::Urandom, Kind::Positive, [1, 1], 2, true);
        check("vm", Program::Urandom, Kind::Positive, [1, 1], 1, false);
        check("vm", Program::HashOrder, Kind::Positive, [1, 1], 1, false);
    }

    #[test]
    fn a_control_that_went_wrong_is_equal_to_nothing() {
        let crashed = vec![Err("ended with exit 1 after 0 bytes".to_owned())];
        let observed = observed(&[crashed.clone(), crashed.clone()], &crashed, 0);
        assert_eq!(observed, "ended with exit 1 after 0 bytes");
    }
}
