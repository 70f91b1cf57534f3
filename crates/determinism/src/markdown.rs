//! The record for people who have never seen this project: the answer first, then how it was reached. Pure.

use crate::record::{Cause, Cell, Confidence, Decision, Divergence, Level, Qualifier, Record};

/// The answer in one line.
pub(crate) fn answer(record: &Record) -> String {
    let command = command(record);
    match record.verdict.level {
        Level::NotRun => format!("Not run: {command}."),
        Level::NoResult => {
            let reason = record.verdict.reason.map_or_else(String::new, |reason| name_of(&reason));
            let detail = record.verdict.detail.as_deref().unwrap_or("no detail");
            format!("No result for {command}: {reason}, {detail}.")
        }
        Level::Diverged => {
            let rates: Vec<String> = record.cells.iter().map(rate).collect();
            let first = record.divergences.first().map_or_else(String::new, place);
            format!(
                "Diverged: from one seed, {command} did not do the same each time ({}); first in {first}.",
                rates.join("; ")
            )
        }
        level => {
            let bounds: Vec<String> = record.cells.iter().map(bound).collect();
            let qualifiers: Vec<String> = record.verdict.qualifiers.iter().map(name_of).collect();
            format!(
                "{} ({}): from one seed, {command} gave the same output each time ({}).",
                name_of(&level),
                qualifiers.join(", "),
                bounds.join("; ")
            )
        }
    }
}

/// All of it.
pub(crate) fn render(record: &Record) -> String {
    let sections = [
        ("What was run", what_was_run(record)),
        ("What each executor needs", prerequisites(record)),
        ("Controls", controls(record)),
        ("Runs", runs(record)),
        ("What was compared", compared(record)),
        ("Divergences and causes", divergences(record)),
        ("Recommendation", recommendation(record)),
        ("What is not claimed", not_claimed(record)),
        ("Cost", cost(record)),
        ("Repeat it", format!("```sh\n{}\n```\n", record.reproduce)),
    ];
    let mut text = format!("# Does it do the same each time?\n\n**{}**\n\n{INTRODUCTION}\n", answer(record));
    for (title, body) in sections {
        text.push_str(&format!("\n## {title}\n\n{body}"));
    }
    text
}

const INTRODUCTION: &str = "\
The command below was started again and again in fresh processes, from the same seed and with the same input, and
everything it wrote was compared with what the first run (run 0) wrote. The result is a level:
`no_result` (nothing can be said), `diverged` (two runs differed), `E1_output_equal` (what it wrote and how it ended was
equal). Higher levels look inside the program and need an executor that this version doesn't have.";

fn what_was_run(record: &Record) -> String {
    let host = &record.executor.host;
    let mut rows = vec![
        ("command", command(record)),
        ("digest", code(&record.subject.digest)),
        ("executor", record.executor.name.clone()),
        ("pinned by the executor", list_or(&record.executor.pins, "nothing")),
        ("pinned by the command or its environment", list_or(&record.executor.relaxations, "nothing")),
        ("host", format!("{} {} on {}, {} processors", host.os, host.kernel, host.arch, host.cpus)),
        ("deadline of a run", format!("{} ms", record.workload.deadline_ms)),
    ];
    if let Some(script) = &record.workload.script {
        let described =
            format!("{}, {} steps, SHA-256 {}", code(&script.path), script.steps, code(&script.sha256));
        rows.push(("client script", described));
    }
    for file in &record.subject.files {
        rows.push(("file", format!("{}, SHA-256 {}", code(&file.path), code(&file.sha256))));
    }
    table(&["what", "value"], rows.into_iter().map(|(name, value)| vec![name.to_owned(), value]))
}

fn prerequisites(record: &Record) -> String {
    let rows = record.prerequisites.iter().map(|prerequisite| {
        vec![
            code(&prerequisite.name),
            prerequisite.state.clone(),
            list_or(&prerequisite.blocks, "nothing"),
            prerequisite.evidence.clone(),
            prerequisite.owner.clone(),
        ]
    });
    table(&["prerequisite", "state", "blocks", "evidence", "who can change it"], rows)
}

