//! One thing that was looked at, how it is, and what to do about it.

use crate::cli::render::{Tone, cell, each, toned};
use serde::Serialize;
use serde_json::Value;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Verdict {
    /// As it should be.
    Ok,
    /// It works, and somebody should know.
    Warning,
    /// It does not work.
    Failed,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Finding {
    /// What was looked at.
    pub(super) check: &'static str,
    pub(super) verdict: Verdict,
    pub(super) said: String,
    /// What to do.
    pub(super) next: Option<String>,
}

impl Finding {
    pub(super) fn ok(check: &'static str, said: impl Into<String>) -> Self {
        Self { check, verdict: Verdict::Ok, said: said.into(), next: None }
    }

    pub(super) fn warning(check: &'static str, said: impl Into<String>, next: impl Into<String>) -> Self {
        Self { check, verdict: Verdict::Warning, said: said.into(), next: Some(next.into()) }
    }

    pub(super) fn failed(check: &'static str, said: impl Into<String>, next: impl Into<String>) -> Self {
        Self { check, verdict: Verdict::Failed, said: said.into(), next: Some(next.into()) }
    }
}

/// A number of things, in words.
pub(super) fn count(n: usize, what: &str) -> String {
    format!("{n} {what}{}", if n == 1 { "" } else { "s" })
}

/// The document for people: a line for each finding, and what to do below it.
pub(super) fn table(doc: &Value) -> String {
    let mut text = String::new();
    let (mut failed, mut warnings) = (0_usize, 0_usize);
    for finding in each(&doc["findings"]) {
        let verdict = cell(&finding["verdict"]);
        let tone = match verdict.as_str() {
            "ok" => Tone::Good,
            "warning" => Tone::Doubtful,
            _ => Tone::Bad,
        };
        failed += usize::from(verdict == "failed");
        warnings += usize::from(verdict == "warning");
        let verdict = toned(tone, &format!("{verdict:<9}"));
        text += &format!("{verdict}{:<15}{}\n", cell(&finding["check"]), cell(&finding["said"]));
        if let Some(next) = finding["next"].as_str() {
            text += &format!("{:24}next: {next}\n", "");
        }
    }
    text + &match (failed, warnings) {
        (0, 0) => "\nEverything is as it should be.\n".to_owned(),
        (0, n) => format!("\nIt works; {n} to look at.\n"),
        (n, 0) => format!("\n{n} to repair.\n"),
        (n, m) => format!("\n{n} to repair, {m} to look at.\n"),
    }
}
