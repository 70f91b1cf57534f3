//! The tables of a report: what was run, controls, runs, prerequisites, decisions, cost. Pure.

use super::{command, list_or, name_of, percent};
use crate::document::{Block, Text, code, plain, strong};
use crate::go_no_go::{Answer, GoNoGo};
use crate::record::{Cell, Record, RunCost};

pub(super) fn what_was_run(record: &Record) -> Vec<Block> {
    let host = &record.executor.host;
    let mut rows: Vec<(&str, Text)> = vec![
        ("command", vec![code(command(record))]),
        ("kind", vec![plain(&record.subject.kind)]),
        ("digest", vec![code(&record.subject.digest)]),
        ("executor", vec![plain(&record.executor.name)]),
        ("pinned by the executor", list_or(&record.executor.pins, "nothing")),
        ("not pinned by the executor", list_or(&record.executor.not_pinned, "nothing is known")),
        ("pinned by the command or its environment", list_or(&record.executor.relaxations, "nothing")),
        (
            "host",
            vec![plain(format!("{} {} on {}, {} processors", host.os, host.kernel, host.arch, host.cpus))],
        ),
        ("deadline of a run", vec![plain(format!("{} ms", record.workload.deadline_ms))]),
    ];
    if let Some(script) = &record.workload.script {
        let steps = plain(format!(", {} steps, SHA-256 ", script.steps));
        rows.push(("client script", vec![code(&script.path), steps, code(&script.sha256)]));
    }
    for file in &record.subject.files {
        rows.push(("file", vec![code(&file.path), plain(", SHA-256 "), code(&file.sha256)]));
    }
    let rows = rows.into_iter().map(|(name, value)| vec![vec![plain(name)], value]).collect();
    vec![Block::Table { head: vec!["what", "value"], rows }]
}

pub(super) fn prerequisites(record: &Record) -> Vec<Block> {
    let rows = record
        .prerequisites
        .iter()
        .map(|prerequisite| {
            vec![
                vec![code(&prerequisite.name)],
                vec![plain(&prerequisite.state)],
                list_or(&prerequisite.blocks, "nothing"),
                vec![plain(&prerequisite.evidence)],
                vec![plain(&prerequisite.owner)],
            ]
        })
        .collect();
    let head = vec!["prerequisite", "state", "blocks", "evidence", "who can change it"];
    vec![Block::Table { head, rows }]
}

pub(super) fn controls(record: &Record) -> Vec<Block> {
    let executors = std::iter::once((&record.executor.name, &record.controls))
        .chain(record.beside.iter().map(|outcome| (&outcome.executor.name, &outcome.controls)));
    let rows = executors
        .flat_map(|(executor, controls)| controls.iter().map(move |control| (executor, control)))
        .map(|(executor, control)| {
            vec![
                vec![code(&control.name)],
                vec![plain(&control.kind)],
                vec![plain(executor)],
                vec![plain(
                    control.condition.map_or_else(|| "–".to_owned(), |condition| condition.to_string()),
                )],
                vec![plain(&control.expected)],
                vec![plain(&control.observed)],
                vec![if control.passed { plain("yes") } else { strong("no") }],
            ]
        })
        .collect();
    vec![
        Block::Paragraph(vec![plain(
            "Programs of this check's own ran beside the subject. A positive one differs by its nature: it must be caught where \
             an executor leaves that free, and be equal where an executor pins it. A negative one must be equal everywhere, a seed \
             one must differ between seeds only. The comparer was fed changed records and had to notice them. If one of them \
             fails, nothing else in this report counts.",
        )]),
        Block::Table {
            head: vec!["control", "kind", "executor", "condition", "expected", "observed", "passed"],
            rows,
        },
    ]
}

pub(super) fn runs(record: &Record) -> Vec<Block> {
    let explained = format!(
        "idle: nothing ran beside it. loaded: busy processes did ({} of them). boot: the whole life was run. restored: what \
         follows a snapshot was. Rows are not pooled: a program may well be steady in one and not in the other.",
        record.workload.hogs
    );
    let seed = match &record.observation.seed_probe {
        Some(probe) if probe.differs => {
            format!("A run from seed {} gave something else: the seed reaches it.", probe.seed)
        }
        Some(probe) => format!("A run from seed {} gave the same: the seed doesn't show in it.", probe.seed),
        None => "No run from another seed was made.".to_owned(),
    };
    vec![
        cells(record.cells.iter().map(|cell| (record.executor.name.as_str(), cell))),
        Block::Paragraph(vec![plain(explained)]),
        Block::Paragraph(vec![plain(seed)]),
    ]
}

fn cells<'a>(rows: impl Iterator<Item = (&'a str, &'a Cell)>) -> Block {
    let dash = || "–".to_owned();
    let rows = rows
        .map(|(executor, cell)| {
            [
                executor.to_owned(),
                cell.condition.to_string(),
                cell.part.clone(),
                cell.seed.to_string(),
                cell.runs.to_string(),
                format!("{} of {}", cell.equal, cell.runs.saturating_sub(1)),
                cell.distinct.to_string(),
                cell.bound_95.map_or_else(dash, percent),
                cell.rate.map_or_else(dash, percent),
            ]
            .map(|cell| vec![plain(cell)])
            .to_vec()
        })
        .collect();
    Block::Table {
        head: vec![
            "executor",
            "condition",
            "part",
            "seed",
            "runs",
            "equal to run 0",
            "distinct",
            "at 95 %, fewer differ than",
            "differed",
        ],
        rows,
    }
}