fn controls(record: &Record) -> String {
    let rows = record.controls.iter().map(|control| {
        vec![
            code(&control.name),
            control.kind.clone(),
            control.condition.map_or_else(|| "–".to_owned(), |condition| condition.to_string()),
            control.expected.clone(),
            control.observed.clone(),
            if control.passed { "yes" } else { "**no**" }.to_owned(),
        ]
    });
    let explained = "\
Programs of this check's own ran beside the subject. A *positive* one differs by its nature and must be caught, a
*negative* one must be found equal, a *seed* one must differ between seeds only; the *comparer* was fed changed records and had to
notice them. If one of them fails, nothing else in this report counts.\n\n";
    explained.to_owned() + &table(&["control", "kind", "condition", "expected", "observed", "passed"], rows)
}

fn runs(record: &Record) -> String {
    let rows = record.cells.iter().map(|cell| {
        vec![
            cell.condition.to_string(),
            cell.seed.to_string(),
            cell.runs.to_string(),
            format!("{} of {}", cell.equal, cell.runs.saturating_sub(1)),
            cell.distinct.to_string(),
            cell.bound_95.map_or_else(|| "–".to_owned(), percent),
            cell.rate.map_or_else(|| "–".to_owned(), percent),
        ]
    });
    let mut text = table(
        &[
            "condition",
            "seed",
            "runs",
            "equal to run 0",
            "distinct",
            "at 95 %, fewer differ than",
            "differed",
        ],
        rows,
    );
    text.push_str(&format!(
        "\n`idle`: nothing ran beside it. `loaded`: busy processes did ({} of them). Conditions are not pooled: a program may well be \
         steady in one and not in the other.\n",
        record.workload.hogs
    ));
    let seed = match &record.observation.seed_probe {
        Some(probe) if probe.differs => {
            format!("A run from seed {} gave another output: the seed reaches it.", probe.seed)
        }
        Some(probe) => {
            format!("A run from seed {} gave the same output: the seed doesn't show in it.", probe.seed)
        }
        None => "No run from another seed was made.".to_owned(),
    };
    text.push_str(&format!("\n{seed}\n"));
    text
}

fn compared(record: &Record) -> String {
    let channels: Vec<String> = record
        .observation
        .channels
        .iter()
        .map(|channel| format!("{} from {}", channel.records, channel.name))
        .collect();
    let mut text = format!(
        "{} records ({}) and every exit status. Answers in JSON-RPC are compared by their id, and their order apart from them.\n\n",
        record.observation.records,
        if channels.is_empty() { "none".to_owned() } else { channels.join(", ") }
    );
    for rule in &record.observation.rules {
        text.push_str(&format!(
            "- Rewritten before comparing: {} ({} times).\n",
            rule.description, rule.hits
        ));
    }
    text.push_str("- Numbers and times were never removed.\n");
    for item in &record.observation.not_compared {
        text.push_str(&format!("- Not compared: {item}.\n"));
    }
    text
}

fn divergences(record: &Record) -> String {
    if record.divergences.is_empty() {
        return "None was seen.\n".to_owned();
    }
    let described: Vec<String> = record.divergences.iter().map(divergence).collect();
    described.join("\n")
}

fn divergence(divergence: &Divergence) -> String {
    let runs = match divergence.run {
        0 => "one condition's run 0 against the other's".to_owned(),
        run => format!("run {run} against run 0"),
    };
    let mut text = format!("**{}, {runs}**: {}.", divergence.condition, place(divergence));
    if !divergence.levers.is_empty() {
        let levers: Vec<String> = divergence.levers.iter().map(|lever| code(lever)).collect();
        text.push_str(&format!(
            " An executor that pins and unpins {} could confirm it.",
            levers.join(" or ")
        ));
    }
    text.push_str("\n\n");
    for before in &divergence.context.before {
        text.push_str(&format!("      {}\n", one_line(before)));
    }
    let end = "(the stream had ended)";
    text.push_str(&format!("    - {}\n", one_line(divergence.context.expected.as_deref().unwrap_or(end))));
    text.push_str(&format!("    + {}\n", one_line(divergence.context.observed.as_deref().unwrap_or(end))));
    text
}

/// Where, and what it looks like.
fn place(divergence: &Divergence) -> String {
    let cause = match (divergence.confidence, divergence.cause) {
        (Confidence::Unclassified, _) => "cause unclassified".to_owned(),
        (confidence, cause) => format!("{} cause: {}", name_of(&confidence), meaning(cause)),
    };
    format!("{} record {}, {cause}", code(&divergence.stream), divergence.index)
}

