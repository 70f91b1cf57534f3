//! One line per step, with its time and its budget: what a person and a log read. A step that fails or overruns its
//! budget fails the command, and says how to run it alone. The board never decides what a step does.

use std::fmt::Write as _;
use std::time::Duration;

use crate::clock::Stopwatch;

/// Width of the name column, so that the times of one command stand below each other.
const NAME_WIDTH: usize = 12;

/// What a step is called, how long it may take, and the command that runs it alone.
#[derive(Clone, Debug)]
pub(crate) struct Step {
    pub(crate) name: &'static str,
    pub(crate) budget: Duration,
    pub(crate) again: String,
}

impl Step {
    pub(crate) fn new(name: &'static str, budget_s: u64, again: impl Into<String>) -> Self {
        Self { name, budget: Duration::from_secs(budget_s), again: again.into() }
    }
}

/// The time that the running step has left; whatever the step starts is stopped when it is spent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timer {
    pub(crate) step: &'static str,
    watch: Stopwatch,
    budget: Duration,
}

impl Timer {
    pub(crate) fn elapsed(&self) -> Duration {
        self.watch.elapsed()
    }

    pub(crate) fn left(&self) -> Duration {
        self.budget.saturating_sub(self.elapsed())
    }
}

/// The steps of one command as they end.
#[derive(Debug)]
pub(crate) struct Board {
    watch: Stopwatch,
    failed: Vec<&'static str>,
}

impl Board {
    pub(crate) fn new() -> Self {
        Self { watch: Stopwatch::start(), failed: Vec::new() }
    }

    /// Runs one step and prints its line. `work` answers with a short note for the line.
    pub(crate) fn step(&mut self, step: &Step, work: impl FnOnce(&Timer) -> anyhow::Result<String>) -> bool {
        let timer = Timer { step: step.name, watch: Stopwatch::start(), budget: step.budget };
        let result = work(&timer).map_err(|error| format!("{error:#}"));
        let (passed, line) = line(step, timer.elapsed(), &result);
        println!("{line}");
        if !passed {
            self.failed.push(step.name);
        }
        passed
    }

    /// Leaves what was done so far out of the total.
    pub(crate) fn count_from_here(&mut self) {
        self.watch = Stopwatch::start();
    }

    /// The steps that failed so far.
    pub(crate) fn failed(&self) -> &[&'static str] {
        &self.failed
    }

    /// Prints the total and says whether every step passed.
    pub(crate) fn finish(self, command: &str, budget: Duration) -> bool {
        let elapsed = self.watch.elapsed();
        let spent = seconds(elapsed);
        let allowed = budget.as_secs();
        if !self.failed.is_empty() {
            println!("FAIL  {command}: {} ({spent} s in all)", self.failed.join(", "));
            return false;
        }
        if elapsed > budget {
            println!(
                "FAIL  {command}: every step passed, but {spent} s in all is over the budget of {allowed} s"
            );
            return false;
        }
        println!("ok    {command}: {spent} s of {allowed} s");
        true
    }
}

fn seconds(duration: Duration) -> String {
    format!("{:.1}", duration.as_secs_f64())
}

/// Whether the step passed, and the line (or lines) that say so.
fn line(step: &Step, elapsed: Duration, result: &Result<String, String>) -> (bool, String) {
    let overrun = elapsed > step.budget;
    let passed = result.is_ok() && !overrun;
    let mut text = format!(
        "{:<4}  {:<NAME_WIDTH$}  {:>6} s of {} s",
        if passed { "ok" } else { "FAIL" },
        step.name,
        seconds(elapsed),
        step.budget.as_secs()
    );
    match result {
        Ok(note) if !note.is_empty() => text.push_str(&format!("  {note}")),
        Ok(_) => {}
        Err(reason) => {
            for reason in reason.lines() {
                let _ = write!(text, "\n      {reason}");
            }
        }
    }
    if overrun {
        let _ = write!(text, "\n      over its budget of {} s", step.budget.as_secs());
    }
    if !passed {
        let _ = write!(text, "\n      again: {}", step.again);
    }
    (passed, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(elapsed_ms: u64, result: Result<&str, &str>, passed: bool, expected: &str) {
        let step = Step::new("clippy", 300, "cargo xtask check --only clippy");
        let result = result.map(str::to_owned).map_err(str::to_owned);
        assert_eq!(line(&step, Duration::from_millis(elapsed_ms), &result), (passed, expected.to_owned()));
    }

    #[test]
    fn a_step_that_passes_is_one_line_with_its_time_and_budget() {
        check(42_100, Ok(""), true, "ok    clippy          42.1 s of 300 s");
        check(42_100, Ok("14 crates"), true, "ok    clippy          42.1 s of 300 s  14 crates");
        check(300_000, Ok(""), true, "ok    clippy         300.0 s of 300 s");
    }

    #[test]
    fn a_step_that_fails_says_why_and_how_to_run_it_alone() {
        check(
            1_000,
            Err("two warnings\nin core"),
            false,
            "FAIL  clippy           1.0 s of 300 s\n      two warnings\n      in core\n      again: cargo xtask check --only clippy",
        );
    }

    #[test]
    fn a_step_that_passes_too_late_has_failed() {
        check(
            300_001,
            Ok(""),
            false,
            "FAIL  clippy         300.0 s of 300 s\n      over its budget of 300 s\n      again: cargo xtask check --only clippy",
        );
    }
}
