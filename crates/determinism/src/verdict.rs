//! From what was observed to a level, a bound and a recommendation. Pure.
//!
//! Must never let an equality without records, repetitions or passed controls become a claim.

use std::collections::BTreeSet;

use crate::plan::{Condition, ExecutorKind};
use crate::record::{
    Cell, ControlResult, Decision, Level, Qualifier, Reason, Recommendation, SeedProbe, Verdict,
};

/// Beyond this bound an equality is too weak to rely on: at 5 %, 60 runs are needed.
const BOUND_TO_ADOPT: f64 = 0.05;

/// Why a run, and with it the check, has no result.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Failure {
    pub(crate) reason: Reason,
    pub(crate) detail: String,
}

/// What a verdict rests on.
#[derive(Debug)]
pub(crate) struct Facts<'a> {
    pub(crate) cells: &'a [Cell],
    pub(crate) conditions: &'a [Condition],
    pub(crate) controls: &'a [ControlResult],
    pub(crate) failure: Option<&'a Failure>,
    /// Differences, also those between conditions.
    pub(crate) divergences: usize,
    /// Records that the subject wrote, in all runs.
    pub(crate) records: u64,
    /// Whether a machine's trace, kernel log and files were compared too.
    pub(crate) machine: bool,
    pub(crate) seed_probe: Option<&'a SeedProbe>,
    pub(crate) normalised: bool,
}

/// The level, with its qualifiers, or the reason why there is none.
pub(crate) fn decide(facts: &Facts<'_>) -> Verdict {
    if let Some(failure) = facts.failure.filter(|failure| failure.reason == Reason::ExecutorUnavailable) {
        return Verdict { level: Level::NotRun, ..no_result(failure.reason, failure.detail.clone()) };
    }
    let missing = facts.controls.is_empty().then_some("no control ran".to_owned());
    let failed = facts.controls.iter().find(|control| !control.passed).map(|control| {
        format!(
            "{} control `{}`: expected {}, observed {}",
            control.kind, control.name, control.expected, control.observed
        )
    });
    let control_failure = missing.or(failed).map(|detail| Failure { reason: Reason::ControlFailed, detail });
    if let Some(failure) = control_failure.as_ref().or(facts.failure) {
        return no_result(failure.reason, failure.detail.clone());
    }
    if facts.records == 0 || facts.cells.is_empty() || facts.cells.iter().any(|cell| cell.runs < 2) {
        return no_result(Reason::NoRecords, "nothing was compared".to_owned());
    }

    let mut qualifiers = BTreeSet::from([Qualifier::ControlsPassed]);
    if facts.normalised {
        qualifiers.insert(Qualifier::Normalised);
    }
    let all_equal = facts.cells.iter().all(|cell| cell.equal + 1 == cell.runs);
    if facts.divergences > 0 || !all_equal {
        return Verdict { level: Level::Diverged, qualifiers, reason: None, detail: None };
    }
    if facts.conditions.contains(&Condition::Loaded) {
        qualifiers.insert(Qualifier::Loaded);
    }
    if facts.seed_probe.is_some_and(|probe| probe.differs) {
        qualifiers.insert(Qualifier::SeedSensitive);
    }
    let level = if facts.machine { Level::StateEqual } else { Level::OutputEqual };
    Verdict { level, qualifiers, reason: None, detail: None }
}

fn no_result(reason: Reason, detail: String) -> Verdict {
    Verdict {
        level: Level::NoResult,
        qualifiers: BTreeSet::new(),
        reason: Some(reason),
        detail: Some(detail),
    }
}

/// One row of the matrix, from the number of runs, how many repeated the reference run, and the distinct outcomes.
pub(crate) fn cell(
    condition: Condition,
    part: &str,
    seed: u64,
    runs: u32,
    equal: u32,
    distinct: u32,
) -> Cell {
    let repetitions = runs.saturating_sub(1);
    let diverged = repetitions - equal.min(repetitions);
    Cell {
        condition,
        part: part.to_owned(),
        seed,
        runs,
        equal,
        distinct,
        bound_95: (diverged == 0).then(|| bound_95(equal)).flatten(),
        rate: (diverged > 0).then(|| rounded(f64::from(diverged) / f64::from(repetitions))),
    }
}

/// With `equal` repetitions equal to the reference run and none different, the chance that another one differs is
/// below this at 95 %. Nothing is known without a repetition.
fn bound_95(equal: u32) -> Option<f64> {
    (equal > 0).then(|| rounded(1.0 - 0.05_f64.powf(1.0 / f64::from(equal))))
}