fn meaning(cause: Cause) -> &'static str {
    match cause {
        Cause::Clock => "the clock",
        Cause::Entropy => "random numbers",
        Cause::Pid => "a process number",
        Cause::Address => "a place in memory",
        Cause::Schedule => "scheduling (the same answers in another order)",
        Cause::Order => {
            "order (the same words or records in another order: scheduling or a hash seed, which look the same here)"
        }
        Cause::Unclassified => "unclassified",
    }
}

fn recommendation(record: &Record) -> String {
    let decision = match record.recommendation.decision {
        Decision::Adopt => "adopt",
        Decision::Revisit => "revisit",
        Decision::Drop => "drop",
        Decision::NoGo => "no go",
    };
    let mut text = format!("**{decision}**\n\n");
    for reason in &record.recommendation.reasons {
        text.push_str(&format!("- {reason}\n"));
    }
    let none = "none was found, so nothing here justifies spending anything";
    let flake = record.recommendation.flake.as_deref().unwrap_or(none);
    text.push_str(&format!("- A concrete flake that cheaper means can't reach: {flake}.\n"));
    text
}

fn not_claimed(record: &Record) -> String {
    let mut items = vec![
        "That another machine gives the same: one machine was used.",
        "That any cause is confirmed: natively nothing can be pinned, so a cause is probable at most.",
    ];
    if record.verdict.level == Level::OutputEqual {
        items.push(
            "That the program did the same inside. It may have read the clock, drawn random numbers or switched threads \
             differently in each run without showing it; equal output hides that.",
        );
        items.push("That it never differs: the bound says how often it still may, and it holds for each condition by itself.");
        if !record.verdict.qualifiers.contains(&Qualifier::Loaded) {
            items.push("Anything about a busy machine: the condition `loaded` was not run.");
        }
    }
    items.into_iter().fold(String::new(), |text, item| format!("{text}- {item}\n"))
}

fn cost(record: &Record) -> String {
    let cost = &record.cost;
    format!(
        "{:.1} s on the clock, {:.1} s of processor time (controls and load included), {} spent outside.\n",
        cost.wall_s, cost.cpu_s, cost.external_spend
    )
}

fn bound(cell: &Cell) -> String {
    let bound = cell.bound_95.map_or_else(|| "an unknown share".to_owned(), percent);
    format!("{}: {} runs, at 95 % fewer than {bound} differ", cell.condition, cell.runs)
}

fn rate(cell: &Cell) -> String {
    let repetitions = cell.runs.saturating_sub(1);
    format!("{}: {} of {repetitions} repetitions differed", cell.condition, repetitions - cell.equal)
}

fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

fn command(record: &Record) -> String {
    code(&record.subject.argv.join(" "))
}

fn list_or(items: &[String], none: &str) -> String {
    if items.is_empty() { none.to_owned() } else { items.join(", ") }
}

/// The name that the JSON document uses.
fn name_of(value: &impl serde::Serialize) -> String {
    match serde_json::to_value(value) {
        Ok(serde_json::Value::String(name)) => name,
        _ => String::new(),
    }
}

/// Text as a code span that can't break out of its line, its table or itself.
fn code(text: &str) -> String {
    let text = one_line(text);
    let fence = if text.contains('`') { "``" } else { "`" };
    format!("{fence}{text}{fence}")
}

/// Control characters as escapes.
fn one_line(text: &str) -> String {
    text.chars()
        .map(|c| if c.is_control() { c.escape_default().to_string() } else { c.to_string() })
        .collect()
}

fn table(header: &[&str], rows: impl Iterator<Item = Vec<String>>) -> String {
    let line = |cells: &[String]| {
        let cells: Vec<String> = cells.iter().map(|cell| one_line(cell).replace('|', r"\|")).collect();
        format!("| {} |\n", cells.join(" | "))
    };
    let header: Vec<String> = header.iter().map(|cell| (*cell).to_owned()).collect();
    let rule = format!("|{}\n", "---|".repeat(header.len()));
    rows.fold(line(&header) + &rule, |text, row| text + &line(&row))
}
