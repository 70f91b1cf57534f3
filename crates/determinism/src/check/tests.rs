//! What an executor with a machine of its own may show, by one that is made up: equal, different, silent, or deaf to its
//! seed.

use std::collections::BTreeSet;

use super::*;
use crate::executor::{Job, Machine, Part, Program, Run};
use crate::factor::Factor;
use crate::plan::Condition;
use crate::stream::Recording;

/// A machine that follows its seed, with one thing wrong.
#[derive(Debug, Default)]
struct MadeUp {
    wrong: Wrong,
    runs: u32,
}

#[derive(Debug, Default, Clone, Copy, PartialEq)]
enum Wrong {
    #[default]
    Nothing,
    /// Its seed doesn't reach the kernel's randomness.
    Deaf,
    /// It replays a record that was cut short, and shows nothing.
    Silent,
    /// Its trace holds nothing, whatever the subject wrote.
    NoTrace,
    /// Its kernel's log is off by a microsecond each time.
    KernelLog,
    /// What the subject leaves on its disk differs each time.
    Files,
    /// What the subject writes differs each time.
    Output,
}

impl MadeUp {
    fn recording(&self, words: &str, seed: u64) -> Recording {
        // The environment reaches a program whatever the kernel makes of the seed.
        let seeded = ["urandom", "hash-order"].contains(&words) && self.wrong != Wrong::Deaf;
        let follows = seeded || words == "seed" || words.starts_with("subject");
        let mut stdout = if follows { format!("{words} {seed}\n") } else { format!("{words}\n") };
        if self.wrong == Wrong::Output && words.starts_with("subject") {
            stdout.push_str(&format!("at 12:00:{:02}\n", self.runs % 60));
        }
        if self.wrong == Wrong::Silent && words.starts_with("subject") {
            stdout.clear();
        }
        Recording { stdout: stdout.into(), exit: "exit 0".to_owned(), ..Recording::default() }
    }
}

impl Executor for MadeUp {
    fn name(&self) -> &'static str {
        "vm"
    }

    fn pins(&self) -> Vec<String> {
        vec!["everything".to_owned()]
    }

    fn not_pinned(&self) -> Vec<String> {
        Vec::new()
    }

    fn levers(&self) -> &'static [Factor] {
        &[Factor::Seed, Factor::PidOffset]
    }

    fn parts(&self) -> &'static [Part] {
        &[Part::Boot, Part::Restored]
    }

    fn run(&mut self, job: &Job<'_>, _: &mut Progress<'_>) -> Result<Run, Failure> {
        self.runs += 1;
        let words = |task: &crate::executor::Task<'_>| match task.program {
            Program::Companion => task.arguments.last().cloned().unwrap_or_default(),
            Program::Subject(_) if job.levers.pid_offset > 0 => "subject, later".to_owned(),
            Program::Subject(_) => "subject".to_owned(),
        };
        let recordings = job.tasks.iter().map(|task| self.recording(&words(task), job.seed)).collect();
        let off = |wrong| if self.wrong == wrong { self.runs } else { 0 };
        let line = |text: String| vec![text.into_bytes()];
        let silent = matches!(self.wrong, Wrong::NoTrace | Wrong::Silent);
        let machine = Machine {
            trace: if silent { Vec::new() } else { line(format!("0.1 {}", job.seed)) },
            schedule: line("swapper".to_owned()),
            kernel_log: line(format!("[0.{}] up", off(Wrong::KernelLog))),
            changed_files: line(format!("tmp/left {}", off(Wrong::Files))),
        };
        Ok(Run { recordings, machine: Some(machine), ..Run::default() })
    }
}

fn plan() -> Plan {
    let mut plan = Plan::new(["subject"], "companion");
    plan.conditions = vec![Condition::Idle];
    plan.runs = 3;
    plan.executor = ExecutorKind::Vm;
    plan
}

fn shown(wrong: Wrong) -> Outcome {
    let mut sink = |_: &str| ();
    show(&plan(), &mut MadeUp { wrong, runs: 0 }, &mut Progress::new(&mut sink)).unwrap()
}

fn check(wrong: Wrong, level: Level, reason: Option<Reason>) -> Outcome {
    let outcome = shown(wrong);
    assert_eq!((outcome.verdict.level, outcome.verdict.reason), (level, reason), "{wrong:?}");
    outcome
}

#[test]
fn a_machine_whose_trace_log_and_files_are_equal_reaches_the_highest_level_in_each_part() {
    let outcome = check(Wrong::Nothing, Level::StateEqual, None);
    let qualifiers = BTreeSet::from([Qualifier::SeedSensitive, Qualifier::ControlsPassed]);
    assert_eq!(outcome.verdict.qualifiers, qualifiers);
    let parts: Vec<_> = outcome.cells.iter().map(|cell| (cell.part.as_str(), cell.runs)).collect();
    assert_eq!(parts, [("boot", 3), ("restored", 3)]);
}

#[test]
fn a_machine_that_differs_anywhere_diverges_and_the_stream_is_named() {
    for (wrong, stream) in
        [(Wrong::KernelLog, "machine/kernel"), (Wrong::Files, "machine/files"), (Wrong::Output, "stdout")]
    {
        let outcome = check(wrong, Level::Diverged, None);
        assert_eq!(outcome.divergences[0].stream, stream);
    }
}

#[test]
fn a_machine_that_is_deaf_to_its_seed_has_no_result() {
    let outcome = check(Wrong::Deaf, Level::NoResult, Some(Reason::ControlFailed));
    assert!(
        outcome.verdict.detail.unwrap().contains("control `urandom`: expected differs between seeds only")
    );
    assert!(outcome.cells.is_empty(), "no run of the subject is spent behind a control that failed");
}

#[test]
fn a_replay_without_records_is_never_equal() {
    check(Wrong::Silent, Level::NoResult, Some(Reason::NoRecords));
    check(Wrong::NoTrace, Level::NoResult, Some(Reason::NoRecords));
}

#[test]
fn an_ablation_moves_what_the_executor_can_move_and_says_what_it_cannot() {
    let mut sink = |_: &str| ();
    let matrix = ablate(&plan(), &mut MadeUp::default(), &mut Progress::new(&mut sink)).unwrap();
    assert_eq!((matrix.pinned_runs, matrix.pinned_equal, matrix.part.as_str()), (2, 1, "boot"));
    let moved: Vec<_> = matrix.factors.iter().filter(|moved| moved.runs > 0).collect();
    let moved: Vec<_> = moved.iter().map(|moved| (moved.factor, moved.differing)).collect();
    assert_eq!(moved, [(Factor::Seed, 1), (Factor::PidOffset, 1)]);
    assert_eq!(matrix.lines.len(), 1);
    assert_eq!(matrix.lines[0].factors, [Factor::Seed, Factor::PidOffset]);

    let unsteady =
        ablate(&plan(), &mut MadeUp { wrong: Wrong::Output, runs: 0 }, &mut Progress::new(&mut sink));
    let lines = unsteady.unwrap().lines;
    assert!(lines.iter().any(|line| !line.steady), "{lines:?}");
    assert!(lines.iter().all(|line| line.steady || line.index == 1));
}
