//! The record for people who have never seen this project: the answer first, then how it was reached. Pure; it tells
//! what the record holds and adds no judgement.

mod causes;
mod tables;

use crate::document::{Block, Text, code, plain, strong};
use crate::pictures;
use crate::questions;
use crate::record::{Cell, Decision, Level, Qualifier, Record};

pub(crate) const TITLE: &str = "Does it do the same each time?";

/// The answer in one line.
pub(crate) fn answer(record: &Record) -> String {
    let command = format!("`{}`", command(record));
    match record.verdict.level {
        level @ (Level::NotRun | Level::NoResult) => {
            let what = if level == Level::NotRun { "Not run" } else { "No result for" };
            let reason =
                record.verdict.reason.map_or_else(|| "no reason".to_owned(), |reason| name_of(&reason));
            let detail = record.verdict.detail.as_deref().unwrap_or("no detail");
            format!("{what} {command}: {reason}, {detail}.")
        }
        Level::Diverged => {
            let rates: Vec<String> = record.cells.iter().map(rate).collect();
            let first = record.divergences.first().map_or_else(String::new, causes::place);
            format!(
                "Diverged: from one seed, {command} did not do the same each time ({}); first in {first}.",
                rates.join("; ")
            )
        }
        level => {
            let bounds: Vec<String> = record.cells.iter().map(bound).collect();
            let qualifiers: Vec<String> = record.verdict.qualifiers.iter().map(name_of).collect();
            let failed = record.observation.exit.as_deref().filter(|exit| *exit != "exit 0");
            let failed = failed.map_or(String::new(), |exit| format!(" It failed each time: {exit}."));
            format!(
                "{} ({}): from one seed, {command} {} each time ({}).{failed}",
                name_of(&level),
                qualifiers.join(", "),
                what_was_equal(level),
                bounds.join("; ")
            )
        }
    }
}

fn what_was_equal(level: Level) -> &'static str {
    match level {
        Level::TraceEqual => "gave the same output, the same trace and the same kernel log",
        Level::StateEqual => "gave the same output, the same trace, the same kernel log and the same files",
        _ => "gave the same output",
    }
}

/// All of it.
pub(crate) fn tell(record: &Record) -> Vec<Block> {
    let mut blocks = vec![
        Block::Title(TITLE.to_owned()),
        Block::Paragraph(vec![strong(answer(record).replace('`', ""))]),
        Block::Paragraph(introduction()),
        pictures::runs(record),
    ];
    let mut section = |title: &str, body: Vec<Block>| {
        blocks.push(Block::Heading(title.to_owned()));
        blocks.extend(body);
    };
    section("Runs", tables::runs(record));
    if !record.beside.is_empty() {
        section("The same subject under other executors", tables::beside(record));
    }
    section("Divergences and causes", causes::listed(&record.divergences, "None was seen."));
    for outcome in record.beside.iter().filter(|outcome| !outcome.divergences.is_empty()) {
        let title = format!("What differed under {}", outcome.executor.name);
        section(&title, causes::listed(&outcome.divergences, ""));
    }
    if let Some(ablation) = &record.ablation {
        section("Which factor moves what", causes::ablation(ablation));
    }
    section("What a sceptic asks", sceptic(record));
    section("What was run", tables::what_was_run(record));
    section("What was compared", tables::compared(record));
    section("Controls", tables::controls(record));
    section("What each executor needs", tables::prerequisites(record));
    if !record.decisions.is_empty() {
        section("Go or no go", tables::decisions(record));
    }
    section("Recommendation", recommendation(record));
    section("What is not claimed", vec![not_claimed(record)]);
    section("Cost", tables::cost(record));
    section("Repeat it", vec![Block::Commands(vec![format!("$ {}", record.reproduce)])]);
    blocks
}

fn introduction() -> Text {
    vec![
        plain(
            "The subject below was started again and again, from the same seed and with the same input, and what it did was \
             compared with what the first run (run 0) did. The result is a level: ",
        ),
        code("no_result"),
        plain(" (nothing can be said), "),
        code("diverged"),
        plain(" (two runs differed), "),
        code("E1_output_equal"),
        plain(" (what it wrote and how it ended was equal), "),
        code("E2_trace_equal"),
        plain(" (the machine's trace and kernel log too), "),
        code("E3_state_equal"),
        plain(" (the files that it left too)."),
    ]
}

fn sceptic(record: &Record) -> Vec<Block> {
    let item = |(question, answer): (&str, String)| vec![strong(question), plain(format!(" {answer}"))];
    vec![Block::List(questions::answered(record).into_iter().map(item).collect())]
}

fn recommendation(record: &Record) -> Vec<Block> {
    let decision = match record.recommendation.decision {
        Decision::Adopt => "adopt",
        Decision::Revisit => "revisit",
        Decision::Drop => "drop",
        Decision::NoGo => "no go",
    };
    let none = "none was found, so nothing here justifies spending anything";
    let flake = record.recommendation.flake.as_deref().unwrap_or(none);
    let mut reasons: Vec<Text> =
        record.recommendation.reasons.iter().map(|reason| vec![plain(reason)]).collect();
    reasons.push(vec![plain(format!("A concrete flake that cheaper means can't reach: {flake}."))]);
    vec![Block::Paragraph(vec![strong(decision)]), Block::List(reasons)]
}

fn not_claimed(record: &Record) -> Block {
    let mut items = vec!["That another machine gives the same: one machine was used."];
    if record.ablation.is_none() {
        items.push(
            "That any cause is confirmed: no factor was changed alone, so a cause is probable at most.",
        );
    }
    if record.verdict.level == Level::OutputEqual {
        items.push(
            "That the program did the same inside. It may have read the clock, drawn random numbers or switched threads \
             differently in each run without showing it; equal output hides that.",
        );
    }
    if record.verdict.level >= Level::OutputEqual {
        items.push("That it never differs: the bound says how often it still may, and it holds for each row by itself.");
        if !record.verdict.qualifiers.contains(&Qualifier::Loaded) {
            items.push("Anything about a busy machine: the condition `loaded` was not run.");
        }
    }
    Block::List(items.into_iter().map(|item| vec![plain(item)]).collect())
}

/// Where a row was measured: the condition, and the part where it isn't the whole life.
fn row(cell: &Cell) -> String {
    if cell.part == "boot" {
        cell.condition.to_string()
    } else {
        format!("{}, {}", cell.condition, cell.part)
    }
}

fn bound(cell: &Cell) -> String {
    let bound = cell.bound_95.map_or_else(|| "an unknown share".to_owned(), percent);
    format!("{}: {} runs, at 95 % fewer than {bound} differ", row(cell), cell.runs)
}

fn rate(cell: &Cell) -> String {
    let repetitions = cell.runs.saturating_sub(1);
    format!(
        "{}: {} of {repetitions} repetitions differed",
        row(cell),
        repetitions - cell.equal.min(repetitions)
    )
}

fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

fn command(record: &Record) -> String {
    record.subject.argv.join(" ")
}

fn list_or(items: &[String], none: &str) -> Text {
    vec![plain(if items.is_empty() { none.to_owned() } else { items.join(", ") })]
}

/// The name that the JSON document uses.
fn name_of(value: &impl serde::Serialize) -> String {
    match serde_json::to_value(value) {
        Ok(serde_json::Value::String(name)) => name,
        _ => String::new(),
    }
}