/// The other executors of the same check.
pub(super) fn beside(record: &Record) -> Vec<Block> {
    let verdicts = record
        .beside
        .iter()
        .map(|outcome| {
            let qualifiers: Vec<String> = outcome.verdict.qualifiers.iter().map(name_of).collect();
            let mut text = vec![
                code(&outcome.executor.name),
                plain(": "),
                strong(name_of(&outcome.verdict.level)),
                plain(format!(" ({})", qualifiers.join(", "))),
            ];
            if let Some(detail) = &outcome.verdict.detail {
                text.push(plain(format!(": {detail}")));
            }
            if !outcome.executor.not_pinned.is_empty() {
                text.push(plain(format!(". Not pinned: {}", outcome.executor.not_pinned.join("; "))));
            }
            text
        })
        .collect();
    let rows = record
        .beside
        .iter()
        .flat_map(|outcome| outcome.cells.iter().map(|cell| (outcome.executor.name.as_str(), cell)));
    vec![Block::List(verdicts), cells(rows)]
}

pub(super) fn compared(record: &Record) -> Vec<Block> {
    let channels: Vec<String> = record
        .observation
        .channels
        .iter()
        .map(|channel| format!("{} from {}", channel.records, channel.name))
        .collect();
    let channels = if channels.is_empty() { "none".to_owned() } else { channels.join(", ") };
    let mut items: Vec<String> = record
        .observation
        .rules
        .iter()
        .map(|rule| format!("Rewritten before comparing: {} ({} times).", rule.description, rule.hits))
        .collect();
    items.push("Numbers and times were never removed.".to_owned());
    items.extend(record.observation.not_compared.iter().map(|item| format!("Not compared: {item}.")));
    let exit = record
        .observation
        .exit
        .as_deref()
        .map_or(String::new(), |exit| format!(" ({exit} in the first run)"));
    vec![
        Block::Paragraph(vec![plain(format!(
            "{} records ({channels}) and every exit status{exit}. Answers in JSON-RPC are compared by their id, and their order \
             apart from them.",
            record.observation.records
        ))]),
        Block::List(items.into_iter().map(|item| vec![plain(item)]).collect()),
    ]
}

pub(super) fn decisions(record: &Record) -> Vec<Block> {
    let rows = record.decisions.iter().map(decision).collect();
    vec![
        Block::Paragraph(vec![plain(
            "What was not started, and why. A decision that is on record is shown here and not asked for again. Nothing in this \
             project can push an image, launch a run or spend money.",
        )]),
        Block::Table {
            head: vec![
                "executor",
                "subject",
                "answer",
                "reasons",
                "what it would buy",
                "who decides",
                "on record",
            ],
            rows,
        },
    ]
}

fn decision(decision: &GoNoGo) -> Vec<Text> {
    let reasons = decision
        .reasons
        .iter()
        .zip(&decision.evidence)
        .flat_map(|(reason, evidence)| {
            [code(reason.name()), plain(format!(" ({evidence}; to change it: {}) ", reason.remedy()))]
        })
        .collect();
    let by = decision.decide_by.as_deref().map_or(String::new(), |by| format!(", {by}"));
    let on_record = if decision.on_record.is_empty() {
        "nothing".to_owned()
    } else {
        let said = decision.on_record.iter().map(|one| {
            format!(
                "{} {} by {} on {}: {}",
                name_of(&one.about),
                name_of(&one.decision),
                one.by,
                one.on,
                one.text
            )
        });
        said.collect::<Vec<_>>().join("; ")
    };
    vec![
        vec![code(&decision.executor)],
        vec![plain(&decision.subject)],
        vec![strong(if decision.decision == Answer::Go { "go" } else { "no go" })],
        reasons,
        vec![plain(&decision.buys)],
        vec![plain(format!("{}{by}", decision.owner))],
        vec![plain(on_record)],
    ]
}

pub(super) fn cost(record: &Record) -> Vec<Block> {
    let cost = &record.cost;
    let total = format!(
        "{:.1} s on the clock, {:.1} s of processor time (controls and load included), {} spent outside.",
        cost.wall_s, cost.cpu_s, cost.external_spend
    );
    let mut blocks = vec![Block::Paragraph(vec![plain(total)])];
    let executors = std::iter::once((&record.executor.name, &cost.runs))
        .chain(record.beside.iter().map(|outcome| (&outcome.executor.name, &outcome.cost.runs)));
    let rows: Vec<Vec<Text>> =
        executors.flat_map(|(executor, runs)| runs.iter().map(move |run| one_run(executor, run))).collect();
    if !rows.is_empty() {
        let head =
            vec!["executor", "part", "runs", "CPU s each", "wall s each", "largest memory", "CPU to native"];
        blocks.push(Block::Table { head, rows });
    }
    blocks
}

fn one_run(executor: &str, run: &RunCost) -> Vec<Text> {
    let dash = || "–".to_owned();
    [
        executor.to_owned(),
        run.part.clone(),
        run.runs.to_string(),
        format!("{:.2}", run.cpu_s),
        format!("{:.2}", run.wall_s),
        run.resident_mib.map_or_else(dash, |mib| format!("{mib:.0} MiB")),
        run.ratio_to_native.map_or_else(dash, |ratio| format!("{ratio:.1}×")),
    ]
    .map(|cell| vec![plain(cell)])
    .to_vec()
}
