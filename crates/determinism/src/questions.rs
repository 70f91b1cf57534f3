//! What a sceptic asks first, answered from the record alone. Pure; must never answer with more than was measured.

use crate::plan::Condition;
use crate::record::{Level, Outcome, Qualifier, Record};

/// Question and answer, in the order in which they are asked.
pub(crate) fn answered(record: &Record) -> Vec<(&'static str, String)> {
    vec![
        ("Isn't that luck? How often was it run?", luck(record)),
        ("Would this check notice if it differed?", would_notice(record)),
        ("Was something removed until it was equal?", removed(record)),
        ("Is it the same because everything is frozen?", frozen(record)),
        ("Does it hold on a busy machine?", busy(record)),
        ("Equal output may hide that it did something else inside. Does it here?", inside(record)),
        ("Does watching it change it?", watching(record)),
        ("How are causes known?", causes(record)),
        (
            "Is it the same on another machine?",
            "Not tested, and not claimed: one machine was used.".to_owned(),
        ),
        ("What did it cost?", cost(record)),
    ]
}

fn luck(record: &Record) -> String {
    if record.cells.is_empty() {
        return "It wasn't run to an end, so nothing is claimed.".to_owned();
    }
    let rows: Vec<String> = record
        .cells
        .iter()
        .map(|cell| {
            let repetitions = cell.runs.saturating_sub(1);
            let bound = match cell.bound_95 {
                Some(bound) => {
                    format!("with 95 % confidence fewer than {:.1} % of runs differ", bound * 100.0)
                }
                None => "so it differs, and no bound is given".to_owned(),
            };
            format!(
                "{}, {}: {} of {repetitions} repetitions were equal, {bound}",
                cell.condition, cell.part, cell.equal
            )
        })
        .collect();
    format!(
        "{}. Each row stands for itself: runs restored from a snapshot sample only what follows it, straight boots sample \
         everything, and rows are never added up.",
        rows.join("; ")
    )
}

fn would_notice(record: &Record) -> String {
    let of_kind = |kind: &str| record.controls.iter().filter(|control| control.kind == kind).count();
    let failed = record.controls.iter().filter(|control| !control.passed).count();
    let native = record.beside.iter().find(|outcome| outcome.executor.name == "native");
    let caught = native.map_or(String::new(), |outcome| {
        let caught =
            outcome.controls.iter().filter(|control| control.kind == "positive" && control.passed).count();
        format!(" The same programs ran natively in the same check, and {caught} of them were caught there.")
    });
    format!(
        "It is shown each time: the comparer was fed a changed byte, a changed event, a dropped record and two swapped ones \
         ({} such checks), and programs that must differ ({}), must not ({}) or must follow the seed alone ({}) ran \
         beside the subject. {failed} of all these came out wrong.{caught}",
        of_kind("comparer"),
        of_kind("positive"),
        of_kind("negative"),
        of_kind("seed"),
    )
}

fn removed(record: &Record) -> String {
    let hits: u64 = record.observation.rules.iter().map(|rule| rule.hits).sum();
    format!(
        "Numbers and times were never removed. One rule turns randomised addresses into the ordinal of their first use; it \
         was applied {hits} times. {} records were compared.",
        record.observation.records
    )
}

fn frozen(record: &Record) -> String {
    match &record.observation.seed_probe {
        Some(probe) if probe.differs => {
            format!("No: one more run, from seed {}, gave something else.", probe.seed)
        }
        Some(probe) => format!(
            "A run from seed {} gave the same, so the seed doesn't show in what was compared.",
            probe.seed
        ),
        None => "No run from another seed was made, so that isn't known.".to_owned(),
    }
}

fn busy(record: &Record) -> String {
    let loaded = record.cells.iter().any(|cell| cell.condition == Condition::Loaded);
    match (loaded, record.verdict.qualifiers.contains(&Qualifier::Loaded)) {
        (true, true) => {
            format!("Yes: {} busy processes ran beside it, and were busy to the end.", record.workload.hogs)
        }
        (true, false) => "No: the condition `loaded` was run, and the level doesn't hold in it.".to_owned(),
        (false, _) => "The condition `loaded` was not run, so nothing is said about it.".to_owned(),
    }
}

fn inside(record: &Record) -> String {
    match record.verdict.level {
        Level::OutputEqual => "It may: only what was written and how it ended was compared. Equal output hides clock \
                               reads, random numbers and thread switches that don't show."
            .to_owned(),
        Level::TraceEqual | Level::StateEqual => "The time of each read of an output, on the machine's own clock that counts \
                                                  instructions, and the kernel's log were compared too: something else done \
                                                  inside would have moved them."
            .to_owned(),
        _ => "No equality is claimed.".to_owned(),
    }
}

fn watching(record: &Record) -> String {
    if record.executor.name == "vm" {
        "The machine is emulated with or without a check, and nothing is attached to a process in it: the subject is watched \
         from outside, by what leaves the machine."
            .to_owned()
    } else {
        "No tracer is attached: tracers are known to make races look settled. What is written is read from a pipe.".to_owned()
    }
}

fn causes(record: &Record) -> String {
    match &record.ablation {
        Some(ablation) => format!(
            "By changing one factor at a time under `{}` while everything else stays pinned ({} factors moved). Confirmed means: \
             with everything pinned the record was the same each time, and moving a factor of that cause changed it. \
             Everything else is called probable or unclassified.",
            ablation.executor,
            ablation.factors.iter().filter(|moved| moved.runs > 0).count()
        ),
        None => {
            "By the shape of what differs, which is a guess: probable at most. No factor was changed alone."
                .to_owned()
        }
    }
}

fn cost(record: &Record) -> String {
    let ratio = |outcome: Option<&Outcome>| {
        let runs = outcome.map_or(&record.cost.runs, |outcome| &outcome.cost.runs);
        runs.iter()
            .filter_map(|run| Some(format!("{} {:.0}×", run.part, run.ratio_to_native?)))
            .collect::<Vec<_>>()
            .join(", ")
    };
    let slower = match ratio(None) {
        none if none.is_empty() => String::new(),
        ratio => format!(" A run took this many times a native run's processor time: {ratio}."),
    };
    format!(
        "{:.0} s on the clock, {:.0} s of processor time.{slower} Spent on services: {}.",
        record.cost.wall_s, record.cost.cpu_s, record.cost.external_spend
    )
}
