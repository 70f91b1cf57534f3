//! All rows of one run, as JSON and as a table for people.

use crate::machine::Machine;
use crate::row::{Row, Verdict};
use serde::Serialize;
use std::fmt::Write as _;

/// What a run leaves.
#[derive(Debug, Serialize)]
pub(crate) struct Document {
    pub(crate) version: u32,
    /// `quick` or `full`. Only the full one is long enough to compare with the goals.
    pub(crate) effort: &'static str,
    pub(crate) machine: Machine,
    pub(crate) rows: Vec<Row>,
}

pub(crate) const VERSION: u32 = 1;

impl Document {
    pub(crate) fn table(&self) -> String {
        let mut text = String::new();
        let Machine { processor, processors, kernel, file_system, load, .. } = &self.machine;
        // Writing to a string can't fail.
        let _ = writeln!(text, "{processor}, {processors} processors, {kernel}, {file_system}");
        if load.is_some_and(|load| load > *processors as f64 / 2.0) {
            let _ = writeln!(
                text,
                "the machine was busy (load {}): compare ratios, not times",
                load.unwrap_or(0.0)
            );
        }
        if !self.machine.optimised {
            let _ = writeln!(text, "not optimised: the figures say nothing");
        }
        let _ = writeln!(
            text,
            "{:<17} {:>11} {:>11}  {:<12} {:>9} {:>19}  {:>8}  verdict",
            "row", "ours", "theirs", "unit", "ratio", "spread", "goal"
        );
        for row in &self.rows {
            let number = |number: Option<f64>| number.map_or_else(|| "-".to_owned(), figure);
            let spread =
                row.ratio.map_or_else(String::new, |s| format!("{} .. {}", figure(s.least), figure(s.most)));
            let _ = writeln!(
                text,
                "{:<17} {:>11} {:>11}  {:<12} {:>9} {spread:>19}  {:>8}  {}",
                row.name,
                number(row.ours_median),
                number(row.theirs_median),
                row.unit,
                number(row.ratio.map(|ratio| ratio.median)),
                row.goal.as_deref().unwrap_or("-"),
                verdict(row),
            );
        }
        for row in &self.rows {
            let _ = writeln!(text, "{}: {} / {}", row.name, row.ours, row.theirs);
        }
        text
    }
}

fn verdict(row: &Row) -> String {
    match row.verdict {
        Verdict::Reached => "reached".to_owned(),
        Verdict::Missed => "missed".to_owned(),
        Verdict::Shown => "shown".to_owned(),
        Verdict::NotRun => format!("not run: {}", row.reason.as_deref().unwrap_or("it measured nothing")),
    }
}

/// Three digits, whatever the size.
fn figure(number: f64) -> String {
    let digits = if number >= 100.0 {
        0
    } else if number >= 10.0 {
        1
    } else if number >= 0.1 {
        2
    } else {
        4
    };
    format!("{number:.digits$}")
}
