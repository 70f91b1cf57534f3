//! The controls: which programs of our own run beside the subject, what each has to do, and whether it did.

use std::time::Duration;

use crate::clock::Progress;
use crate::compare::Trace;
use crate::executor::{self, Executor, Job, Levers, Part, Task};
use crate::normalise::normalise;
use crate::plan::Condition;
use crate::programs::Program;
use crate::record::{ControlResult, Reason};
use crate::verdict::Failure;

/// Runs of each control in each condition. The positive ones practically can't agree twice, so two would do;
/// a third gives the negative ones another chance to be caught differing.
const RUNS: u64 = 3;
/// A control takes milliseconds; a machine on which one takes longer than this can't be measured on.
const DEADLINE: Duration = Duration::from_secs(30);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Must differ between runs.
    Positive,
    /// Must not differ.
    Negative,
    /// Must differ between seeds, and only there.
    Seed,
}

const CONTROLS: [(Program, Kind); 9] = [
    (Program::Urandom, Kind::Positive),
    (Program::Clock, Kind::Positive),
    (Program::Pid, Kind::Positive),
    (Program::HashOrder, Kind::Positive),
    (Program::LockOrder, Kind::Positive),
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

/// Runs every control in the present condition.
pub(crate) fn run_all(
    executor: &mut dyn Executor,
    condition: Condition,
    seed: u64,
    progress: &mut Progress<'_>,
) -> Vec<ControlResult> {
    let run_one = |(program, kind): (Program, Kind)| {
        progress.step(format!("{condition}: control {}", program.name()));
        let observed = observe(executor, program, kind, seed, progress);
        judge(program, kind, condition, observed)
    };
    CONTROLS.into_iter().map(run_one).collect()
}

fn observe(
    executor: &mut dyn Executor,
    program: Program,
    kind: Kind,
    seed: u64,
    progress: &mut Progress<'_>,
) -> Result<&'static str, Failure> {
    let arguments = ["control".to_owned(), program.name()];
    let mut once = |seed| {
        let task = Task { program: executor::Program::Companion, arguments: &arguments, script: None };
        let job =
            Job { tasks: &[task], seed, deadline: DEADLINE, part: Part::Boot, levers: &Levers::default() };
        let run = executor.run(&job, progress)?;
        let recording = run.recordings.into_iter().next().unwrap_or_default();
        if recording.exit != WELL || recording.stdout.is_empty() {
            // Two crashes are equal too.
            let detail = format!("ended with {} after {} bytes", recording.exit, recording.stdout.len());
            return Err(Failure { reason: Reason::ControlFailed, detail });
        }
        let mut streams = recording.streams();
        normalise(&mut streams);
        Ok(Trace::new(recording.pid, streams).fingerprint())
    };
    let outcomes = (0..RUNS).map(|_| once(seed)).collect::<Result<Vec<_>, Failure>>()?;
    let equal = outcomes.windows(2).all(|pair| pair[0] == pair[1]);
    if kind == Kind::Seed && equal && once(seed.wrapping_add(1))? != outcomes[0] {
        return Ok(DIFFERS_BETWEEN_SEEDS);
    }
    Ok(if equal { EQUAL } else { DIFFERS })
}

fn judge(
    program: Program,
    kind: Kind,
    condition: Condition,
    observed: Result<&'static str, Failure>,
) -> ControlResult {
    let (kind, expected) = match kind {
        Kind::Positive => ("positive", DIFFERS),
        Kind::Negative => ("negative", EQUAL),
        Kind::Seed => ("seed", DIFFERS_BETWEEN_SEEDS),
    };
    let observed = observed.map_or_else(|failure| failure.detail, str::to_owned);
    ControlResult {
        name: program.name(),
        kind: kind.to_owned(),
        condition: Some(condition),
        expected: expected.to_owned(),
        passed: observed == expected,
        observed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(kind: Kind, observed: Result<&'static str, Failure>, expected: bool) {
        assert_eq!(judge(Program::Clock, kind, Condition::Idle, observed).passed, expected);
    }

    #[test]
    fn a_control_passes_only_by_doing_what_it_has_to() {
        check(Kind::Positive, Ok(DIFFERS), true);
        check(Kind::Positive, Ok(EQUAL), false);
        check(Kind::Negative, Ok(EQUAL), true);
        check(Kind::Negative, Ok(DIFFERS), false);
        check(Kind::Seed, Ok(DIFFERS_BETWEEN_SEEDS), true);
        check(Kind::Seed, Ok(DIFFERS), false);
        check(Kind::Seed, Ok(EQUAL), false);
        let failure =
            || Err(Failure { reason: Reason::Timeout, detail: "it did not end within 30s".to_owned() });
        check(Kind::Positive, failure(), false);
        check(Kind::Negative, failure(), false);
    }
}