/// Six digits: more would pretend to a precision that a handful of runs doesn't have.
fn rounded(value: f64) -> f64 {
    (value * 1e6).round() / 1e6
}

/// What to do about the verdict. `drop` is said only of an executor that pins everything and still saw a difference:
/// natively, and in a sandbox, more pinning may help.
pub(crate) fn recommend(verdict: &Verdict, cells: &[Cell], executor: &str) -> Recommendation {
    let (decision, reasons) = match (verdict.level, verdict.reason) {
        (Level::OutputEqual | Level::TraceEqual | Level::StateEqual, _) => adopt_or_revisit(verdict, cells),
        (Level::Diverged, _) if executor == ExecutorKind::Vm.name() => (
            Decision::Drop,
            vec!["DIVERGED: with everything pinned it still differs; another machine or another version would change that"
                .to_owned()],
        ),
        (Level::Diverged, _) => (
            Decision::Revisit,
            vec![
                "DIVERGED: remove what differs, or don't compare outputs of this subject".to_owned(),
                "PINS_MISSING: --executor vm pins time, entropy and scheduling, and --ablate confirms causes".to_owned(),
            ],
        ),
        (_, Some(reason)) => (Decision::NoGo, vec![reason_to_act(reason).to_owned()]),
        (_, None) => (Decision::NoGo, vec!["NOT_RUN: run the check".to_owned()]),
    };
    Recommendation { decision, reasons, flake: None }
}

fn adopt_or_revisit(verdict: &Verdict, cells: &[Cell]) -> (Decision, Vec<String>) {
    let mut reasons = Vec::new();
    if !verdict.qualifiers.contains(&Qualifier::Loaded) {
        reasons.push("NOT_LOADED: add the condition `loaded`".to_owned());
    }
    if cells.iter().any(|cell| cell.bound_95.is_none_or(|bound| bound > BOUND_TO_ADOPT)) {
        reasons.push("BOUND_TOO_WIDE: give --runs 60 or more to bring each bound below 5 %".to_owned());
    }
    if reasons.is_empty() {
        let adopt = match verdict.level {
            Level::OutputEqual => {
                "OUTPUT_EQUAL: comparing this subject's output is enough here; a divergence would change it"
            }
            _ => "STATE_EQUAL: run it in this machine, where a seed repeats it; a divergence would change it",
        };
        (Decision::Adopt, vec![adopt.to_owned()])
    } else {
        (Decision::Revisit, reasons)
    }
}

