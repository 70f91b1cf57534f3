//! Renders what happened as a timeline, for snapshots that a person reads as a story.

use crate::{Scenario, Step};
use std::fmt::{self, Display};

/// Lines of a transcript: when, what, and what came of it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Timeline {
    title: String,
    lines: Vec<(u64, String)>,
}

impl Timeline {
    /// The empty transcript of a scenario.
    #[must_use]
    pub fn of(scenario: &Scenario) -> Self {
        Self { title: scenario.title.clone(), lines: Vec::new() }
    }

    /// A step and what came of it; an outcome that begins with a new line stands below the step.
    pub fn step(&mut self, step: &Step, outcome: impl Display) {
        let outcome = outcome.to_string();
        let gap = if outcome.starts_with('\n') { "" } else { " " };
        self.note(step.at_ms, format!("{step} →{gap}{outcome}"));
    }

    /// Something that happened without anybody's step.
    pub fn note(&mut self, at_ms: u64, text: impl Display) {
        self.lines.push((at_ms, text.to_string()));
    }
}

impl Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.actor, self.verb)?;
        self.args.iter().try_for_each(|arg| write!(f, " {arg}"))?;
        self.options.iter().try_for_each(|(name, value)| write!(f, " {name}={value}"))
    }
}

impl Display for Timeline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.title.is_empty() {
            writeln!(f, "{}\n", self.title)?;
        }
        let width = self.lines.iter().map(|(at, _)| seconds(*at).len()).max().unwrap_or(0);
        for (at_ms, text) in &self.lines {
            let mut rows = text.lines();
            writeln!(f, "t={:>width$}  {}", seconds(*at_ms), rows.next().unwrap_or_default())?;
            for row in rows {
                writeln!(f, "{:width$}    {row}", "")?;
            }
        }
        Ok(())
    }
}

/// Milliseconds as seconds with three decimals: `31.000s`.
#[must_use]
pub fn seconds(ms: u64) -> String {
    format!("{}.{:03}s", ms / 1_000, ms % 1_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_line_up_and_long_outcomes_are_indented() {
        let mut timeline = Timeline::default();
        timeline.note(900, "first");
        timeline.note(12_345, "second\nwith a second row");
        assert_eq!(
            timeline.to_string(),
            "t= 0.900s  first\nt=12.345s  second\n           with a second row\n"
        );
    }
}