fn reason_to_act(reason: Reason) -> &'static str {
    match reason {
        Reason::ControlFailed => {
            "CONTROL_FAILED: the instrument can't be trusted here; repair what the control names"
        }
        Reason::Timeout => "TIMEOUT: make the subject end, or raise --deadline",
        Reason::StartFailed => "START_FAILED: name a command that starts",
        Reason::NoRecords => {
            "NO_RECORDS: nothing was compared; make the subject write, or give it a --script"
        }
        Reason::ScriptIncomplete => {
            "SCRIPT_INCOMPLETE: the subject ended early; correct the script or the subject"
        }
        Reason::NetworkRequired => {
            "NETWORK_REQUIRED: make the subject start without a network, or put what it asks for inside"
        }
        Reason::OutputTooLarge => "OUTPUT_TOO_LARGE: make the subject write less",
        Reason::ExecutorUnavailable => "EXECUTOR_UNAVAILABLE: install what its prerequisite names",
        Reason::LoadAbsent => {
            "LOAD_ABSENT: the load was not there all the time; run on a machine that lets it run"
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn control(passed: bool) -> ControlResult {
        ControlResult {
            name: "clock".to_owned(),
            kind: "positive".to_owned(),
            condition: Some(Condition::Idle),
            part: None,
            expected: "differs".to_owned(),
            observed: if passed { "differs" } else { "equal" }.to_owned(),
            passed,
        }
    }

    /// A check in which everything went well, to be changed.
    struct Case {
        cells: Vec<Cell>,
        conditions: Vec<Condition>,
        controls: Vec<ControlResult>,
        failure: Option<Failure>,
        divergences: usize,
        records: u64,
        other_seed_differs: bool,
        normalised: bool,
        machine: bool,
    }

    fn rows(runs: u32, equal: u32) -> Vec<Cell> {
        [Condition::Idle, Condition::Loaded]
            .map(|condition| cell(condition, "boot", 1, runs, equal, 1))
            .to_vec()
    }

    fn unavailable() -> Option<Failure> {
        Some(Failure { reason: Reason::ExecutorUnavailable, detail: "qemu is missing".to_owned() })
    }

    fn timeout() -> Option<Failure> {
        Some(Failure { reason: Reason::Timeout, detail: "it did not end within 5s".to_owned() })
    }

    fn check(change: impl FnOnce(&mut Case), expected: &str) {
        let mut case = Case {
            cells: rows(5, 4),
            conditions: vec![Condition::Idle, Condition::Loaded],
            controls: vec![control(true)],
            failure: None,
            divergences: 0,
            records: 50,
            other_seed_differs: false,
            normalised: false,
            machine: false,
        };
        change(&mut case);
        let verdict = decide(&Facts {
            cells: &case.cells,
            conditions: &case.conditions,
            controls: &case.controls,
            failure: case.failure.as_ref(),
            divergences: case.divergences,
            records: case.records,
            machine: case.machine,
            seed_probe: Some(&SeedProbe { seed: 2, differs: case.other_seed_differs }),
            normalised: case.normalised,
        });
        let decision = recommend(&verdict, &case.cells, if case.machine { "vm" } else { "native" }).decision;
        let said = format!("{:?} {:?} {:?} {decision:?}", verdict.level, verdict.qualifiers, verdict.reason);
        assert_eq!(said, expected);
    }

    #[test]
    fn a_level_is_claimed_only_on_records_repetitions_and_passed_controls() {
        check(|_| (), "OutputEqual {Loaded, ControlsPassed} None Revisit");
        check(|case| case.cells = rows(60, 59), "OutputEqual {Loaded, ControlsPassed} None Adopt");
        check(|case| case.conditions = vec![Condition::Idle], "OutputEqual {ControlsPassed} None Revisit");
        check(
            |case| case.other_seed_differs = true,
            "OutputEqual {Loaded, SeedSensitive, ControlsPassed} None Revisit",
        );
        check(|case| case.normalised = true, "OutputEqual {Loaded, ControlsPassed, Normalised} None Revisit");
        check(|case| case.machine = true, "StateEqual {Loaded, ControlsPassed} None Revisit");
        check(|case| case.divergences = 1, "Diverged {ControlsPassed} None Revisit");
        check(
            |case| {
                case.machine = true;
                case.divergences = 1;
            },
            "Diverged {ControlsPassed} None Drop",
        );
        check(|case| case.failure = unavailable(), "NotRun {} Some(ExecutorUnavailable) NoGo");
        check(|case| case.cells = rows(5, 3), "Diverged {ControlsPassed} None Revisit");
        check(|case| case.controls.push(control(false)), "NoResult {} Some(ControlFailed) NoGo");
        check(|case| case.controls.clear(), "NoResult {} Some(ControlFailed) NoGo");
        check(|case| case.failure = timeout(), "NoResult {} Some(Timeout) NoGo");
        check(|case| case.records = 0, "NoResult {} Some(NoRecords) NoGo");
        check(|case| case.cells.clear(), "NoResult {} Some(NoRecords) NoGo");
        check(|case| case.cells = rows(1, 0), "NoResult {} Some(NoRecords) NoGo");
    }

    #[test]
    fn a_failed_control_outweighs_every_other_answer() {
        check(
            |case| {
                case.controls = vec![control(false)];
                case.failure = timeout();
                case.divergences = 3;
            },
            "NoResult {} Some(ControlFailed) NoGo",
        );
    }

    #[test]
    fn the_bound_is_that_of_the_repetitions_and_gives_way_to_a_rate() {
        let row = |runs, equal| {
            let cell = cell(Condition::Idle, "boot", 1, runs, equal, 1);
            (cell.bound_95, cell.rate)
        };
        assert_eq!(row(5, 4), (Some(0.527_129), None));
        assert_eq!(row(20, 19), (Some(0.145_869), None));
        assert_eq!(row(60, 59), (Some(0.049_508), None));
        assert_eq!(row(2, 1), (Some(0.95), None));
        assert_eq!(row(5, 3), (None, Some(0.25)));
        assert_eq!(row(5, 0), (None, Some(1.0)));
        assert_eq!(row(1, 0), (None, None));
        assert_eq!(row(0, 0), (None, None));
    }
}
